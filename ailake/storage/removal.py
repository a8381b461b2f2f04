"""Removing many memories at once, whatever their scopes.

Rows go first, then the passages and journal entries that they leave behind. Those are found by
what they belong to, so that the next run finds what one that was killed in between has left.
"""

from datetime import datetime
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS
from ailake.storage import belongings
from ailake.storage.memories import scope_of
from ailake.storage.passages import remove_orphans

if TYPE_CHECKING:
    from ailake.storage.store import Store

# A delete names its rows in one filter: 50,000 take it a quarter of a second.
_AT_ONCE = 50_000
_BATCH_ROWS = 131_072


def remove_rows(store: "Store", rows: pa.Table, *, now: datetime) -> None:
    """Delete memories, under the write lock, once the ledger says so: up to 50,000 in a commit.

    The facts that were taken from them go along, what they mention, and what was decided of them.
    An error of a later commit says how many are gone and how many are left.

    Args:
        store: The lake.
        rows: ``chunk_id``, the scope's columns and ``_rowid`` of the memories.
        now: When they are removed.
    """
    for start in range(0, rows.num_rows, _AT_ONCE):
        some = rows.slice(start, _AT_ONCE)
        try:
            named = _named(some)
            store.recorder.announce(store, named, now=now)
            store.episodic.delete_rows(some["_rowid"].to_pylist())
            gone = {scope: set(ids.values()) for scope, ids in named.items()}
            belongings.remove(store, gone, now=now)
        except (OSError, RuntimeError) as error:  # RuntimeError is the engine's
            error.add_note(
                f"{start} of {rows.num_rows} memories were removed, {rows.num_rows - start} are "
                "left; run again"
            )
            raise


def _named(rows: pa.Table) -> dict[Scope, dict[int, str]]:
    named: dict[Scope, dict[int, str]] = {}
    for row in rows.select([*SCOPE_COLUMNS, "chunk_id", "_rowid"]).to_pylist():
        named.setdefault(scope_of(row), {})[row["_rowid"]] = row["chunk_id"]
    return named


def sweep_left_behind(store: "Store") -> int:
    """Delete the passages and journal entries of memories that are gone.

    Returns:
        How many there were.
    """
    passages = store.tables["passages"].snapshot().count_rows()
    swept = remove_orphans(store) if passages else 0
    # Before the log is drained: who was met by then has a row afterwards.
    through = store.journal.table.version
    with store.committing():
        dataset = store.episodic.snapshot()
        return swept + store.journal.sweep(through=through, gone=lambda ids: _gone(dataset, ids))


def _gone(dataset: lance.LanceDataset, ids: pa.Array) -> pa.Array:
    """Return those of the ids that no row has."""
    scan = dataset.scanner(columns=["chunk_id"], batch_size=_BATCH_ROWS)
    stored = (batch["chunk_id"] for batch in (scan.to_batches() if len(ids) else ()))
    found = [some.filter(pc.is_in(some, value_set=ids)) for some in stored]
    kept = pa.chunked_array(found, pa.string()).combine_chunks()
    return ids.filter(pc.invert(pc.is_in(ids, value_set=kept)))
