"""Decay, hybrid score and ranking of episodic memories: the formulas, and nothing else.

All of it is computed in float64; arrays come back as float32, the type of the stored columns. At
the weekly rate a stored weight underflows to exactly 0.0 near 1,060 days; the score stays finite
because its divisor is bounded by the float32 epsilon.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ailake.errors import InvalidInputError

FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
NANOSECONDS_PER_DAY = 86_400_000_000_000

# A little below 2**63 nanoseconds.
_MAX_SPAN = 9.2e18

Floats = NDArray[np.float64]


def unit_interval(value: object, *, name: str) -> float:
    """Return ``value`` as a float in [0, 1]; anything else, NaN included, is refused."""
    number = _number(value)
    if number is None or not 0.0 <= number <= 1.0:
        raise InvalidInputError.of(name, got=value, wanted="a number in [0, 1]")
    return number


def within_unit(value: object, *, name: str) -> float:
    """Return ``value`` as a float in (0, 1); anything else, NaN included, is refused."""
    number = _number(value)
    if number is None or not 0.0 < number < 1.0:
        raise InvalidInputError.of(name, got=value, wanted="a number within (0, 1)")
    return number


def _positive(value: object, *, name: str) -> float:
    number = _number(value)
    if number is None or not (number > 0 and math.isfinite(number)):
        raise InvalidInputError.of(name, got=value, wanted="a finite number > 0")
    return number


def _distance(value: object, *, name: str) -> float:
    number = _number(value)
    if number is None or not 0.0 <= number <= 2.0:
        raise InvalidInputError.of(name, got=value, wanted="a number in [0, 2]")
    return number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        return float(value)
    except OverflowError:  # An int beyond what a float holds.
        return None


@dataclass(frozen=True, slots=True)
class RecencyConfig:
    """An exponential forgetting curve.

    Attributes:
        lambda_: Decay rate per day, > 0 and finite. Serialised under the key ``lambda``.

    The presets are ln 2 / half-life, rounded; ``from_half_life`` gives the exact rate.

    Raises:
        InvalidInputError: ``lambda_`` is not a number, not finite, or not > 0.
    """

    lambda_: float

    DAILY_DECAY: ClassVar["RecencyConfig"]
    WEEKLY_DECAY: ClassVar["RecencyConfig"]
    MONTHLY_DECAY: ClassVar["RecencyConfig"]
    QUARTERLY_DECAY: ClassVar["RecencyConfig"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lambda_", _positive(self.lambda_, name="lambda"))

    @classmethod
    def from_half_life(cls, days: float) -> Self:
        """Return the curve that is at exactly one half after ``days`` days (> 0, finite)."""
        return cls(math.log(2) / _positive(days, name="half-life in days"))

    @property
    def half_life(self) -> float:
        """Days until the weight is one half: ln 2 / lambda."""
        return math.log(2) / self.lambda_

    def to_dict(self) -> dict[str, float]:
        """Return the serialised form, ``{"lambda": rate per day}``."""
        return {"lambda": self.lambda_}

    @classmethod
    def from_dict(cls, value: dict[str, float]) -> Self:
        """Read the serialised form; anything but the one key ``lambda`` is refused."""
        if set(value) != {"lambda"}:
            raise InvalidInputError.of("recency", got=value, wanted='{"lambda": rate per day}')
        return cls(value["lambda"])


RecencyConfig.DAILY_DECAY = RecencyConfig(0.693)
RecencyConfig.WEEKLY_DECAY = RecencyConfig(0.099)
RecencyConfig.MONTHLY_DECAY = RecencyConfig(0.023)
RecencyConfig.QUARTERLY_DECAY = RecencyConfig(0.0077)


@overload
def recency_weight(days: float, cfg: RecencyConfig = ...) -> float: ...
@overload
def recency_weight(
    days: Sequence[float] | NDArray[np.generic], cfg: RecencyConfig = ...
) -> NDArray[np.float32]: ...
def recency_weight(
    days: float | Sequence[float] | NDArray[np.generic],
    cfg: RecencyConfig = RecencyConfig.WEEKLY_DECAY,
) -> float | NDArray[np.float32]:
    """Return ``exp(-lambda * max(days, 0))``, in [0, 1].

    Args:
        days: Days since the last access, fractional allowed; a future access counts as now.
        cfg: The forgetting curve.

    Returns:
        A float for a scalar, a float32 array of the same shape for an array.

    Raises:
        InvalidInputError: Not numeric, or NaN; in an array the first such row is named.
    """
    values = _numbers(days, name="days")
    weights = decay(values, cfg)
    return float(weights) if values.ndim == 0 else weights.astype(np.float32)


def decay(days: Floats, cfg: RecencyConfig) -> Floats:
    """Return the float64 weights of days that are known to hold no NaN."""
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-cfg.lambda_ * np.maximum(days, 0.0))


@overload
def hybrid_score(distance: float, recency_weight: float, importance_score: float) -> float: ...
@overload
def hybrid_score(
    distance: ArrayLike, recency_weight: ArrayLike, importance_score: ArrayLike
) -> float | NDArray[np.float32]: ...
def hybrid_score(
    distance: ArrayLike, recency_weight: ArrayLike, importance_score: ArrayLike
) -> float | NDArray[np.float32]:
    """Return ``distance / max(recency_weight * importance_score, float32 epsilon)``.

    Ascending: lower is better. A negative distance (float noise) counts as 0, otherwise decay
    would improve it.

    Args:
        distance: Cosine distance in [0, 2].
        recency_weight: In [0, 1].
        importance_score: In [0, 1].

    Returns:
        A float where all are scalars, else a float32 array of the broadcast shape.

    Raises:
        InvalidInputError: Not numeric, NaN (in an array the first such row is named), or shapes
            that don't fit each other.
    """
    parts = [
        _numbers(distance, name="distance"),
        _numbers(recency_weight, name="recency_weight"),
        _numbers(importance_score, name="importance_score"),
    ]
    try:
        far, recency, importance = np.broadcast_arrays(*parts)
    except ValueError as error:
        raise InvalidInputError.of(
            "hybrid_score", got=[p.shape for p in parts], wanted="shapes that fit each other"
        ) from error
    scores = score(far, recency * importance)
    return float(scores) if scores.ndim == 0 else scores.astype(np.float32)


def score(distance: Floats, weight: Floats) -> Floats:
    """Return the float64 hybrid scores for weights = recency x importance, without checks."""
    return np.asarray(np.maximum(distance, 0.0) / np.maximum(weight, FLOAT32_EPSILON))


@dataclass(frozen=True, slots=True)
class ScoringPolicy:
    """How ``recall`` weighs age, importance, words, neighbours and speakers.

    Stage one, per memory and provable: ``score = max(distance - lexical, 0) / weight``, where
    ``lexical = lexical_weight * bm25 / (bm25 + lexical_half)`` and ``weight = recency_part *
    importance_part``, with ``recency_part = floor + (1 - floor) * recency`` and
    ``importance_part = 1 - importance_weight * (1 - importance)``. A floor keeps an old memory
    within reach: at floor 0 a two-month-old one is divided by 0.003 and is never found again. At
    importance weight 1 an unimportant one is as far away.

    Stage two reorders the best of stage one: each turn next to a memory in its session lowers its
    distance by up to ``neighbour_weight`` of how near that one is, and being said by somebody whom
    the query names by ``speaker_weight``, having happened when the query says by ``date_weight``;
    being brief raises it (see ``core.evidence`` and ``core.dates``).

    Attributes:
        recency: The forgetting curve, applied to the days since the last access.
        floor: Lower bound of the recency part, in [0, 1].
        importance_weight: How much of the importance counts, in [0, 1].
        lexical_weight: By how much a perfect match of words lowers a distance, in [0, 2].
        lexical_half: The BM25 score at which words count half, > 0 and finite.
        neighbour_weight: In [0, 1]; 0 leaves neighbours alone.
        speaker_weight: In [0, 2]; 0 leaves speakers alone.
        date_weight: In [0, 2]; 0 leaves dates alone.
        brevity_weight: In [0, 2]; 0 leaves lengths alone.

    Raises:
        InvalidInputError: A field is of the wrong type or out of range.
    """

    # Chosen on LoCoMo (benchmarks/locomo.py --sweep): the strongest decay whose recall@10 is not
    # below the same ranking without any. Lower floors bury what was said months ago.
    recency: RecencyConfig = RecencyConfig.WEEKLY_DECAY
    floor: float = 0.995
    # At 1, a memory of importance 0.9 beats the right answer of importance 0.5 from 1.8 times its
    # distance; at one half, from 1.3 times.
    importance_weight: float = 0.5
    # Chosen on LoCoMo, LongMemEval and the demo's two languages together: docs/scoring.md.
    lexical_weight: float = 0.75
    lexical_half: float = 20.0
    neighbour_weight: float = 0.35
    speaker_weight: float = 0.2
    date_weight: float = 0.3
    brevity_weight: float = 0.1

    SEED: ClassVar["ScoringPolicy"]

    def __post_init__(self) -> None:
        if not isinstance(self.recency, RecencyConfig):
            raise InvalidInputError.of("recency", got=self.recency, wanted="a RecencyConfig")
        for name in ("floor", "importance_weight", "neighbour_weight"):
            object.__setattr__(self, name, unit_interval(getattr(self, name), name=name))
        for name in ("lexical_weight", "speaker_weight", "date_weight", "brevity_weight"):
            object.__setattr__(self, name, _distance(getattr(self, name), name=name))
        half = _positive(self.lexical_half, name="lexical_half")
        object.__setattr__(self, "lexical_half", half)

    def recency_part(self, days: Floats) -> Floats:
        """Return ``floor + (1 - floor) * recency`` for days since the last access."""
        return self.recency_part_of(decay(days, self.recency))

    def recency_part_of(self, recency: Floats) -> Floats:
        """Return ``floor + (1 - floor) * recency`` for recencies on the policy's curve."""
        return self.floor + (1.0 - self.floor) * recency

    def importance_part(self, importance: Floats) -> Floats:
        """Return ``1 - importance_weight * (1 - importance)``."""
        return 1.0 - self.importance_weight * (1.0 - importance)

    def lexical_part(self, bm25: Floats) -> Floats:
        """Return ``lexical_weight * bm25 / (bm25 + lexical_half)``, 0 where no word is met."""
        return np.asarray(self.lexical_weight * bm25 / (bm25 + self.lexical_half))

    @property
    def has_stage_two(self) -> bool:
        """Whether anything but distance and words counts."""
        weights = (
            self.neighbour_weight, self.speaker_weight, self.date_weight, self.brevity_weight,
        )  # fmt: skip
        return any(weight > 0 for weight in weights)


