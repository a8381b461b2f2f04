"""Columns of the rows of some scopes in one table, without vectors, kept at the table's version.

Only fragments that are new are read when the table moves on. What was handed out before stays as
it was: arrays grow at their end, and a row that goes is marked in a new array.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.topk import Places
from ailake.storage.table import Signature, fragments_by_signature

Columns = Mapping[str, NDArray[Any]]

ROW_ID = "row_id"

# So many rows may come, or be gone, before all are put in order anew; of many rows a share.
_LOOSE = 4_096
_LOOSE_SHARE = 32


@dataclass(frozen=True, slots=True)
class Index:
    """Finds the places of values in a column: most of it is sorted, what came later apart.

    Attributes:
        parts: Sorted values and their places, the older ones first.
        count: How many places are covered.
    """

    parts: tuple[tuple[NDArray[np.uint64], NDArray[np.int32]], ...]
    count: int

    @classmethod
    def of(cls, values: NDArray[np.uint64]) -> "Index":
        """Return the index of a whole column."""
        return cls((_sorted(values, 0),), len(values))

    def extended(self, values: NDArray[np.uint64]) -> "Index":
        """Return an index that covers a column which has grown."""
        base = self.parts[0]
        if len(values) == self.count:
            return self
        return Index((base, _sorted(values[len(base[0]) :], len(base[0]))), len(values))

    @property
    def bytes(self) -> int:
        """What it takes."""
        return sum(array.nbytes for part in self.parts for array in part)

    def find(self, wanted: NDArray[np.uint64], alive: NDArray[np.bool_]) -> Places:
        """Return the place of each value, -1 where it is not, or no more."""
        places = np.full(len(wanted), -1, np.int64)
        for values, where in self.parts:
            # The last of several: who came last is the one that may still be there.
            at = np.searchsorted(values, wanted, side="right") - 1
            met = at >= 0
            met[met] = values[at[met]] == wanted[met]
            met[met] = alive[where[at[met]]]
            places[met] = where[at[met]]
        return places


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows as of one version of the table.

    Attributes:
        count: How many; only so many of each array mean anything.
        columns: By name, (room,) each; ``row_id`` among them.
        alive: False where the row is gone, (count,).
        living: How many are not.
        by_row_id: Where each row id is.
    """

    count: int
    columns: Columns
    alive: NDArray[np.bool_]
    living: int
    by_row_id: Index

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, (count,)."""
        column: NDArray[Any] = self.columns[name][: self.count]
        return column

    def places(self, row_ids: NDArray[np.uint64]) -> Places:
        """Return where rows are, -1 for those that are not here."""
        return self.by_row_id.find(row_ids, self.alive)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        arrays = [*self.columns.values(), self.alive]
        return self.by_row_id.bytes + sum(array.nbytes for array in arrays)


@dataclass(slots=True)
class _Block:
    start: int
    stop: int
    deletions: int


class ScopeColumns:
    """The rows of some scopes in one table.

    Args:
        chosen: The engine's filter.
        names: Columns to read.
        extract: Makes the arrays of ``ColumnRows.columns`` from a table of them and ``_rowid``.
        on_numbering: Told which places are kept, ascending, when these are numbered anew.
    """

    def __init__(
        self,
        chosen: str,
        names: Sequence[str],
        extract: Callable[[pa.Table], Columns],
        *,
        on_numbering: Callable[[Places], None],
    ) -> None:
        self._chosen = chosen
        self._names = list(names)
        self._extract = extract
        self._on_numbering = on_numbering
        self._blocks: dict[Signature, _Block] = {}
        self.version = 0
        self.rows: ColumnRows | None = None

    def update(self, dataset: lance.LanceDataset) -> ColumnRows:
        """Return the rows of this version."""
        if self.rows is not None and self.version == dataset.version:
            return self.rows
        if self.rows is None:
            self.rows = _rows_of(self._columns(self._scan(dataset, [], self._names)))
        fragments = fragments_by_signature(dataset, self._names)
        rows = self._without_gone(dataset, fragments, self.rows)
        new = {sign: one for sign, one in fragments.items() if sign not in self._blocks}
        rows = self._with_new(dataset, new, rows)
        self.rows = self._in_order(rows)
        self.version = int(dataset.version)
        return self.rows

    def numbered_anew(self, rows: ColumnRows, **columns: NDArray[Any]) -> ColumnRows:
        """Number the living of its present rows anew, with some columns replaced."""
        self.rows = self._numbered_anew(replace(rows, columns={**rows.columns, **columns}))
        return self.rows

    def _without_gone(
        self,
        dataset: lance.LanceDataset,
        fragments: Mapping[Signature, lance.LanceFragment],
        rows: ColumnRows,
    ) -> ColumnRows:
        alive = rows.alive.copy()
        for signature, block in list(self._blocks.items()):
            fragment = fragments.get(signature)
            # Fewer deletions than before: the table was restored to an older version.
            if fragment is None or fragment.num_deletions < block.deletions:
                alive[block.start : block.stop] = False
                del self._blocks[signature]
            elif fragment.num_deletions > block.deletions:
                left = self._scan(dataset, [fragment], []).column("_rowid").to_numpy()
                held = rows.columns[ROW_ID][block.start : block.stop]
                alive[block.start : block.stop] &= np.isin(held, left)
                block.deletions = fragment.num_deletions
        return replace(rows, alive=alive, living=int(alive.sum()))

    def _with_new(
        self,
        dataset: lance.LanceDataset,
        fragments: Mapping[Signature, lance.LanceFragment],
        rows: ColumnRows,
    ) -> ColumnRows:
        if not fragments:
            return rows
        # Row addresses begin with the fragment's number: scanned in that order they ascend.
        ordered = sorted(fragments.items(), key=lambda item: item[1].fragment_id)
        found = self._scan(dataset, [fragment for _, fragment in ordered], self._names)
        first = np.array([fragment.fragment_id << 32 for _, fragment in ordered], np.uint64)
        starts = rows.count + np.searchsorted(found["_rowaddr"].to_numpy(), first)
        stops = [*starts[1:], rows.count + found.num_rows]
        for (signature, fragment), start, stop in zip(ordered, starts, stops, strict=True):
            self._blocks[signature] = _Block(int(start), int(stop), fragment.num_deletions)
        return _longer(rows, self._columns(found))

    def _scan(
        self,
        dataset: lance.LanceDataset,
        fragments: Iterable[lance.LanceFragment],
        names: Sequence[str],
    ) -> pa.Table:
        return dataset.scanner(
            columns=list(names),
            filter=self._chosen,
            fragments=list(fragments),
            with_row_id=True,
            with_row_address=True,
        ).to_table()

    def _columns(self, found: pa.Table) -> Columns:
        return {ROW_ID: found["_rowid"].to_numpy(), **self._extract(found)}

    def _in_order(self, rows: ColumnRows) -> ColumnRows:
        loose = rows.count - len(rows.by_row_id.parts[0][0])
        if max(loose, rows.count - rows.living) > loose_rows(rows.living):
            return self._numbered_anew(rows)
        return rows

    def _numbered_anew(self, rows: ColumnRows) -> ColumnRows:
        kept = np.flatnonzero(rows.alive)
        self._on_numbering(kept)
        before = np.concatenate([[0], np.cumsum(rows.alive)])
        for block in self._blocks.values():
            block.start, block.stop = int(before[block.start]), int(before[block.stop])
        columns = {name: rows.column(name)[kept] for name in rows.columns}
        return _rows_of(columns)


def loose_rows(count: int) -> int:
    """Return how many of so many rows may be out of order before all are put in order anew."""
    return max(_LOOSE, count // _LOOSE_SHARE)


def _rows_of(columns: Columns) -> ColumnRows:
    row_ids = columns[ROW_ID]
    alive = np.ones(len(row_ids), np.bool_)
    return ColumnRows(len(row_ids), columns, alive, len(row_ids), Index.of(row_ids))


def _longer(rows: ColumnRows, more: Columns) -> ColumnRows:
    columns = {
        name: _appended(rows.columns[name], rows.count, column) for name, column in more.items()
    }
    added = len(more[ROW_ID])
    count = rows.count + added
    return ColumnRows(
        count,
        columns,
        np.concatenate([rows.alive, np.ones(added, np.bool_)]),
        rows.living + added,
        rows.by_row_id.extended(columns[ROW_ID][:count]),
    )


def _appended(array: NDArray[Any], count: int, more: NDArray[Any]) -> NDArray[Any]:
    """Return the first ``count`` of an array with more behind; in place where there is room."""
    needed = count + len(more)
    if needed > len(array):
        grown = np.empty(needed if not count else needed * 9 // 8, more.dtype)
        grown[:count] = array[:count]
        array = grown
    array[count:needed] = more
    return array


def _sorted(values: NDArray[np.uint64], first: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    order = np.argsort(values, kind="stable")
    return values[order], (order + first).astype(np.int32)
