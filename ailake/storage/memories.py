"""Reading and removing rows of ``episodic`` within one scope."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import with_pending
from ailake.core.filters import Predicate, columns_of, conjunction, disjunction, parse_where
from ailake.core.records import Decision, MemoryRecord, Remembered, Scope, State
from ailake.core.remembering import DuplicateKey
from ailake.core.rows import RECORD_COLUMNS, record_of, to_pylist
from ailake.core.schema import filter_kinds
from ailake.errors import InvalidInputError
from ailake.storage.journal import Journal
from ailake.storage.lake import Store
from ailake.storage.search import payload

_KINDS = filter_kinds("episodic")
_NULLABLE = ("event_time", "expires_at", "last_accessed_at")

_OUTCOME = (
    "chunk_id", "agent_id", "user_id", "project_id", "decision", "reason", "veto", "merged_into",
)  # fmt: skip

# Up to here a filter on the keys beats reading the scope's keys whole.
_FEW = 1_000


def predicate(where: Mapping[str, object] | None) -> Predicate:
    """Compile a ``where`` over the columns of ``episodic``."""
    return parse_where(where, _KINDS, nullable=_NULLABLE)


def in_scopes(scopes: Sequence[Scope]) -> Predicate:
    """Return the wall around some scopes: every column of them, compared exactly."""
    return disjunction(*(predicate(asdict(scope)) for scope in scopes))


def visible(scopes: Sequence[Scope], where: Predicate, now: datetime) -> Predicate:
    """Return what a read of scopes sees: active, unexpired rows unless ``where`` names state."""
    if "state" in columns_of(where):
        return conjunction(in_scopes(scopes), where)
    active = predicate({"state": State.ACTIVE.value})
    return conjunction(in_scopes(scopes), active, unexpired(now), where)


def unexpired(now: datetime) -> Predicate:
    """Return what has not reached its ``expires_at``."""
    return predicate({"OR": [{"expires_at": None}, {"expires_at": {"gt": now}}]})


def born_before(cutoff: datetime) -> Predicate:
    """Return what happened, or where that is not known was written, before ``cutoff``."""
    return predicate(
        {
            "OR": [
                {"event_time": {"lt": cutoff}},
                {"event_time": None, "created_at": {"lt": cutoff}},
            ]
        }
    )


def records(rows: pa.Table, journal: Journal) -> list[MemoryRecord]:
    """Return rows of ``RECORD_COLUMNS`` as records, pending accesses counted in."""
    found = to_pylist(rows)
    pending = journal.pending(
        [row["chunk_id"] for row in found], [row["folded_through"] for row in found]
    )
    return [with_pending(record_of(row), pending.get(row["chunk_id"])) for row in found]


def find(store: Store, where: Predicate, **options: Any) -> list[MemoryRecord]:
    """Return the memories that satisfy ``where``; ``options`` are the engine scanner's."""
    return records(store.episodic.read(RECORD_COLUMNS, where, **options), store.journal)


def chain(store: Store, scopes: Sequence[Scope], memory_id: str) -> list[MemoryRecord]:
    """Return all memories whose chain of merges ends where this one's does, farthest first."""
    wall = in_scopes(scopes)
    level = find(store, conjunction(wall, predicate({"chunk_id": memory_id})))
    seen = {memory_id}
    while level and level[0].merged_into not in {"", *seen}:
        seen.add(level[0].merged_into)
        into = find(store, conjunction(wall, predicate({"chunk_id": level[0].merged_into})))
        if not into:  # The survivor was forgotten.
            break
        level = into
    levels = []
    while level:
        levels.append(level)
        merged = {"merged_into": {"in": [record.id for record in level]}}
        level = find(store, conjunction(wall, predicate(merged)))
        level.sort(key=lambda record: (record.updated_at, record.id))
    return [record for level in reversed(levels) for record in level]


def known_outcomes(store: Store, scope: Scope, ids: Sequence[str]) -> dict[str, Remembered]:
    """Return the first outcomes of those of the ids that are stored.

    Raises:
        InvalidInputError: An id is taken by another scope.
    """
    if not ids:
        return {}
    if len(ids) <= _FEW:
        rows = store.episodic.read(_OUTCOME, predicate({"chunk_id": {"in": list(ids)}}))
    else:
        stored = store.episodic.read(("chunk_id",), predicate(None), with_row_id=True)
        met = stored.filter(pc.is_in(stored["chunk_id"], value_set=pa.array(ids, pa.string())))
        rows = payload(store.episodic, met["_rowid"].to_numpy(), _OUTCOME)
    outcomes: dict[str, Remembered] = {}
    for row in rows.to_pylist():
        if Scope(row["agent_id"], row["user_id"], row["project_id"]) != scope:
            raise InvalidInputError(
                f"id: got {row['chunk_id']!r}, which is taken in this lake; choose another"
            )
        outcomes[row["chunk_id"]] = Remembered(
            row["chunk_id"], Decision(row["decision"]), row["reason"], row["merged_into"],
            row["veto"],
        )  # fmt: skip
    return outcomes


def live_duplicates(
    store: Store, scope: Scope, keys: Sequence[DuplicateKey], now: datetime
) -> dict[DuplicateKey, str]:
    """Return the ids of the scope's visible memories that have one of the keys."""
    digests = sorted({key.digest for key in keys if key.digest})
    if not digests:
        return {}
    few = predicate({"dedupe_key": {"in": digests}} if len(digests) <= _FEW else None)
    columns = ("role", "speaker", "source", "dedupe_key", "chunk_id", "created_at")
    rows = store.episodic.read(columns, visible((scope,), few, now))
    rows = rows.filter(pc.is_in(rows["dedupe_key"], value_set=pa.array(digests)))
    # The earliest survives where judge=False has stored the same text twice.
    rows = rows.sort_by([("created_at", "descending"), ("chunk_id", "descending")])
    return {
        DuplicateKey(row[0], row[1], row[2], row[3]): row[4]
        for row in zip(*(rows[name].to_pylist() for name in columns[:5]), strict=True)
    }


def with_merged(store: Store, rows: pa.Table) -> pa.Table:
    """Add the rows that were merged into these, and those merged into them in turn.

    Args:
        store: The lake.
        rows: ``chunk_id`` and ``_rowid`` of some memories.
    """
    merged = store.episodic.read(
        ("chunk_id", "merged_into"), predicate({"merged_into": {"ne": ""}}), with_row_id=True
    )
    while True:
        into = pc.is_in(merged["merged_into"], value_set=rows["chunk_id"].combine_chunks())
        known = pc.is_in(merged["_rowid"], value_set=rows["_rowid"].combine_chunks())
        more = merged.filter(pc.and_(into, pc.invert(known))).select(rows.column_names)
        if not more.num_rows:
            return rows
        rows = pa.concat_tables([rows, more])


def remove(store: Store, rows: pa.Table) -> None:
    """Delete the rows, then their journal entries.

    Args:
        store: The lake.
        rows: ``chunk_id`` and ``_rowid`` of the memories.
    """
    store.episodic.delete_rows(rows["_rowid"].to_pylist())
    store.journal.forget(rows["chunk_id"].to_pylist())