ScoringPolicy.SEED = ScoringPolicy(
    recency=RecencyConfig.WEEKLY_DECAY,
    floor=0.0,
    importance_weight=1.0,
    lexical_weight=0.0,
    neighbour_weight=0.0,
    speaker_weight=0.0,
    date_weight=0.0,
    brevity_weight=0.0,
)


def rank(
    scores: Floats,
    weights: Floats,
    born: NDArray[np.int64],
    chunk_ids: NDArray[np.object_] | Sequence[str],
) -> NDArray[np.intp]:
    """Return the order best first: score, then higher weight, newer memory, ``chunk_id``.

    Args:
        scores: Hybrid scores, float64 (n,).
        weights: Recency x importance, float64 (n,).
        born: When the memory's event happened, nanoseconds since 1970 (n,).
        chunk_ids: Ids (n,), the last word among equals.
    """
    ids = np.asarray(chunk_ids, dtype=object)
    return np.lexsort((ids, -born, -weights, scores))


def cosine_distances(
    vectors: NDArray[np.floating[Any]], vector: NDArray[np.floating[Any]]
) -> Floats:
    """Return the cosine distance of each of n vectors to one, float64 (n,).

    A vector of zeros, which another writer may have stored, is at distance 1 from everything.
    """
    stored = np.asarray(vectors, np.float32).reshape(-1, vector.size)
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(vector)
    similarity = stored @ np.asarray(vector, np.float32)
    return np.asarray(1.0 - similarity / np.maximum(lengths, np.float32(1e-12)), np.float64)


def days_between(since: NDArray[np.int64], now: int) -> Floats:
    """Return fractional days from ``since`` to ``now``, both nanoseconds since 1970."""
    # In float64 only where int64 would wrap: whole nanoseconds are exact up to 292 years.
    if not since.size or max(now - int(since.min()), int(since.max()) - now) <= _MAX_SPAN:
        return np.asarray((now - since) / NANOSECONDS_PER_DAY, np.float64)
    far = np.abs(since.astype(np.float64) - float(now)) > _MAX_SPAN
    apart = np.where(far, float(now) - since.astype(np.float64), (now - since).astype(np.float64))
    return np.asarray(apart / NANOSECONDS_PER_DAY)


def _numbers(value: ArrayLike, *, name: str) -> Floats:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInputError.of(name, got=value, wanted="a number or an array") from error
    if array.dtype.kind not in "iuf":
        raise InvalidInputError.of(name, got=value, wanted="a number or a numeric array")
    numbers = array.astype(np.float64)
    missing = np.isnan(numbers)
    if missing.any():
        where = "" if numbers.ndim == 0 else f" in row {int(np.flatnonzero(missing)[0])}"
        raise InvalidInputError(f"{name}: got NaN{where}, wanted a number")
    return numbers
