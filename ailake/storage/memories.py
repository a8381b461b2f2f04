"""Reading and removing rows of ``episodic`` within one scope."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import pending_of_rows, with_pending
from ailake.core.filter_eval import matches
from ailake.core.filters import Predicate, columns_of, conjunction, disjunction, parse_where
from ailake.core.merged_mentions import end_of
from ailake.core.records import Decision, MemoryRecord, Remembered, Scope, State
from ailake.core.remembering import EXACT_DUPLICATE, DuplicateKey, Twin
from ailake.core.rows import RECORD_COLUMNS, as_nanoseconds, nanoseconds, record_of, to_pylist
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds
from ailake.errors import InvalidInputError
from ailake.storage import belongings, passages
from ailake.storage.table import count_rows, read_rows
from ailake.storage.view import FIRST_LOGGED, ReadView

if TYPE_CHECKING:
    from ailake.storage.store import Store

_KINDS = filter_kinds("episodic")
_NULLABLE = ("event_time", "expires_at", "last_accessed_at")

_OUTCOME = ("chunk_id", *SCOPE_COLUMNS, "decision", "reason", "veto", "merged_into")
_TWIN = (
    "chunk_id", *SCOPE_COLUMNS, "role", "speaker", "source", "dedupe_key", "state", "created_at",
    "expires_at",
)  # fmt: skip


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


def records(view: ReadView, rows: Sequence[Mapping[str, Any]]) -> list[MemoryRecord]:
    """Return rows as records, pending accesses counted in.

    Args:
        view: Where they were read.
        rows: Mappings with ``RECORD_COLUMNS``.
    """
    pending = pending_of_rows(
        view.entries, [row["chunk_id"] for row in rows], [row["folded_through"] for row in rows]
    )
    return [with_pending(record_of(row), pending.get(row["chunk_id"])) for row in rows]


def pending_count(store: "Store") -> int:
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
    rows = to_pylist(read_rows(view.dataset, RECORD_COLUMNS, view.resolved(where)))
    logged = [view.logged[place].row for place in view.logged_places(where)]
    return records(view, rows + logged)


def find_id(view: ReadView, memory_id: str, where: Predicate) -> MemoryRecord | None:
    """Return the memory with this id, where there is one and it satisfies ``where``."""
    columns = tuple(dict.fromkeys([*RECORD_COLUMNS, *columns_of(where)]))
    rows: list[Mapping[str, Any]] = [*to_pylist(view.stored("chunk_id", [memory_id], columns))]
    rows += [one.row for one in view.logged if one.row["chunk_id"] == memory_id]
    found = records(view, [row for row in rows if matches(where, row)])
    return found[0] if found else None


def survivors(view: ReadView, ids: Sequence[str]) -> list[str]:
    """Return the ids with those that lost a race replaced by those of their survivors.

    Who remembered what another process was remembering at that moment was given an id of its own;
    it stands for the memory that says the same.
    """
    columns = ("chunk_id", "reason", "merged_into")
    into: dict[str, str] = {}
    asked = set(ids)
    while asked:
        rows = view.stored("chunk_id", asked, columns).to_pylist()
        lost = {r["chunk_id"]: r["merged_into"] for r in rows if r["reason"] == EXACT_DUPLICATE}
        found = {loser: survivor for loser, survivor in lost.items() if survivor}
        into |= found
        asked = set(found.values()) - set(into)
    return [end_of(memory_id, into) for memory_id in ids]


def count(view: ReadView, where: Predicate) -> int:
    """Return the number of memories that satisfy ``where``."""
    return count_rows(view.dataset, view.resolved(where)) + len(view.logged_places(where))


def page(
    view: ReadView, where: Predicate, *, start: int, size: int, newest_first: bool
) -> list[MemoryRecord]:
    """Return a page of the memories that satisfy ``where``, in the order of their writing."""
    rows = read_rows(view.dataset, ("created_at",), view.resolved(where), with_row_id=True)
    places = view.logged_places(where)
    waiting = [nanoseconds(view.logged[place].row["created_at"]) for place in places]
    created = np.concatenate([as_nanoseconds(rows["created_at"]), np.array(waiting, np.int64)])
    # What is only logged gets its row id later than all that have one.
    logged = np.array(places, np.uint64) + np.uint64(FIRST_LOGGED)
    row_ids = np.concatenate([rows["_rowid"].to_numpy(), logged])
    order = np.lexsort((row_ids, created))
    shown = order[::-1] if newest_first else order
    return records(view, view.rows_at(row_ids[shown[start : start + size]], RECORD_COLUMNS))


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


def known_outcomes(view: ReadView, scope: Scope, ids: Sequence[str]) -> dict[str, Remembered]:
    """Return the first outcomes of those of the ids that are kept.

    Raises:
        InvalidInputError: An id is taken by another scope.
    """
    if not ids:
        return {}
    wanted = set(ids)
    rows = view.stored("chunk_id", wanted, _OUTCOME).to_pylist()
    rows += [one.row for one in view.logged if one.row["chunk_id"] in wanted]
    outcomes: dict[str, Remembered] = {}
    for row in rows:
        if scope_of(row) != scope:
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


def kept_ids(view: ReadView, scope: Scope, ids: Collection[str]) -> set[str]:
    """Return those of the ids that are kept in this scope."""
    scopes = scopes_of_ids(view, ids)
    scopes |= {one.row["chunk_id"]: scope_of(one.row) for one in view.logged}
    return {memory_id for memory_id in ids if scopes.get(memory_id) == scope}


def scopes_of_ids(view: ReadView, ids: Collection[str]) -> dict[str, Scope]:
    """Return the scopes of those of the ids that the table holds."""
    rows = view.stored("chunk_id", ids, ("chunk_id", *SCOPE_COLUMNS)).to_pylist()
    return {row["chunk_id"]: scope_of(row) for row in rows}


def live_duplicates(
    view: ReadView, scope: Scope, keys: Sequence[DuplicateKey], now: datetime
) -> dict[DuplicateKey, Twin]:
    """Return for each of the keys the scope's earliest visible memory that has it."""
    return live_twins(view, scope, {key.digest for key in keys}, now)


