"""What the ledger says of what changed in ``episodic``. Pure.

New memories that follow from nothing are left to ``ledger_rows.created_rows``; all else is here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.chain import GENESIS, LedgerEvent, LedgerRecord
from ailake.core.records import ChainScope, Decision, Scope, State

CREATED, CHANGED = "_row_created_at_version", "_row_last_updated_at_version"

Records = dict[ChainScope, list[LedgerRecord]]


@dataclass(frozen=True, slots=True)
class Told:
    """The latest entry about a memory.

    Attributes:
        id: The entry's.
        event: What it says.
        payload_hash: Of the memory as it was then.
    """

    id: str
    event: str
    payload_hash: str


# What the ledger has said of memories so far, by scope and id.
Latest = Mapping[tuple[ChainScope, str], Told]


@dataclass(frozen=True, slots=True)
class Intent:
    """A removal that was begun, and that no entry says the end of.

    Attributes:
        entry_id: Of the intent's entry.
        scope: The memory's.
        subject_id: The memory.
        payload_hash: Of the memory as it was.
        timestamp: When it was begun.
        source_row: The row that was to be removed.
    """

    entry_id: str
    scope: Scope
    subject_id: str
    payload_hash: str
    timestamp: datetime
    source_row: int


@dataclass(frozen=True, slots=True)
class Change:
    """A row of ``episodic`` that is new or changed, and follows from others.

    Attributes:
        row: ``chunk_id``, ``state``, ``merged_into`` and the like.
        scope: Whose memory it is.
        payload_hash: Of the memory as it is, 64 hexadecimal digits.
        is_new: The ledger has said nothing of it.
    """

    row: Mapping[str, Any]
    scope: Scope
    payload_hash: str
    is_new: bool

    @property
    def subject_id(self) -> str:
        """The memory's id."""
        return str(self.row["chunk_id"])

    @property
    def modifies(self) -> bool:
        """Whether it is new, and stands in the place of another."""
        return self.is_new and bool(self.row["decision"] == Decision.MODIFY.value)

    @property
    def written_at(self) -> datetime:
        """When: what stands in another's place was created when that was."""
        instant: datetime = self.row["created_at"]
        return instant if self.is_new and not self.modifies else self.row["updated_at"]

    @property
    def relatives(self) -> tuple[str, ...]:
        """Ids of the memories that its entry may follow from."""
        return tuple(filter(None, (self.subject_id, str(self.row["merged_into"]))))


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows by the version of their last change, new ones before changed ones."""
    created, changed = rows[CREATED].to_numpy(), rows[CHANGED].to_numpy()
    order = np.lexsort((rows["_rowid"].to_numpy(), created != changed, changed))
    # As a bulk load leaves them: no copy.
    return rows if (order[1:] > order[:-1]).all() else rows.take(pa.array(order))


def follow_from_nothing(rows: pa.Table) -> NDArray[np.bool_]:
    """Tell which rows, where they are new, are new memories and no more than that.

    Args:
        rows: Rows with ``state`` and ``decision``.
    """
    merged = pc.equal(rows["state"], State.MERGED.value).to_numpy()
    modifying = pc.equal(rows["decision"], Decision.MODIFY.value).to_numpy()
    return np.asarray(~merged & ~modifying, dtype=np.bool_)


def records_of(
    changes: Sequence[Change], latest: Latest, ids: Iterator[str], *, source_version: int
) -> Records:
    """Return what is to be recorded of changed rows, by scope.

    A row that was written again as it was is no event.

    Args:
        changes: In the order of their writing.
        latest: What was said of them and their relatives.
        ids: Ids for the entries.
        source_version: The version of ``episodic`` that is told up to.
    """
    known = dict(latest)
    replaced = {
        (change.scope, str(change.row["merged_into"])): change.subject_id
        for change in changes
        if not change.is_new and change.row["merged_into"]
    }
    records: Records = {}
    for change in changes:
        key = change.scope, change.subject_id
        own = known.get(key)
        if own is not None and own.payload_hash == change.payload_hash:
            continue
        event = _event(change, own)
        others = [change.subject_id, str(change.row["merged_into"]), replaced.get(key, "")]
        parents = (known.get((change.scope, other)) for other in others)
        record = LedgerRecord(
            id=next(ids),
            event=event,
            subject_id=change.subject_id,
            payload_hash=change.payload_hash,
            timestamp=change.written_at,
            parents=tuple(told.id for told in parents if told),
            source_version=source_version,
            source_row=change.row["_rowid"],
        )
        records.setdefault(change.scope, []).append(record)
        known[key] = Told(record.id, event, record.payload_hash)
    return records


def _event(change: Change, told: Told | None) -> LedgerEvent:
    if change.row["state"] == State.MERGED.value:
        return LedgerEvent.MERGED
    if change.is_new:
        return LedgerEvent.MODIFY if change.modifies else LedgerEvent.CREATE
    if told is not None and told.event == LedgerEvent.MERGED:
        return LedgerEvent.RESTORE
    return LedgerEvent.UPDATE


def intents_of(
    scope: Scope,
    rows: Mapping[int, str],
    latest: Latest,
    ids: Iterator[str],
    *,
    now: datetime,
    source_version: int,
) -> Records:
    """Return what is to be recorded before memories are removed.

    Args:
        scope: The memories'.
        rows: The id of each memory, by its row.
        latest: What was said of them.
        ids: Ids for the entries.
        now: When they are removed.
        source_version: The version of ``episodic`` that is told up to.
    """
    records = []
    for row, subject_id in rows.items():
        told = latest.get((scope, subject_id))
        record = LedgerRecord(
            id=next(ids),
            event=LedgerEvent.FORGET_INTENT,
            subject_id=subject_id,
            payload_hash=told.payload_hash if told else GENESIS,
            timestamp=now,
            parents=(told.id,) if told else (),
            source_version=source_version,
            source_row=row,
        )
        records.append(record)
    return {scope: records} if records else {}


def ends_of(
    intents: Sequence[Intent], left: set[int], ids: Iterator[str], *, source_version: int
) -> Records:
    """Return how removals ended: what is gone was forgotten, what is there was not.

    Args:
        intents: Removals that no other entry says the end of, and that nobody is at.
        left: Those of their rows that are still there.
        ids: Ids for the entries.
        source_version: The version of ``episodic`` that is told up to.
    """
    records: Records = {}
    for intent in intents:
        void = intent.source_row in left
        record = LedgerRecord(
            id=next(ids),
            event=LedgerEvent.FORGET_VOID if void else LedgerEvent.FORGET,
            subject_id=intent.subject_id,
            payload_hash=intent.payload_hash,
            timestamp=intent.timestamp,
            parents=(intent.entry_id,),
            source_version=source_version,
            source_row=intent.source_row,
        )
        records.setdefault(intent.scope, []).append(record)
    return records


def purges_of(
    subjects: Iterable[tuple[Scope, str]],
    latest: Latest,
    ids: Iterator[str],
    *,
    now: datetime,
    source_version: int,
) -> Records:
    """Return what is to be recorded once nothing is left of memories, or of a whole scope.

    Args:
        subjects: Scope and id of each memory; an empty id stands for the scope.
        latest: What was said of them.
        ids: Ids for the entries.
        now: When.
        source_version: The version of ``episodic`` that is told up to.
    """
    records: Records = {}
    for scope, subject_id in subjects:
        told = latest.get((scope, subject_id))
        record = LedgerRecord(
            id=next(ids),
            event=LedgerEvent.PURGE,
            subject_id=subject_id,
            payload_hash=told.payload_hash if told else GENESIS,
            timestamp=now,
            parents=(told.id,) if told else (),
            source_version=source_version,
        )
        records.setdefault(scope, []).append(record)
    return records
