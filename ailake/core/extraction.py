"""Facts that somebody reads out of a text: the protocol, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, overload

from ailake.core.reconcile import FactDecision, FactTriple
from ailake.core.usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class RefusedFact:
    """What an extractor's model said that is no fact.

    Attributes:
        got: As the model said it.
        reason: What is wrong with it.
    """

    got: str
    reason: str


@dataclass(frozen=True, slots=True)
class Extraction(Sequence[FactTriple]):
    """The facts of a text, as a sequence, with what was refused and what it took.

    Attributes:
        model: The model that was asked, empty where there was none.
    """

    facts: tuple[FactTriple, ...]
    refused: tuple[RefusedFact, ...] = ()
    model: str = ""
    usage: Usage = NO_USAGE

    @overload
    def __getitem__(self, place: int) -> FactTriple: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[FactTriple, ...]: ...
    def __getitem__(self, place: int | slice) -> FactTriple | tuple[FactTriple, ...]:
        return self.facts[place]

    def __len__(self) -> int:
        return len(self.facts)


class FactExtractor(Protocol):
    """Reads facts out of a text."""

    def extract(self, text: str, event_time: datetime) -> Sequence[FactTriple]:
        """Return the facts of a text, perhaps called from several threads at once.

        Args:
            text: The text.
            event_time: When what it tells happened, timezone-aware.

        Returns:
            The facts; an ``Extraction`` also tells what was refused and what it took.

        Raises:
            ProviderError: There is no answer.
        """


@dataclass(frozen=True, slots=True)
class ExtractedMemory:
    """What became of the facts of one memory.

    Attributes:
        memory_id: The memory; the facts name it as their source.
        decisions: What was made of each fact, in order.
        refused: What the extractor's model said that is no fact.
    """

    memory_id: str
    decisions: tuple[FactDecision, ...]
    refused: tuple[RefusedFact, ...]


@dataclass(frozen=True, slots=True)
class ExtractionReport:
    """What ``Facts.extract`` did.

    Attributes:
        memories: Those that were read, in the order that was given.
        failed: Those that the extractor gave no answer to, with the reason.
        left: Those that were not asked about.
        usage: Tokens of all answers and failures.
        stopped: Why not all were asked about, or empty.
        forgotten: Those that were forgotten while they were read, and whose facts were left out.
    """

    memories: tuple[ExtractedMemory, ...]
    failed: tuple[tuple[str, str], ...]
    left: tuple[str, ...]
    usage: Usage
    stopped: str
    forgotten: tuple[str, ...] = ()
