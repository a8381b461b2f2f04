"""What hits show beside their scores, held in memory for a scope that is recalled again and again.

All of them are read once the single rows that were asked for have taken as long to read. What was
made of a row is kept, too; neither any longer than a column of the row's fragment stays as it is.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.rows import RECORD_COLUMNS, fields_of, in_microseconds
from ailake.storage.resident import Rows
from ailake.storage.retries import StaleSnapshotError
from ailake.storage.table import Signature, fragments_by_signature, payload

# Ten rows take as long to read one by one as so many do at once.
_ROWS_PER_TAKE = 1_000

# What is kept of rows that were made into fields, and what one takes beside its texts.
_MOST_MADE = 4 * 1024**2
_MADE_BYTES = 2_000

_EMPTY = "{}"

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Made:
    fields: Fields
    metadata: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "_Made":
        return cls(fields_of(row), row["metadata"])

    @property
    def bytes(self) -> int:
        return _MADE_BYTES + len(self.fields["text"]) + len(self.metadata)

    def fresh(self) -> Fields:
        """Return the fields, with metadata that the caller may change."""
        metadata = {} if self.metadata == _EMPTY else json.loads(self.metadata)
        return {**self.fields, "metadata": metadata}


@dataclass(slots=True)
class _Block:
    """Rows of one fragment: those at the places from ``start`` to before ``stop``."""

    start: int
    stop: int
    signature: Signature
    rows: pa.RecordBatch | None = None
    index: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


class Payloads:
    """The fields of the memories of one scope, by their places in ``Rows``.

    Args:
        has_room: Tells whether so many bytes more may be held.
    """

    def __init__(self, has_room: Callable[[int], bool]) -> None:
        self._has_room = has_room
        self._lock = Lock()
        self._blocks: list[_Block] = []
        self._starts: list[int] = []
        self._made: dict[int, _Made] = {}
        self._rows_bytes = self._made_bytes = 0
        self._version = 0
        # How often rows were read one by one, and how many bytes one took.
        self._takes = 0
        self._row_bytes = 0

    @property
    def bytes(self) -> int:
        """What is held."""
        return self._rows_bytes + self._made_bytes

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._blocks, self._made = [], {}
            self._rows_bytes = self._made_bytes = self._version = 0

    def fields(
        self, dataset: lance.LanceDataset, rows: Rows, places: Sequence[int]
    ) -> list[Fields]:
        """Return the arguments of a ``MemoryRecord`` for each of some rows, to be kept or changed.

        Args:
            dataset: The version of the table that the rows are of.
            rows: The rows.
            places: Of rows that are there, in any order.
        """
        with self._lock:
            if rows.version < self._version:
                older = _taken(dataset, rows, places).to_pylist()
                return [_Made.of(row).fresh() for row in older]
            if rows.version > self._version:
                self._renew(dataset, rows)
            new = self._read(dataset, rows, [p for p in places if p not in self._made])
            found = [new[place] if place in new else self._made[place] for place in places]
            self._keep(new)
        return [made.fresh() for made in found]

    def _renew(self, dataset: lance.LanceDataset, rows: Rows) -> None:
        signatures = {sign[0]: sign for sign in fragments_by_signature(dataset, RECORD_COLUMNS)}
        known = {block.start: block for block in self._blocks}
        kept: dict[int, _Block] = {}
        self._blocks = []
        for start, stop, fragment in rows.blocks:
            block = _Block(start, stop, signatures[fragment])
            old = known.get(start)
            if old is not None and (old.stop, old.signature) == (block.stop, block.signature):
                block = kept[start] = old
            self._blocks.append(block)
        self._starts = [block.start for block in self._blocks]
        still = ((place, made) for place, made in self._made.items() if self._start(place) in kept)
        self._made = dict(still)
        self._made_bytes = sum(made.bytes for made in self._made.values())
        self._count_rows()
        self._version, self._takes = rows.version, 0

    def _start(self, place: int) -> int | None:
        """Return where the block of a place starts, None where it is in none."""
        block = self._blocks[bisect_right(self._starts, place) - 1] if self._blocks else None
        return block.start if block is not None and block.start <= place < block.stop else None

    def _read(
        self, dataset: lance.LanceDataset, rows: Rows, places: Sequence[int]
    ) -> dict[int, _Made]:
        made: dict[int, _Made] = {}
        by_block: dict[int, list[int]] = {}
        for place in places:
            by_block.setdefault(bisect_right(self._starts, place) - 1, []).append(place)
        if any(self._blocks[number].rows is None for number in by_block):
            self._read_all_where_it_pays(dataset, rows)
        single = []
        for number, some in by_block.items():
            block = self._blocks[number]
            if block.rows is None:
                single += some
            else:
                at = block.index[np.array(some) - block.start]
                listed = block.rows.take(pa.array(at)).to_pylist()
                made |= zip(some, map(_Made.of, listed), strict=True)
        if single:
            taken = _taken(dataset, rows, single)
            self._takes += 1
            self._row_bytes = taken.nbytes // len(single)
            made |= zip(single, map(_Made.of, taken.to_pylist()), strict=True)
        return made

    def _read_all_where_it_pays(self, dataset: lance.LanceDataset, rows: Rows) -> None:
        waiting = [
            (block, np.flatnonzero(rows.alive[block.start : block.stop]) + block.start)
            for block in self._blocks
            if block.rows is None
        ]
        count = sum(len(places) for _, places in waiting)
        # The first of all recalls may be the only one.
        if self._takes <= count // _ROWS_PER_TAKE or not self._has_room(count * self._row_bytes):
            return
        taken = _taken(dataset, rows, [place for _, places in waiting for place in places.tolist()])
        start = 0
        for block, places in waiting:
            stop = start + len(places)
            # Copied, so that one block can go without the others.
            (block.rows,) = taken.take(pa.array(np.arange(start, stop))).to_batches() or [None]
            block.index = np.full(block.stop - block.start, -1, np.int32)
            block.index[places - block.start] = np.arange(len(places), dtype=np.int32)
            start = stop
        self._count_rows()
        self._takes = 0

    def _count_rows(self) -> None:
        held = (block.rows for block in self._blocks if block.rows is not None)
        self._rows_bytes = sum(rows.nbytes for rows in held)

    def _keep(self, made: Mapping[int, _Made]) -> None:
        self._made |= made
        self._made_bytes += sum(one.bytes for one in made.values())
        while self._made_bytes > _MOST_MADE:
            oldest = next(iter(self._made))
            self._made_bytes -= self._made.pop(oldest).bytes


def _taken(dataset: lance.LanceDataset, rows: Rows, places: Sequence[int]) -> pa.Table:
    """Return the rows at some places, instants in microseconds.

    Raises:
        StaleSnapshotError: Some are not in this version.
    """
    row_ids = rows.columns["row_id"][np.array(places, np.intp)]
    found = payload(dataset, row_ids, RECORD_COLUMNS)
    if found.num_rows != len(row_ids):
        raise StaleSnapshotError("rows that are held are not in the table's version")
    return in_microseconds(found)
