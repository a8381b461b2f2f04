"""A text as facts: what each of its sentences says, as words in order.

Every word keeps its place, because roles are told by order. Only three things are rewritten, each
into an order that says who does what to whom: "X is being eaten by Y" becomes "Y is eating X",
"there is an X eating" becomes "an X is eating", and "X is eating and drinking" is two facts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ailake.core.judge.grammar import BE, Grammar, grammar
from ailake.core.judge.words import words_of

# Longer texts are documents rather than memories: nothing is said of what is contained in them.
MAX_LENGTH = 4_000
MAX_SENTENCE = 1_000

# 哪家的米粉好吃 asks what 哪家米粉好吃 does; in a statement it tells a thing from an act.
_LOOSE_IN_QUESTIONS = frozenset("的")

_ENDS = re.compile(r"[!?。！？;；\n…]+|\.+(?=\s|$)")
_ASKS = re.compile("[?？]")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a fact.

    Attributes:
        text: Its canonical form; a verb in progress is its stem with a plus sign.
        definite: An article, possessive or number stands before it.
    """

    text: str
    definite: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement or question.

    Attributes:
        words: In order.
        asks: It is a question.
        strict: It denies, generalises or supposes, so that no word can be added to it or taken
            away without changing what it says.
        happens: It tells of something in progress: "a dog is running", not "dogs bark".
        names: The words as a set.
        covered: These, and what they are kinds of.
    """

    words: tuple[Word, ...]
    asks: bool
    strict: bool
    happens: bool
    names: frozenset[str]
    covered: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as a whole, the facts it joins by "and", and another reading of it.

    "A horse is ridden by a man on the beach": the man is on the beach, or the riding.
    """

    whole: Fact
    parts: tuple[Fact, ...]
    other: Fact | None = None


def sentences_of(text: str, *, denies: bool) -> tuple[Sentence, ...]:
    """Return the sentences of a plain text, or none at all where it or one of them is too long.

    Args:
        text: The plain text.
        denies: It has a negation.
    """
    if len(text) > MAX_LENGTH or max(map(len, _ENDS.split(text))) > MAX_SENTENCE:
        return ()
    found, start = [], 0
    ends = [(end.start(), end.end(), end[0]) for end in _ENDS.finditer(text)]
    for stop, following, mark in [*ends, (len(text), len(text), "")]:
        sentence = _sentence(text[start:stop], asked=bool(_ASKS.search(mark)), denies=denies)
        if sentence is not None:
            found.append(sentence)
        start = following
    return tuple(found)


def _sentence(text: str, *, asked: bool, denies: bool) -> Sentence | None:
    rules = grammar()
    tokens = rules.merged(words_of(text), text)
    asks = asked or not rules.questions.isdisjoint(tokens)
    strict = denies or not rules.strict.isdisjoint(tokens)
    stated = _existing(_described(_words(tokens, rules, asks=asks), rules))
    words = _active(stated, rules)
    if not words:
        return None
    whole = _fact(words, asks=asks, strict=strict)
    moved = _moved(words, stated, rules)
    other = _fact(moved, asks=asks, strict=strict) if moved else None
    if strict or asks:
        return Sentence(whole, (whole,), other)
    parts = [_fact(part, asks=asks, strict=strict) for part in _split(words, rules)]
    return Sentence(whole, tuple(parts), other)


def _fact(words: Sequence[Word], *, asks: bool, strict: bool) -> Fact:
    names = frozenset(word.text for word in words)
    happens = "being" in names or any(name.endswith("+") for name in names)
    covered = names.union(*(grammar().kinds_of(name) for name in names))
    return Fact(tuple(words), asks, strict, happens, names, covered)


def _words(tokens: Sequence[str], rules: Grammar, *, asks: bool) -> list[Word]:
    """Drop articles and particles, and put every other word into its canonical form."""
    words: list[Word] = []
    definite = False
    for token in tokens:
        if token in rules.particles or (asks and token in _LOOSE_IN_QUESTIONS):
            continue
        if token in rules.articles:
            definite = True
            continue
        text = rules.canonical(token)
        if _in_progress(words, text, rules):
            text = rules.progressive(text)
        if words and words[-1].text.endswith("+") and rules.is_adverb(text):
            words.insert(-1, Word(text))  # "running quickly" is "quickly running"
            continue
        words.append(Word(text, definite))
        definite = rules.defines(text) or (definite and text in rules.adjectives)
    return words


