"""Merging memories that say the same, which only writers without a lock can have stored."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import counted_in
from ailake.core.records import State
from ailake.core.rows import to_pylist
from ailake.core.twins import CHANGED, COLUMNS, plan_merges
from ailake.storage.filters import to_sql
from ailake.storage.keys import hashes_of
from ailake.storage.memories import predicate
from ailake.storage.retries import with_retries
from ailake.storage.table import payload

if TYPE_CHECKING:
    from ailake.storage.store import Store

_WRITTEN = ("chunk_id", *CHANGED, "folded_through")


def merge_twins(store: "Store", *, now: datetime, dry_run: bool) -> int:
    """Merge what was stored twice into the earliest of it, in one commit.

    Only on an object store is there any: in a folder the write lock sees to it.

    Args:
        store: The lake.
        now: When they are merged.
        dry_run: Only count them.

    Returns:
        How many were merged into others.

    Raises:
        ConflictError: Other writers won every retry; nothing was merged.
    """
    if store.location.root is not None:
        return 0
    return with_retries(lambda: _merge(store, now, dry_run=dry_run), what="merge of duplicates")


def _merge(store: "Store", now: datetime, *, dry_run: bool) -> int:
    # In this order: an access that is folded in between is counted in the row then.
    through, entries = store.journal.unfolded()
    dataset = store.episodic.fresh()
    found = to_pylist(payload(dataset, _suspects(dataset), (*COLUMNS, "folded_through")))
    changed = plan_merges([counted_in(row, entries) for row in found], now=now)
    if changed and not dry_run:
        # All that is known of accesses up to there is counted in these rows.
        told = [{**row, "folded_through": max(through, row["folded_through"])} for row in changed]
        store.change(_rows(dataset, told), at=dataset)
    return sum(row["state"] == State.MERGED.value for row in changed)


def _suspects(dataset: lance.LanceDataset) -> NDArray[np.uint64]:
    """Return the active rows whose key another one of them has, in whatever partition."""
    where = predicate({"state": State.ACTIVE.value, "dedupe_key": {"ne": ""}})
    scan = dataset.scanner(columns=["dedupe_key"], filter=to_sql(where), with_row_id=True)
    hashes, row_ids = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in scan.to_batches():
        hashes.append(hashes_of(batch["dedupe_key"]))
        row_ids.append(batch["_rowid"].to_numpy())
    _, place, count = np.unique(np.concatenate(hashes), return_inverse=True, return_counts=True)
    return np.concatenate(row_ids)[count[place] > 1]


def _rows(dataset: lance.LanceDataset, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = pa.schema([dataset.schema.field(name).remove_metadata() for name in _WRITTEN])
    return pa.Table.from_pylist([{name: row[name] for name in _WRITTEN} for row in rows], schema)
