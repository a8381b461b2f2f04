"""Stage two: what the turns around a memory, its speaker and its length add."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core.evidence import (
    BRIEF_TURN,
    SHORT_TURN,
    Turns,
    brevity,
    final_scores,
    neighbour_evidence,
    pool_size,
    speaker_evidence,
)


def turns(before: list[int], after: list[int], lengths: list[int]) -> Turns:
    count = len(lengths)
    return Turns(
        np.array(before, np.intp),
        np.array(after, np.intp),
        np.array(lengths, np.int64),
        [""] * count,
        [date(2024, 1, 1)] * count,
    )


def test_a_turn_gets_of_what_the_turns_around_it_have() -> None:
    near = np.array([0.2, 0.9, 0.5, 0.8, 1.0])
    row = turns([-1, 0, 1, 2, -1], [1, 2, 3, -1, -1], [100] * 5)
    # The farthest of all, 1.0, is where evidence begins.
    wanted = [0.1 + 0.5 / 3, 0.8 + 0.5 + 0.2 / 3, 0.1 + 0.8 / 3 + 0.2, 0.5 + 0.1 / 3, 0.0]
    assert neighbour_evidence(near, row).tolist() == pytest.approx(wanted)


def test_nothing_comes_from_behind_a_turn_that_is_not_there() -> None:
    near = np.array([0.0, 1.0, 1.0])
    whole = turns([-1, 0, 1], [1, 2, -1], [100] * 3)
    parted = turns([-1, -1, 1], [-1, 2, -1], [100] * 3)
    assert neighbour_evidence(near, whole).tolist() == pytest.approx([0.0, 1.0, 1 / 3])
    assert neighbour_evidence(near, parted).tolist() == [0.0, 0.0, 0.0]


def test_long_turns_get_little() -> None:
    near = np.array([0.0, 1.0])
    pair = ([-1, 0], [1, -1])
    (_, short) = neighbour_evidence(near, turns(*pair, [SHORT_TURN] * 2))
    (_, mixed) = neighbour_evidence(near, turns(*pair, [SHORT_TURN * 3, SHORT_TURN]))
    (_, long) = neighbour_evidence(near, turns(*pair, [SHORT_TURN * 10] * 2))
    assert (short, mixed, long) == pytest.approx((1.0, 1 / 8, 1 / 1000))


def test_a_long_turn_between_parts_short_ones() -> None:
    near = np.array([0.0, 1.0, 1.0])
    row = turns([-1, 0, 1], [1, 2, -1], [SHORT_TURN, 4 * SHORT_TURN, SHORT_TURN])
    assert neighbour_evidence(near, row)[2] == pytest.approx(1 / 3 / 8)


@given(st.data())
def test_evidence_is_within_what_the_turns_around_can_give(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 20))
    places = st.lists(st.integers(-1, count - 1), min_size=count, max_size=count)
    lengths = data.draw(st.lists(st.integers(0, 5_000), min_size=count, max_size=count))
    near = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=count, max_size=count)))
    found = neighbour_evidence(near, turns(data.draw(places), data.draw(places), lengths))
    assert found.shape == (count,)
    if count:
        assert found.min() >= 0
        assert found.max() <= 8 / 3 * (near.max() - near.min()) + 1e-12


@pytest.mark.parametrize(
    ("text", "speaker", "named"),
    [
        ("What can't Ana eat?", "Ana", True),
        ("what can't ana eat?", "Ana", True),
        ("What did Ana say?", "Ana Lima", True),
        ("Where is Anatolia?", "Ana", False),
        ("What did Ana say?", "", False),
        ("安娜不能吃什么", "安娜", True),
        ("小明去哪儿了", "安娜", False),
        ("What about (Bo)?", "(Bo)", True),
        ("a.b", "a+b", False),
    ],
)
def test_speaker(text: str, speaker: str, named: bool) -> None:  # noqa: FBT001
    assert speaker_evidence(text, [speaker]).tolist() == [float(named)]


def test_brevity_counts_against_the_short_alone() -> None:
    lengths = np.array([0, 1, BRIEF_TURN // 2, BRIEF_TURN, 10 * BRIEF_TURN])
    expected = [np.log(BRIEF_TURN), np.log(BRIEF_TURN), np.log(2), 0, 0]
    assert brevity(lengths).tolist() == pytest.approx(expected)


@given(
    st.floats(-3, 3),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_more_weight_never_makes_a_score_worse(near: float, first: float, second: float) -> None:
    light, heavy = sorted([first, second])
    scores = final_scores(np.array([near, near]), np.array([light, heavy]))
    assert scores[1] <= scores[0]
    assert np.sign(scores).tolist() in ([np.sign(near)] * 2, [0, np.sign(near)], [0, 0])


def test_final_scores_meet_at_zero() -> None:
    near = np.array([-0.4, 0.0, 0.4])
    assert final_scores(near, np.full(3, 0.5)).tolist() == [-0.2, 0.0, 0.8]


def test_pool() -> None:
    assert [pool_size(1), pool_size(10), pool_size(11), pool_size(20)] == [100, 100, 110, 200]
