"""Where ids and texts are: a resident index of ``chunk_id`` and ``dedupe_key`` of a table.

Per fragment, the 64-bit hashes of both columns, sorted, each with its row id: 32 bytes a row. Both
columns never change in place, so a fragment is read once; when the table moves on, only fragments
that are new are read. What is found may be a row that was deleted since, or another key with the
same hash: whoever asks reads the rows and compares.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from threading import Lock

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.storage.table import Signature, fragments_by_signature, payload

COLUMNS = ("chunk_id", "dedupe_key")

# 256 MB; a larger table is scanned at each look-up.
MAX_RESIDENT_ROWS = 8_000_000

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Sorted:
    hashes: Hashes
    row_ids: Hashes

    def find(self, wanted: Hashes) -> Hashes:
        first = np.searchsorted(self.hashes, wanted, side="left")
        last = np.searchsorted(self.hashes, wanted, side="right")
        met = first < last
        spans = [self.row_ids[a:b] for a, b in zip(first[met], last[met], strict=True)]
        return np.concatenate(spans) if spans else self.row_ids[:0]


@dataclass(frozen=True, slots=True)
class _Fragment:
    columns: Mapping[str, _Sorted]
    deletions: int


class Keys:
    """The keys of one table, kept at the version that is asked about."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._fragments: dict[Signature, _Fragment] = {}
        self._version = 0

    def rows(
        self,
        dataset: lance.LanceDataset,
        column: str,
        values: Collection[str],
        columns: tuple[str, ...],
    ) -> pa.Table:
        """Return ``columns`` of the rows that have one of the values.

        Args:
            dataset: A version of the table.
            column: One of ``COLUMNS``.
            values: What to look for; no empty string.
            columns: What to return, ``_rowid`` perhaps among them.
        """
        names = tuple(dict.fromkeys([*(n for n in columns if n != "_rowid"), column]))
        wanted = pa.array(values, pa.string())
        row_ids = self._candidates(dataset, column, wanted)
        if not len(row_ids):
            schema = dataset.schema.append(pa.field("_rowid", pa.uint64()))
            return pa.schema([schema.field(name) for name in columns]).empty_table()
        rows = payload(dataset, row_ids, names)
        return rows.filter(pc.is_in(rows[column], value_set=wanted)).select(list(columns))

    def _candidates(self, dataset: lance.LanceDataset, column: str, wanted: pa.Array) -> Hashes:
        if not len(wanted):
            return np.empty(0, np.uint64)
        if dataset.count_rows() > MAX_RESIDENT_ROWS:
            return _scanned(dataset, column, wanted)
        with self._lock:
            fragments = self._current(dataset)
        hashes = hashes_of(wanted)
        found = [fragment.columns[column].find(hashes) for fragment in fragments]
        return np.unique(np.concatenate([*found, np.empty(0, np.uint64)]))

    def _current(self, dataset: lance.LanceDataset) -> list[_Fragment]:
        if self._version != dataset.version:
            kept = {}
            for signature, fragment in fragments_by_signature(dataset, COLUMNS).items():
                known = self._fragments.get(signature)
                # Fewer deletions than before: the table was restored to an older version.
                if known is None or fragment.num_deletions < known.deletions:
                    known = _read(dataset, fragment)
                kept[signature] = replace(known, deletions=fragment.num_deletions)
            self._fragments = kept
            self._version = int(dataset.version)
        return list(self._fragments.values())


def _scanned(dataset: lance.LanceDataset, column: str, wanted: pa.Array) -> Hashes:
    found = []
    for batch in dataset.scanner(columns=[column], with_row_id=True).to_batches():
        met = batch.filter(pc.is_in(batch[column], value_set=wanted))
        found.append(met["_rowid"].to_numpy())
    return np.concatenate([*found, np.empty(0, np.uint64)])


def _read(dataset: lance.LanceDataset, fragment: lance.LanceFragment) -> _Fragment:
    rows = dataset.scanner(
        columns=list(COLUMNS), with_row_id=True, fragments=[fragment], scan_in_order=False
    ).to_table()
    row_ids = rows["_rowid"].to_numpy()
    columns = {name: _sorted(hashes_of(rows[name]), row_ids) for name in COLUMNS}
    return _Fragment(columns, fragment.num_deletions)


def _sorted(hashes: Hashes, row_ids: Hashes) -> _Sorted:
    order = np.argsort(hashes)
    return _Sorted(hashes[order], row_ids[order])


def hashes_of(values: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return 64-bit hashes of strings; the same ones within this process."""
    import polars as pl  # noqa: PLC0415 (half a second that a mere reader need not pay)

    return pl.Series("", values, pl.String).hash().to_numpy()
