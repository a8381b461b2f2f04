"""The pure formulas: every row of the specification's tables, every trap, and their properties."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake import InvalidInputError, RecencyConfig, ScoringPolicy, hybrid_score, recency_weight
from ailake.core.episodic import FLOAT32_EPSILON, days_between, rank, score
from ailake.core.instants import EARLIEST, LATEST
from ailake.core.rows import nanoseconds

WEEKLY = RecencyConfig.WEEKLY_DECAY
MONTHLY = RecencyConfig.MONTHLY_DECAY

EARLIEST_NAIVE, LATEST_NAIVE = (moment.replace(tzinfo=None) for moment in (EARLIEST, LATEST))

units = st.floats(0, 1)
ages = st.floats(0, 20_000)
distances = st.floats(0, 2)
rates = st.floats(1e-6, 50)


@pytest.mark.parametrize(
    ("days", "recency", "weight"),
    [
        (0, WEEKLY, 1.0),
        (-5, WEEKLY, 1.0),
        (7, WEEKLY, 0.50007),
        (30, MONTHLY, 0.50158),
        (10, RecencyConfig(0.1), 0.36788),
    ],
)
def test_recency_weight_table(days: float, recency: RecencyConfig, weight: float) -> None:
    assert recency_weight(days, recency) == pytest.approx(weight, abs=5e-6)


@given(rates)
def test_half_life_is_half(rate: float) -> None:
    recency = RecencyConfig(rate)
    assert recency_weight(math.log(2) / rate, recency) == pytest.approx(0.5)
    assert recency_weight(recency.half_life, recency) == pytest.approx(0.5)


@given(st.floats(1e-3, 1e6))
def test_from_half_life_is_exact(days: float) -> None:
    assert recency_weight(days, RecencyConfig.from_half_life(days)) == pytest.approx(0.5)


def test_presets() -> None:
    presets = [
        RecencyConfig.DAILY_DECAY,
        RecencyConfig.WEEKLY_DECAY,
        RecencyConfig.MONTHLY_DECAY,
        RecencyConfig.QUARTERLY_DECAY,
    ]
    assert [preset.lambda_ for preset in presets] == [0.693, 0.099, 0.023, 0.0077]


@pytest.mark.parametrize("bad", [0, -0.1, math.nan, math.inf, -math.inf, "0.1", None, True])
def test_lambda_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"lambda: got .*, wanted a finite number > 0"):
        RecencyConfig(bad)
    with pytest.raises(InvalidInputError, match="half-life in days"):
        RecencyConfig.from_half_life(bad)


def test_half_life_too_small_for_a_finite_rate() -> None:
    with pytest.raises(InvalidInputError, match="lambda"):
        RecencyConfig.from_half_life(5e-324)


def test_serialised_key_is_lambda() -> None:
    assert WEEKLY.to_dict() == {"lambda": 0.099}
    assert RecencyConfig.from_dict({"lambda": 0.099}) == WEEKLY
    with pytest.raises(InvalidInputError, match="recency"):
        RecencyConfig.from_dict({"lambda_": 0.099})


def test_scalar_in_scalar_out_array_in_float32_out() -> None:
    assert type(recency_weight(1.5)) is float
    assert type(recency_weight(np.float64(1.5))) is float
    weights = recency_weight(np.array([[0.0, 7.0], [-1.0, 1e9]]))
    assert weights.dtype == np.float32
    assert weights.shape == (2, 2)
    assert recency_weight([1, 2, 3]).tolist() == [np.float32(recency_weight(d)) for d in (1, 2, 3)]
    assert recency_weight(np.array([])).shape == (0,)


def test_fractional_days_count() -> None:
    assert recency_weight(0.5) == math.exp(-0.099 * 0.5)


def test_nan_days_are_an_error() -> None:
    with pytest.raises(InvalidInputError, match="days: got NaN, wanted a number"):
        recency_weight(math.nan)
    with pytest.raises(InvalidInputError, match="days: got NaN in row 2"):
        recency_weight(np.array([0.0, 1.0, math.nan, math.nan]))


@pytest.mark.parametrize("bad", ["7", None, [1, "x"], [[1], [2, 3]], True])
def test_days_that_are_no_numbers(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="days"):
        recency_weight(bad)


def test_float32_underflow_is_exactly_zero() -> None:
    stored = recency_weight(np.array([1_000.0, 1_060.0]))
    assert stored[0] > 0
    assert stored[1] == 0.0
    assert 0.0 < recency_weight(1_060.0) < 1e-45
    assert recency_weight(np.array([math.inf, -math.inf])).tolist() == [0.0, 1.0]


@given(ages, ages, rates)
def test_weight_falls_with_age(younger: float, older: float, rate: float) -> None:
    younger, older = sorted((younger, older))
    recency = RecencyConfig(rate)
    assert 0 <= recency_weight(older, recency) <= recency_weight(younger, recency) <= 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), rates)
def test_vectorised_equals_scalar(days: list[float], rate: float) -> None:
    recency = RecencyConfig(rate)
    singles = np.array([recency_weight(day, recency) for day in days]).astype(np.float32)
    assert np.array_equal(recency_weight(np.array(days), recency), singles)


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 2.0])
def test_score_of_a_fresh_important_memory_is_its_distance(distance: float) -> None:
    assert hybrid_score(distance, 1, 1) == distance


@pytest.mark.parametrize(
    ("distance", "recency", "importance", "expected"),
    [
        (0.3, 0.3, 1, 1.0),
        (0.3, 1, 0.2, 1.5),
        (0.5, 0, 0, 4_194_304),
        (0, 0, 0, 0),
        (0, 1, 0.5, 0),
        (-1e-7, 0.5, 0.5, 0),
    ],
)
def test_hybrid_score_table(
    distance: float, recency: float, importance: float, expected: float
) -> None:
    assert hybrid_score(distance, recency, importance) == pytest.approx(expected)


def test_score_shapes_and_types() -> None:
    assert type(hybrid_score(0.3, 0.5, 1.0)) is float
    scores = hybrid_score(np.array([0.5, -1.0]), 0, np.array([[0.0], [1.0]]))
    assert isinstance(scores, np.ndarray)
    assert scores.dtype == np.float32
    assert scores.tolist() == [[4_194_304.0, 0.0], [4_194_304.0, 0.0]]
    with pytest.raises(InvalidInputError, match="shapes that fit"):
        hybrid_score(np.zeros(2), np.zeros(3), 1)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_in_a_score_is_named(place: int) -> None:
    names = ["distance", "recency_weight", "importance_score"]
    parts: list[Any] = [np.array([0.1, 0.2])] * 3
    parts[place] = np.array([0.1, math.nan])
    with pytest.raises(InvalidInputError, match=f"{names[place]}: got NaN in row 1"):
        hybrid_score(*parts)


@given(distances, distances, units, units)
def test_score_grows_with_distance(near: float, far: float, recency: float, weight: float) -> None:
    near, far = sorted((near, far))
    assert hybrid_score(near, recency, weight) <= hybrid_score(far, recency, weight)


@given(distances, units, units, units)
def test_score_falls_with_recency_and_importance(
    d: float, low: float, high: float, w: float
) -> None:
    low, high = sorted((low, high))
    assert hybrid_score(d, high, w) <= hybrid_score(d, low, w)
    assert hybrid_score(d, w, high) <= hybrid_score(d, w, low)


@given(st.floats(-2, 2), units, units)
def test_score_is_bounded(distance: float, recency: float, importance: float) -> None:
    assert 0 <= hybrid_score(distance, recency, importance) <= 2 / FLOAT32_EPSILON


def test_policy_floor_bounds_the_weight() -> None:
    policy = ScoringPolicy(recency=WEEKLY, floor=0.25)
    parts = policy.recency_part(np.array([0.0, 7.0, 1e6]))
    assert parts.tolist() == pytest.approx([1.0, 0.25 + 0.75 * recency_weight(7), 0.25])
    assert ScoringPolicy(WEEKLY, 0.0, 1.0, 0.0, 20.0, 0.0, 0.0, 0.0, 0.0) == ScoringPolicy.SEED
    assert ScoringPolicy.SEED.recency_part(np.array([7.0])) == pytest.approx(recency_weight(7))


@pytest.mark.parametrize("floor", [-0.1, 1.1, math.nan, "0.5", None])
def test_policy_refuses_a_bad_floor(floor: Any) -> None:
    with pytest.raises(InvalidInputError, match="floor"):
        ScoringPolicy(floor=floor)
    with pytest.raises(InvalidInputError, match="importance_weight"):
        ScoringPolicy(importance_weight=floor)
    with pytest.raises(InvalidInputError, match="recency"):
        ScoringPolicy(recency=0.1)  # type: ignore[arg-type]


def test_default_policy_puts_the_newer_of_two_equals_first() -> None:
    fresh, old = ScoringPolicy().recency_part(np.array([1.0, 60.0]))
    assert hybrid_score(0.4, fresh, 0.5) < hybrid_score(0.4, old, 0.5)


def test_importance_weight_says_how_much_of_it_counts() -> None:
    importance = np.array([0.0, 0.5, 1.0])
    for share, parts in ((0.0, [1, 1, 1]), (0.5, [0.5, 0.75, 1]), (1.0, [0, 0.5, 1])):
        assert ScoringPolicy(importance_weight=share).importance_part(importance).tolist() == parts


def test_default_policy_puts_the_important_of_two_equals_first() -> None:
    low, high = ScoringPolicy().importance_part(np.array([0.2, 0.9]))
    assert hybrid_score(0.4, high, 1) < hybrid_score(0.4, low, 1)


def test_ties_go_to_weight_then_newer_then_id() -> None:
    scores = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    weights = np.array([0.9, 0.2, 0.5, 0.5, 0.5])
    born = np.array([9, 9, 1, 2, 2])
    assert rank(scores, weights, born, ["a", "b", "c", "e", "d"]).tolist() == [4, 3, 2, 1, 0]


@given(st.lists(st.tuples(distances, units, st.integers(0, 5)), max_size=20))
def test_rank_is_the_sorted_order(rows: list[tuple[float, float, int]]) -> None:
    far = np.array([row[0] for row in rows], dtype=np.float64)
    weights = np.array([row[1] for row in rows], dtype=np.float64)
    born = np.array([row[2] for row in rows], dtype=np.int64)
    ids = [f"m{place:02}" for place in range(len(rows))]
    scores = score(far, weights)
    expected = sorted(range(len(rows)), key=lambda i: (scores[i], -weights[i], -born[i], ids[i]))
    assert rank(scores, weights, born, ids).tolist() == expected


def test_days_between_keeps_nanoseconds() -> None:
    day = 86_400_000_000_000
    assert days_between(np.array([0, day // 2, 3 * day]), day).tolist() == [1.0, 0.5, -2.0]


@given(st.datetimes(EARLIEST_NAIVE, LATEST_NAIVE), st.datetimes(EARLIEST_NAIVE, LATEST_NAIVE))
def test_days_between_never_wraps(since: datetime, now: datetime) -> None:
    start, end = (nanoseconds(moment.replace(tzinfo=UTC)) for moment in (since, now))
    (days,) = days_between(np.array([start]), end)
    assert days == pytest.approx((now - since) / timedelta(days=1), abs=1e-6)