def live_twins(
    view: ReadView, scope: Scope, digests: Collection[str], now: datetime
) -> dict[DuplicateKey, Twin]:
    """Return the same for all keys with one of the digests; an empty one is none."""
    return {key: twins[0] for key, twins in duplicates(view, scope, digests, now).items()}


def duplicates(
    view: ReadView, scope: Scope, digests: Collection[str], now: datetime
) -> dict[DuplicateKey, list[Twin]]:
    """Return all the scope's memories visible at ``now`` with one of the digests, by key."""
    wanted = list(filter(None, digests))
    if not wanted:
        return {}
    rows: list[Mapping[str, Any]] = [*to_pylist(view.stored("dedupe_key", wanted, _TWIN))]
    if view.logged:
        listed = set(wanted)
        rows += [one.row for one in view.logged if one.row["dedupe_key"] in listed]
    seen = visible((scope,), predicate(None), now)
    # The earliest survives where judge=False has stored the same text twice.
    rows.sort(key=lambda row: (row["created_at"], row["chunk_id"]))
    found: dict[DuplicateKey, list[Twin]] = {}
    for row in rows:
        if matches(seen, row):
            key = DuplicateKey(row["role"], row["speaker"], row["source"], row["dedupe_key"])
            found.setdefault(key, []).append(Twin(row["chunk_id"], row["expires_at"]))
    return found


def scope_of(row: Mapping[str, Any]) -> Scope:
    """Return the scope that a row belongs to."""
    return Scope(row["agent_id"], row["user_id"], row["project_id"])


def with_merged(store: "Store", rows: pa.Table) -> pa.Table:
    """Add the rows that were merged into these, and those merged into them in turn.

    Args:
        store: The lake.
        rows: ``chunk_id`` and ``_rowid`` of some memories, perhaps with other columns of theirs.
    """
    columns = [name for name in rows.column_names if name != "_rowid"]
    merged = store.episodic.read(
        (*columns, "merged_into"), predicate({"merged_into": {"ne": ""}}), with_row_id=True
    )
    while True:
        into = pc.is_in(merged["merged_into"], value_set=rows["chunk_id"].combine_chunks())
        known = pc.is_in(merged["_rowid"], value_set=rows["_rowid"].combine_chunks())
        more = merged.filter(pc.and_(into, pc.invert(known))).select(rows.column_names)
        if not more.num_rows:
            return rows
        rows = pa.concat_tables([rows, more], promote_options="default")  # Some are nullable.


def remove(
    store: "Store", scope: Scope, rows: pa.Table, *, also: Sequence[str], now: datetime
) -> None:
    """Delete rows of a scope, once the ledger says so, then all that belongs to them.

    Args:
        store: The lake.
        scope: The scope.
        rows: ``chunk_id`` and ``_rowid`` of the memories.
        also: Ids whose rows are gone already, but perhaps not their entries, where an earlier
            removal died half-way.
        now: When they are removed.
    """
    row_ids = rows["_rowid"].to_pylist()
    named = dict(zip(row_ids, rows["chunk_id"].to_pylist(), strict=True))
    store.recorder.announce(store, {scope: named}, now=now)
    store.episodic.delete_rows(row_ids)
    gone = [*rows["chunk_id"].to_pylist(), *also]
    passages.remove(store, scope, gone)
    belongings.remove(store, {scope: set(gone)}, now=now)
    store.journal.forget(scope, gone)
