"""Which rows can be among the best, by bounds of their distances and of their weights.

Weights change with time, and slowly: they are kept as they were at one instant, for every policy
that is asked for, and bound those of others. In ``t`` days a weight of a decay rate ``lambda`` and
a floor ``f`` falls at most to ``f + (1 - f) * exp(-lambda * t)`` times what it was, as that of a
memory does that has just been met; and it never rises but by an access.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ailake.core.episodic import (
    FLOAT32_EPSILON,
    NANOSECONDS_PER_DAY,
    ScoringPolicy,
    days_between,
)
from ailake.storage.coded import Bounds, Singles, longer
from ailake.storage.resident import Rows

# Weights are computed anew where the bounds would be wider than this.
_WIDEST = 1.001

# So many policies at once.
_POLICIES = 4

# More than rounding to float32 a few times does.
_ROUNDING = 4e-6

# The same of a difference of two numbers up to 2.
_INEXACT = np.float32(1e-6)


@dataclass(frozen=True, slots=True)
class Divisors:
    """What the distances of n rows are divided by, within bounds.

    Attributes:
        inverse: About one by the weight, float32 (n,).
        factor: One by the weight is at most so many times as large, or as small.
    """

    inverse: Singles
    factor: float


@dataclass(slots=True)
class _Kept:
    now: int
    ids: list[str]
    count: int
    inverse: Singles


class Weights:
    """The weights of the rows of one scope."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[ScoringPolicy, _Kept] = OrderedDict()

    def divisors(self, rows: Rows, policy: ScoringPolicy, now: int) -> Divisors:
        """Return what the distances of rows are divided by.

        Args:
            rows: With the columns ``last`` and ``importance``.
            policy: How age and importance weigh.
            now: The instant from which ages are counted, nanoseconds since 1970.
        """
        with self._lock:
            kept = self._kept.get(policy)
            factor = math.inf if kept is None else _factor(policy, kept.now, now)
            if kept is None or kept.ids is not rows.ids or factor > _WIDEST:
                inverse = _inverse(rows, policy, now, slice(rows.count))
                kept, factor = _Kept(now, rows.ids, rows.count, inverse), 1.0
                self._kept[policy] = kept
            elif kept.count < rows.count:
                more = _inverse(rows, policy, kept.now, slice(kept.count, rows.count))
                kept.inverse = longer(kept.inverse, kept.count, more)
                kept.count = rows.count
            self._kept.move_to_end(policy)
            if len(self._kept) > _POLICIES:
                self._kept.popitem(last=False)
            return Divisors(kept.inverse[: rows.count], factor * (1 + _ROUNDING))

    def change(self, rows: Rows, places: Sequence[int]) -> None:
        """Note that rows have been met, and count from a later access now."""
        with self._lock:
            for policy, kept in self._kept.items():
                if kept.ids is rows.ids:
                    met = np.array([place for place in places if place < kept.count], np.intp)
                    kept.inverse[met] = _inverse(rows, policy, kept.now, met)


def promising(
    bounds: Bounds,
    divisors: Divisors,
    *,
    limit: int,
    seen: NDArray[np.bool_] | None = None,
    max_distance: float | None = None,
    words: Bounds | None = None,
) -> NDArray[np.intp]:
    """Return the places of all rows that can be among the ``limit`` best by score, ascending.

    Who ties with the last of the best is among them, too.

    Args:
        bounds: Of the rows' distances.
        divisors: What these are divided by.
        limit: How many are wanted.
        seen: Which rows count, None for all.
        max_distance: What is farther does not count, None for no bound.
        words: What words of the query take off each distance, None where there are none.
    """
    possible = seen
    least, most = _without(bounds, words)
    high = np.maximum(most, 0) * divisors.inverse
    if seen is not None:
        high[~seen] = np.inf
    if max_distance is not None:
        # One float32 below it, and one above.
        inner, outer = np.nextafter(np.float32(max_distance), np.array([-np.inf, np.inf], "f4"))
        high[bounds.high > inner] = np.inf
        near = bounds.low <= outer
        possible = near if seen is None else near & seen
    if len(high) > limit:
        worst = float(np.partition(high, limit - 1)[limit - 1])
        low = np.maximum(least, 0) * divisors.inverse
        best = low <= np.float32(worst * divisors.factor**2 * (1 + _ROUNDING))
        possible = best if possible is None else best & possible
    return np.arange(len(high)) if possible is None else np.flatnonzero(possible)


def _without(bounds: Bounds, words: Bounds | None) -> tuple[Singles, Singles]:
    """Return between what the distances are without what words take off."""
    if words is None:
        return bounds.low, bounds.high
    return bounds.low - words.high - _INEXACT, bounds.high - words.low + _INEXACT


def _factor(policy: ScoringPolicy, then: int, now: int) -> float:
    """Return how many times as large a weight can be at one of two instants as at the other."""
    days = abs(now - then) / NANOSECONDS_PER_DAY
    left = policy.floor + (1 - policy.floor) * math.exp(-policy.recency.lambda_ * days)
    return 1 / left if left > 0 else math.inf


def _inverse(rows: Rows, policy: ScoringPolicy, now: int, at: slice | NDArray[np.intp]) -> Singles:
    days = days_between(rows.columns["last"][at], now)
    importance = policy.importance_part(rows.columns["importance"][at])
    weight = policy.recency_part(days) * importance
    return np.asarray(1.0 / np.maximum(weight, FLOAT32_EPSILON), np.float32)
