"""The top-k out of three sorted lists: as by a look at every row, wherever they are cut."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ailake
from ailake.core.episodic import FLOAT32_EPSILON, Floats, rank, score
from ailake.core.topk import (
    HEAVIEST,
    NEAREST,
    WORDS,
    Cuts,
    Limits,
    Listed,
    Places,
    Settled,
    TopK,
    Widening,
    exact_top_k,
    widening,
)

DAYS = 3_650


@dataclass
class Arrays:
    """Lists over rows whose values are all there, and what was asked of them.

    Attributes:
        slack: The nearest list names a distance that may be too small by so much.
        known: Rows whose distance is known at once, in part.
        short: How many rows fewer than asked for a list may hold.
    """

    distance: Floats
    weight: Floats
    lexical: Floats
    slack: Floats
    known: Floats
    short: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.distance)

    def nearest(self, length: int) -> Listed:
        self.asked.append((NEAREST, length))
        low = np.maximum(self.distance - self.slack, 0.0)
        order = np.argsort(low, kind="stable")
        kept = order if length >= self.size else order[: max(length - self.short, 0)]
        return Listed(kept, low[kept], low[order[len(kept)]] if len(kept) < self.size else np.inf)

    def heaviest(self, length: int) -> Listed:
        self.asked.append((HEAVIEST, length))
        order = np.argsort(-self.weight, kind="stable")
        kept = order[:length]
        reach = self.weight[order[length]] if length < self.size else -np.inf
        return Listed(kept, self.weight[kept], float(reach))

    def words(self, length: int) -> Listed:
        self.asked.append((WORDS, length))
        order = np.argsort(-self.lexical, kind="stable")
        order = order[self.lexical[order] > 0]
        kept = order[: max(length - self.short, 0)]
        cut = len(kept) < len(order)
        # The last value that is listed, where a list does not tell the next.
        reach = self.lexical[order[max(len(kept) - 1, 0)]] if cut else 0.0
        return Listed(kept, self.lexical[kept], float(reach))

    def heavier(self, weight: float) -> int:
        return int(np.count_nonzero(self.weight >= weight))

    def weights(self, rows: Places) -> Floats:
        return self.weight[rows]

    def floors(self, rows: Places) -> Floats:
        return self.known[rows] * self.distance[rows]

    def settle(self, rows: Places) -> Settled:
        assert not set(rows.tolist()) & set(self.settled)
        self.settled += rows.tolist()
        return Settled(self.distance[rows], self.lexical[rows])


def unit(values: list[float]) -> st.SearchStrategy[float]:
    return st.one_of(st.sampled_from(values), st.floats(0, 1))


@st.composite
def lists(draw: st.DrawFn) -> tuple[Arrays, ailake.ScoringPolicy]:
    """Rows of any distance, importance, age and words, with many alike."""
    size = draw(st.integers(1, 40))

    def column(values: st.SearchStrategy[float]) -> Floats:
        return draw(hnp.arrays(np.float64, size, elements=values))

    policy = ailake.ScoringPolicy(
        recency=ailake.RecencyConfig(draw(st.sampled_from([0.0077, 0.023, 0.099, 0.693, 5.0]))),
        floor=draw(unit([0.0, 0.5, 0.99, 1.0])),
        importance_weight=draw(unit([0.0, 0.5, 1.0])),
    )
    importance = column(unit([0.0, 0.5, 1.0]))
    days = column(st.one_of(st.sampled_from([0.0, 1.0, 400.0]), st.floats(-10, DAYS)))
    return Arrays(
        distance=column(st.one_of(st.sampled_from([0.0, 0.3, 2.0]), st.floats(0, 2))),
        weight=policy.recency_part(days) * policy.importance_part(importance),
        lexical=column(st.one_of(st.just(0.0), unit([0.05, 1.0]), st.floats(0, 2))),
        slack=column(st.sampled_from([0.0, 1e-4, 0.5])) * draw(st.booleans()),
        known=column(st.sampled_from([0.0, 0.5, 1.0])),
        short=draw(st.integers(0, 3)),
    ), policy


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    return Limits(
        k=draw(st.integers(1, 45)),
        max_distance=draw(st.sampled_from([np.inf, np.inf, 0.3, 1.0])),
        start={name: draw(st.integers(0, 45)) for name in (NEAREST, HEAVIEST, WORDS)},
        affordable=draw(st.integers(0, 45)),
        patience=draw(st.integers(0, 45)),
    )


def scores_of(rows: Arrays, asked: Limits) -> Floats:
    found = score(rows.distance - rows.lexical, rows.weight)
    return np.where(rows.distance > asked.max_distance, np.inf, found)


def ranked(scores: Floats, weight: Floats, rows: Places, k: int) -> list[int]:
    """The first k in the stated order; who is alike in all else is told apart by the id."""
    born = rows % 3
    ids = [f"m{row:03}" for row in rows.tolist()]
    order = rank(scores, weight, born, ids)
    return [int(row) for row in rows[order] if np.isfinite(scores[rows == row][0])][:k]


def answer(found: TopK, asked: Limits) -> list[int]:
    scores = score(found.settled.distance - found.settled.lexical, found.weight)
    return ranked(scores, found.weight, found.rows, asked.k)


@settings(max_examples=400)
@given(lists(), limits())
def test_as_by_brute_force(case: tuple[Arrays, ailake.ScoringPolicy], asked: Limits) -> None:
    rows, _ = case
    everything = np.arange(rows.size)
    scores = scores_of(rows, asked)
    found = exact_top_k(rows, asked)
    assert answer(found, asked) == ranked(scores, rows.weight, everything, asked.k)
    others = np.setdiff1d(everything, found.rows)
    if len(found.rows) >= asked.k:
        last = scores[found.rows].max()
        assert last < found.bound
        assert (scores[others] > last).all()
    assert len(rows.asked) <= 20
    assert set(found.widened) <= {NEAREST, HEAVIEST, WORDS}
    assert len(set(rows.settled)) <= found.scored <= rows.size


@settings(max_examples=200)
@given(lists(), limits())
def test_the_bound_holds_for_who_is_in_no_list(
    case: tuple[Arrays, ailake.ScoringPolicy], asked: Limits
) -> None:
    rows, _ = case
    heads = [rows.nearest(asked.start[NEAREST]), rows.heaviest(asked.start[HEAVIEST])]
    heads.append(rows.words(asked.start[WORDS]))
    outside = np.setdiff1d(np.arange(rows.size), np.concatenate([head.rows for head in heads]))
    cuts = Cuts(*(head.reach for head in heads))
    scores = score(rows.distance - rows.lexical, rows.weight)[outside]
    assert (scores >= cuts.bound).all()


LENGTHS = {NEAREST: 10, HEAVIEST: 5, WORDS: 10}


def assert_step(step: Widening, wanted: Widening) -> None:
    assert replace(step, to=wanted.to) == wanted
    assert step.to == pytest.approx(wanted.to)


def rows_of(distance: Floats, weight: Floats) -> Arrays:
    nothing = np.zeros(len(distance))
    return Arrays(distance, weight, nothing, nothing, nothing)


def test_the_heaviest_list_is_read_down_to_what_could_win() -> None:
    rows = rows_of(np.ones(100), np.linspace(1, 0.01, 100))
    step = widening(Cuts(0.4, 0.9, 0.0), 0.5, LENGTHS, lists=rows, limits=Limits(10))
    assert_step(step, Widening(HEAVIEST, 0.8, 21))
    assert Cuts(0.4, rows.heaviest(21).reach, 0.0).bound > 0.5


def test_the_nearest_list_where_too_many_are_heavy() -> None:
    rows = rows_of(np.ones(100), np.linspace(1, 0.01, 100))
    step = widening(Cuts(0.3, 0.9, 0.0), 0.5, LENGTHS, lists=rows, limits=Limits(10))
    assert_step(step, Widening(NEAREST, 0.45, 40))
    rows = rows_of(np.ones(1_000), np.linspace(1, 0.001, 1_000))
    wide = Limits(10, affordable=245)
    assert widening(Cuts(0.38, 0.9, 0.0), 0.5, LENGTHS, lists=rows, limits=wide).which == HEAVIEST
    # More than a quarter of all.
    wide = Limits(10, affordable=900)
    assert widening(Cuts(0.37, 0.9, 0.0), 0.5, LENGTHS, lists=rows, limits=wide).which == NEAREST


def test_the_list_of_words_where_they_spoil_the_bound() -> None:
    rows = rows_of(np.ones(100), np.ones(100))
    step = widening(Cuts(0.5, 1.0, 0.4), 0.4, LENGTHS, lists=rows, limits=Limits(10))
    assert_step(step, Widening(WORDS, 0.1, 40))
    assert Cuts(0.5, 1.0, 0.09).bound > 0.4 >= Cuts(0.5, 1.0, 0.11).bound
    step = widening(Cuts(0.5, 1.0, 0.005), 0.6, LENGTHS, lists=rows, limits=Limits(10))
    assert_step(step, Widening(NEAREST, 0.605, 40))
    step = widening(Cuts(-0.1, 1.0, 0.0), 0.4, LENGTHS, lists=rows, limits=Limits(10))
    assert step.which == NEAREST
    long = {**LENGTHS, WORDS: 641}
    assert widening(Cuts(0.5, 1.0, 0.4), 0.4, long, lists=rows, limits=Limits(10)).which == NEAREST


def test_below_the_epsilon_the_heaviest_list_is_of_no_use() -> None:
    """What is lighter divides like the epsilon: reading on there would never prove anything."""
    weight = np.nextafter(FLOAT32_EPSILON, 0)
    rows = rows_of(np.full(100, 0.5), np.append(np.full(20, weight), np.zeros(80)))
    cuts = Cuts(0.5 * (1 - 2**-51), weight, 0.0)
    step = widening(
        cuts, 0.5 / FLOAT32_EPSILON, LENGTHS, lists=rows, limits=Limits(1, affordable=20)
    )
    assert step.which == NEAREST


def test_only_what_could_win_is_looked_up() -> None:
    """All of the heaviest are behind from where the nearest list ends, but for one."""
    distance, weight = np.linspace(0.1, 1, 1_000), np.roll(np.linspace(1, 0.5, 1_000), 500)
    rows = rows_of(distance, weight)
    start = {NEAREST: 100, HEAVIEST: 400, WORDS: 0}
    found = exact_top_k(rows, Limits(1, start=start))
    assert found.widened == ()
    assert rows.settled == [0, 1, 2, 3]
    rows.settled.clear()
    rows.weight[900] = 1.8
    exact_top_k(rows, Limits(1, start=start))
    assert 900 in rows.settled
    known = np.where(np.arange(1_000) == 900, 1.0, 0.0)
    rows = Arrays(distance, rows.weight, np.zeros(1_000), np.zeros(1_000), known)
    exact_top_k(rows, Limits(1, start=start))
    assert 900 not in rows.settled


def test_too_many_matches_of_words_are_not_looked_up_one_by_one() -> None:
    """Where the nearest list ends, each of them could still win; a little further none can."""
    rows = rows_of(np.linspace(0.5, 2.0, 1_000), np.ones(1_000))
    rows.lexical[100:900] = 0.1
    limits = Limits(2, start={NEAREST: 10, HEAVIEST: 0, WORDS: 1_000}, patience=30)
    found = exact_top_k(rows, limits)
    assert sorted(found.rows.tolist()) == [0, 1]
    assert set(found.widened) == {NEAREST}
    assert len(rows.settled) < 50
    rows.settled.clear()
    found = exact_top_k(rows, replace(limits, patience=1_000))
    assert sorted(found.rows.tolist()) == [0, 1]
    assert found.widened == ()
    assert len(rows.settled) > 800


def test_few_rows_of_many_are_looked_at() -> None:
    draw = np.random.default_rng(3)
    size = 100_000
    rows = rows_of(draw.uniform(0.2, 1.2, size), np.exp(-0.099 * draw.uniform(0, 365, size)))
    found = exact_top_k(rows, Limits(10))
    everything = np.arange(size)
    scores = score(rows.distance, rows.weight)
    assert answer(found, Limits(10)) == ranked(scores, rows.weight, everything, 10)
    assert found.scored < 5_000
    assert len(rows.settled) < 3_000


def test_all_alike_are_all_looked_at_and_all_come_back() -> None:
    rows = rows_of(np.full(2_000, 0.5), np.full(2_000, 0.5))
    found = exact_top_k(rows, Limits(3))
    assert found.rows.tolist() == list(range(2_000))
    assert found.widened == (NEAREST,)


def test_what_is_too_far_is_not_there() -> None:
    rows = rows_of(np.linspace(0, 2, 1_000), np.ones(1_000))
    found = exact_top_k(rows, Limits(50, max_distance=0.01))
    assert sorted(found.rows.tolist()) == [0, 1, 2, 3, 4]
    assert found.scored < 1_000
    assert max(rows.settled) < 5
