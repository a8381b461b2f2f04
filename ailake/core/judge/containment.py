"""Whether all that one text says is in another: fact by fact, word by word, in order.

The words of the shorter fact must come in the longer one in the same order. What the longer one has
beside them must be something that takes nothing back: an adverb, an adjective after an article, a
phrase of place, or one more statement. Whatever is not known to be harmless means "not contained".
"""

from collections.abc import Sequence

from ailake.core.judge.facts import Fact, Sentence
from ailake.core.judge.grammar import BE, Grammar, grammar
from ailake.core.judge.naming import Word, is_doing
from ailake.core.judge.verdict import Containment


def compared(new: Sequence[Sentence], existing: Sequence[Sentence]) -> Containment:
    """Return which of two texts says all that the other says."""
    if not new or not existing:
        return Containment.NONE
    forth, back = _all_in(new, existing), _all_in(existing, new)
    if forth and back:
        return Containment.EQUAL
    if forth:
        return Containment.NEW_IN_EXISTING
    return Containment.EXISTING_IN_NEW if back else Containment.NONE


def _all_in(some: Sequence[Sentence], others: Sequence[Sentence]) -> bool:
    return all(any(_sentence_in(one, other) for other in others) for one in some)


def _sentence_in(one: Sentence, other: Sentence) -> bool:
    if _fact_in(one.whole, other.whole):
        return True
    facts = other.facts
    if any(_part_is_told(reading, facts) for reading in one.others):
        return True
    return all(_part_is_told(part, facts) for part in one.parts)


def _part_is_told(part: Sequence[Fact], facts: Sequence[Fact]) -> bool:
    whole, *apart = part
    return _is_told(whole, facts) or (bool(apart) and all(_is_told(one, facts) for one in apart))


def _is_told(short: Fact, facts: Sequence[Fact]) -> bool:
    return any(_fact_in(short, fact) for fact in facts)


def _fact_in(short: Fact, long: Fact) -> bool:
    if short.asks is not long.asks or len(short.words) > len(long.words):
        return False
    if not short.names <= long.covered:
        return False
    if short.words == long.words:
        return True
    return _Alignment(short, long).found(0, 0)


class _Alignment:
    """The search for a place of every word of the short fact in the long one."""

    def __init__(self, short: Fact, long: Fact) -> None:
        self.short, self.long = short.words, long.words
        self.strict = short.strict or long.strict or short.asks
        self.happens = short.happens and long.happens
        self.rules = grammar()
        self.dead: set[tuple[int, int]] = set()

    def found(self, here: int, there: int) -> bool:
        """Tell whether the short words from here on fit into the long ones from there on."""
        if here == len(self.short):
            return there == len(self.long) or self._may_end(there)
        if (here, there) in self.dead:
            return False
        last = there + 1 if self.strict else len(self.long) - (len(self.short) - here) + 1
        for place in range(there, last):
            if (
                place < len(self.long)
                and self._matches(here, place)
                and (place == there or self._may_skip(there, place, here))
                and self.found(here + 1, place + 1)
            ):
                return True
        self.dead.add((here, there))
        return False

    def _matches(self, here: int, there: int) -> bool:
        one, other = self.short[here], self.long[there]
        if one.text == other.text:
            return one.definite is other.definite or self.happens or self.strict
        if self.strict or one.text not in self.rules.kinds_of(other.text):
            return False
        return self.happens or (one.definite and other.definite)

    def _may_skip(self, start: int, stop: int, here: int) -> bool:
        """Tell whether the long fact's words before the next match take nothing back."""
        run, following = self.long[start:stop], self.long[stop]
        texts = [word.text for word in run]
        rules = self.rules
        if not rules.unsafe.isdisjoint(texts):
            return False
        if all(map(rules.is_adverb, texts)):
            return True
        if _describes(texts, following.text, rules):
            return self.happens or (run[0].definite and self.short[here].definite)
        if start == 0:
            return texts[-1] in {",", "，"} and following.text in rules.pronouns
        if following.text in BE:
            return _is_aside(self.long[start - 1].text, run, rules)
        return (
            self.happens
            and following.text in rules.prepositions
            and texts[0] in rules.prepositions
            and self.long[start - 1].text not in BE
        )

    def _may_end(self, start: int) -> bool:
        """Tell whether the long fact may go on after all of the short one was found."""
        texts = [word.text for word in self.long[start:]]
        rules = self.rules
        if self.strict or not rules.unsafe.isdisjoint(texts):
            return False
        if self.long[start - 1].text in BE:
            return False
        first = texts[0]
        if first in rules.prepositions or first in {"and", ",", "，"}:
            return len(texts) > 1 or first in _ALONE
        if self.happens and rules.is_ing(first) and not self.long[start - 1].text.endswith("+"):
            return True
        return all(map(rules.is_adverb, texts))


_ALONE = frozenset({"outside", "inside", "together"})


def _describes(texts: Sequence[str], noun: str, rules: Grammar) -> bool:
    qualities = rules.adjectives
    if not rules.is_copied(noun):
        qualities = qualities | rules.materials
    if texts[-1] not in qualities or texts[0] == "and":
        return False
    return all(text in qualities or text == "and" or rules.is_adverb(text) for text in texts)


def _is_aside(noun: str, run: Sequence[Word], rules: Grammar) -> bool:
    """Tell whether words between a subject and its verb only describe the subject."""
    texts = [word.text for word in run]
    if texts[0] in rules.relatives:
        return any(text in BE for text in texts)
    described = texts[0] in rules.prepositions or is_doing(noun, run, rules)
    return described and BE.isdisjoint(texts)
