"""What the rules know of a text, found once per text and kept for the next candidates."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ailake.core.judge.dedupe import dedupe_key
from ailake.core.judge.facts import Outline, Sentence, outline_of, sentences_of
from ailake.core.judge.hints import heads_of, own_heads
from ailake.core.judge.negation import negations_of, without_negations
from ailake.core.judge.quantities import Quantities, quantities_of
from ailake.core.judge.temporal import find_state, find_timestamp
from ailake.core.judge.words import plain

# As many as one process judges again and again; longer texts are read anew each time.
KEPT_TEXTS = 4096
KEPT_LENGTH = 4_000


@dataclass(frozen=True)
class Reading:
    """A plain text and what it states, each part at the first question.

    Attributes:
        text: The text.
        denies: It has a negation.
    """

    text: str
    denies: bool

    @cached_property
    def heads(self) -> frozenset[str]:
        """How its words begin."""
        return heads_of(self.text)

    @cached_property
    def own_heads(self) -> frozenset[str]:
        """How words begin that what contains it must have."""
        return own_heads(self.text)

    def lacks_heads_of(self, other: "Reading") -> bool:
        """Tell whether the other text has words for certain that are not said here in any form."""
        return not other.own_heads <= self.heads

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """What it says, sentence by sentence."""
        return sentences_of(self.text, denies=self.denies)

    @cached_property
    def outline(self) -> Outline:
        """The words of what it says."""
        return outline_of(self.sentences)


@dataclass(frozen=True)
class Features:
    """A text and what is found in it, each part at the first question."""

    text: str

    @cached_property
    def key(self) -> str:
        """Its dedupe key."""
        return dedupe_key(self.text)

    @cached_property
    def plain(self) -> str:
        """The text in one form of every character."""
        return plain(self.text)

    @cached_property
    def timestamp(self) -> bool:
        """It names a date or a time of day."""
        return find_timestamp(self.plain)

    @cached_property
    def state(self) -> bool:
        """It says how things are at a moment."""
        return find_state(self.plain)

    @cached_property
    def quantities(self) -> Quantities:
        """The quantities it names."""
        return quantities_of(self.plain)

    @cached_property
    def negations(self) -> tuple[tuple[str, int], ...]:
        """How often it denies, by kind."""
        return negations_of(self.plain)

    @cached_property
    def said(self) -> Reading:
        """What it says."""
        return Reading(self.plain, denies=bool(self.negations))

    @cached_property
    def affirmed(self) -> Reading:
        """What it would say without its negations."""
        text = without_negations(self.plain)
        if text == self.plain and not self.negations:
            return self.said
        return Reading(text, denies=False)


def features(text: str) -> Features:
    """Return the features of a text; those of the last 4,096 are kept."""
    return _kept(text) if len(text) <= KEPT_LENGTH else Features(text)


@lru_cache(maxsize=KEPT_TEXTS)
def _kept(text: str) -> Features:
    return Features(text)
