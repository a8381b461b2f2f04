"""Recall out of sorted lists: what a look at every row finds, in scopes that are not held."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from kept import KEEP
from lancedb.index import IvfSq
from numpy.typing import NDArray

import ailake
from ailake.core.episodic import rank
from ailake.maintenance import MemoryDecayJob
from ailake.storage import held, search

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
DIM = 16
ROWS = 6_000
EPSILON = float(np.finfo(np.float32).eps)
POLICIES = [
    ailake.ScoringPolicy(),
    ailake.ScoringPolicy.SEED,
    ailake.ScoringPolicy(recency=ailake.RecencyConfig.DAILY_DECAY, floor=0.3),
]

Vectors = NDArray[np.float64]
Chosen = Callable[[dict[str, Any]], bool]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as opened:
        yield opened


def clustered(draw: np.random.Generator, count: int, *, spread: float = 0.6) -> Vectors:
    centres = np.random.default_rng(5).standard_normal((40, DIM))
    vectors = centres[draw.integers(40, size=count)] + spread * draw.standard_normal((count, DIM))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def fill(memory: ailake.Memory, count: int, *, seed: int = 3) -> None:
    """Memories of the last 400 days; every fifth is a note that expires some day."""
    draw = np.random.default_rng(seed)
    vectors, importance = clustered(draw, count), draw.beta(5, 2, count)
    ages = draw.uniform(0, 400, count)
    items = [
        {
            "id": f"{memory.scope.agent_id}{seed}-{n}",
            "text": f"memory {n}",
            "vector": vectors[n],
            "importance": float(importance[n]),
            "event_time": NOW - float(ages[n]) * DAY,
            "kind": "note" if n % 5 == 0 else "chat",
            "expires_at": NOW + (n % 7) * DAY if n % 5 == 0 else None,
            "metadata": {"n": n},
        }
        for n in range(count)
    ]
    memory.remember_many(items, judge=False, now=NOW)


def everything(lake: ailake.Lake) -> pl.DataFrame:
    """Every stored memory, accesses counted in, with all vectors that it has."""
    rows = lake.scan("episodic").collect()
    parts = pl.DataFrame(pl.from_arrow(lake.table("passages").to_arrow()))
    found: dict[str, list[Vectors]] = {}
    for table in (rows, parts):
        for memory_id, vector in table.select("chunk_id", "embedding").iter_rows():
            found.setdefault(memory_id, []).append(np.asarray(vector, np.float64))
    vectors = [np.stack(found[memory_id]) for memory_id in rows["chunk_id"]]
    return rows.drop("embedding").with_columns(pl.Series("vectors", vectors, pl.Object))


def truth(
    rows: pl.DataFrame,
    query: Vectors,
    policy: ailake.ScoringPolicy,
    *,
    now: datetime,
    chosen: Chosen = lambda _: True,
) -> list[tuple[str, float]]:
    """All memories that may be found and their scores, best first, by a look at each."""
    kept = [
        row
        for row in rows.iter_rows(named=True)
        if row["state"] == "active"
        and (row["expires_at"] is None or row["expires_at"] > now)
        and chosen(row)
    ]
    unit = query / np.linalg.norm(query)
    distance = np.array([farness(row["vectors"], unit) for row in kept])
    days = np.array([(now - row["last_accessed_at"]) / DAY for row in kept])
    importance = np.array([row["importance_score"] for row in kept], np.float64)
    weight = policy.recency_part(days) * policy.importance_part(importance)
    scores = np.maximum(distance, 0) / np.maximum(weight, EPSILON)
    born = [row["event_time"] or row["created_at"] for row in kept]
    order = rank(
        scores.round(6),
        weight.round(9),
        np.array([int(instant.timestamp() * 1e6) for instant in born]),
        [row["chunk_id"] for row in kept],
    )
    return [(kept[place]["chunk_id"], float(scores[place])) for place in order]


def farness(vectors: Vectors, unit: Vectors) -> float:
    lengths = np.linalg.norm(vectors, axis=1)
    return float((1 - vectors @ unit / np.maximum(lengths, 1e-12)).min())


def assert_best(hits: ailake.Hits, wanted: list[tuple[str, float]], limit: int) -> None:
    """The same ids, but for the last digits of distances and whom they let in last."""
    assert len(hits) == min(limit, len(wanted))
    scores = [score for _, score in wanted[:limit]]
    assert [hit.score for hit in hits] == pytest.approx(scores, rel=2e-5, abs=2e-6)
    known = dict(wanted)
    for hit in hits:
        assert hit.score == pytest.approx(known[hit.id], rel=2e-5, abs=2e-6)


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_true_best_of_many(lake: ailake.Lake, policy: ailake.ScoringPolicy) -> None:
    """A part of them is scored, and nothing that is left out can be among the best."""
    memory = lake.memory(agent_id="a")
    fill(memory, ROWS)
    rows, scored = everything(lake), []
    for query in clustered(np.random.default_rng(11), 8):
        hits = memory.recall(query, limit=10, scoring=policy, now=NOW, touch=False)
        assert hits.exact
        assert hits.bound_held
        assert hits.report.index == ""
        assert_best(hits, truth(rows, query, policy, now=NOW), 10)
        scored.append(hits.scored)
    assert max(scored) <= ROWS / 2
    assert np.median(scored) <= ROWS / 3


@pytest.mark.usefixtures("on_disk", "short_lists")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("limit", [1, 10, 70])
def test_lists_that_begin_short(
    lake: ailake.Lake, policy: ailake.ScoringPolicy, limit: int
) -> None:
    memory = lake.memory(agent_id="a")
    fill(memory, 3_000)
    rows, widened = everything(lake), set()
    for query in clustered(np.random.default_rng(11), 6, spread=1.0):
        hits = memory.recall(query, limit=limit, scoring=policy, now=NOW, touch=False)
        assert hits.exact
        assert_best(hits, truth(rows, query, policy, now=NOW), limit)
        widened |= set(hits.report.widened)
        assert set(hits.report.listed) == {"nearest", "heaviest", "words"}
    assert widened


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("policy", POLICIES[:2])
def test_over_an_index(lake: ailake.Lake, policy: ailake.ScoringPolicy) -> None:
    """The bound holds over what the index finds; exact=True leaves it alone."""
    memory = lake.memory(agent_id="a")
    fill(memory, ROWS)
    index = IvfSq(distance_type="cosine", num_partitions=8)
    lake.table("episodic").create_index("embedding", config=index)
    fill(memory, 300, seed=4)
    rows = everything(lake)
    for query in clustered(np.random.default_rng(11), 5):
        wanted = truth(rows, query, policy, now=NOW)
        hits = memory.recall(query, limit=10, scoring=policy, now=NOW, touch=False)
        assert (hits.exact, hits.bound_held) == (False, True)
        assert hits.report.index == "embedding_idx"
        assert hits.report.index_kind == "IVF_SQ"
        assert hits.report.index_recall is None
        assert hits.scored < ROWS / 2
        assert_best(hits, wanted, 10)
        hits = memory.recall(query, limit=10, scoring=policy, now=NOW, touch=False, exact=True)
        assert (hits.exact, hits.report.index) == (True, "")
        assert_best(hits, wanted, 10)


@pytest.mark.usefixtures("on_disk")
def test_an_index_that_has_no_more(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list longer than the parts that are looked into is made without it."""
    monkeypatch.setattr(search, "_PROBES", 1)
    monkeypatch.setattr(search, "_ROWS_PER_PROBE", ROWS)
    memory = lake.memory(agent_id="a")
    fill(memory, ROWS)
    index = IvfSq(distance_type="cosine", num_partitions=16)
    lake.table("episodic").create_index("embedding", config=index)
    query = clustered(np.random.default_rng(11), 1)[0]
    hits = memory.recall(query, limit=300, now=NOW, touch=False)
    assert (hits.exact, hits.report.index) == (True, "")
    assert_best(hits, truth(everything(lake), query, POLICIES[0], now=NOW), 300)


