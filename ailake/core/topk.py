"""The true top-k by hybrid score, out of three sorted lists none of which is read to its end.

A row's score is ``max(d - lex, 0) / max(w, eps)``: its cosine distance ``d``, what shared words
take off it (``lex = a * bm25 / (bm25 + c)`` of the scoring policy), its weight ``w`` (recency x
importance) and the float32 epsilon; lower is better. Three lists name rows: nearest first,
heaviest first, best by words first, each cut somewhere.

**The bound.** A row in none of the lists is at least as far as the first was read (``d >= d_m``),
at most as heavy as the second (``w <= w_n``), and its words take off at most as much as in the
third (``lex <= lex_l``; 0 where that list is complete, because who is not in it has no word of the
query). The score grows with ``d`` and falls with ``w`` and ``lex``, so it is at least ``max(d_m -
lex_l, 0) / max(w_n, eps)``. It stays so in floating point: difference and quotient round
monotonically, and bounds and scores are computed by the same operations.

**The proof.** A row in some list has a lower bound of its own: from what its lists say, and for
what they don't say from where the others were cut. Rows are *settled*, that is, distance and words
are looked up and the score is exact, in the order of these bounds, until the k-th best settled
score is strictly better than the bounds of all others. Then nothing unsettled is among the best k
or ties with the k-th: whoever ties with it is settled too and is returned, and ``rank`` decides
among equals. Only what could win is looked up.

**Widening.** Where the bound for unlisted rows is not above the k-th best score ``s``, a list is
read further. How far is known: the bound would hold from distances of ``s * w_n + lex_l``, below
weights of ``(d_m - lex_l) / s``, or below words of ``d_m - s * w_n``. Lists grow by a factor, so
that rounds are few, and where one would hold more than a quarter of all rows the nearest list is
asked for all of them, which ends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ailake.core.episodic import FLOAT32_EPSILON, Floats, score

NEAREST = "nearest"
HEAVIEST = "heaviest"
WORDS = "words"

# By how much a list grows at least.
GROWTH = 4

# From this share of all rows on, all are looked at instead.
MOST_LISTED = 0.25

# A match of words costs that much less than a distance.
_WORDS_PER_NEAREST = 64

# Where words take less off the distance than this share, more of them are of no use.
_SHARE = 0.1

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Listed:
    """The head of a sorted list.

    Attributes:
        rows: What is listed, each once, int64 (n,).
        values: Nearest: distances, or less where they are not exact. Words: what they take off the
            distance. float64 (n,); heaviest: none.
        reach: What no row outside surpasses. Nearest: all are at least so far (infinite: none is
            outside). Heaviest: at most so heavy (minus infinity: none is outside). Words: they take
            off at most so much.
    """

    rows: Places
    values: Floats
    reach: float


@dataclass(frozen=True, slots=True)
class Settled:
    """What is exactly known of rows.

    Attributes:
        distance: Cosine distances, float64 (n,).
        lexical: What words take off them, float64 (n,).
    """

    distance: Floats
    lexical: Floats


class Lists(Protocol):
    """Sorted lists over ``size`` rows, each of which may be read to any length.

    Rows are numbers. Reading on never takes a row away from a list.
    """

    @property
    def size(self) -> int:
        """How many rows there are, or more."""
        ...

    def nearest(self, length: int) -> Listed:
        """Return about ``length`` of the nearest rows; from ``size`` on, all of them."""
        ...

    def heaviest(self, length: int) -> Listed:
        """Return at least ``length`` of the heaviest rows, as far as ``heavier`` counts them."""
        ...

    def words(self, length: int) -> Listed:
        """Return about ``length`` of the rows that match the query's words best."""
        ...

    def heavier(self, weight: float) -> int:
        """Return how long the heaviest list has to be to hold all rows of at least a weight.

        More than ``size`` where it can't be read so far.
        """
        ...

    def weights(self, rows: Places) -> Floats:
        """Return exact weights, (n,)."""
        ...

    def floors(self, rows: Places) -> Floats:
        """Return what distances are at least, as far as is known at once; 0 is always true."""
        ...

    def settle(self, rows: Places) -> Settled:
        """Return what rows have exactly."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What is looked for, and how.

    Attributes:
        k: How many of the best, > 0.
        max_distance: Rows that are farther are none.
        start: Lengths at which the lists begin.
        affordable: Up to this length the heaviest list is read on rather than another.
        patience: So many matches of words are looked up rather than the nearest list read on.
    """

    k: int
    max_distance: float = np.inf
    start: Mapping[str, int] = field(
        default_factory=lambda: {NEAREST: 200, HEAVIEST: 0, WORDS: 200}
    )
    affordable: int = 0
    patience: int = 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the lists were cut.

    Attributes:
        distance: Rows outside all lists are at least so far.
        weight: They are at most so heavy.
        lexical: Words take off at most so much.
    """

    distance: float
    weight: float
    lexical: float

    @property
    def bound(self) -> float:
        """What rows in none of the lists score at least; infinite where there is none."""
        if self.distance == np.inf or self.weight == -np.inf:
            return float(np.inf)
        return float(score(np.asarray(self.distance - self.lexical), np.asarray(self.weight)))


@dataclass(frozen=True, slots=True)
class Widening:
    """Which list to read further.

    Attributes:
        which: The list.
        to: How far: nearest up to distances above this, heaviest down to weights below it, words
            down to less than it would make the bound hold, the other lists unchanged.
        length: How long to make it.
    """

    which: str
    to: float
    length: int


@dataclass(frozen=True, slots=True)
class TopK:
    """The best k rows and all that tie with the last of them, in no order.

    Attributes:
        rows: Which, int64 (n,).
        settled: Their distances and words.
        weight: Their weights, float64 (n,).
        bound: What any other row scores at least; infinite where none is left out.
        scored: How many rows were listed by distance, or settled.
        lengths: How many rows each list held at the end.
        widened: Which lists were read further, in that order.
    """

    rows: Places
    settled: Settled
    weight: Floats
    bound: float
    scored: int
    lengths: Mapping[str, int]
    widened: tuple[str, ...]


def widening(
    cuts: Cuts, kth: float, lengths: Mapping[str, int], *, lists: Lists, limits: Limits
) -> Widening:
    """Return which list to read further where ``cuts.bound`` is not above the k-th best score.

    Args:
        cuts: Where the lists are cut.
        kth: The k-th best score, infinite where there are not as many.
        lengths: How long they are.
        lists: Tells how many rows are how heavy.
        limits: As in ``exact_top_k``.
    """
    left = cuts.distance - cuts.lexical
    # Below the epsilon all weights are alike: the heaviest list is of no more use.
    weight = left / kth if kth > 0 else np.inf
    if weight > FLOAT32_EPSILON:
        length = lists.heavier(weight)
        most = min(MOST_LISTED * lists.size, max(limits.affordable, GROWTH * lengths[NEAREST]))
        if lengths[HEAVIEST] < length <= most:
            return Widening(HEAVIEST, weight, length)
    needed = kth * max(cuts.weight, FLOAT32_EPSILON)
    spoilt = cuts.lexical > max(_SHARE * cuts.distance, 0.0)
    if spoilt and lengths[WORDS] <= _WORDS_PER_NEAREST * lengths[NEAREST]:
        length = GROWTH * max(lengths[WORDS], limits.k)
        return Widening(WORDS, cuts.distance - needed, length)
    distance = needed + cuts.lexical
    return Widening(NEAREST, distance, GROWTH * max(lengths[NEAREST], limits.k))


def exact_top_k(lists: Lists, limits: Limits) -> TopK:
    """Return the best rows by score, proven, and all that tie with the last of them.

    Fewer than ``limits.k`` come back only where there are not more within ``max_distance``.
    """
    search = _Search(lists, limits)
    while (step := search.next_step()) is not None:
        search.widen(step)
    return search.result()


class _Search:
    def __init__(self, lists: Lists, limits: Limits) -> None:
        self._lists, self._limits = lists, limits
        self._read = {NEAREST: lists.nearest, HEAVIEST: lists.heaviest, WORDS: lists.words}
        self.lengths = {name: limits.start[name] for name in self._read}
        self._listed = {name: read(self.lengths[name]) for name, read in self._read.items()}
        self._widened: list[str] = []
        self._floors = Listed(np.empty(0, np.int64), np.empty(0), 0.0)
        self._bound = -np.inf
        self.kth = float(np.inf)
        # Of settled rows, in the order of settling.
        self._rows = np.empty(0, np.int64)
        self._columns = np.empty((4, 0))

    def cuts(self) -> Cuts:
        distance, weight, lexical = (one.reach for one in self._listed.values())
        if distance > self._limits.max_distance:
            distance = np.inf
        return Cuts(distance, weight, lexical)

    def next_step(self) -> Widening | None:
        """Settle what is listed and could win; return what to read on, None where all is proven."""
        if self._settle():
            return Widening(NEAREST, self.cuts().distance, self._longer())
        cuts = self.cuts()
        self._bound = cuts.bound
        if self._bound == np.inf or self._bound > self.kth:
            return None
        return widening(cuts, self.kth, self.lengths, lists=self._lists, limits=self._limits)

    def widen(self, step: Widening) -> None:
        which, length = step.which, step.length
        if which == NEAREST and length > MOST_LISTED * self._lists.size:
            length = max(self._lists.size, self.lengths[NEAREST] + 1)
        self.lengths[which] = length
        self._listed[which] = self._read[which](length)
        self._widened.append(which)

    def result(self) -> TopK:
        distance, weight, lexical, scores = self._columns
        best = np.isfinite(scores) & (scores <= self.kth)
        looked_at = [self._listed[NEAREST].rows, self._rows]
        return TopK(
            self._rows[best],
            Settled(distance[best], lexical[best]),
            weight[best],
            bound=self._bound,
            scored=len(np.unique(np.concatenate(looked_at))),
            lengths={name: len(listed.rows) for name, listed in self._listed.items()},
            widened=tuple(self._widened),
        )

    def _settle(self) -> bool:
        """Settle what is listed and could win; tell whether too many matches of words could."""
        rows = np.unique(np.concatenate([listed.rows for listed in self._listed.values()]))
        rows = np.setdiff1d(rows, self._rows, assume_unique=True)
        low = self._lower_bounds(rows)
        order = np.argsort(low, kind="stable")
        order = order[np.isfinite(low[order])]
        rows, low = rows[order], low[order]
        placed = np.concatenate([self._listed[name].rows for name in (NEAREST, HEAVIEST)])
        vague = np.cumsum(~np.isin(rows, placed))
        start, size, patience = 0, GROWTH * self._limits.k, self._patience()
        # Whoever ties with the k-th is needed, too.
        while start < (stop := int(np.searchsorted(low, self.kth, side="right"))):
            if np.isfinite(self.kth) and vague[stop - 1] > patience:
                return True
            self._take_in(rows[start : min(start + size, stop)])
            start, size = start + size, GROWTH * size
        return False

    def _patience(self) -> float:
        """Return how many matches of words are looked up rather than the nearest list read on."""
        if self._listed[NEAREST].reach == np.inf:
            return float(np.inf)
        longer = self._longer()
        if longer > MOST_LISTED * self._lists.size:
            longer = int(MOST_LISTED * self._lists.size)
        return max(longer, self._limits.patience)

    def _longer(self) -> int:
        return GROWTH * max(self.lengths[NEAREST], self._limits.k)

    def _lower_bounds(self, rows: Places) -> Floats:
        near, words = self._listed[NEAREST], self._listed[WORDS]
        distance = _values(near, rows, otherwise=near.reach)
        distance = np.maximum(distance, self._floors_of(rows))
        lexical = _values(words, rows, otherwise=words.reach)
        low = score(distance - lexical, self._lists.weights(rows))
        return np.where(distance > self._limits.max_distance, np.inf, low)

    def _floors_of(self, rows: Places) -> Floats:
        """Return what their distances are at least, asked for once."""
        new = np.setdiff1d(rows, self._floors.rows, assume_unique=True)
        if len(new):
            known = self._floors
            self._floors = Listed(
                np.concatenate([known.rows, new]),
                np.concatenate([known.values, self._lists.floors(new)]),
                0.0,
            )
        return _values(self._floors, rows, otherwise=0.0)

    def _take_in(self, rows: Places) -> None:
        found, weight = self._lists.settle(rows), self._lists.weights(rows)
        exact = score(found.distance - found.lexical, weight)
        exact = np.where(found.distance > self._limits.max_distance, np.inf, exact)
        more = np.stack([found.distance, weight, found.lexical, exact])
        self._rows = np.concatenate([self._rows, rows])
        self._columns = np.concatenate([self._columns, more], axis=1)
        scores, k = self._columns[-1], self._limits.k
        if len(scores) >= k:
            self.kth = float(np.partition(scores, k - 1)[k - 1])


def _values(listed: Listed, rows: Places, *, otherwise: float) -> Floats:
    """Return the values of rows in a list, and something else for those that are not in it."""
    order = np.argsort(listed.rows)
    sorted_rows = listed.rows[order]
    places = np.searchsorted(sorted_rows, rows)
    inside = places < len(sorted_rows)
    inside[inside] = sorted_rows[places[inside]] == rows[inside]
    found = np.full(len(rows), otherwise)
    found[inside] = listed.values[order][places[inside]]
    return found
