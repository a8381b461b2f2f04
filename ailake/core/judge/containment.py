"""Whether all that one text says is in another: fact by fact, word by word, in order.

The words of the shorter fact must come in the longer one in the same order. What the longer one has
beside them must be something that takes nothing back: an adverb, an adjective after an article, a
phrase of place, or one more statement. Whatever is not known to be harmless means "not contained".
"""

from collections.abc import Sequence

from ailake.core.judge.facts import Fact, Sentence
from ailake.core.judge.grammar import BE, grammar
from ailake.core.judge.harmless import after_comma, harmless
from ailake.core.judge.naming import is_doing
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
    if not all(any(_sentence_in(one, other) for other in others) for one in some):
        return False
    asks = all(one.whole.asks for one in some)
    return harmless().takes_back.isdisjoint(_names(others) - _names(some)) and all(
        any(_sentence_in(one, other) for one in some) or _adds(other, asks=asks) for other in others
    )


def _names(sentences: Sequence[Sentence]) -> frozenset[str]:
    return frozenset().union(*(sentence.whole.names for sentence in sentences))


def _adds(sentence: Sentence, *, asks: bool) -> bool:
    """Tell whether a sentence may stand beside others without taking them back, or questions."""
    if sentence.whole.asks:
        return asks
    return sentence.understood and harmless().is_statement(sentence.whole.words)


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
        self.harmless = harmless()
        said = (word.text for word in self.long)
        self.company = not self.happens and self.harmless.has_company(said)
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
        run, following = self.long[start:stop], self.long[stop].text
        texts = [word.text for word in run]
        before = self.long[start - 1].text if start else ""
        if not self.rules.unsafe.isdisjoint(texts):
            return False
        if self.harmless.is_adverb(texts, before, following):
            return True
        if self.harmless.describes(run, following, before):
            named = start > 0 and run[0].definite and self.short[here].definite
            return self.happens or (named and not run[0].certain)
        if not start:
            return self._may_begin(texts, following)
        if following in BE:
            return self._is_aside(start, stop)
        among = self.happens and following in self.rules.prepositions and before not in BE
        return among and self.harmless.places(run, company=self.company)

    def _may_begin(self, texts: Sequence[str], following: str) -> bool:
        """Tell whether the long fact begins with one more statement: "I live here, I like tea"."""
        told = following in self.rules.pronouns and texts[0] == following
        return told and after_comma(texts[-1:]) and self.harmless.states(texts[:-1], happens=False)

    def _may_end(self, start: int) -> bool:
        """Tell whether the long fact may go on after all of the short one was found."""
        run, before = self.long[start:], self.long[start - 1].text
        texts = [word.text for word in run]
        if self.strict or before in BE or not self.rules.unsafe.isdisjoint(texts):
            return False
        if all(map(self.rules.is_adverb, texts)):
            return True
        if texts[0] == "and" or after_comma(texts):
            return len(run) > 1 and self._may_join(start)
        if self.happens and self.rules.is_ing(texts[0]) and not before.endswith("+"):
            return True
        return self._may_place(texts, before) and self.harmless.places(run, company=self.company)

    def _may_join(self, start: int) -> bool:
        run, before = self.long[start + 1 :], self.long[start - 1].text
        texts = [word.text for word in run]
        if self.harmless.states(texts, happens=self.happens):
            return True
        if self.long[start].text == "and":
            return self.harmless.lists(before, run)
        return self.happens and self.harmless.places(run, company=self.company)

    def _may_place(self, texts: Sequence[str], before: str) -> bool:
        """Tell whether a phrase of place may end the fact: no "up" of "giving up her job"."""
        if before in self.rules.adjectives:
            return False
        if not self.happens:
            told = len(self.short) > 2 and texts[0] in self.harmless.placing
            return told and (BE | self.harmless.tastes).isdisjoint(word.text for word in self.long)
        if texts[0] not in self.rules.directions:
            return True
        return before.endswith("+") and not self.harmless.going.isdisjoint(
            {before, *self.rules.kinds_of(before)}
        )

    def _is_aside(self, start: int, stop: int) -> bool:
        """Tell whether words between a subject and its verb only describe the subject.

        After a possessive they tell one from another, as adjectives do: "my brother in Rome".
        """
        run, rules = self.long[start:stop], self.rules
        texts, subject = [word.text for word in run], [word.text for word in self.long[:start]]
        if not self.happens or not rules.possessives.isdisjoint(subject) or "'s" in subject:
            return False
        if texts[0] in rules.relatives:
            known = self.harmless.known.issuperset(texts[2:])
            return len(texts) > 2 and texts[1] in BE and (known or texts[2].endswith("+"))
        if not BE.isdisjoint(texts):
            return False
        return self.harmless.places(run, company=self.company) or is_doing(subject[-1], run, rules)
