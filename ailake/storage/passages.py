"""The ``passages`` table: written and removed beside memories."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.filters import TRUE, parse_where
from ailake.core.records import Scope
from ailake.core.schema import filter_kinds

if TYPE_CHECKING:
    from ailake.storage.store import Store


def append(store: "Store", rows: pa.Table) -> int | None:
    """Add rows of ``passage_rows`` in one commit and return its version; none make none."""
    if not rows.num_rows:
        return None
    table = store.tables["passages"]
    version = table.append(rows)
    table.sync(version)
    table.tidy()
    return version


def remove(store: "Store", scope: Scope, memory_ids: Sequence[str]) -> None:
    """Delete the passages of erased memories of a scope, in one commit."""
    table = store.tables["passages"]
    if not memory_ids or not table.snapshot().count_rows():
        return
    wall = parse_where(asdict(scope), filter_kinds("passages"))
    rows = table.read(("chunk_id",), wall, with_row_id=True)
    gone = rows.filter(_among(rows, pa.array(memory_ids, pa.string())))
    table.delete_rows(gone["_rowid"].to_pylist())


def remove_orphans(store: "Store") -> int:
    """Delete the passages that a writer or a ``forget`` left without a memory when it died.

    Returns:
        How many there were.
    """
    with store.committing():
        rows = store.tables["passages"].read(("chunk_id",), TRUE, with_row_id=True)
        kept = store.episodic.read(("chunk_id",), TRUE)["chunk_id"].combine_chunks()
        gone = rows.filter(pc.invert(_among(rows, kept)))["_rowid"].to_pylist()
        store.tables["passages"].delete_rows(gone)
    return len(gone)


def _among(rows: pa.Table, memory_ids: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(rows["chunk_id"], value_set=memory_ids)