def _in_progress(words: Sequence[Word], text: str, rules: Grammar) -> bool:
    before = next((word.text for word in reversed(words) if not rules.is_adverb(word.text)), "")
    joined = before == "and" and any(word.text.endswith("+") for word in words)
    return rules.is_ing(text) and (before in BE or joined)


def _described(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a dog, which is white," as "a white dog"."""
    for place in range(1, len(words) - 2):
        relative, verb, quality = (word.text for word in words[place : place + 3])
        if relative in rules.relatives and verb == "be" and quality in rules.adjectives:
            noun = place - 2 if words[place - 1].text == "," else place - 1
            rest = words[place + 3 :]
            closed = noun == place - 1 or not rest or rest[0].text == ","
            if noun >= 0 and closed and (not rest or rest[0].text in {",", *BE}):
                rest = rest[1:] if noun == place - 2 else rest
                described = [Word(quality, words[noun].definite), words[noun]]
                return [*words[:noun], *described, *rest]
    return words


def _existing(words: list[Word]) -> list[Word]:
    """Rewrite "there is X eating" as "X is eating"."""
    if len(words) < 3 or words[0].text != "there" or words[1].text not in BE:
        return words
    rest = words[2:]
    for place, word in enumerate(rest[1:], 1):
        if grammar().is_ing(word.text):
            verb = Word(grammar().progressive(word.text))
            return [*rest[:place], words[1], verb, *rest[place + 1 :]]
    return words


def _active(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "X is being eaten … by Y" as "Y is eating X …"."""
    texts = [word.text for word in words]
    if texts.count("being") != 1 or sum(text in BE for text in texts) != 1 or "by" not in texts:
        return words
    at, by = texts.index("being"), texts.index("by")
    verb = next((i for i in range(at + 1, by) if not rules.is_adverb(texts[i])), None)
    if at < 2 or texts[at - 1] not in BE or verb is None or by == len(words) - 1:
        return words
    doing = rules.participle(texts[verb])
    if not doing or texts.count("by") > 1:
        return words
    agent, manner, object_ = words[by + 1 :], words[at + 1 : verb], words[: at - 1]
    return [*agent, words[at - 1], *manner, Word(doing), *object_, *words[verb + 1 : by]]


def _moved(words: list[Word], stated: list[Word], rules: Grammar) -> list[Word]:
    """Return a turned passive with what the agent's first preposition begins at its end."""
    if words is stated:
        return []
    be = next(place for place, word in enumerate(words) if word.text in BE)
    places = (place for place in range(1, be) if words[place].text in rules.prepositions)
    place = next(places, 0)
    return [*words[:place], *words[be:], *words[place:be]] if place else []


def _split(words: Sequence[Word], rules: Grammar) -> list[Sequence[Word]]:
    """Return the facts that "and" joins, each with its subject; one where they can't be told."""
    segments: list[list[Word]] = [[]]
    for place, word in enumerate(words):
        if word.text == "and" and _says(segments[-1]) and _begins(words[place + 1 :], rules):
            segments.append([])
        else:
            segments[-1].append(word)
    subject = _subject(segments[0])
    parts: list[Sequence[Word]] = [segments[0]]
    for segment in segments[1:]:
        first = segment[0].text
        if first in BE:
            parts.append([*subject[:-1], *segment])
        elif first.endswith("+"):
            parts.append([*subject, *segment])
        else:
            parts.append(segment)
    return parts


def _says(segment: Sequence[Word]) -> bool:
    return any(word.text in BE for word in segment) or len(segment) > 2


def _begins(rest: Sequence[Word], rules: Grammar) -> bool:
    """Tell whether a statement begins here, rather than one more thing of a list."""
    if not rest:
        return False
    first = rest[0].text
    if first in BE or first.endswith("+") or first in rules.pronouns:
        return True
    texts = [word.text for word in rest]
    until = texts.index("and") if "and" in texts else len(texts)
    be = next((place for place, text in enumerate(texts[:until]) if text in BE), 0)
    return be > 0 and rules.relatives.isdisjoint(texts[:be])


def _subject(segment: Sequence[Word]) -> Sequence[Word]:
    """Return the words up to and with the first form of be."""
    for place, word in enumerate(segment):
        if word.text in BE:
            return segment[: place + 1]
    return segment[:1]
