"""Vectors of single rows: read by row id, kept in memory as far as there is room, and compared."""

from dataclasses import dataclass
from threading import Lock

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats
from ailake.core.topk import Places
from ailake.storage.coded import Aim, directions_of, slack_of

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Query:
    """A query vector, compared with the vectors of rows.

    Attributes:
        aim: The query.
        slack: By how much a distance that the engine tells may be too great: it rounds the query to
            float16, as the stored vectors are.
    """

    aim: Aim
    slack: float

    @classmethod
    def of(cls, aim: Aim) -> "Query":
        """Return a query."""
        exact = aim.direction.astype(np.float64)
        rounded = aim.direction.astype(np.float16).astype(np.float64)
        # Distances differ by the product of a vector of length 1 with this difference, at most.
        apart = np.linalg.norm(exact - rounded / np.linalg.norm(rounded))
        return cls(aim, float(apart) + slack_of(len(exact)))

    @property
    def dim(self) -> int:
        """The length of vectors."""
        return len(self.aim.direction)

    def distances(self, vectors: Vectors) -> Floats:
        """Return cosine distances of vectors of length 1, (n,)."""
        return self.aim.distances(vectors)

    def floors(self, vectors: Vectors) -> Floats:
        """Return what these distances are at least, sooner."""
        return 1.0 - (vectors @ self.aim.direction).astype(np.float64) - slack_of(self.dim)


def unit_vectors(column: pa.Array | pa.ChunkedArray, dim: int) -> Vectors:
    """Return stored vectors with length 1, float32 (n, dim); those of zeros stay so."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    halves = array.flatten().to_numpy(zero_copy_only=False)
    _, directions = directions_of(halves.reshape(-1, dim))
    return directions


def read_vectors(dataset: lance.LanceDataset, row_ids: NDArray[np.uint64], dim: int) -> Vectors:
    """Return the vectors of rows of this version with length 1, in the given order."""
    if not len(row_ids):
        return np.empty((0, dim), np.float32)
    # The engine's take neither keeps the order nor says what it did not find.
    rows = dataset._take_rows(  # noqa: SLF001 (the only take by row id)
        np.sort(row_ids).tolist(), columns=["embedding", "_rowid"]
    )
    found = rows["_rowid"].to_numpy()
    order = np.argsort(found)
    places = order[np.searchsorted(found[order], row_ids)]
    return unit_vectors(rows["embedding"], dim)[places]


class VectorCache:
    """Vectors of rows, by their places; when there is no more room all of them make some.

    Attributes:
        room: How many there are at most.
    """

    def __init__(self, *, room: int, dim: int) -> None:
        self.room = room
        self._lock = Lock()
        # By slot; the slot of each place, -1 for none.
        self._vectors = np.empty((0, dim), np.float32)
        self._used = 0
        self._slots = np.empty(0, np.int32)

    @property
    def bytes(self) -> int:
        """What it takes."""
        return self._vectors.nbytes + self._slots.nbytes

    def get(self, places: Places) -> tuple[NDArray[np.bool_], Vectors]:
        """Return which of the places are known, (n,), and the vectors of those."""
        with self._lock:
            slots = self._slots_of(places)
            known = slots >= 0
            return known, self._vectors[slots[known]]

    def add(self, places: Places, vectors: Vectors) -> None:
        """Keep vectors of places, each once, as many as there is room for."""
        with self._lock:
            new = np.flatnonzero(self._slots_of(places) < 0)[: self.room]
            if not len(new):
                return
            if self._used + len(new) > self.room:
                self._slots, self._used = np.full_like(self._slots, -1), 0
                new = np.arange(len(places))[: self.room]
            self._make_room(self._used + len(new), int(places[new].max()) + 1)
            slots = np.arange(self._used, self._used + len(new), dtype=np.int32)
            self._vectors[slots] = vectors[new]
            self._slots[places[new]] = slots
            self._used += len(new)

    def numbered_anew(self, kept: Places) -> "VectorCache":
        """Return a cache that knows the rows at ``kept`` by their positions there."""
        moved = VectorCache(room=self.room, dim=self._vectors.shape[1])
        known, vectors = self.get(kept)
        moved.add(np.flatnonzero(known), vectors)
        return moved

    def _slots_of(self, places: Places) -> NDArray[np.int32]:
        slots = np.full(len(places), -1, np.int32)
        inside = places < len(self._slots)
        slots[inside] = self._slots[places[inside]]
        return slots

    def _make_room(self, rows: int, places: int) -> None:
        if rows > len(self._vectors):
            more = np.empty((min(2 * rows, self.room), self._vectors.shape[1]), np.float32)
            more[: self._used] = self._vectors[: self._used]
            self._vectors = more
        if places > len(self._slots):
            grown = np.full(places * 9 // 8, -1, np.int32)
            grown[: len(self._slots)] = self._slots
            self._slots = grown
