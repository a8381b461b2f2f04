"""The plan of a compaction: which fragments become one, and which versions go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake import InvalidInputError
from ailake.core.compaction import (
    CompactionPolicy,
    Fragment,
    Reason,
    Rewrite,
    old_versions,
    plan_rewrites,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = CompactionPolicy(target_rows=1_000)
INDEXED = frozenset({"part"})


def fragments(*sizes: int, **shape: Any) -> list[Fragment]:
    return [Fragment(place, size, **shape) for place, size in enumerate(sizes)]


def merged(*sizes: int, policy: CompactionPolicy = POLICY) -> list[tuple[int, ...]]:
    return [one.fragments for one in plan_rewrites(fragments(*sizes), policy)]


def test_small_neighbours_become_one_up_to_the_target() -> None:
    assert merged(400, 500, 200, 300) == [(0, 1), (2, 3)]
    assert merged(600, 600, 600) == []
    assert merged(10, 2_000, 10, 10) == [(2, 3)]
    assert merged(10) == merged() == merged(1_000, 1_000) == []


def test_only_what_the_same_parts_of_indexes_cover_is_merged() -> None:
    listed = [Fragment(0, 5, parts=INDEXED), Fragment(1, 5, parts=INDEXED), Fragment(2, 5)]
    assert [one.fragments for one in plan_rewrites(listed, POLICY)] == [(0, 1)]


def test_a_large_fragment_is_not_rewritten_for_a_few_rows() -> None:
    """Otherwise a weekly run would rewrite the table for a week's writes."""
    policy = CompactionPolicy()
    assert merged(100_000, 7, policy=policy) == [(0, 1)]
    assert merged(200_000, 7, policy=policy) == []
    assert merged(200_000, 7, 8, policy=policy) == [(1, 2)]
    assert merged(3, 4, 900_000, 7, 8, policy=policy) == [(0, 1), (3, 4)]
    assert merged(200_000, 100_000, 100_000, policy=policy) == [(0, 1, 2)]


def test_a_fragment_of_many_deleted_rows_or_files_is_rewritten_alone() -> None:
    many, few = Fragment(3, 5_000, deleted=501), Fragment(4, 5_000, deleted=500)
    stacked, pair = Fragment(5, 5_000, files=4), Fragment(6, 5_000, files=3)
    assert plan_rewrites([many, few, stacked, pair], POLICY) == (
        Rewrite((3,), 4_499, 501, 1, Reason.DELETIONS),
        Rewrite((5,), 5_000, 0, 4, Reason.FILES),
    )
    small = Fragment(0, 10, deleted=9, files=9)
    assert plan_rewrites([small], POLICY)[0].reason is Reason.DELETIONS
    assert plan_rewrites([small, Fragment(1, 3)], POLICY)[0].reason is Reason.SMALL


SHAPES = st.builds(
    lambda rows, share, files, parts: Fragment(0, rows, int(rows * share), files, parts),
    st.integers(1, 400_000),
    st.floats(0, 1),
    st.integers(1, 6),
    st.sampled_from([frozenset(), INDEXED]),
)


@given(st.lists(SHAPES, max_size=30), st.integers(1, 1_000_000))
def test_every_plan(shapes: list[Fragment], target: int) -> None:
    """Each fragment once, in order, neighbours alone; runs come to an end."""
    policy = CompactionPolicy(target_rows=target)
    for _ in range(2 * len(shapes) + 2):
        listed = [
            Fragment(place, one.rows, one.deleted, one.files, one.parts)
            for place, one in enumerate(shapes)
        ]
        plan = plan_rewrites(listed, policy)
        if not plan:
            return
        taken = [one for rewrite in plan for one in rewrite.fragments]
        assert taken == sorted(set(taken))
        shapes = [one for one in listed if one.id not in taken]
        for rewrite in plan:
            first, last = rewrite.fragments[0], rewrite.fragments[-1]
            group = listed[first : last + 1]
            assert len(group) == len(rewrite.fragments)
            assert len({one.parts for one in group}) == 1
            assert rewrite.rows == sum(one.live for one in group)
            assert rewrite.rows <= target or len(group) == 1
            # The engine puts what it has made at the end.
            shapes.append(Fragment(0, rewrite.rows, parts=group[0].parts))
    pytest.fail("the plans never end")


def test_old_versions() -> None:
    made = {n: NOW - (10 - n) * DAY for n in range(1, 8)}
    assert old_versions(made, [2], now=NOW, keep=5 * DAY) == (1, 3, 4)
    assert old_versions(made, [], now=NOW, keep=timedelta(0)) == (1, 2, 3, 4, 5, 6)
    assert old_versions(made, [], now=NOW, keep=timedelta.max) == ()
    assert old_versions({}, [], now=NOW, keep=DAY) == ()


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"target_rows": 0}, "target_rows: got 0, wanted a whole number >= 1"),
        ({"target_rows": 1e6}, "target_rows: got 1000000.0"),
        ({"max_files": True}, "max_files: got True"),
        ({"max_deleted": -0.1}, r"max_deleted: got -0.1, wanted a number in \[0, 1\]"),
        ({"keep_versions": 0 * DAY}, "keep_versions: got .* wanted a timedelta >= 0:01:00"),
        ({"keep_versions": 7}, "keep_versions: got 7"),
        ({"orphan_grace": timedelta(minutes=59)}, "orphan_grace: got .* >= 1:00:00"),
    ],
)
def test_bad_policies(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidInputError, match=wrong):
        CompactionPolicy(**options)
