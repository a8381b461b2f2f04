"""Rows held in memory: the vectors of one scope in one table, kept at the table's version.

Only fragments that are new are read when the table moves on. What was handed out before stays as
it was: arrays grow at their end, and a row that goes is marked in a new array.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.storage.coded import ROOM, Vectors, longer
from ailake.storage.table import Signature, fragments_by_signature

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one scope.

    Attributes:
        count: How many; only so many of each array mean anything.
        vectors: Their vectors.
        columns: Other columns, (room,) each.
        ids: ``chunk_id`` of each.
        alive: False where the row is gone.
        places: The newest row of each memory.
        blocks: Where the rows of each fragment are: from a place, to before a place, the
            fragment's number; in ascending order.
        version: Of the table.
    """

    count: int
    vectors: Vectors
    columns: Columns
    ids: list[str]
    alive: NDArray[np.bool_]
    places: dict[str, int]
    blocks: tuple[tuple[int, int, int], ...] = ()
    version: int = 0

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, (count,)."""
        column: NDArray[Any] = self.columns[name][: self.count]
        return column


@dataclass(slots=True)
class _Block:
    start: int
    stop: int
    deletions: int


class Resident:
    """The rows of one scope in one table.

    Args:
        chosen: The engine's filter.
        names: Columns to read beside ``chunk_id`` and ``embedding``.
        extract: Makes the arrays of ``Rows.columns`` from a table of them and ``_rowid``.
        dim: Length of the vectors.
    """

    def __init__(
        self,
        chosen: str,
        names: Sequence[str],
        extract: Callable[[pa.Table], Columns],
        *,
        dim: int,
    ) -> None:
        self._chosen = chosen
        self._names = ["chunk_id", "embedding", *names]
        self._extract = extract
        self._blocks: dict[Signature, _Block] = {}
        self.version = 0
        self.rows = Rows(0, Vectors.none(dim), {}, [], np.empty(0, np.bool_), {})

    @property
    def bytes(self) -> int:
        """What the vectors take, room for more aside."""
        return self.rows.vectors.bytes

    def update(self, dataset: lance.LanceDataset) -> Rows:
        """Return the rows of this version."""
        if self.version == dataset.version:
            return self.rows
        if not self.rows.columns:
            self._append(self._scan(dataset, [], self._names))
        fragments = fragments_by_signature(dataset, self._names)
        alive = self.rows.alive.copy()
        gone = set(self._blocks) - set(fragments)
        # Fewer deletions than before: the table was restored to an older version.
        gone |= {
            sign
            for sign, block in self._blocks.items()
            if sign in fragments and fragments[sign].num_deletions < block.deletions
        }
        for signature in gone:
            block = self._blocks.pop(signature)
            alive[block.start : block.stop] = False
        for signature, block in self._blocks.items():
            self._drop_deleted(dataset, fragments[signature], block, alive)
        self.rows = replace(self.rows, alive=alive)
        new = {sign: one for sign, one in fragments.items() if sign not in self._blocks}
        if new:
            self._read(dataset, new)
        self._close_gaps()
        blocks = [
            (block.start, block.stop, signature[0])
            for signature, block in self._blocks.items()
            if block.start < block.stop
        ]
        self.version = int(dataset.version)
        self.rows = replace(self.rows, blocks=tuple(sorted(blocks)), version=self.version)
        return self.rows

    def _drop_deleted(
        self,
        dataset: lance.LanceDataset,
        fragment: lance.LanceFragment,
        block: _Block,
        alive: NDArray[np.bool_],
    ) -> None:
        if fragment.num_deletions == block.deletions:
            return
        left = self._scan(dataset, [fragment], []).column("_rowid").to_numpy()
        held = self.rows.columns["row_id"][block.start : block.stop]
        alive[block.start : block.stop] &= np.isin(held, left)
        block.deletions = fragment.num_deletions

    def _scan(
        self,
        dataset: lance.LanceDataset,
        fragments: Sequence[lance.LanceFragment],
        names: Sequence[str],
    ) -> pa.Table:
        return dataset.scanner(
            columns=list(names),
            filter=self._chosen,
            fragments=list(fragments),
            with_row_id=True,
            with_row_address=True,
        ).to_table()

    def _read(
        self, dataset: lance.LanceDataset, fragments: Mapping[Signature, lance.LanceFragment]
    ) -> None:
        # Row addresses begin with the fragment's number: scanned in that order they ascend.
        ordered = sorted(fragments.items(), key=lambda item: item[1].fragment_id)
        found = self._scan(dataset, [fragment for _, fragment in ordered], self._names)
        first = np.array([fragment.fragment_id << 32 for _, fragment in ordered], np.uint64)
        starts = self.rows.count + np.searchsorted(found["_rowaddr"].to_numpy(), first)
        self._append(found)
        stops = [*starts[1:], self.rows.count]
        for (signature, fragment), start, stop in zip(ordered, starts, stops, strict=True):
            self._blocks[signature] = _Block(int(start), int(stop), fragment.num_deletions)

    def _append(self, found: pa.Table) -> None:
        rows, more = self.rows, found.num_rows
        count = rows.count + more
        flat = found["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        columns = {"row_id": found["_rowid"].to_numpy(), **self._extract(found)}
        ids = found["chunk_id"].to_pylist()
        rows.ids[rows.count :] = ids
        rows.places.update(zip(ids, range(rows.count, count), strict=True))
        self.rows = Rows(
            count,
            rows.vectors.extended(flat.reshape(more, rows.vectors.dim)),
            {
                name: longer(rows.columns.get(name, column[:0]), rows.count, column)
                for name, column in columns.items()
            },
            rows.ids,
            np.concatenate([rows.alive, np.ones(more, np.bool_)]),
            rows.places,
        )

    def _close_gaps(self) -> None:
        """Begin anew where most of what is held is gone."""
        rows = self.rows
        kept = np.flatnonzero(rows.alive)
        if 2 * len(kept) >= rows.count or rows.count <= ROOM:
            return
        ids = [rows.ids[place] for place in kept]
        before = np.concatenate([[0], np.cumsum(rows.alive)])
        for block in self._blocks.values():
            block.start, block.stop = int(before[block.start]), int(before[block.stop])
        self.rows = Rows(
            len(ids),
            rows.vectors.taken(kept),
            {name: column[kept] for name, column in rows.columns.items()},
            ids,
            np.ones(len(ids), np.bool_),
            {memory_id: place for place, memory_id in enumerate(ids)},
        )
