"""Reading and removing rows of ``episodic`` within one scope."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import Entries, pending_of_rows, with_pending
from ailake.core.filters import Predicate, columns_of, conjunction, disjunction, parse_where
from ailake.core.records import Decision, MemoryRecord, Remembered, Scope, State
from ailake.core.remembering import DuplicateKey, Twin
from ailake.core.rows import RECORD_COLUMNS, record_of, to_pylist
from ailake.core.schema import filter_kinds
from ailake.errors import InvalidInputError
from ailake.storage.lake import ReadView, Store
from ailake.storage.search import payload
from ailake.storage.table import read_rows

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
    """Return what recall sees of scopes: active, unexpired rows that satisfy ``where``."""
    active = predicate({"state": State.ACTIVE.value})
    return conjunction(in_scopes(scopes), active, unexpired(now), where)


def listed(scopes: Sequence[Scope], where: Predicate, now: datetime) -> Predicate:
    """Return what a list of scopes shows: the same, unless ``where`` names state."""
    if "state" in columns_of(where):
        return conjunction(in_scopes(scopes), where)
    return visible(scopes, where, now)


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


def records(rows: pa.Table, entries: Entries) -> list[MemoryRecord]:
    """Return rows of ``RECORD_COLUMNS`` as records, pending accesses counted in."""
    found = to_pylist(rows)
    pending = pending_of_rows(
        entries, [row["chunk_id"] for row in found], [row["folded_through"] for row in found]
    )
    return [with_pending(record_of(row), pending.get(row["chunk_id"])) for row in found]


def pending_count(store: Store) -> int:
    """Return the number of memories with accesses that are not folded in yet."""
    _, entries = store.journal.unfolded()
    if not entries:
        return 0
    rows = store.episodic.read(("chunk_id", "folded_through"), predicate(None))
    rows = rows.filter(pc.is_in(rows["chunk_id"], value_set=pa.array(list(entries), pa.string())))
    watermarks = rows["folded_through"].to_pylist()
    return len(pending_of_rows(entries, rows["chunk_id"].to_pylist(), watermarks))


def find(view: ReadView, where: Predicate) -> list[MemoryRecord]:
    """Return the memories that satisfy ``where``."""
    return records(read_rows(view.dataset, RECORD_COLUMNS, where), view.entries)


def page(
    view: ReadView, where: Predicate, *, start: int, size: int, newest_first: bool
) -> list[MemoryRecord]:
    """Return a page of the memories that satisfy ``where``, in the order of their writing."""
    order = "descending" if newest_first else "ascending"
    rows = read_rows(view.dataset, ("created_at",), where, with_row_id=True)
    rows = rows.sort_by([("created_at", order), ("_rowid", order)])
    row_ids = rows.slice(start, size)["_rowid"].to_numpy()
    return records(payload(view.dataset, row_ids, RECORD_COLUMNS), view.entries)


def chain(view: ReadView, scopes: Sequence[Scope], memory_id: str) -> list[MemoryRecord]:
    """Return all memories whose chain of merges ends where this one's does, farthest first."""
    wall = in_scopes(scopes)
    level = find(view, conjunction(wall, predicate({"chunk_id": memory_id})))
    seen = {memory_id}
    while level and level[0].merged_into not in {"", *seen}:
        seen.add(level[0].merged_into)
        into = find(view, conjunction(wall, predicate({"chunk_id": level[0].merged_into})))
        if not into:  # The survivor was forgotten.
            break
        level = into
    levels = []
    while level:
        levels.append(level)
        merged = {"merged_into": {"in": [record.id for record in level]}}
        level = find(view, conjunction(wall, predicate(merged)))
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
        dataset = store.episodic.snapshot()
        stored = read_rows(dataset, ("chunk_id",), predicate(None), with_row_id=True)
        met = stored.filter(pc.is_in(stored["chunk_id"], value_set=pa.array(ids, pa.string())))
        rows = payload(dataset, met["_rowid"].to_numpy(), _OUTCOME)
    outcomes: dict[str, Remembered] = {}
    for row in rows.to_pylist():
        if Scope(row["agent_id"], row["user_id"], row["project_id"]) != scope:
            raise InvalidInputError(
                f"id: got {row['chunk_id']!r}, which is taken in this lake; choose another"
            )
        outcomes[row["chunk_id"]] = Remembered(
            row["chunk_id"],
            Decision(row["decision"]),
            row["reason"],
            row["merged_into"],
            row["veto"],
            repeated=True,
        )
    return outcomes


def live_duplicates(
    store: Store, scope: Scope, keys: Sequence[DuplicateKey], now: datetime
) -> dict[DuplicateKey, Twin]:
    """Return the scope's visible memories that have one of the keys."""
    digests = sorted({key.digest for key in keys if key.digest})
    if not digests:
        return {}
    few = predicate({"dedupe_key": {"in": digests}} if len(digests) <= _FEW else None)
    columns = ("role", "speaker", "source", "dedupe_key", "chunk_id", "expires_at", "created_at")
    rows = store.episodic.read(columns, visible((scope,), few, now))
    rows = rows.filter(pc.is_in(rows["dedupe_key"], value_set=pa.array(digests)))
    # The earliest survives where judge=False has stored the same text twice.
    rows = rows.sort_by([("created_at", "descending"), ("chunk_id", "descending")])
    return {
        DuplicateKey(row["role"], row["speaker"], row["source"], row["dedupe_key"]): Twin(
            row["chunk_id"], row["expires_at"]
        )
        for row in to_pylist(rows)
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


def remove(store: Store, scope: Scope, rows: pa.Table, *, also: Sequence[str]) -> None:
    """Delete rows of a scope, then their journal entries.

    Args:
        store: The lake.
        scope: The scope.
        rows: ``chunk_id`` and ``_rowid`` of the memories.
        also: Ids whose rows are gone already, but perhaps not their entries, where an earlier
            removal died half-way.
    """
    store.episodic.delete_rows(rows["_rowid"].to_pylist())
    store.journal.forget(scope, [*rows["chunk_id"].to_pylist(), *also])
