"""What a purge finds: the rows that go, the tags that hold them, and leftovers of the log.

Rows of memories go last. So a run that is killed before has left what tells which other rows
belong to them, and no row of another table is ever left without its memory.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.erasure import Target, with_ancestors
from ailake.core.filters import TRUE, Predicate, parse_where
from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.core.specs import Erasure, TableSpec
from ailake.errors import ConflictError
from ailake.storage import fact_removal, memories
from ailake.storage import log as logs
from ailake.storage.filters import to_sql
from ailake.storage.holding import RESERVED, abandoned_holds, drop_holds, tags_of
from ailake.storage.ledger import LEDGER, told_before
from ailake.storage.removal import remove_rows
from ailake.storage.retries import reading_again
from ailake.storage.syncing import sync
from ailake.storage.table import Table

if TYPE_CHECKING:
    from ailake.storage.store import Store

EPISODIC = "episodic"

# A delete names its rows in one filter.
_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What goes.

    Attributes:
        target: Whose rows; ids with those of the memories that were merged into them.
        memories: ``chunk_id``, the scope's columns and ``_rowid`` of the memories.
        rows: The other tables' rows that go, by their ids.
        tags: The tags that hold some of it.
        damaged: Copies of log segments that nobody can read, so that they may hold some of it.
    """

    target: Target
    memories: pa.Table
    rows: dict[str, list[int]]
    tags: tuple[str, ...]
    damaged: tuple[Path, ...]


def purged_tables(store: "Store") -> list[Table]:
    """Return the tables whose rows a purge deletes, that of the memories last."""
    found = [one for one in store.tables.values() if _spec(one).purge is Erasure.DELETE]
    return sorted(found, key=lambda table: table.name == EPISODIC)


def plan_purge(store: "Store", wanted: Target) -> PurgePlan:
    """Return what goes, as it is now; nothing is changed."""
    target = _with_merged(store, wanted)
    tables = purged_tables(store)
    rows = {table.name: _row_ids(table, target) for table in tables[:-1]}
    root = store.location.root
    return PurgePlan(
        target,
        reading_again(lambda: _memories(store.episodic.snapshot(), target)),
        {name: found for name, found in rows.items() if found},
        _tags_holding(store, tables, target),
        () if root is None else tuple(logs.damaged(root)),
    )


def refuse_backups(store: "Store", *, now: datetime) -> None:
    """Drop what backups that died have held.

    Raises:
        ConflictError: A backup is running, and holds old versions.
    """
    drop_holds(store.tables, abandoned_holds(store.location, store.tables, now=now))
    held = {name for table in store.tables.values() for name in tags_of(table)}
    if any(name.startswith(RESERVED) for name in held):
        raise ConflictError(
            f"purge: a backup of {store.location.uri} holds old versions; wait for it to end"
        )


def drop_tags(store: "Store", names: Collection[str]) -> None:
    """Delete tags, of ``episodic`` first: without it the others are no tag of the lake."""
    drop_holds({EPISODIC: store.episodic}, list(names))
    drop_holds(store.tables, list(names))


def delete_rows(store: "Store", plan: PurgePlan, *, now: datetime) -> None:
    """Delete the rows of a plan, under the write lock; the ledger is told of the memories."""
    if plan.target.ids is not None:
        # First, while rows still tell which facts these memories spoke of: what others said of
        # the same stays. Of a scope nothing does.
        named = _by_scope(plan.memories)
        fact_removal.remove(store, named, now=now, unless_mentioned=True)
    for name, found in plan.rows.items():
        for start in range(0, len(found), _AT_ONCE):
            store.tables[name].delete_rows(found[start : start + _AT_ONCE])
    remove_rows(store, plan.memories, now=now)
    store.journal.begin_anew()


def _by_scope(rows: pa.Table) -> dict[Scope, set[str]]:
    found: dict[Scope, set[str]] = {}
    for row in rows.select(["chunk_id", *SCOPE_COLUMNS]).to_pylist():
        found.setdefault(memories.scope_of(row), set()).add(row["chunk_id"])
    return found


def remove_damaged(paths: Collection[Path]) -> None:
    """Delete copies of log segments."""
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync(folder)


def _spec(table: Table) -> TableSpec:
    return table_spec(table.name)


def _with_merged(store: "Store", wanted: Target) -> Target:
    """Add to ids what they stand for, and what was merged into that."""
    if wanted.ids is None:
        return wanted
    meant = memories.survivors(store.rows_view(committed=True), wanted.ids)
    merged = memories.predicate({"merged_into": {"ne": ""}})
    rows = store.episodic.read(("chunk_id", "merged_into"), merged)
    return replace(wanted, ids=with_ancestors({*wanted.ids, *meant}, rows))


def _memories(dataset: lance.LanceDataset, target: Target) -> pa.Table:
    columns = ("chunk_id", *SCOPE_COLUMNS)
    spec = table_spec(EPISODIC)
    return pa.concat_tables(_found(dataset, columns, target, spec))


def _row_ids(table: Table, target: Target) -> list[int]:
    spec = _spec(table)
    if not target.concerns(spec):
        return []
    columns = target.columns(spec)

    def found() -> list[int]:
        parts = _found(table.snapshot(), columns, target, spec)
        return [row_id for part in parts for row_id in part["_rowid"].to_pylist()]

    return reading_again(found)


def _found(
    dataset: lance.LanceDataset, columns: tuple[str, ...], target: Target, spec: TableSpec
) -> Iterator[pa.Table]:
    """Yield the rows that go, part by part; the first is empty."""
    where: Predicate = TRUE
    if target.scope is not None and spec.scope:
        where = parse_where(asdict(target.scope), filter_kinds(spec.name))
    scan = dataset.scanner(columns=list(columns), filter=to_sql(where), with_row_id=True)
    yield scan.projected_schema.empty_table()
    for batch in scan.to_batches():
        rows = pa.Table.from_batches([batch])
        yield rows.filter(target.mask(rows, spec))


def _tags_holding(store: "Store", tables: list[Table], target: Target) -> tuple[str, ...]:
    """Return the tags that hold some of it: in rows, deleted ones too, or in an index."""
    listed = {table.name: tags_of(table) for table in tables}
    names = sorted({name for tags in listed.values() for name in tags})
    ledger = store.tables[LEDGER]
    before = reading_again(lambda: told_before(ledger.snapshot(), target))

    def holds(name: str) -> bool:
        at = {
            table.name: table.fresh().checkout_version(int(listed[table.name][name]["version"]))
            for table in tables
            if name in listed[table.name]
        }
        # An index keeps the words of rows that are gone, so long as it is not built anew. None is
        # as old as what it can't hold.
        later = EPISODIC not in at or (before is not None and at[EPISODIC].version > before)
        if later and any(dataset.describe_indices() for dataset in at.values()):
            return True
        return any(_holds_rows(dataset, target, table_spec(one)) for one, dataset in at.items())

    return tuple(name for name in names if not name.startswith(RESERVED) and holds(name))


def _holds_rows(dataset: lance.LanceDataset, target: Target, spec: TableSpec) -> bool:
    if not target.concerns(spec):
        return False
    # The files of a version hold the rows, too, that were deleted before it.
    scan = dataset.scanner(
        columns=list(target.columns(spec)), with_row_id=True, include_deleted_rows=True
    )
    parts = (pa.Table.from_batches([batch]) for batch in scan.to_batches())
    return any(pc.any(target.mask(part, spec)).as_py() for part in parts)
