"""Facts read out of stored memories by an extractor, and asserted with the memory as source."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ailake.asking import Asking
from ailake.core.drafts import check_id
from ailake.core.extraction import (
    ExtractedMemory,
    Extraction,
    ExtractionReport,
    FactExtractor,
)
from ailake.core.reconcile import FactDecision, FactTriple
from ailake.core.records import MemoryRecord, Scope, State
from ailake.errors import InvalidInputError, NotFoundError, ProviderError
from ailake.storage import memories
from ailake.storage.store import Store

Keep = Callable[[Sequence[FactTriple], str], list[FactDecision] | None]


@dataclass(slots=True)
class Extracting:
    """One call of ``Facts.extract``.

    Args:
        extractor: Reads the facts.
        keep: Keeps the facts of one memory, given its id; None where it was forgotten meanwhile.

    Raises:
        InvalidInputError: ``extractor`` is none.
    """

    extractor: FactExtractor
    keep: Keep
    _done: list[ExtractedMemory] = field(default_factory=list)
    _failed: list[tuple[str, str]] = field(default_factory=list)
    _forgotten: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not callable(getattr(self.extractor, "extract", None)):
            raise InvalidInputError.of("extractor", got=self.extractor, wanted="a FactExtractor")

    def run(
        self, records: Sequence[MemoryRecord], *, concurrency: int, max_tokens: int | None
    ) -> ExtractionReport:
        """Read and assert, memory by memory; one commit for each."""
        asking: Asking[MemoryRecord, Extraction] = Asking(
            self._extracted, concurrency=concurrency, max_tokens=max_tokens
        )
        for record, found in asking.answers(records):
            if isinstance(found, ProviderError):
                self._failed.append((record.id, str(found)))
                continue
            decisions = self.keep(found.facts, record.id)
            if decisions is None:
                self._forgotten.append(record.id)
                continue
            self._done.append(ExtractedMemory(record.id, tuple(decisions), found.refused))
        asked = len(self._done) + len(self._failed) + len(self._forgotten)
        left = tuple(record.id for record in records[asked:])
        return ExtractionReport(
            tuple(self._done), tuple(self._failed), left, asking.usage, asking.stopped,
            tuple(self._forgotten),
        )  # fmt: skip

    def _extracted(self, record: MemoryRecord) -> Extraction:
        told_at = record.event_time or record.created_at
        return _extraction(self.extractor.extract(record.text, told_at))


def _extraction(answer: object) -> Extraction:
    if isinstance(answer, Extraction):
        return answer
    if not isinstance(answer, Iterable):
        wanted = "a list of FactTriple"
        raise InvalidInputError.of("the extractor's answer", got=answer, wanted=wanted)
    return Extraction(tuple(answer))


def records_of(store: Store, scope: Scope, ids: Iterable[str]) -> list[MemoryRecord]:
    """Return memories of a scope, in the order of their ids.

    Raises:
        InvalidInputError: No list of ids, what is no id, or that of a memory that was merged into
            another.
        NotFoundError: The scope has no such memory.
    """
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInputError.of("memory_ids", got=ids, wanted="a list of ids of memories")
    view, wall = store.view(), memories.in_scopes((scope,))
    found = []
    named = [check_id(one, name="memory_ids") for one in ids]
    for memory_id in dict.fromkeys(named):
        record = memories.find_id(view, memory_id, wall)
        if record is None:
            raise NotFoundError(f"no memory {memory_id!r} in {scope}")
        if record.state is State.MERGED:
            raise InvalidInputError(
                f"memory {memory_id!r} was merged into {record.merged_into!r}; give that one"
            )
        found.append(record)
    return found
