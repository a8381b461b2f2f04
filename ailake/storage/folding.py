"""Where the accesses that wait in the journal are to be counted in."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import Entries, Pending, both

_COLUMNS = ("chunk_id", "merged_into", "folded_through")


class _Row(NamedTuple):
    memory_id: str
    merged_into: str
    folded_through: int
    address: int


def waiting_accesses(dataset: lance.LanceDataset, entries: Entries) -> dict[int, Pending]:
    """Return what waits for each row, by row address.

    Who met a memory while another writer was merging it into a second one meant what lives on, too:
    such an access counts for every memory that the first is merged into.

    Args:
        dataset: A version of ``episodic``.
        entries: The journal's entries.
    """
    waiting: dict[int, Pending] = {}
    # For each access that goes on: the memories that have it, and the next that is to have it.
    passed: list[tuple[frozenset[str], str, Pending]] = []
    for row in _rows(dataset, list(entries)):
        found = entries.pending(row.memory_id, folded_through=row.folded_through)
        if found is not None:
            waiting[row.address] = found
            if row.merged_into:
                passed.append((frozenset({row.memory_id}), row.merged_into, found))
    while passed:
        heirs = {row.memory_id: row for row in _rows(dataset, {heir for _, heir, _ in passed})}
        inherited = [(seen, heirs[heir], found) for seen, heir, found in passed if heir in heirs]
        for _, row, found in inherited:
            known = waiting.get(row.address)
            waiting[row.address] = found if known is None else both(known, found)
        passed = [
            (seen | {row.memory_id}, row.merged_into, found)
            for seen, row, found in inherited
            if row.merged_into not in {"", row.memory_id, *seen}
        ]
    return waiting


def _rows(dataset: lance.LanceDataset, memory_ids: Collection[str]) -> Iterator[_Row]:
    if not memory_ids:
        return
    wanted = pa.array(memory_ids, pa.string())
    scan = dataset.scanner(columns=list(_COLUMNS), with_row_address=True)
    for batch in scan.to_batches():
        found = batch.filter(pc.is_in(batch["chunk_id"], value_set=wanted))
        columns = (found[name].to_pylist() for name in (*_COLUMNS, "_rowaddr"))
        yield from map(_Row, *columns)
