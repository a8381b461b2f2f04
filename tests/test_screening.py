"""Which rows can be among the best: none of these is left out, whatever the instant."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ailake
from ailake.core.episodic import NANOSECONDS_PER_DAY, days_between, score
from ailake.storage import screening
from ailake.storage.coded import Aim, Bounds, Vectors
from ailake.storage.resident import Rows
from ailake.storage.screening import Weights, promising

NOW = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) * 10**9
MAX_COUNT = 400

policies = st.builds(
    ailake.ScoringPolicy,
    st.sampled_from([0.001, 0.023, 0.099, 0.693, 40.0]).map(ailake.RecencyConfig),
    st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
)


def rows_of(rng: np.random.Generator, count: int, *, distinct: bool) -> Rows:
    halves = rng.standard_normal((count, 12)).astype(np.float16)
    ages = rng.uniform(-3, 900, count)
    importance = rng.random(count)
    if not distinct:
        halves[:] = halves[rng.integers(max(1, count // 10), size=count)]
        ages, importance = np.rint(ages / 400) * 400, np.rint(importance * 2) / 2
    columns = {
        "last": NOW - (ages * NANOSECONDS_PER_DAY).astype(np.int64),
        "importance": importance,
    }
    names = [f"m{n}" for n in range(count)]
    vectors = Vectors.none(12).extended(halves)
    return Rows(count, vectors, columns, names, np.ones(count, np.bool_), {})


def scores_of(
    rows: Rows, distance: NDArray[np.float64], policy: ailake.ScoringPolicy, now: int
) -> NDArray[np.float64]:
    days = days_between(rows.column("last"), now)
    weight = policy.recency_part(days) * policy.importance_part(rows.column("importance"))
    return score(distance, weight)


@settings(deadline=None)
@given(st.data(), policies)
def test_the_best_by_brute_force_are_among_them(
    data: st.DataObject, policy: ailake.ScoringPolicy
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count = data.draw(st.integers(1, MAX_COUNT))
    rows = rows_of(rng, count, distinct=data.draw(st.booleans()))
    weights, now = Weights(), NOW
    for _ in range(3):
        now += int(data.draw(st.floats(-2, 2)) * NANOSECONDS_PER_DAY)
        met = data.draw(st.lists(st.integers(0, count - 1), max_size=5))
        rows.columns["last"][met] = np.maximum(rows.columns["last"][met], now)
        weights.change(rows, met)
        query = rng.standard_normal(12).astype(np.float32)
        distance = rows.vectors.distances_at(np.arange(count), Aim.at(query))
        seen = rng.random(count) < 0.7 if data.draw(st.booleans()) else None
        most = data.draw(st.sampled_from([None, 0.5, float(distance[0]), 2.0]))
        limit = data.draw(st.integers(1, 12))
        divisors = weights.divisors(rows, policy, now)
        bounds = rows.vectors.bounds(Aim.at(query))
        if data.draw(st.booleans()):
            bounds = Bounds(
                *(np.nextafter(distance.astype("f4"), np.float32(to)) for to in (-9, 9))
            )
        taken, words = np.zeros(count), None
        if data.draw(st.booleans()):
            # Some are nothing but words, most of the others are not met by any.
            taken = np.where(rng.random(count) < 0.3, rng.choice([0.1, 1.0, 3.0], count), 0.0)
            width = data.draw(st.sampled_from([0.0, 0.2]))
            words = Bounds((taken - width).astype("f4"), (taken + width).astype("f4"))
        places = promising(bounds, divisors, limit=limit, seen=seen, max_distance=most, words=words)
        scores = scores_of(rows, np.maximum(distance - taken, 0), policy, now)
        if seen is not None:
            assert seen[places].all()
            scores[~seen] = np.inf
        if most is not None:
            scores[distance > most] = np.inf
        worst = np.sort(scores)[min(limit, count) - 1]
        best = np.flatnonzero(np.isfinite(scores) & (scores <= worst))
        assert not set(best.tolist()) - set(places.tolist())
        assert list(places) == sorted(set(places.tolist()))


def test_rows_that_change_places_as_time_passes() -> None:
    """One does not age yet; the other one falls behind it within the minutes of a bound."""
    policy = ailake.ScoringPolicy(ailake.RecencyConfig.WEEKLY_DECAY, 0.0, 0.0)
    rows = rows_of(np.random.default_rng(0), 2, distinct=True)
    rows.columns["last"][:] = [NOW + 9 * NANOSECONDS_PER_DAY, NOW]
    weights = Weights()
    distance = np.array([0.5, 0.49985])
    near = Bounds(*(np.nextafter(distance.astype("f4"), np.float32(to)) for to in (-9, 9)))
    for minutes, best in ((0, 1), (9, 0), (-9, 1)):
        now = NOW + minutes * 60 * 10**9
        scores = scores_of(rows, distance, policy, now)
        assert int(np.argmin(scores)) == best
        assert best in promising(near, weights.divisors(rows, policy, now), limit=1)


@settings(deadline=None)
@given(st.data(), policies)
def test_weights_are_within_their_bounds(data: st.DataObject, policy: ailake.ScoringPolicy) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = rows_of(rng, 50, distinct=True)
    weights = Weights()
    for _ in range(6):
        seconds = data.draw(st.integers(-100_000, 100_000))
        now = NOW + seconds * 10**9
        divisors = weights.divisors(rows, policy, now)
        wanted = 1 / scores_of(rows, np.ones(50), policy, now)
        ratio = divisors.inverse * wanted
        assert 1 <= divisors.factor < 1.01
        assert ratio.max() <= divisors.factor
        assert ratio.min() >= 1 / divisors.factor


def test_weights_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(np.random.default_rng(0), 50, distinct=True)
    computed: Counter[int] = Counter()
    inverse = screening._inverse

    def counted(rows: Rows, policy: ailake.ScoringPolicy, now: int, at: slice) -> object:
        computed[len(rows.columns["last"][at])] += 1
        return inverse(rows, policy, now, at)

    monkeypatch.setattr(screening, "_inverse", counted)
    weights, policy = Weights(), ailake.ScoringPolicy()
    for minute in range(30):
        weights.divisors(rows, policy, NOW + minute * 60 * 10**9)
    assert computed == {50: 1}
    weights.divisors(rows, policy, NOW + int(timedelta(days=7).total_seconds()) * 10**9)
    assert computed == {50: 2}


def test_few_rows_are_left_to_look_at() -> None:
    rng = np.random.default_rng(2)
    count = 5_000
    halves = rng.standard_normal((count, 64)).astype(np.float16)
    columns = {"last": np.full(count, NOW), "importance": rng.random(count)}
    names = [f"m{n}" for n in range(count)]
    vectors = Vectors.none(64).extended(halves)
    rows = Rows(count, vectors, columns, names, np.ones(count, np.bool_), {})
    query = rng.standard_normal(64).astype(np.float32)
    divisors = Weights().divisors(rows, ailake.ScoringPolicy(), NOW)
    assert len(promising(rows.vectors.bounds(Aim.at(query)), divisors, limit=10)) < 100
