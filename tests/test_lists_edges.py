"""Recall out of sorted lists where rounding, zeros, equals or threads could lead it astray."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake.storage import held

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIM = 16
SEED = ailake.ScoringPolicy.SEED

pytestmark = pytest.mark.usefixtures("on_disk", "short_lists")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as opened:
        yield opened


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    return lake.memory(agent_id="a")


def vectors(count: int, *, seed: int = 3) -> NDArray[np.float64]:
    """All within 60 degrees of one direction."""
    noise = np.random.default_rng(seed).standard_normal((count, DIM))
    return np.asarray(np.eye(DIM)[0] + 0.15 * noise)


def fill(memory: ailake.Memory, found: NDArray[np.float64]) -> None:
    draw = np.random.default_rng(5)
    items = [
        {
            "id": f"m{n:03}",
            "text": f"m{n}",
            "vector": vector,
            "event_time": NOW - timedelta(days=float(draw.uniform(200, 300))),
        }
        for n, vector in enumerate(found)
    ]
    memory.remember_many(items, judge=False, now=NOW)


@pytest.mark.parametrize("first", [5, 390])
@pytest.mark.parametrize("query", [np.eye(DIM)[0], -np.eye(DIM)[0]])
def test_a_vector_of_zeros_is_at_distance_one(
    lake: ailake.Lake,
    memory: ailake.Memory,
    monkeypatch: pytest.MonkeyPatch,
    *,
    first: int,
    query: NDArray[np.float64],
) -> None:
    """The engine never finds it, whether it is behind all others or before them."""
    monkeypatch.setattr("ailake.storage.lists._FLAT_LEAST", first)
    fill(memory, vectors(400))
    zeros = {"embedding": [0.0] * DIM}
    lake.table("episodic").update(where="chunk_id = 'm007'", values=zeros)
    everyone = memory.recall(query, limit=400, now=NOW, touch=False)
    assert (len(everyone), everyone.exact) == (400, True)
    (place,) = [place for place, hit in enumerate(everyone) if hit.id == "m007"]
    assert everyone[place].distance == 1.0
    assert place == (399 if query[0] > 0 else 0)
    hits = memory.recall(query, limit=3, now=NOW, touch=False)
    assert [hit.id for hit in hits] == [hit.id for hit in everyone[:3]]
    assert hits.exact


@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_the_length_of_a_query_makes_no_difference(memory: ailake.Memory, factor: float) -> None:
    """Very small numbers would lose their digits in the engine's float16."""
    fill(memory, vectors(300))
    query = vectors(1, seed=4)[0]
    wanted = memory.recall(query, limit=5, now=NOW, touch=False)
    hits = memory.recall(factor * query, limit=5, now=NOW, touch=False)
    assert [hit.id for hit in hits] == [hit.id for hit in wanted]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], abs=1e-6)


def test_distances_are_those_of_the_query_as_given(memory: ailake.Memory) -> None:
    """The engine rounds it to float16, which changes who is first among close ones."""
    draw = np.random.default_rng(1)
    base = np.float16(draw.standard_normal(DIM)).astype(np.float64)
    close = (
        (base + 0.004 * draw.standard_normal((2_000, DIM))).astype(np.float16).astype(np.float64)
    )
    items = [{"id": f"m{n}", "text": f"m{n}", "vector": v} for n, v in enumerate(close)]
    memory.remember_many(items, judge=False, now=NOW)
    for query in base + 0.05 * draw.standard_normal((20, DIM)):
        unit = query / np.linalg.norm(query)
        distance = 1 - close @ unit / np.linalg.norm(close, axis=1)
        (hit,) = memory.recall(query, limit=1, now=NOW, touch=False)
        assert hit.distance == pytest.approx(distance.min(), abs=3e-7)
        assert distance[int(hit.id[1:])] == pytest.approx(distance.min(), abs=3e-7)


def test_equals_are_ordered_as_stated(memory: ailake.Memory) -> None:
    """All that tie with the last are looked at, and no rounding tells them apart."""
    draw = np.random.default_rng(2)
    vector = draw.standard_normal(DIM)
    items = [{"id": f"n{n}", "text": f"n{n}", "vector": v} for n, v in enumerate(vectors(500))]
    items += [{"id": f"m{n:03}", "text": f"m{n}", "vector": vector} for n in range(90)]
    memory.remember_many(items, judge=False, now=NOW)
    query = vector + 0.02 * draw.standard_normal(DIM)
    for limit in (1, 7, 50):
        hits = memory.recall(query, limit=limit, now=NOW, touch=False)
        assert [hit.id for hit in hits] == [f"m{n:03}" for n in range(limit)]
        assert hits.exact


def test_from_several_threads_while_others_write(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards another handle, which holds the scope, finds the same."""
    fill(memory, vectors(800))
    queries = vectors(40, seed=4)

    def recalls(query: NDArray[np.float64]) -> bool:
        return memory.recall(query, limit=5, scoring=SEED, now=NOW).exact

    def writes() -> None:
        for step in range(10):
            memory.remember_many([{"text": f"step {step} {n}"} for n in range(7)], now=NOW)
            memory.forget([f"m{step:03}"])

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(writes)
        assert all(pool.map(recalls, queries))
        writing.result()
    lake.flush()
    for query in queries[:5]:
        hits = memory.recall(query, limit=5, scoring=SEED, now=NOW, touch=False)
        with monkeypatch.context() as patch, ailake.connect(lake.uri, judge_rules=KEEP) as holding:
            patch.setattr(held, "BUDGET", 2**30)
            other = holding.memory(agent_id="a")
            wanted = other.recall(query, limit=5, scoring=SEED, now=NOW, touch=False)
        assert wanted.scored == memory.count(now=NOW)
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], rel=1e-5)
