"""A text as facts: what each of its sentences says, as words in order.

Every word keeps its place, because roles are told by order. What says the same in another order is
rewritten into one (``rewriting``), and "X is eating and drinking" is two facts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ailake.core.judge.grammar import BE, Grammar, grammar
from ailake.core.judge.language import is_understood
from ailake.core.judge.naming import Word
from ailake.core.judge.questions import asked_once, fronted
from ailake.core.judge.rewriting import active, moved, outside, rewritten, told_apart
from ailake.core.judge.words import words_of

# Longer texts are documents rather than memories: nothing is said of what is contained in them.
MAX_LENGTH = 4_000
MAX_SENTENCE = 1_000

_ENDS = re.compile(r"[!?。！？;；\n…]+|\.+(?=\s|$)")
_ASKS = re.compile("[?？]")


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
    """A sentence as a whole, the facts it joins by "and", and other readings of it.

    "A horse is ridden by a man on the beach": the man is on the beach, or the riding. A part, and
    another reading, is followed by the facts that together say as much, if any: "a man in a hat is
    singing" is a man singing, and wearing a hat. All of them, and what they imply, are the facts.
    Of a sentence that is not understood nothing is known but its words.
    """

    whole: Fact
    parts: tuple[tuple[Fact, ...], ...]
    others: tuple[tuple[Fact, ...], ...] = ()
    facts: tuple[Fact, ...] = ()
    understood: bool = True


def _read(
    whole: Fact,
    parts: Sequence[tuple[Fact, ...]],
    others: Sequence[tuple[Fact, ...]] = (),
    implied: Sequence[Fact] = (),
) -> Sentence:
    facts = dict.fromkeys([whole, *chain(*others), *chain(*parts), *implied])
    return Sentence(whole, tuple(parts), tuple(others), tuple(facts))


@dataclass(frozen=True, slots=True)
class Outline:
    """The words of a text without their order: enough to tell what can't be contained in it.

    Attributes:
        needed: For each sentence words that what contains it has, whichever way it is read.
        covered: Every word, and what it is a kind of.
    """

    needed: tuple[frozenset[str], ...]
    covered: frozenset[str]

    def may_be_in(self, other: "Outline") -> bool:
        """Tell whether the other text has the words to say all that this one says."""
        return all(words <= other.covered for words in self.needed)


def outline_of(sentences: Sequence[Sentence]) -> Outline:
    """Return the words of some sentences."""
    covered = frozenset().union(*(fact.covered for one in sentences for fact in one.facts))
    return Outline(tuple(map(_needed, sentences)), covered)


def _needed(sentence: Sentence) -> frozenset[str]:
    parts = frozenset().union(*map(_needed_of_part, sentence.parts))
    return parts.intersection(sentence.whole.names, *map(_needed_of_part, sentence.others))


def _needed_of_part(part: Sequence[Fact]) -> frozenset[str]:
    whole, *apart = part
    return whole.names & frozenset().union(*(one.names for one in apart)) if apart else whole.names


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
    plain = words_of(text)
    tokens = rules.merged(plain, text)
    if rules.courtesies.issuperset(tokens):
        return None
    if not is_understood(tokens, text):
        return _verbatim(plain, asks=asked)
    asks = asked or not rules.questions.isdisjoint(map(rules.canonical, tokens))
    strict = denies or not rules.strict.isdisjoint(tokens)
    told = _words(tokens, rules, asks=asks)
    stated = asked_once(told, rules) if asks else rewritten(told, rules)
    words = active(stated, rules)
    if not words:
        return None
    whole, turned = _fact(words, asks=asks, strict=strict), words is not stated
    readings = [[one, *told_apart(one, rules)] for one in moved(words, rules)] if turned else []
    readings += [[one] for one in fronted(words, rules)] if asks else []
    others = [tuple(_fact(one, asks=asks, strict=strict) for one in some) for some in readings]
    if strict or asks:
        return _read(whole, [(whole,)], others)
    split = [active(part, rules) for part in _split(words, rules)]
    implied = [_fact(outside(part, rules), asks=False, strict=False) for part in split]
    return _read(whole, [_part(part, rules) for part in split], others, implied)


def _verbatim(tokens: Sequence[str], *, asks: bool) -> Sentence | None:
    """Return a sentence of no known language: whatever its words mean, they mean it together."""
    if not tokens:
        return None
    whole = _fact([Word(token) for token in tokens], asks=asks, strict=True)
    return Sentence(whole, ((whole,),), facts=(whole,), understood=False)


def _part(words: Sequence[Word], rules: Grammar) -> tuple[Fact, ...]:
    facts = [words, *told_apart(words, rules)]
    return tuple(_fact(fact, asks=False, strict=False) for fact in facts)


def _fact(words: Sequence[Word], *, asks: bool, strict: bool) -> Fact:
    names = frozenset([word.text for word in words])
    happens = "being" in names or "+" in {name[-1:] for name in names}
    kinds = grammar().kinds
    covered = names.union(*[kinds[name] for name in names if name in kinds])
    return Fact(tuple(words), asks, strict, happens, names, covered)


def _words(tokens: Sequence[str], rules: Grammar, *, asks: bool) -> list[Word]:
    """Drop articles and particles, and put every other word into its canonical form."""
    words: list[Word] = []
    definite = certain = False
    for place, token in enumerate(tokens):
        if token in rules.particles or (asks and token in rules.asking):
            continue
        if token in rules.closing and _closes(tokens[place + 1 :], rules):
            continue
        if token in rules.articles:
            definite, certain = True, token in rules.definite_articles
            continue
        text = rules.canonical(token)
        if asks:
            text = rules.asked_same.get(text, text)
        if rules.is_ing(text):
            if _is_relative(words, rules):
                del words[-2:]  # "a man who is singing" is "a man singing"
            elif _in_progress(words, rules):
                text = rules.progressive(text)
        if words and words[-1].text.endswith("+") and rules.is_adverb(text):
            words.insert(-1, Word(text))  # "running quickly" is "quickly running"
            continue
        words.append(Word(text, definite, definite and certain))
        definite = rules.defines(text) or (definite and text in rules.adjectives)
        certain = certain and definite
    return words


def _closes(rest: Sequence[str], rules: Grammar) -> bool:
    following = next((token for token in rest if token not in rules.closing), "")
    return not any(map(str.isalnum, following))


def _is_relative(words: Sequence[Word], rules: Grammar) -> bool:
    texts = [word.text for word in words[-3:]]
    return len(texts) == 3 and (
        texts[2] in BE and texts[1] in rules.relatives and texts[0].isalnum() and texts[0] != "and"
    )


def _in_progress(words: Sequence[Word], rules: Grammar) -> bool:
    before = next((word.text for word in reversed(words) if not rules.is_adverb(word.text)), "")
    joined = before == "and" and any(word.text.endswith("+") for word in words)
    return before in BE or joined


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
