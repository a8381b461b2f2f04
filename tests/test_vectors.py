"""Which index of vectors is chosen, and what is kept of its measuring: pure."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake import IndexPolicy, InvalidInputError, LakeCorruptError
from ailake.core.vectors import (
    IndexAction,
    Measured,
    SearchParameters,
    VectorKind,
    action_for,
    efforts,
    share_found,
)

SQ, HNSW = VectorKind.IVF_SQ, VectorKind.IVF_HNSW_SQ
KINDS = st.sampled_from(VectorKind)


def test_what_recall_holds_in_memory_needs_no_index() -> None:
    policy = IndexPolicy()
    assert policy.choose(0, 384) is None
    assert policy.choose(230_614, 384) is None
    assert policy.choose(230_615, 384) is SQ
    assert policy.choose(230_614, 512) is SQ
    assert policy.choose(50_000_000, 384) is SQ


def test_a_graph_where_it_is_asked_for() -> None:
    policy = IndexPolicy(graph_rows=1_000_000)
    assert policy.choose(999_999, 384) is SQ
    assert policy.choose(1_000_000, 384) is HNSW
    assert policy.candidates(1_000_000, 384) == (HNSW, SQ)


@given(st.integers(0, 10_000_000), st.integers(1, 2_048))
def test_all_kinds_are_tried_or_none(rows: int, dim: int) -> None:
    policy = IndexPolicy()
    kinds = policy.candidates(rows, dim)
    assert set(kinds) in (set(), set(VectorKind))
    assert (kinds[0] if kinds else None) is policy.choose(rows, dim)


@pytest.mark.parametrize(
    "wrong",
    [{"min_bytes": -1}, {"graph_rows": 0}, {"recall": 0.0}, {"recall": 1.1}, {"limit": 0},
     {"sample": 0}],
)  # fmt: skip
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidInputError, match=f"{name}: got"):
        IndexPolicy(**wrong)


@given(KINDS, st.integers(1, 5_000))
def test_every_effort_gives_true_distances(kind: VectorKind, limit: int) -> None:
    tried = efforts(kind)
    for one in tried:
        options = one.query(limit)
        assert options["refine_factor"] >= 1
        assert ("ef" in options) == (kind is HNSW)
        # A graph has to keep in view what is to be compared.
        assert options.get("ef", limit * one.refine_factor) >= limit * one.refine_factor
    costs = [one.nprobes * one.refine_factor * max(one.ef, 1) for one in tried]
    assert costs == sorted(set(costs))


MEASURED = st.builds(
    Measured,
    KINDS,
    st.floats(0, 1),
    st.builds(SearchParameters, st.integers(1, 500), st.integers(1, 9), st.integers(0, 9)),
    st.integers(1, 10_000),
    st.floats(0.01, 1),
    st.lists(st.uuids().map(str), max_size=3).map(tuple),
)


@given(MEASURED)
def test_what_was_measured_is_read_as_it_was_written(measured: Measured) -> None:
    assert Measured.from_json(measured.to_json()) == measured


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"kind": "x"}', '"IVF_SQ"'])
def test_what_is_something_else_is_an_error(text: str) -> None:
    with pytest.raises(LakeCorruptError, match="counts as not measured"):
        Measured.from_json(text)


def test_what_a_run_does() -> None:
    good = Measured(SQ, 0.995, SearchParameters(5, 2), 1_000, 0.99, ("a",))

    def action(wanted: VectorKind | None, present: str | None, known: Measured | None) -> str:
        return action_for(wanted, present, known, goal=0.99)

    assert action(None, None, None) is IndexAction.NONE
    assert action(None, "IVF_SQ", None) is IndexAction.KEEP
    assert action(SQ, None, None) is IndexAction.BUILD
    assert action(SQ, "IVF_SQ", None) is IndexAction.MEASURE
    assert action(SQ, "IVF_SQ", good) is IndexAction.KEEP
    assert action(HNSW, "IVF_SQ", good) is IndexAction.KEEP
    assert action(SQ, "IVF_PQ", None) is IndexAction.KEEP
    assert action_for(SQ, "IVF_SQ", good, goal=0.999) is IndexAction.BUILD


def test_the_share_counts_equals_and_no_row_twice() -> None:
    far = [0.5, 0.2]
    assert share_found([([1, 2], [0.1, 0.5]), ([3, 4], [0.1, 0.2])], far, 2) == 1.0
    assert share_found([([1, 9], [0.1, 0.6]), ([3, 4], [0.1, 0.2])], far, 2) == 0.75
    assert share_found([([1, 1], [0.1, 0.1]), ([3], [0.1])], far, 2) == 0.5
    # Three are equally far: any two of them will do, and three are no more than was wanted.
    assert share_found([([1, 2, 3], [0.5, 0.5, 0.5]), ([], [])], far, 2) == 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_the_truth_has_a_share_of_one(seed: int, limit: int) -> None:
    distances = np.random.default_rng(seed).choice(7, (3, 40)) / 7
    order = np.argsort(distances, axis=1)[:, :limit]
    nearest = np.take_along_axis(distances, order, axis=1)
    found = [(rows.tolist(), near.tolist()) for rows, near in zip(order, nearest, strict=True)]
    assert share_found(found, nearest.max(axis=1).tolist(), limit) == 1.0
