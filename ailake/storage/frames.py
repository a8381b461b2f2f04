"""Tables as polars lazy frames, with only what a query needs read from disk."""

from collections.abc import Iterator, Sequence

import lance
import numpy as np
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from ailake.core.accesses import MAX_UINT32, PENDING_COLUMNS, Entries, Pending, pending_of_rows
from ailake.core.rows import as_nanoseconds
from ailake.core.schema import INSTANT
from ailake.storage.journal import Journal
from ailake.storage.table import Table

# What is needed to count accesses in.
_PENDING_KEYS = ("chunk_id", "folded_through")

BATCH_ROWS = 65_536


def lazy_frame(table: Table, journal: Journal, *, more: pa.Table | None = None) -> pl.LazyFrame:
    """Return the table's latest version as a lazy frame.

    Only the columns that a query names are read. Its predicates are evaluated on the columns they
    name, batch by batch, and the other columns are read for the rows that pass. A limit counts
    rows before the predicate, as polars means it. Pending accesses of ``episodic`` are counted in
    first, so a predicate sees them.

    Args:
        table: The table.
        journal: Where accesses wait.
        more: Rows that the table lacks.
    """
    # Before the rows: an entry that is folded in between is in the rows, or still an entry.
    entries = journal.unfolded()[1] if table.name == "episodic" else None
    dataset = table.snapshot()
    schema = pl.from_arrow(dataset.schema.empty_table())
    assert isinstance(schema, pl.DataFrame)  # noqa: S101 (narrows polars' return type)

    def scan(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        names = list(dataset.schema.names) if with_columns is None else with_columns
        yield from _frames(
            dataset,
            names,
            predicate,
            entries=entries,
            limit=n_rows,
            batch_size=batch_size or BATCH_ROWS,
        )

    frame = register_io_source(scan, schema=schema.schema, validate_schema=True)
    if more is None or not more.num_rows:
        return frame
    return pl.concat([frame, pl.DataFrame(pl.from_arrow(_folded(more, entries))).lazy()])


def _frames(
    dataset: lance.LanceDataset,
    names: Sequence[str],
    predicate: pl.Expr | None,
    *,
    entries: Entries | None,
    limit: int | None,
    batch_size: int,
) -> Iterator[pl.DataFrame]:
    first = list(names) if predicate is None else predicate.meta.root_names()
    read = _with_keys(first, entries)
    later = [name for name in names if name not in read]
    scanner = dataset.scanner(columns=read, with_row_id=True, batch_size=batch_size, limit=limit)
    for batch in scanner.to_batches():
        rows = _folded(pa.Table.from_batches([batch]), entries)
        frame = pl.DataFrame(pl.from_arrow(rows))
        if predicate is not None:
            frame = frame.filter(predicate)
        if later and frame.height:
            frame = frame.hstack(_rest(dataset, frame["_rowid"], later, entries))
        elif later:
            continue
        yield frame.select(names)


def _rest(
    dataset: lance.LanceDataset, row_ids: pl.Series, names: Sequence[str], entries: Entries | None
) -> pl.DataFrame:
    read = _with_keys(names, entries)
    rows = dataset._take_rows(row_ids.to_list(), columns=read)  # noqa: SLF001 (see search.py)
    return pl.DataFrame(pl.from_arrow(_folded(rows, entries).select(list(names))))


def _with_keys(names: Sequence[str], entries: Entries | None) -> list[str]:
    """Add the columns that counting pending accesses in needs."""
    wanted = entries is not None and not PENDING_COLUMNS.isdisjoint(names)
    return list(dict.fromkeys([*names, *(_PENDING_KEYS if wanted else ())]))


def _folded(rows: pa.Table, entries: Entries | None) -> pa.Table:
    touched = PENDING_COLUMNS.intersection(rows.schema.names)
    if not entries or not touched:
        return rows
    ids = rows["chunk_id"].to_pylist()
    pending = pending_of_rows(entries, ids, rows["folded_through"].to_pylist())
    if not pending:
        return rows
    offsets = {index: pending[name] for index, name in enumerate(ids) if name in pending}
    for name in sorted(touched):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), _fold(name, rows[name], offsets))
    return rows


def _fold(name: str, column: pa.ChunkedArray, pending: dict[int, Pending]) -> pa.Array:
    if name in {"last_accessed_at", "updated_at"}:
        instants = as_nanoseconds(column).copy()
        for index, extra in pending.items():
            met = extra.last_accessed_at if name == "last_accessed_at" else extra.repeated_at
            instants[index] = instants[index] if met is None else max(instants[index], met)
        return pa.array(instants).cast(INSTANT)
    values = np.array(column.to_numpy())
    for index, extra in pending.items():
        if name == "access_count":
            values[index] = min(int(values[index]) + extra.hits, MAX_UINT32)
        elif extra.confidence is not None:
            values[index] = max(values[index], np.float32(extra.confidence))
    return pa.array(values, column.type)
