"""Vectors held in memory: cosine distances of all of them within bounds, of a few of them exact.

A vector is kept as it is stored, in float16, and as a byte per number beside it. Its direction is
``step * codes`` but for a rest of known length, and so is a query's; by Cauchy and Schwarz the dot
product of the two directions differs from that of the bytes by at most what the lengths of the
rests allow. That is about 0.015, and so few rows can be among the best that the exact distance is
asked for.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ailake.core.vectors import resident_bytes
from ailake.storage.kernel import Codes, Kernel, best_kernel

Halves = NDArray[np.float16]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

# Another writer may have stored a vector of zeros: it is then at distance 1 from everything.
_SHORTEST = np.float32(1e-12)

_LARGEST = 127
_CHUNK = 4_096

# The first room for rows; a quarter more is made as they come.
ROOM = 64


@dataclass(frozen=True, slots=True)
class Aim:
    """A query, as the rows that are held are compared with it.

    Attributes:
        direction: The query at length 1, float32 (dim,).
        codes: Whole numbers that give about the direction when multiplied by ``step``.
        step: What they are multiplied by.
        rest: At least the length of what they leave out.
    """

    direction: Singles
    codes: Codes
    step: np.float32
    rest: float

    @classmethod
    def at(cls, vector: Singles) -> "Aim":
        """Return a query vector, float32 (dim,), other than zero."""
        direction = np.asarray(vector / np.linalg.norm(vector), np.float32)
        step = np.abs(direction).max() / np.float32(_LARGEST)
        codes = np.rint(direction / step).astype(np.int8)
        slack = slack_of(len(direction))
        rest = float(np.linalg.norm(direction - codes * step)) * (1 + slack) + slack
        return cls(direction, codes, step, rest)

    def distances(self, directions: Singles) -> Floats:
        """Return the cosine distances of vectors of length 1, (n,).

        Each is the same to the last bit whichever others come with it: otherwise chance would
        decide between equals.
        """
        # Row by row, unlike a product of matrices.
        dots = np.vecdot(directions, self.direction)
        return np.asarray(1.0 - dots.astype(np.float64))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a number of each of n rows is, such as its distance.

    Attributes:
        low: Not above the exact one, float32 (n,).
        high: Not below it, float32 (n,).
    """

    low: Singles
    high: Singles


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of n rows; one with more rows leaves it as it was.

    Attributes:
        count: n; only so many of each array mean anything.
        halves: As stored, float16 (room, dim).
        lengths: Of the stored vectors, float32 (room,).
        steps: What the codes are multiplied by, float32 (room,).
        rests: At least the length of what the codes leave out of a direction, float32 (room,).
        chunks: The codes of ``_CHUNK`` rows each, the last of them perhaps of fewer, packed.
        tail: The codes of that last chunk, int8 (count % _CHUNK, dim).
    """

    count: int
    halves: Halves
    lengths: Singles
    steps: Singles
    rests: Singles
    chunks: tuple[Any, ...]
    tail: Codes
    kernel: Kernel

    @classmethod
    def none(cls, dim: int) -> "Vectors":
        """Return no vectors of a length."""
        nothing = np.empty(0, np.float32)
        halves, codes = np.empty((0, dim), np.float16), np.empty((0, dim), np.int8)
        return cls(0, halves, nothing, nothing, nothing, (), codes, best_kernel())

    @property
    def dim(self) -> int:
        """The length of each."""
        return int(self.halves.shape[1])

    @property
    def bytes(self) -> int:
        """What they take, room for more aside."""
        return self.count * resident_bytes(self.dim) + self.tail.nbytes

    def extended(self, halves: Halves) -> "Vectors":
        """Return these with others, float16 (m, dim), behind them."""
        lengths, steps, rests, codes = [], [], [], [self.tail]
        for start in range(0, len(halves), _CHUNK):
            length, direction = directions_of(halves[start : start + _CHUNK])
            step, code = _coded(direction)
            lengths.append(length)
            steps.append(step)
            codes.append(code)
            rests.append(_rests(direction, step, code))
        whole = self.chunks[: self.count // _CHUNK]
        new = _cut(np.concatenate(codes))
        return replace(
            self,
            count=self.count + len(halves),
            halves=longer(self.halves, self.count, halves),
            lengths=longer(self.lengths, self.count, _joined(lengths)),
            steps=longer(self.steps, self.count, _joined(steps)),
            rests=longer(self.rests, self.count, _joined(rests)),
            chunks=(*whole, *map(self.kernel.pack, new)),
            tail=new[-1].copy() if new and len(new[-1]) < _CHUNK else self.tail[:0],
        )

    def taken(self, places: NDArray[np.intp]) -> "Vectors":
        """Return the vectors at some places, in new arrays."""
        return replace(Vectors.none(self.dim), kernel=self.kernel).extended(self.halves[places])

    def bounds(self, aim: Aim) -> Bounds:
        """Return between what the cosine distance of each to a query is."""
        slack = slack_of(self.dim)
        near = self._dots(aim.codes)
        near *= self.steps[: self.count]
        near *= aim.step
        width = self.rests[: self.count] * np.float32(1 + slack + aim.rest)
        width += np.float32((1 + slack) * aim.rest + 4 * slack)
        low = np.subtract(np.float32(1), near, out=near)
        high = low + width
        low -= width
        return Bounds(low, high)

    def distances_at(self, places: NDArray[np.intp], aim: Aim) -> Floats:
        """Return the cosine distance of some of them to a query, (len(places),).

        It is the same whichever others are asked for with it.
        """
        found = np.empty(len(places), np.float64)
        with np.errstate(invalid="ignore"):
            for start in range(0, len(places), _CHUNK):
                some = places[start : start + _CHUNK]
                directions = self.halves[some].astype(np.float32)
                directions /= self.lengths[some][:, np.newaxis]
                found[start : start + _CHUNK] = aim.distances(directions)
        return found

    def _dots(self, query: Codes) -> Singles:
        if len(self.chunks) == 1:
            return self.kernel.dots(self.chunks[0], query)
        return _joined([self.kernel.dots(chunk, query) for chunk in self.chunks])


def longer(array: NDArray[Any], count: int, more: NDArray[Any]) -> NDArray[Any]:
    """Return the first ``count`` of an array with more behind; in place where there is room."""
    needed = count + len(more)
    if needed > len(array):
        room = max(ROOM, needed if not count else needed * 5 // 4)
        grown = np.empty((room, *array.shape[1:]), more.dtype)
        grown[:count] = array[:count]
        array = grown
    array[count:needed] = more
    return array


def slack_of(dim: int) -> float:
    """Return more than what rounding does to a length or a dot product of directions."""
    return dim * 2.0**-23 + 2.0**-20


def directions_of(halves: Halves) -> tuple[Singles, Singles]:
    """Return the lengths of vectors, and the vectors at length 1."""
    vectors = halves.astype(np.float32)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), _SHORTEST)
    with np.errstate(invalid="ignore"):
        vectors /= lengths[:, np.newaxis]
    return lengths, vectors


def _coded(directions: Singles) -> tuple[Singles, Codes]:
    """Return a step per row, and whole numbers that give about the row when multiplied by it."""
    steps = np.abs(directions).max(axis=1, initial=0) / np.float32(_LARGEST)
    # What another writer stored may be no number: its rest is then without bound.
    steps[~np.isfinite(steps)] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.rint(directions / steps[:, np.newaxis])
    return steps, np.nan_to_num(scaled, posinf=0, neginf=0).astype(np.int8)


def _rests(directions: Singles, steps: Singles, codes: Codes) -> Singles:
    rests = np.linalg.norm(directions - codes * steps[:, np.newaxis], axis=1)
    slack = np.float32(slack_of(directions.shape[1]))
    return np.asarray(np.nan_to_num(rests, nan=np.inf) * (1 + slack) + slack, np.float32)


def _cut(codes: Codes) -> list[Codes]:
    return [codes[start : start + _CHUNK] for start in range(0, len(codes), _CHUNK)]


def _joined(parts: list[Singles]) -> Singles:
    return np.concatenate(parts) if parts else np.empty(0, np.float32)
