"""What many drafts become at once: a plan and rows, of which only few are looked at one by one.

A draft whose id and duplicate key nobody else has, in the batch or in the lake, becomes a row
whatever the others do. The rest go through ``plan_batch`` together, in order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.columnar import MICROSECONDS, Columns
from ailake.core.records import Decision, Remembered, Scope, State
from ailake.core.remembering import (
    NO_CONTAINED_MATCH,
    UNJUDGED,
    DuplicateKey,
    Plan,
    Twin,
    duplicate_keys,
    plan_batch,
)
from ailake.core.rows import complete_rows
from ailake.core.schema import INSTANT


@dataclass(frozen=True, slots=True)
class Batch:
    """Drafts that are written in one commit.

    Attributes:
        ids: Each draft's own id, else a fresh one.
        given_ids: Only the former.
        digests: Each row's ``dedupe_key``, an empty one equals nothing; none without the judge.
    """

    columns: Columns
    ids: Sequence[str]
    given_ids: Sequence[str]
    digests: Sequence[str]
    judge: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class BulkPlan:
    """What a batch becomes.

    Attributes:
        places: The drafts that become rows, in order.
        met: The places of those that were decided one by one.
        decided: The plan of these.
        expiries: When those of them expire that become rows: a repetition may have prolonged them.
    """

    places: NDArray[np.int64]
    met: Sequence[int]
    decided: Plan
    expiries: Mapping[int, datetime | None]

    def outcomes(self, batch: Batch) -> list[Remembered]:
        """Return one outcome per draft, in order."""
        reason = NO_CONTAINED_MATCH if batch.judge else UNJUDGED
        outcomes = [Remembered(memory_id, Decision.CREATE, reason) for memory_id in batch.ids]
        for place, outcome in zip(self.met, self.decided.outcomes, strict=True):
            outcomes[place] = outcome
        return outcomes


def plan_bulk(
    batch: Batch,
    *,
    known_ids: Mapping[str, Remembered],
    known_keys: Mapping[DuplicateKey, Twin],
) -> BulkPlan:
    """Decide for each draft, with the same outcome as ``plan_batch``.

    Args:
        batch: The drafts.
        known_ids: First outcomes of those of the drafts' ids that are stored already.
        known_keys: The stored, visible memories with one of the digests.
    """
    met = set(_meeting(batch.ids, {*known_ids, *_repeated(batch.given_ids)}))
    if batch.judge:
        digests = {key.digest for key in known_keys} | _repeated(batch.digests)
        met.update(_meeting(batch.digests, digests - {""}))
    places = sorted(met)
    drafts = batch.columns.take(places).drafts() if places else []
    decided = plan_batch(
        drafts,
        duplicate_keys(drafts),
        fresh_ids=[batch.ids[place] for place in places],
        known_ids=known_ids,
        known_keys=known_keys,
        judge=batch.judge,
        now=batch.now,
    )
    expiries = {places[one.position]: one.draft.expires_at for one in decided.additions}
    becomes_row = np.ones(len(batch.columns), np.bool_)
    becomes_row[places] = False
    becomes_row[list(expiries)] = True
    return BulkPlan(np.flatnonzero(becomes_row), places, decided, expiries)


def _repeated(values: Sequence[str]) -> set[str]:
    if len(set(values)) == len(values):
        return set()
    return {value for value, count in Counter(values).items() if count > 1}


def _meeting(values: Sequence[str], others: set[str]) -> Iterable[int]:
    return (place for place, value in enumerate(values) if value in others) if others else ()


@dataclass(frozen=True, slots=True)
class BulkRows:
    """Makes the rows of a plan, slice by slice.

    Attributes:
        vectors: A row per draft of the batch, (n, dim).
        folded_through: As in ``NewMemory``.
    """

    batch: Batch
    plan: BulkPlan
    vectors: NDArray[np.floating[Any]]
    scope: Scope
    embedder_id: str
    folded_through: int

    def rows_of(self, start: int, stop: int) -> pa.Table:
        """Return the rows from one of the plan's to another, ready to be appended."""
        batch, places = self.batch, self.plan.places[start:stop]
        if len(self.plan.places) == len(batch.columns):
            columns, vectors = batch.columns.slice(start, stop - start), self.vectors[start:stop]
            ids = batch.ids[start:stop]
        else:
            columns, vectors = batch.columns.take(places), self.vectors[places]
            ids = [batch.ids[place] for place in places]
        # Nobody needed those of unjudged ones before.
        digests = [batch.digests[p] for p in places] if batch.judge else columns.digests()
        events = _instants(columns.column("event_time"), len(places))
        created = _instants(batch.now, len(places))
        values = {
            "chunk_id": ids,
            "chunk_text": columns.column("text"),
            "agent_id": self.scope.agent_id,
            "user_id": self.scope.user_id,
            "project_id": self.scope.project_id,
            "importance_score": columns.column("importance"),
            "created_at": created,
            "updated_at": created,
            "event_time": events,
            "expires_at": self._expiries(columns.column("expires_at"), places),
            "last_accessed_at": pc.coalesce(events, created),
            "folded_through": self.folded_through,
            "state": State.ACTIVE.value,
            "merged_into": "",
            "dedupe_key": digests,
            "decision": Decision.CREATE.value,
            "reason": NO_CONTAINED_MATCH if batch.judge else UNJUDGED,
            "veto": "",
            "rules_version": "",
            **{name: columns.column(name) for name in _SAME_NAMES},
        }
        return complete_rows(values, vectors, embedder_id=self.embedder_id)

    def _expiries(self, column: Any, places: NDArray[np.int64]) -> pa.Array:
        changed = self.plan.expiries
        expiries = _instants(column, len(places))
        if changed.keys().isdisjoint(places.tolist()):
            return expiries
        listed = expiries.cast(MICROSECONDS).to_pylist()
        together = zip(places.tolist(), listed, strict=True)
        values = [changed.get(place, stored) for place, stored in together]
        return pa.array(values, MICROSECONDS).cast(INSTANT)


_SAME_NAMES = ("session_id", "role", "speaker", "kind", "source", "confidence", "metadata")


def _instants(value: Any, count: int) -> Any:
    if isinstance(value, datetime | None):
        return pa.repeat(pa.scalar(value, MICROSECONDS), count).cast(INSTANT)
    return value.combine_chunks().cast(INSTANT)