WHERES: list[tuple[dict[str, Any], Chosen]] = [
    ({"kind": "note"}, lambda row: row["kind"] == "note"),
    ({"kind": "chat"}, lambda row: row["kind"] == "chat"),
    ({"importance_score": {"gte": 0.85}}, lambda row: row["importance_score"] >= 0.85),
    ({"metadata.n": {"lt": 300}}, lambda row: int(row["chunk_id"].split("-")[1]) < 300),
    ({"access_count": {"gt": 0}}, lambda row: row["access_count"] > 0),
    # None of the heaviest passes, whether by age or because it was met.
    (
        {"event_time": {"lt": NOW - 300 * DAY}, "access_count": 0},
        lambda row: row["event_time"] < NOW - 300 * DAY and row["access_count"] == 0,
    ),
    ({"kind": "nothing"}, lambda row: row["kind"] == "nothing"),
]


@pytest.mark.usefixtures("on_disk", "short_lists")
@pytest.mark.parametrize(("where", "chosen"), WHERES)
def test_a_filter_comes_first(lake: ailake.Lake, where: dict[str, Any], chosen: Chosen) -> None:
    memory = lake.memory(agent_id="a")
    fill(memory, 3_000)
    memory.touch([f"a3-{n}" for n in range(0, 60, 3)], now=NOW)
    rows = everything(lake)
    for policy in POLICIES[:2]:
        for query in clustered(np.random.default_rng(11), 2):
            hits = memory.recall(
                query, limit=9, where=where, scoring=policy, now=NOW + 2 * DAY, touch=False
            )
            assert hits.exact
            assert_best(hits, truth(rows, query, policy, now=NOW + 2 * DAY, chosen=chosen), 9)


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_scopes_one_by_one_and_together(lake: ailake.Lake) -> None:
    sizes = {"a": 2_000, "b": 300, "c": 500}
    for name, count in sizes.items():
        fill(lake.memory(agent_id=name), count)
    rows = everything(lake)
    for asked in (["a"], ["b"], ["c", "b"], ["a", "b", "c"]):
        reader = lake.read([ailake.Scope(name) for name in asked])
        theirs = rows.filter(pl.col("agent_id").is_in(asked))
        for policy in POLICIES[:2]:
            for query in clustered(np.random.default_rng(11), 2):
                hits = reader.recall(query, limit=8, scoring=policy, now=NOW)
                assert hits.exact
                assert_best(hits, truth(theirs, query, policy, now=NOW), 8)


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_accesses_deletions_and_expiry(lake: ailake.Lake) -> None:
    memory, policy = lake.memory(agent_id="a"), ailake.ScoringPolicy.SEED
    fill(memory, 2_000)
    draw = random.Random(1)  # noqa: S311 (a repeatable order)
    queries = clustered(np.random.default_rng(11), 12)
    for step, query in enumerate(queries):
        now = NOW + step * DAY / 2
        hits = memory.recall(query, limit=5, scoring=policy, now=now)
        assert hits.exact
        if step % 3 == 0:
            memory.forget([hit.id for hit in hits][:2])
        memory.touch([f"a3-{draw.randrange(2_000)}"])
        memory.remember(f"single {step}", now=now)
        if step == 7:
            MemoryDecayJob(lake).run(now)
        rows = everything(lake)
        hits = memory.recall(-query, limit=5, scoring=policy, now=now, touch=False)
        assert_best(hits, truth(rows, -query, policy, now=now), 5)


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_what_was_met_is_heavy_at_once(lake: ailake.Lake) -> None:
    """An access that waits lifts a memory that no list has near its head."""
    memory, policy = lake.memory(agent_id="a"), ailake.ScoringPolicy.SEED
    draw = np.random.default_rng(3)
    items = [
        {"id": f"m{n}", "text": f"m{n}", "vector": v, "event_time": NOW - 300 * DAY}
        for n, v in enumerate(clustered(draw, 1_500))
    ]
    memory.remember_many(items, judge=False, now=NOW)
    query = np.asarray(items[0]["vector"])
    assert memory.recall(query, limit=1, scoring=policy, now=NOW, touch=False)[0].id == "m0"
    far = max(items, key=lambda item: float(1 - np.dot(np.asarray(item["vector"]), query)))
    memory.touch([str(far["id"])], now=NOW)
    hits = memory.recall(query + 0.5, limit=1, scoring=policy, now=NOW, touch=False)
    assert hits[0].id == far["id"]


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_words_and_passages_as_in_held_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A second handle holds the scope and scores every row."""
    draw = random.Random(2)  # noqa: S311 (a repeatable order)
    words = [f"word{n}" for n in range(60)]
    with (
        ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake,
        ailake.connect(tmp_path / "lake", judge_rules=KEEP) as holding,
    ):
        memory = lake.memory(agent_id="a")
        memory.remember_many(
            [
                {
                    "text": " ".join(draw.choices(words, k=draw.choice([6, 9, 220]))) + f" {n}.",
                    "importance": draw.random(),
                    "event_time": NOW - draw.uniform(0, 300) * DAY,
                }
                for n in range(900)
            ],
            judge=False,
            now=NOW,
        )
        lake.flush()
        assert lake.table("passages").count_rows() > 300
        for _ in range(12):
            text = " ".join(draw.choices(words, k=3))
            options: dict[str, Any] = {"limit": 6, "mode": mode, "now": NOW, "touch": False}
            wanted = holding.memory(agent_id="a").recall(text, **options)
            assert wanted.scored == 900
            with monkeypatch.context() as patch:
                patch.setattr(held, "BUDGET", -1)
                hits = memory.recall(text, **options)
            assert hits.exact
            assert hits.report.listed["nearest"] < 900 or "nearest" in hits.report.widened
            assert [hit.score for hit in hits] == pytest.approx(
                [hit.score for hit in wanted], rel=1e-4, abs=1e-5
            )
            assert [hit.passage for hit in hits] == [hit.passage for hit in wanted]


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_a_distance_that_is_too_far(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    fill(memory, 1_500)
    rows, policy = everything(lake), ailake.ScoringPolicy.SEED
    for query in clustered(np.random.default_rng(11), 4):
        unit = query / np.linalg.norm(query)
        near = rows.filter(
            pl.Series([farness(vectors, unit) <= 0.25 for vectors in rows["vectors"]])
        )
        hits = memory.recall(
            query, limit=40, scoring=policy, max_distance=0.25, now=NOW, touch=False
        )
        assert hits.exact
        assert 0 < near.height < 1_000
        assert_best(hits, truth(near, query, policy, now=NOW), 40)
