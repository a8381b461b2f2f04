"""The nearest of many vectors, by blocks of matrix products. Pure."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Places = NDArray[np.int64]

# A block of so many similarities stays within the processor's caches' reach.
_ROWS, _COLUMNS = 512, 4_096
_SHORTEST = np.float32(1e-12)


def directions(vectors: NDArray[np.floating[Any]]) -> Singles:
    """Return vectors at length 1, float32 (n, dim)."""
    singles = np.asarray(vectors, np.float32)
    lengths = np.maximum(np.linalg.norm(singles, axis=1, keepdims=True), _SHORTEST)
    return np.asarray(singles / lengths, np.float32)


class Nearest:
    """The ``most`` vectors nearest to each of n others, as far as looked at.

    Args:
        queries: Directions, float32 (n, dim).
        groups: A vector counts for a query of the same group alone (n,).
        most: How many are kept for each.
        least: The lowest similarity that is kept.

    Attributes:
        scores: Their cosine similarities, (n, most); below ``least`` where there are fewer.
        places: Which they are, (n, most).
    """

    def __init__(self, queries: Singles, groups: Places, *, most: int, least: float) -> None:
        self.queries, self.groups, self.least = queries, groups, least
        self.scores = np.full((len(queries), most), -np.inf, np.float32)
        self.places = np.full((len(queries), most), -1, np.int64)

    def look_at(self, vectors: Singles, groups: Places, *, start: int, before: bool) -> None:
        """Compare the queries with further vectors.

        Args:
            vectors: Directions, float32 (m, dim).
            groups: Their groups, (m,).
            start: The place of the first of them.
            before: They are queries themselves: only those before a query count for it.
        """
        mixed = len(np.unique(np.concatenate([self.groups, groups]))) > 1
        for low in range(0, len(self.queries), _ROWS):
            high = min(low + _ROWS, len(self.queries))
            for first in range(0, len(vectors), _COLUMNS):
                if before and start + first >= high:
                    break
                some, rows = slice(first, first + _COLUMNS), slice(low, high)
                found = self.queries[rows] @ vectors[some].T
                if mixed:
                    found[self.groups[rows, np.newaxis] != groups[some]] = -np.inf
                columns = np.arange(found.shape[1]) + (start + first)
                if before and columns[-1] >= low:
                    found[columns >= np.arange(low, high)[:, np.newaxis]] = -np.inf
                self._take(rows, found, start + first)

    def _take(self, rows: slice, found: Singles, start: int) -> None:
        """Take in the similarities of some queries to consecutive vectors."""
        floor = np.maximum(self.scores[rows].min(axis=1), np.float32(self.least))
        most = self.scores.shape[1]
        for at in np.flatnonzero((found.max(axis=1, initial=-np.inf)) > floor).tolist():
            row = rows.start + at
            near = np.flatnonzero(found[at] > floor[at])
            scores = np.concatenate([self.scores[row], found[at, near]])
            places = np.concatenate([self.places[row], near + start])
            best = np.argsort(-scores, kind="stable")[:most]
            self.scores[row], self.places[row] = scores[best], places[best]

    def of(self, row: int) -> Iterable[tuple[int, float]]:
        """Return the places found for a query, with their similarities, nearest first."""
        found = self.scores[row] >= self.least
        return zip(self.places[row][found].tolist(), self.scores[row][found].tolist(), strict=True)
