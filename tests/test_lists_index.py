"""Recall out of sorted lists over indexes of vectors: how hard they are searched, what is told."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake.core.vectors import Measured, SearchParameters, VectorKind
from ailake.maintenance import IndexJob
from ailake.storage.search import effort
from ailake.storage.vectors import VectorIndex, drop, keep_measured, vector_index

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIM = 16
ROWS = 3_000
POLICY = ailake.IndexPolicy(min_bytes=0, limit=100, sample=8)

pytestmark = pytest.mark.usefixtures("on_disk", "short_lists")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as opened:
        yield opened


def fill(lake: ailake.Lake, *, long: int = 0) -> NDArray[np.float64]:
    """Memories with vectors in all directions, and some with passages."""
    vectors = np.random.default_rng(3).standard_normal((ROWS, DIM))
    items = [{"id": f"m{n}", "text": f"m{n}", "vector": v} for n, v in enumerate(vectors)]
    lake.memory("a").remember_many(items, judge=False, now=NOW)
    draw = random.Random(2)  # noqa: S311 (a repeatable order)
    texts = [" ".join(f"word{draw.randrange(90)}." for _ in range(400)) for _ in range(long)]
    lake.memory("a").remember_many([{"text": text} for text in texts], judge=False, now=NOW)
    lake.flush()
    return vectors


def present(lake: ailake.Lake, table: str = "episodic") -> VectorIndex:
    found = vector_index(lake.store.tables[table].fresh())
    assert found is not None
    return found


def test_the_measured_recall_is_told(lake: ailake.Lake) -> None:
    """Lists are no shorter than those that it was measured on, and distances are true."""
    vectors = fill(lake)
    done = IndexJob(lake, policy=POLICY).run(NOW).tables[0]
    stored = vectors.astype(np.float16).astype(np.float64)
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    for query in np.random.default_rng(4).standard_normal((5, DIM)):
        hits = lake.memory("a").recall(query, limit=3, mode="vector", now=NOW, touch=False)
        report = hits.report
        assert (report.index, report.index_kind) == ("embedding_idx", "IVF_SQ")
        assert report.index_recall == done.recall
        assert done.recall is not None
        assert done.recall >= POLICY.recall
        assert (report.exact, report.bound_held) == (False, True)
        assert report.listed["nearest"] >= POLICY.limit
        near = 1 - stored @ query / np.linalg.norm(query)
        assert [hit.distance for hit in hits] == pytest.approx(sorted(near)[:3], abs=1e-6)


@pytest.mark.parametrize("kind", VectorKind)
def test_it_is_searched_with_the_measured_parameters(kind: VectorKind) -> None:
    """A list that is longer than those that were measured comes from as many more parts."""
    parameters = SearchParameters(7, 3, ef=2)
    measured = Measured(kind, 0.99, parameters, 100, 0.99, ())
    index = VectorIndex("embedding_idx", kind.value, 1_000, 0, measured)
    assert effort(index, 80) == parameters.query(80)
    assert effort(index, 250) == {**parameters.query(250), "minimum_nprobes": 21}


@pytest.mark.parametrize("limit", [1, 999, 1_000, 50_000])
def test_one_that_nobody_measured_is_refined_all_the_same(limit: int) -> None:
    """Without refinement distances are wrong."""
    options = effort(VectorIndex("someone_elses", "IVF_HNSW_SQ", 1_000, 0, None), limit)
    assert options["refine_factor"] >= 1
    assert options["ef"] >= limit * options["refine_factor"]
    assert options["nprobes"] >= 20


def test_an_index_of_passages(lake: ailake.Lake) -> None:
    """The lower recall of both is told; that of the passages alone makes the list approximate."""
    fill(lake, long=200)
    memory, text = lake.memory("a"), "word7 word77"
    wanted = memory.recall(text, limit=5, mode="vector", now=NOW, touch=False)
    assert wanted.exact
    IndexJob(lake, policy=POLICY).run(NOW)
    told = {table: present(lake, table).recall for table in ("episodic", "passages")}
    passages = present(lake, "passages").measured
    assert passages is not None
    keep_measured(
        lake.store.tables["passages"],
        Measured(passages.kind, 0.75, passages.parameters, 50, 0.5, passages.segments),
    )
    hits = memory.recall(text, limit=5, mode="vector", now=NOW, touch=False)
    assert (hits.exact, hits.bound_held) == (False, True)
    assert hits.report.index_recall == 0.75 < min(one or 0 for one in told.values())
    assert [hit.id for hit in hits] == [hit.id for hit in wanted]
    drop(lake.store.episodic, "embedding_idx")
    hits = memory.recall(text, limit=5, mode="vector", now=NOW, touch=False)
    assert (hits.exact, hits.report.index) == (False, "embedding_idx")
    hits = memory.recall(text, limit=5, mode="vector", now=NOW, touch=False, exact=True)
    assert (hits.exact, hits.report.index, hits.report.index_recall) == (True, "", None)
