"""IndexJob on real lakes: built, measured, kept, given up, read by others and in the past."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake.core import indexing, vectors
from ailake.core.vectors import MEASURED_KEY, IndexAction, SearchParameters, VectorKind
from ailake.maintenance import IndexedTable, IndexJob
from ailake.storage.vectors import VectorIndex, keep_measured, vector_index

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIM = 64
POLICY = ailake.IndexPolicy(min_bytes=0, limit=100, sample=16)
ONLY_ROUGH = {
    kind: (SearchParameters(1, 1, ef),) for kind, ef in zip(VectorKind, (0, 1), strict=True)
}

Vectors = NDArray[np.float32]


def fill(lake: ailake.Lake, count: int, *, seed: int = 0, agent: str = "a") -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    items = [
        {"text": f"{agent} {seed} {n}", "id": f"{agent}-{seed}-{n}", "vector": v}
        for n, v in enumerate(drawn)
    ]
    lake.memory(agent).remember_many(items, now=NOW)
    return drawn


def present(lake: ailake.Lake, table: str = "episodic") -> VectorIndex | None:
    return vector_index(lake.store.tables[table].fresh())


def run(lake: ailake.Lake, policy: ailake.IndexPolicy = POLICY, **options: Any) -> IndexedTable:
    dry_run = options.pop("dry_run", False)
    return IndexJob(lake, policy=policy, **options).run(NOW, dry_run=dry_run).tables[0]


def segments(lake: ailake.Lake) -> tuple[str, ...]:
    found = present(lake)
    assert found is not None
    assert found.measured is not None
    return found.measured.segments


@pytest.fixture
def large(lake: ailake.Lake) -> ailake.Lake:
    fill(lake, 2_000)
    lake.flush()
    return lake


def test_a_dry_run_changes_nothing(large: ailake.Lake) -> None:
    before = large.table("episodic").version
    planned = run(large, dry_run=True)
    assert (planned.action, planned.kind, planned.recall) == (IndexAction.BUILD, "IVF_SQ", None)
    assert (planned.rows, planned.scope_rows) == (2_000, 2_000)
    assert large.table("episodic").version == before
    assert present(large) is None


def test_the_largest_scope_decides(large: ailake.Lake) -> None:
    """Many small scopes are each held in memory, however many rows the table has."""
    fill(large, 500, agent="b")
    just = ailake.IndexPolicy(min_bytes=2_000 * vectors.resident_bytes(DIM))
    planned = run(large, just, dry_run=True)
    assert (planned.action, planned.rows, planned.scope_rows) == (IndexAction.NONE, 2_500, 2_000)
    less = ailake.IndexPolicy(min_bytes=2_000 * vectors.resident_bytes(DIM) - 1)
    assert run(large, less, dry_run=True).action is IndexAction.BUILD
    assert IndexJob(large).run(NOW).tables[0].action is IndexAction.NONE
    assert present(large) is None


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_it_is_built_measured_and_used(large: ailake.Lake) -> None:
    drawn = fill(large, 300, seed=1, agent="b")
    done = run(large)
    assert (done.action, done.kind, done.missed) == (IndexAction.BUILD, "IVF_SQ", ())
    assert done.recall is not None
    assert 0.99 <= done.recall <= 1.0
    assert done.bytes > 2_300 * DIM
    found = present(large)
    assert found is not None
    assert (found.indexed_rows, found.unindexed_rows) == (2_300, 0)
    assert (found.recall, found.parameters) == (done.recall, done.parameters)
    memory = large.memory("b")
    hits = memory.recall(drawn[7], limit=10, now=NOW, touch=False)
    assert (hits.exact, hits.bound_held) == (False, True)
    exact = memory.recall(drawn[7], limit=10, now=NOW, touch=False, exact=True)
    assert [hit.id for hit in hits] == [hit.id for hit in exact]
    assert [hit.distance for hit in hits] == pytest.approx(
        [hit.distance for hit in exact], abs=1e-4
    )


def test_recall_is_measured_as_a_search_finds(large: ailake.Lake) -> None:
    """The share that is told is the one that a look at every row finds."""
    run(large, replace(POLICY, recall=0.5))
    found = present(large)
    assert found is not None
    assert found.parameters is not None
    dataset = large.store.episodic.snapshot()
    rows = dataset.to_table(columns=["embedding"], with_row_id=True)
    flat = rows["embedding"].combine_chunks().flatten().to_numpy().astype(np.float32)
    stored = flat.reshape(rows.num_rows, -1)
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    chosen = np.random.default_rng(0).choice(np.sort(rows["_rowid"].to_numpy()), 16, replace=False)
    shares = []
    for query in stored[np.isin(rows["_rowid"].to_numpy(), chosen)]:
        nearest = np.argsort(1 - stored @ query, kind="stable")[:100]
        options = {"column": "embedding", "q": query, "k": 100, "metric": "cosine"}
        listed = (
            dataset.scanner(
                columns=["_distance"],
                nearest={**options, **found.parameters.query(100)},
                with_row_id=True,
            )
            .to_table()["_rowid"]
            .to_pylist()
        )
        shares.append(len({*rows["_rowid"].to_numpy()[nearest].tolist()} & {*listed}) / 100)
    assert found.recall == pytest.approx(np.mean(shares), abs=0.002)
    assert found.recall is not None
    assert found.recall < 1.0


def test_more_effort_is_made_until_the_goal_is_reached(large: ailake.Lake) -> None:
    rough = run(large, replace(POLICY, recall=0.5))
    assert rough.parameters == SearchParameters(5, 1)
    fine = run(large, replace(POLICY, recall=0.999))
    assert fine.action is IndexAction.BUILD
    assert fine.parameters == SearchParameters(5, 2)
    assert fine.recall is not None
    assert fine.recall >= 0.999


def test_the_same_lake_is_measured_alike(large: ailake.Lake) -> None:
    first, again = run(large), run(large, rebuild=True)
    assert (first.recall, first.parameters) == (again.recall, again.parameters)


def test_where_no_kind_reaches_the_goal_there_is_none(
    large: ailake.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vectors, "_EFFORTS", ONLY_ROUGH)
    with caplog.at_level(logging.WARNING, "ailake"):
        done = run(large, replace(POLICY, recall=1.0))
    assert (done.action, done.kind, done.recall) == (IndexAction.BUILD, None, None)
    assert [missed.kind for missed in done.missed] == ["IVF_SQ", "IVF_HNSW_SQ"]
    assert all(0.3 < missed.recall < 1.0 for missed in done.missed)
    assert "it is dropped" in caplog.text
    assert present(large) is None


def test_the_next_kind_is_tried(large: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    efforts = {**ONLY_ROUGH, VectorKind.IVF_HNSW_SQ: (SearchParameters(5, 8, 2),)}
    monkeypatch.setattr(vectors, "_EFFORTS", efforts)
    done = run(large, replace(POLICY, recall=1.0))
    assert (done.kind, [missed.kind for missed in done.missed]) == ("IVF_HNSW_SQ", ["IVF_SQ"])
    assert done.recall == 1.0


def test_what_is_good_is_kept_and_what_is_asked_for_rebuilt(large: ailake.Lake) -> None:
    run(large)
    first, before = segments(large), large.table("episodic").version
    assert run(large).action is IndexAction.KEEP
    assert (segments(large), large.table("episodic").version) == (first, before)
    assert run(large, rebuild=True).action is IndexAction.BUILD
    assert segments(large) != first


def test_what_nobody_measured_is_measured(large: ailake.Lake) -> None:
    from lancedb.index import IvfPq, IvfSq

    table = large.table("episodic")
    table.create_index("embedding", config=IvfSq(distance_type="cosine", num_partitions=2))
    found = present(large)
    assert found is not None
    assert (found.recall, found.parameters) == (None, None)
    done = run(large)
    assert done.action is IndexAction.MEASURE
    assert done.recall is not None
    # Of another index nothing is known any more.
    table.create_index("embedding", config=IvfPq(distance_type="cosine", num_partitions=2))
    replaced = present(large)
    assert replaced is not None
    assert (replaced.kind, replaced.recall) == ("IVF_PQ", None)
    assert run(large).action is IndexAction.KEEP
    assert run(large, rebuild=True).kind == "IVF_SQ"


def test_an_index_with_a_name_of_its_own(large: ailake.Lake) -> None:
    dataset = large.table("episodic").to_lance()
    dataset.create_index("embedding", "IVF_SQ", metric="cosine", name="mine")
    assert run(large).action is IndexAction.KEEP
    done = run(large, rebuild=True)
    assert done.action is IndexAction.BUILD
    names = [i.name for i in large.store.episodic.fresh().describe_indices()]
    assert ("mine" in names, "embedding_idx" in names) == (False, True)


def test_every_reader_finds_what_was_measured(large: ailake.Lake, tmp_path: Path) -> None:
    large.tag("before")
    done = run(large)
    large.tag("first")
    first = segments(large)
    run(large, replace(POLICY, graph_rows=1), rebuild=True)
    with ailake.connect(large.uri, judge_rules=KEEP) as other:
        found = present(other)
        assert found is not None
        assert (found.kind, found.measured is None) == ("IVF_HNSW_SQ", False)
    with large.at("before") as past:
        assert present(past) is None
        with pytest.raises(ailake.ReadOnlyError):
            run(past)
    with large.at("first") as past:
        then = present(past)
        assert then is not None
        assert (then.kind, then.recall, segments(past)) == ("IVF_SQ", done.recall, first)
    large.backup(tmp_path / "copy")
    with ailake.connect(tmp_path / "copy", judge_rules=KEEP) as copy:
        assert present(copy) == present(large)


def test_statistics_tell_of_it(large: ailake.Lake) -> None:
    done = run(large)
    fill(large, 40, seed=3)
    (episodic,) = (table for table in large.stats().tables if table.name == "episodic")
    (index,) = (index for index in episodic.indexes if index.name == "embedding_idx")
    assert (index.table, index.kind, index.columns) == ("episodic", "IVF_SQ", ("embedding",))
    assert (index.indexed_rows, index.unindexed_rows, index.segments) == (2_000, 40, 1)
    assert (index.recall, index.bytes, index.is_due) == (done.recall, done.bytes, False)


def test_a_merge_is_measured_anew(large: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MIN_VECTORS_BEHIND", 20)
    run(large)
    first = segments(large)
    fill(large, 300, seed=2)
    large.flush()
    found = present(large)
    assert found is not None
    assert (found.indexed_rows, found.unindexed_rows) == (2_300, 0)
    assert found.measured is not None
    assert found.measured.segments != first
    assert found.measured.goal == POLICY.recall


def test_a_merge_that_misses_the_goal_is_given_up(
    large: ailake.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(indexing, "MIN_VECTORS_BEHIND", 20)
    run(large)
    found = present(large)
    assert found is not None
    assert found.measured is not None
    keep_measured(large.store.episodic, replace(found.measured, goal=1.0))
    monkeypatch.setattr(vectors, "_EFFORTS", ONLY_ROUGH)
    with caplog.at_level(logging.WARNING, "ailake"):
        fill(large, 300, seed=2)
        large.flush()
    assert present(large) is None
    assert "ailake index tries again" in caplog.text


def test_an_unreadable_record_is_told_and_measured_anew(
    large: ailake.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    done = run(large)
    large.store.episodic.fresh().update_config({MEASURED_KEY: '{"kind": "of a later release"}'})
    found = present(large)
    assert found is not None
    assert found.measured is None
    assert "of a later release" in caplog.text
    again = run(large)
    assert (again.action, again.recall) == (IndexAction.MEASURE, done.recall)


def test_passages_have_one_of_their_own(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    words = [f"word{n}" for n in range(50)]
    rng = np.random.default_rng(0)
    for turn in range(4):
        text = " ".join(f"{rng.choice(words)} {n}." for n in range(400))
        memory.remember(f"{turn} {text}", now=NOW)
    lake.flush()
    done = IndexJob(lake, policy=POLICY).run(NOW).tables[1]
    assert (done.table, done.kind) == ("passages", "IVF_SQ")
    assert done.rows == lake.table("passages").count_rows() > 10
    assert present(lake, "passages") is not None


@pytest.mark.parametrize("wrong", ["IVF_SQ", 0.9, {"recall": 0.9}])
def test_a_policy_is_a_policy(lake: ailake.Lake, wrong: Any) -> None:
    with pytest.raises(ailake.InvalidInputError, match="an IndexPolicy"):
        IndexJob(lake, policy=wrong)


def test_an_empty_lake(lake: ailake.Lake) -> None:
    done = run(lake)
    assert (done.action, done.rows, done.kind) == (IndexAction.NONE, 0, None)
