"""How far the memories of some scopes are from a query: the nearest, all, or given ones.

A memory is as far as the nearest of its own vector and those of its passages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats
from ailake.core.filter_eval import touches_metadata
from ailake.core.filters import Predicate
from ailake.core.topk import MOST_LISTED, Listed, Places
from ailake.storage.filters import to_sql
from ailake.storage.question import Question
from ailake.storage.row_vectors import Query, VectorCache, read_vectors, unit_vectors
from ailake.storage.scope_columns import ROW_ID, ColumnRows
from ailake.storage.search import nearest_rows
from ailake.storage.table import row_ids_in
from ailake.storage.vectors import VectorIndex, vector_index
from ailake.storage.view import ReadView
from ailake.storage.weights import WeightedRows

MEMORIES = "episodic"
PASSAGES = "passages"

# So many rows are read one by one rather than searched.
FEW = 2_000

# Where at least this share of a table may be found, the engine is given no filter: what it finds
# beside is dropped.
_LARGE = 0.25

# So many vectors are read at once.
_AT_ONCE = 8_192

# How many more are searched than should then suffice, where the nearest are a fair sample.
_SPARE = 1.1


@dataclass(frozen=True, slots=True)
class Admitted:
    """Which memories may be found.

    Attributes:
        rows: The memories.
        now: They must not have expired by then, nanoseconds since 1970.
        row_ids: Those that pass the caller's filter, None for all.
        mask: The same by place, (count,).
        size: How many there are, or more.
    """

    rows: WeightedRows
    now: int
    row_ids: NDArray[np.uint64] | None
    mask: NDArray[np.bool_] | None
    size: int

    @classmethod
    def of(cls, rows: WeightedRows, now: int, row_ids: NDArray[np.uint64] | None) -> "Admitted":
        """Return all memories that are seen, or those of them that have certain row ids."""
        if row_ids is None:
            return cls(rows, now, None, None, rows.memories.living)
        mask = np.zeros(rows.memories.count, np.bool_)
        places = rows.memories.places(row_ids)
        mask[places[places >= 0]] = True
        return cls(rows, now, row_ids, mask, int(mask.sum()))

    def is_wide(self, dataset: lance.LanceDataset) -> bool:
        """Tell whether so much of a table may be found that a filter is not worth its cost."""
        return bool(self.size >= _LARGE * dataset.count_rows())

    def are(self, places: Places) -> NDArray[np.bool_]:
        """Tell which places may be found; one of -1, or behind the last, is none."""
        inside = (places >= 0) & (places < self.rows.memories.count)
        seen = self.rows.are_seen(places[inside], self.now)
        inside[inside] = seen if self.mask is None else seen & self.mask[places[inside]]
        return inside

    def all(self) -> Places:
        """Return all that may be found."""
        places = np.arange(self.rows.memories.count)
        return places[self.are(places)]


@dataclass(frozen=True, slots=True)
class _Head:
    """The nearest rows of one table.

    Attributes:
        places: Where they are, each once.
        floors: What their distances are at least.
        reach: What all others' are.
    """

    places: Places
    floors: Floats
    reach: float


class Distances:
    """Distances of one query.

    Args:
        view: The memories.
        question: What is looked for.
        where: What the memories satisfy.
        admitted: Which of them count.
        exact: Leave approximate indexes alone.

    Attributes:
        indexes: The approximate indexes that lists come from, by table.
    """

    def __init__(
        self,
        view: ReadView,
        question: Question,
        *,
        where: Predicate,
        admitted: Admitted,
        exact: bool,
    ) -> None:
        self._question, self._where = question, where
        self._tables = {MEMORIES: view.dataset, PASSAGES: view.passages}
        self._rows, self._admitted = admitted.rows, admitted
        self._query = Query.of(question.aim)
        self.indexes = {} if exact else self._found_indexes()

    def nearest(self, length: int) -> Listed:
        """Return about ``length`` of the nearest; from all that may be found on, all of them."""
        size, living = self._admitted.size, self._rows.memories.living
        if size <= FEW or length >= size:
            self.indexes = {}
            if size > max(FEW, MOST_LISTED * living):
                return self._everything()
            # To be settled one by one. Vectors that were read once are kept, as far as they fit in.
            places = self._admitted.all()
            return Listed(places, np.zeros(len(places)), np.inf)
        own, parts = self._own(length), self._parts(length)
        places = np.union1d(own.places, parts.places)
        floors = np.where(
            self._rows.passages.are_parted(places),
            np.minimum(_of(own, places), _of(parts, places)),
            _of(own, places),
        )
        return Listed(places, floors, min(own.reach, parts.reach))

    def floors(self, places: Places) -> Floats:
        """Return what distances are at least, by the vectors that are in memory; else 0."""
        floors = self._known(self._rows.vectors, places)
        parts, whose = self._rows.passages.of_memories(places)
        np.minimum.at(floors, whose, self._known(self._rows.passage_vectors, parts))
        return np.maximum(floors, 0.0)

    def settle(self, places: Places) -> Floats:
        """Return distances exactly."""
        distance = self._of_memories(places)
        parts, whose = self._rows.passages.of_memories(places)
        np.minimum.at(distance, whose, self._of_passages(parts))
        return np.maximum(distance, 0.0)

    def spans(self, places: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return start and end of the passages that are nearer than the memories themselves."""
        parts, whose = self._rows.passages.of_memories(places)
        distance = self._of_passages(parts)
        nearer = distance < self._of_memories(places)[whose]
        parts, whose, distance = parts[nearer], whose[nearer], distance[nearer]
        # Passages of a memory come in the order of their parts: the first of equals is taken.
        order = np.lexsort((distance, whose))
        owners, first = np.unique(whose[order], return_index=True)
        spans = np.full((2, len(places)), -1, np.int64)
        columns = self._rows.passages.rows.columns
        for row, name in enumerate(("start", "end")):
            spans[row, owners] = columns[name][parts[order[first]]]
        return spans[0], spans[1]

    def _found_indexes(self) -> dict[str, VectorIndex]:
        used = self._tables if len(self._rows.passages.places) else (MEMORIES,)
        found = ((table, vector_index(self._tables[table])) for table in used)
        return {table: index for table, index in found if index is not None}

    def _own(self, length: int) -> _Head:
        found, reach = self._searched(length)
        # The same row twice: the engine's indexes find some so.
        places, first = np.unique(
            self._rows.memories.places(found["_rowid"].to_numpy()), return_index=True
        )
        floors = found["_distance"].to_numpy()[first] - self._query.slack
        kept = self._admitted.are(places)
        return _Head(places[kept], floors[kept], reach)

    def _searched(self, length: int) -> tuple[pa.Table, float]:
        chosen, passing = self._chosen()
        limit = ceil(length * _SPARE * passing / self._admitted.size)
        return self._near(MEMORIES, chosen, limit)

    def _near(self, table: str, chosen: str | None, limit: int) -> tuple[pa.Table, float]:
        """Return the nearest rows of a table, and what all others' distances are at least."""
        index = self.indexes.get(table)
        if index is not None and index.measured is not None:
            # In shorter lists than those that its recall was measured on it may find less.
            limit = max(limit, index.measured.limit)
        search = partial(
            nearest_rows, self._tables[table], self._query.aim.direction, chosen, limit=limit
        )
        found = search(index=index)
        if index is not None and found.num_rows < limit:
            # There is no more in the parts of the index that are looked into.
            del self.indexes[table]
            found = search(index=None)
        # The engine finds no vector of zeros, which is at distance 1 from everything.
        if found.num_rows < limit:
            return found, 1.0
        return found, min(float(found["_distance"][-1].as_py()) - self._query.slack, 1.0)

    def _chosen(self) -> tuple[str | None, int]:
        """Return a filter of the engine's, and how many rows pass it."""
        size, row_ids = self._admitted.size, self._admitted.row_ids
        stored, living = self._tables[MEMORIES].count_rows(), self._rows.memories.living
        if self._admitted.is_wide(self._tables[MEMORIES]):
            return None, stored
        if row_ids is None or size >= _LARGE * living:
            return to_sql(self._question.wall), living
        if not touches_metadata(self._where):
            return to_sql(self._where), size
        return row_ids_in(row_ids.tolist()), size

    def _parts(self, length: int) -> _Head:
        passages = self._rows.passages
        if not len(passages.places):
            return _Head(np.empty(0, np.int64), np.empty(0), np.inf)
        stored = self._tables[PASSAGES].count_rows()
        chosen, passing = None, stored
        if len(passages.places) < _LARGE * stored:
            chosen, passing = to_sql(self._question.wall), len(passages.places)
        share = len(passages.places) / passing * self._admitted.size / self._rows.memories.living
        limit = ceil(length * _SPARE / share)
        if limit > MOST_LISTED * passing:
            self.indexes.pop(PASSAGES, None)
            return self._all_parts()
        found, reach = self._near(PASSAGES, chosen, limit)
        floors = found["_distance"].to_numpy() - self._query.slack
        return self._by_owner(passages.rows.places(found["_rowid"].to_numpy()), floors, reach)

    def _all_parts(self) -> _Head:
        passages = self._rows.passages
        floors = np.full(passages.rows.count, np.inf)
        for places, found in self._scanned(self._tables[PASSAGES], passages.rows):
            floors[places] = found
        return self._by_owner(passages.places, floors[passages.places], np.inf)

    def _by_owner(self, parts: Places, floors: Floats, reach: float) -> _Head:
        owners = np.where(parts >= 0, self._rows.passages.owners[parts], -1)
        kept = self._admitted.are(owners)
        places = np.unique(owners[kept])
        lowest = np.full(len(places), np.inf)
        np.minimum.at(lowest, np.searchsorted(places, owners[kept]), floors[kept])
        return _Head(places, lowest, reach)

    def _everything(self) -> Listed:
        """Return all that may be found, with distances as a look at each of them tells."""
        # What the engine leaves out is as near as can be until it is settled.
        floors = np.zeros(self._rows.memories.count)
        for places, found in self._scanned(self._tables[MEMORIES], self._rows.memories):
            floors[places] = found
        places = self._admitted.all()
        parts = self._all_parts()
        floors[parts.places] = np.minimum(floors[parts.places], parts.floors)
        return Listed(places, np.maximum(floors[places], 0.0), np.inf)

    def _scanned(
        self, dataset: lance.LanceDataset, rows: ColumnRows
    ) -> Iterator[tuple[Places, Floats]]:
        scanner = dataset.scanner(
            columns=["embedding"], filter=to_sql(self._question.wall), with_row_id=True
        )
        for batch in scanner.to_batches():
            places = rows.places(batch["_rowid"].to_numpy())
            vectors = unit_vectors(batch["embedding"], self._query.dim)
            yield places[places >= 0], self._query.floors(vectors[places >= 0])

    def _known(self, cache: VectorCache, places: Places) -> Floats:
        known, vectors = cache.get(places)
        floors = np.zeros(len(places))
        floors[known] = self._query.floors(vectors)
        return floors

    def _of_memories(self, places: Places) -> Floats:
        return self._exactly(
            places, self._rows.memories, self._rows.vectors, self._tables[MEMORIES]
        )

    def _of_passages(self, places: Places) -> Floats:
        rows, cache = self._rows.passages.rows, self._rows.passage_vectors
        return self._exactly(places, rows, cache, self._tables[PASSAGES])

    def _exactly(
        self, places: Places, rows: ColumnRows, cache: VectorCache, dataset: lance.LanceDataset
    ) -> Floats:
        distance = np.empty(len(places))
        known, vectors = cache.get(places)
        distance[known] = self._query.distances(vectors)
        missing = np.flatnonzero(~known)
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            row_ids = rows.columns[ROW_ID][places[some]]
            vectors = read_vectors(dataset, row_ids, self._query.dim)
            distance[some] = self._query.distances(vectors)
            cache.add(places[some], vectors)
        return distance


def _of(head: _Head, places: Places) -> Floats:
    """Return the floors of places, of those that are not in the head from where it ends."""
    order = np.argsort(head.places)
    floors = np.full(len(places), head.reach)
    if len(order):
        at = order[np.minimum(np.searchsorted(head.places[order], places), len(order) - 1)]
        met = head.places[at] == places
        floors[met] = head.floors[at[met]]
    return floors
