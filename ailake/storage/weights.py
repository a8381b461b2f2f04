"""What the memories of some scopes weigh: rows without vectors, and orders by weight.

As time passes without accesses every weight falls or stays as it is. So an order that was made for
some instant bounds the weights at every later one from above, and is made anew only once the bounds
are loose. Rows that came or were met after it was made are in no order and stand before all others.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ailake.core.episodic import NANOSECONDS_PER_DAY, Floats, ScoringPolicy, days_between
from ailake.core.topk import Places
from ailake.storage.row_vectors import VectorCache
from ailake.storage.scope_columns import ColumnRows

# So many policies' orders are kept at once.
MOST_ORDERS = 4

# So many of the heaviest are put in order, of many rows a share. Who needs more looks at all rows.
ORDERED = 8_192
_ORDERED_SHARE = 16

# An order is made for an instant so long ago that no weight is bounded by more than this share too
# high, and is good until it is a few times that.
_LOOSENESS = 0.005
_PATIENCE = 4
_LONGEST_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of memories.

    Attributes:
        rows: With the columns ``start``, ``end`` and ``part``.
        owners: Each passage's memory, by place, -1 where it is not there; (n,).
        places: Those whose memory is there, by owner and part.
        sorted_owners: Their owners.
    """

    rows: ColumnRows
    owners: Places
    places: Places
    sorted_owners: Places

    @classmethod
    def of(cls, rows: ColumnRows, owners: Places) -> "Passages":
        """Return passages in order."""
        order = np.lexsort((rows.column("part"), owners))
        order = order[(owners[order] >= 0) & rows.alive[order]]
        return cls(rows, owners, order, owners[order])

    def are_parted(self, memories: Places) -> NDArray[np.bool_]:
        """Tell which memories have passages."""
        return self._first(memories, "right") > self._first(memories, "left")

    def of_memories(self, memories: Places) -> tuple[Places, Places]:
        """Return the passages of memories, and the position among these of each one's owner."""
        first = self._first(memories, "left")
        counts = self._first(memories, "right") - first
        whose = np.repeat(np.arange(len(memories)), counts)
        within = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.places[first[whose] + within], whose

    def _first(self, memories: Places, side: Literal["left", "right"]) -> Places:
        return np.searchsorted(self.sorted_owners, memories, side=side)


@dataclass(frozen=True, slots=True)
class Order:
    """The heaviest rows, heaviest first; those that are gone may be among them.

    Attributes:
        at: The instant for which they were weighed, nanoseconds since 1970.
        until: The last one for which that is good enough.
        places: The rows.
        weights: What they weigh at most, then and later, float64 (n,).
        rest: What every other row weighs at most; minus infinity where there is none.
        covered: Rows from this place on were not there yet.
    """

    at: int
    until: int
    places: Places
    weights: Floats
    rest: float
    covered: int


class Orders:
    """Orders of the same rows by what different policies make them weigh."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[float, float, float], Order] = OrderedDict()

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        with self._lock:
            return sum(one.places.nbytes + one.weights.nbytes for one in self._kept.values())

    def get(self, rows: ColumnRows, policy: ScoringPolicy, now: int) -> Order:
        """Return an order of the rows that is good at ``now``."""
        key = (policy.recency.lambda_, policy.floor, policy.importance_weight)
        with self._lock:
            known = self._kept.get(key)
            if known is None or not known.at <= now <= known.until:
                known = self._kept[key] = _order(rows, policy, now)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_ORDERS:
                self._kept.popitem(last=False)
            return known


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """The memories of some scopes at one version of the tables.

    Attributes:
        memories: With the columns ``row_id``, ``key``, ``last``, ``expires``, ``importance`` and
            ``folded``.
        passages: Theirs.
        met: Those that were met after ``last`` was read, ascending.
        met_at: When that was, nanoseconds since 1970.
        vectors: Of some of the memories.
        passage_vectors: Of some of the passages.
        orders: By weight.
    """

    memories: ColumnRows
    passages: Passages
    met: Places
    met_at: NDArray[np.int64]
    vectors: VectorCache
    passage_vectors: VectorCache
    orders: Orders = field(compare=False)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        parts = (self.memories, self.passages.rows, self.vectors, self.passage_vectors, self.orders)
        return sum(part.bytes for part in parts) + 3 * self.passages.owners.nbytes

    def are_seen(self, places: Places, now: int) -> NDArray[np.bool_]:
        """Tell which rows are there and not expired."""
        there = self.memories.alive[places]
        return np.asarray(there & (self.memories.columns["expires"][places] > now))

    def last_access(self, places: Places) -> NDArray[np.int64]:
        """Return when rows were last met, nanoseconds since 1970."""
        last: NDArray[np.int64] = self.memories.columns["last"][places]
        if len(self.met):
            at = np.minimum(np.searchsorted(self.met, places), len(self.met) - 1)
            last = np.where(self.met[at] == places, self.met_at[at], last)
        return last

    def weights(self, places: Places, policy: ScoringPolicy, now: int) -> Floats:
        """Return what rows weigh."""
        importance = self.memories.columns["importance"][places]
        return _weights(self.last_access(places), importance, policy, now)

    def order(self, policy: ScoringPolicy, now: int) -> Order:
        """Return an order of the rows that is good at ``now``."""
        return self.orders.get(self.memories, policy, now)

    def unordered(self, order: Order) -> Places:
        """Return the rows that came, or were met, too late for an order."""
        return np.union1d(self.met, np.arange(order.covered, self.memories.count))


def _order(rows: ColumnRows, policy: ScoringPolicy, now: int) -> Order:
    rate = policy.recency.lambda_ * (1.0 - policy.floor)
    days = min(_LOOSENESS / rate, _LONGEST_DAYS) if rate > 0 else _LONGEST_DAYS
    margin = int(days * NANOSECONDS_PER_DAY)
    weights = _weights(rows.column("last"), rows.column("importance"), policy, now - margin)
    size = max(ORDERED, rows.count // _ORDERED_SHARE)
    places, rest = np.arange(rows.count), -np.inf
    if size < rows.count:
        places = np.argpartition(-weights, size)
        places, rest = places[:size], float(weights[places[size]])
    places = places[np.argsort(-weights[places], kind="stable")]
    return Order(
        now - margin,
        now + _PATIENCE * margin,
        places,
        weights[places],
        rest,
        rows.count,
    )


def _weights(
    last: NDArray[np.int64], importance: NDArray[np.float32], policy: ScoringPolicy, now: int
) -> Floats:
    part = policy.importance_part(importance.astype(np.float64))
    return policy.recency_part(days_between(last, now)) * part
