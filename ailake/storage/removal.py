"""Removing many memories at once, whatever their scopes.

Rows go first, then the passages and journal entries that they leave behind. Those are found by
what they belong to, so that the next run finds what one that was killed in between has left.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.storage.passages import remove_orphans

if TYPE_CHECKING:
    from ailake.storage.store import Store

# A delete names its rows in one filter: 50,000 take it a quarter of a second.
_AT_ONCE = 50_000
_BATCH_ROWS = 131_072


def remove_rows(store: "Store", row_ids: Sequence[int]) -> None:
    """Delete memories, under the write lock: in commits of up to 50,000 rows.

    An error of a later commit says how many are gone and how many are left.
    """
    for start in range(0, len(row_ids), _AT_ONCE):
        try:
            store.episodic.delete_rows(row_ids[start : start + _AT_ONCE])
        except (OSError, RuntimeError) as error:  # RuntimeError is the engine's
            error.add_note(
                f"{start} of {len(row_ids)} memories were removed, {len(row_ids) - start} are "
                "left; run again"
            )
            raise


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
