"""Entities by rules: no model, the same answer every time, English and Chinese."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from ailake.core.dates import date_spans
from ailake.core.entities import MAX_LENGTH, PLAIN_TYPE, EntityRef, normalise_name, other
from ailake.core.entity_extraction import with_hints
from ailake.core.entity_words import (
    ARTICLES,
    CALENDAR,
    NAMING,
    ORDINARY,
    ORDINARY_ENDING,
    PARTICLES,
    TITLES,
)
from ailake.core.graph import check_text, entity_refs
from ailake.core.judge.lexicon import phrases
from ailake.errors import InvalidInputError

URL, EMAIL, HANDLE, DATE = (other(label) for label in ("url", "email", "handle", "date"))
MAX_QUOTED = 30

_CJK = r"\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af"

# The first that fits a place in the text is taken there. Chinese may stand right beside.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (URL, re.compile(rf"https?://[^\s<>\"'`{_CJK}，。；：！？、（）《》「」“”]+", re.IGNORECASE)),
    (EMAIL, re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[\w-]+\.)+[a-z]{2,}", re.IGNORECASE | re.ASCII)),
    (HANDLE, re.compile(r"(?<![\w.@/])@\w(?:[\w.-]*\w)?", re.ASCII)),
    ("ticket", re.compile(r"(?<![A-Za-z0-9_-])[A-Z][A-Z0-9]{1,9}-\d{1,10}(?![A-Za-z0-9_-])")),
    ("article", re.compile(rf"《([^《》]{{1,{MAX_QUOTED}}})》")),
    (PLAIN_TYPE, re.compile(rf"「([^「」，。！？]{{1,{MAX_QUOTED}}})」")),
    (PLAIN_TYPE, re.compile(rf"“([^“”，。！？]{{0,{MAX_QUOTED}}}[{_CJK}][^“”，。！？]{{0,9}})”")),
    (PLAIN_TYPE, re.compile(rf"\"([^\"，。！？]{{0,{MAX_QUOTED}}}[{_CJK}][^\"，。！？]{{0,9}})\"")),
)
_URL_TAIL = ".,;:!?)]}"
_BRACKETS = {")": "(", "]": "[", "}": "{"}

_WORD = re.compile(rf"(?:(?![{_CJK}])[^\W\d_])(?:(?![{_CJK}])[\w'’-])*")
_SENTENCE_ENDS = frozenset('.!?。！？:："“”‘(（[•*>-')
_QUESTION = re.compile(r"\bWill\b[^.!?。！？\n\r]{0,300}[?？]")
_POSSESSIVE = re.compile(r"['’]s?$")
_MIN_NAME = 2
_MIN_WORD = 3

# What has more is a heading, written with capitals.
_MAX_WORDS = 6


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int
    opens: bool
    asks: bool

    @property
    def plain(self) -> str:
        return self.text.casefold().replace("'", "").replace("’", "")


@dataclass(frozen=True)
class RulesExtractor:
    """Finds entities by their look, and by a dictionary.

    URLs, e-mail addresses, @handles and days get types of their own (``other(url)`` and so on; a
    day's name is its ISO form, however it was written), identifiers such as ABC-123 are
    ``ticket``s, and what stands in 《》 is an ``article``. Capitalised names, and Chinese in 「」,
    “” or "", are ``concept``s, as plain strings are. A name is not told by a capital letter where
    the text has no other letters, or where an ordinary word opens a sentence; before another one
    with a capital an ordinary word is part of a name within a sentence, and New, Old, Great,
    Little, Best and Home at its beginning, too, as is Will where nothing is asked.

    Args:
        dictionary: Names to find in any script, whatever their case, with their types. Where one
            begins with another the longer is found.
        words: Take each word of at least three letters that any sentence may not open with for a
            ``concept``, too, in lower case. Talk has few names, and much of what it is about is
            said in such words. Words of Chinese, Japanese and Korean are not told apart.

    Raises:
        InvalidInputError: A name or a type of the dictionary is none.
    """

    dictionary: Mapping[str, str] = field(default_factory=dict)
    words: bool = False

    def __post_init__(self) -> None:
        _check_mapping(self.dictionary)
        if len(self._known) < len(self.dictionary):
            wanted = "each name once, however it is written"
            raise InvalidInputError.of("dictionary", got=self.dictionary, wanted=wanted)

    def extract(self, text: str, hints: Sequence[str | EntityRef] = ()) -> list[EntityRef]:
        """As of ``EntityExtractor``; what was found is in the order of the text."""
        given = entity_refs(hints)
        return with_hints(given, self._found(check_text(text)))

    @cached_property
    def _known(self) -> dict[str, EntityRef]:
        refs = [EntityRef(kind, name) for name, kind in self.dictionary.items()]
        return {normalise_name(ref.name): ref for ref in refs}

    @cached_property
    def _dictionary(self) -> re.Pattern[str] | None:
        # Lower case, because the pattern branches by character.
        names = [ref.name.lower() for ref in self._known.values()]
        return re.compile(phrases(names), re.IGNORECASE) if names else None

    def _found(self, text: str) -> list[EntityRef]:
        found: list[tuple[int, EntityRef]] = []
        for finder in (_by_look, self._by_dictionary, _days):
            spans = sorted(finder(text), key=lambda one: one[0])
            found += [(start, ref) for start, _, ref in spans]
            # What is read is not read again by another rule.
            text = _blanked(text, [(start, end) for start, end, _ in spans])
        found += [(start, ref) for start, _, ref in _names(text)]
        if self.words:
            found += _content(text)
        return [ref for _, ref in sorted(found, key=lambda one: one[0])]

    def _by_dictionary(self, text: str) -> Iterator[tuple[int, int, EntityRef]]:
        if self._dictionary is None:
            return
        for match in self._dictionary.finditer(text):
            ref = self._known.get(normalise_name(match.group()))
            if ref is not None:
                yield match.start(), match.end(), ref


def _check_mapping(dictionary: object) -> None:
    if not isinstance(dictionary, Mapping):
        wanted = "a mapping from names to types of entities"
        raise InvalidInputError.of("dictionary", got=dictionary, wanted=wanted)


def _by_look(text: str) -> Iterator[tuple[int, int, EntityRef]]:
    for kind, pattern in _PATTERNS:
        spans = []
        for match in pattern.finditer(text):
            name = match.group(1) if pattern.groups else match.group()
            name = _url(name) if kind == URL else name
            if normalise_name(name) and len(name) <= MAX_LENGTH:
                spans.append((match.start(), match.end()))
                yield match.start(), match.end(), EntityRef(kind, name)
        text = _blanked(text, spans)


def _url(text: str) -> str:
    """Return a URL without what ends the sentence: brackets that it has not opened, too."""
    unopened = {end: text.count(end) - text.count(begin) for end, begin in _BRACKETS.items()}
    length = len(text)
    while length and text[length - 1] in _URL_TAIL:
        last = text[length - 1]
        if last in unopened:
            if unopened[last] <= 0:
                break
            unopened[last] -= 1
        length -= 1
    return text[:length]


def _days(text: str) -> Iterator[tuple[int, int, EntityRef]]:
    """Yield the days that are named with their year."""
    for start, end, named in date_spans(text):
        if None not in (named.year, named.month, named.day):
            try:
                day = date(named.year or 0, named.month or 0, named.day or 0)
            except ValueError:
                # No such day, as in 2023-02-30.
                continue
            yield start, end, EntityRef(DATE, day.isoformat())


def _names(text: str) -> Iterator[tuple[int, int, EntityRef]]:
    if text.upper() == text:
        return
    words = _words(text)
    # A word that has a capital within a sentence is a name where it opens one, too.
    within = {word.text for word in words if not word.opens and word.text[0].isupper()}
    run: list[_Word] = []
    for word in words:
        if run and not _joined(text[run[-1].end : word.start], word):
            yield from _name(run, within)
            run = []
        if _is_capital(word) or (run and word.plain in PARTICLES and word.text.islower()):
            run.append(word)
        else:
            yield from _name(run, within)
            run = []
    yield from _name(run, within)


def _content(text: str) -> Iterator[tuple[int, EntityRef]]:
    """Yield the words that carry what a text is about."""
    for word in _words(text):
        name = word.plain.strip("-")
        if _MIN_WORD <= len(name) <= MAX_LENGTH and name not in ORDINARY:
            yield word.start, EntityRef(PLAIN_TYPE, name)


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    asking = {match.start() for match in _QUESTION.finditer(text)}
    for match in _WORD.finditer(text):
        before = text[words[-1].end if words else 0 : match.start()]
        after_title = bool(words) and words[-1].plain in TITLES and before.startswith(".")
        opens = not words or (_ends_sentence(before) and not after_title)
        bare = _POSSESSIVE.sub("", match.group()).rstrip("-")
        start = match.start()
        asks = opens and start in asking
        words.append(_Word(bare, start, start + len(bare), opens, asks))
    return words


def _ends_sentence(before: str) -> bool:
    """Tell whether what is between two words has a mark or a new line at its end, spaces aside."""
    marks = before.rstrip()
    spaces = before[len(marks) :]
    return "\n" in spaces or "\r" in spaces or marks[-1:] in _SENTENCE_ENDS


def _joined(between: str, word: _Word) -> bool:
    return not word.opens and between.strip(" \t") in {"", "."} and len(between) > 0


def _is_capital(word: _Word) -> bool:
    # I, I'm, I've.
    is_speaker = re.split("['’]", word.text, maxsplit=1)[0] == "I"
    return word.text[0].isupper() and word.plain not in CALENDAR and not is_speaker


def _name(run: list[_Word], within: set[str]) -> Iterator[tuple[int, int, EntityRef]]:
    while run and run[-1].plain in PARTICLES:
        run = run[:-1]
    while run and (_is_ordinary(run, within) or run[0].plain in TITLES | PARTICLES):
        run = run[1:]
    name = " ".join(word.text for word in run)
    if _MIN_NAME <= len(name) <= MAX_LENGTH and len(run) <= _MAX_WORDS:
        yield run[0].start, run[-1].end, EntityRef(PLAIN_TYPE, name)


def _is_ordinary(run: Sequence[_Word], within: set[str]) -> bool:
    """Tell whether the first word of a run is no part of the name."""
    first = run[0]
    if first.plain in ORDINARY:
        # Within a sentence a capital says that it is: New York, Best Buy.
        is_part = NAMING if first.opens else ORDINARY - ARTICLES
        return len(run) == 1 or first.asks or first.plain not in is_part
    return first.opens and first.text not in within and first.plain.endswith(ORDINARY_ENDING)


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with something in these places that no rule takes for anything."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], "," * (end - start)]
        at = max(at, end)
    return "".join([*parts, text[at:]])
