"""Recall: order, parts of the score, filters, indexes."""

from datetime import UTC, datetime, timedelta

import lancedb.index
import numpy as np
import pytest

import ailake
from ailake import ScoringPolicy, recency_weight

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_score_parts_add_up(memory: ailake.Memory) -> None:
    memory.remember_many(
        [{"text": f"note {n} about tea", "event_time": NOW - n * DAY} for n in range(20)], now=NOW
    )
    policy = ScoringPolicy(floor=0.2)
    hits = memory.recall("tea", limit=20, scoring=policy, now=NOW)
    for hit in hits:
        parts = hit.parts
        assert parts["recency_part"] == pytest.approx(0.2 + 0.8 * parts["recency"])
        assert parts["importance_part"] == pytest.approx(0.5 + 0.5 * parts["importance"])
        assert parts["weight"] == pytest.approx(parts["recency_part"] * parts["importance_part"])
        lowering = sum(parts[name] for name in ("lexical", "neighbour", "speaker", "date"))
        near = parts["distance"] - lowering + parts["brevity"]
        assert parts["near"] == pytest.approx(near)
        assert hit.score == pytest.approx(parts["near"] / parts["weight"])
    assert [hit.score for hit in hits] == sorted(hit.score for hit in hits)
    assert hits.explain()["score"].to_list() == [hit.score for hit in hits]
    assert hits.to_polars()["id"].to_list() == [hit.id for hit in hits]


def test_order_is_that_of_the_formula_by_hand(memory: ailake.Memory) -> None:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(300, 64)).astype(np.float32)
    importance = rng.random(300).round(3)
    items = [
        {
            "text": f"m{n}", "id": f"m{n}", "vector": vectors[n], "importance": importance[n],
            "event_time": NOW - n * DAY,
        }
        for n in range(300)
    ]  # fmt: skip
    memory.remember_many(items, now=NOW)
    query = rng.normal(size=64).astype(np.float32)
    stored = vectors.astype(np.float16).astype(np.float64)
    cosine = stored @ query / (np.linalg.norm(stored, axis=1) * np.linalg.norm(query))
    weight = np.exp(-0.099 * np.arange(300)) * np.float32(importance)
    scores = (1 - cosine) / np.maximum(weight, np.finfo(np.float32).eps)
    hits = memory.recall(query, limit=10, scoring=ScoringPolicy.SEED, now=NOW)
    assert [hit.id for hit in hits] == [f"m{n}" for n in np.argsort(scores)[:10]]
    assert hits[0].score == pytest.approx(scores.min(), rel=1e-3)


def test_recall_counts_accesses_and_freshens(memory: ailake.Memory) -> None:
    outcome = memory.remember("Ana lives in Oslo", event_time=NOW - 30 * DAY, now=NOW)
    assert memory.get(outcome.id).last_accessed_at == NOW - 30 * DAY
    memory.recall("Oslo", now=NOW + DAY, touch=False)
    assert memory.get(outcome.id).access_count == 0
    memory.recall("Oslo", now=NOW + DAY)
    record = memory.get(outcome.id)
    assert record.access_count == 1
    assert record.last_accessed_at == NOW + DAY
    (hit,) = memory.recall("Oslo", now=NOW + DAY, touch=False)
    assert hit.recency_weight == 1.0
    assert hit.access_count == 1


def test_backfilled_memories_age_from_their_event(memory: ailake.Memory) -> None:
    event = NOW - 70 * DAY
    memory.remember("Ana moved to Oslo", event_time=event, now=NOW)
    (hit,) = memory.recall("Oslo", now=NOW)
    assert hit.event_time == event
    assert hit.created_at == NOW
    assert hit.recency_weight == recency_weight(70, ScoringPolicy().recency)


def test_of_two_equal_memories_the_newer_comes_first(memory: ailake.Memory) -> None:
    memory.remember("Ana likes tea", id="old", event_time=NOW - 60 * DAY, judge=False, now=NOW)
    memory.remember("Ana likes tea", id="new", event_time=NOW - DAY, judge=False, now=NOW)
    assert [hit.id for hit in memory.recall("what does Ana like", now=NOW)] == ["new", "old"]


def test_an_old_memory_stays_findable(memory: ailake.Memory) -> None:
    memory.remember("The landlord's number is 555-0147", event_time=NOW - 242 * DAY, now=NOW)
    memory.remember_many([{"text": f"small talk number {n}"} for n in range(50)], now=NOW)
    (hit,) = memory.recall("landlord's number", limit=1, now=NOW)
    assert "555-0147" in hit.text


@pytest.mark.usefixtures("on_disk")
def test_filters_run_before_the_top_k(memory: ailake.Memory) -> None:
    """Ten times as many nearer memories as recall looks at don't pass the filter."""
    near, far = np.eye(64)[0], np.eye(64)[1]
    items = [{"text": f"n{n}", "kind": "chat", "vector": near} for n in range(10_000)]
    items += [{"text": f"r{n}", "kind": "rare", "vector": far} for n in range(5)]
    memory.remember_many(items, judge=False, now=NOW)
    for where in ({"kind": "rare"}, {"NOT": {"kind": "chat"}}):
        hits = memory.recall(near, limit=10, where=where, now=NOW)
        assert sorted(hit.text for hit in hits) == [f"r{n}" for n in range(5)]
        assert hits.exact
    assert memory.recall(near, limit=10, now=NOW).exact


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("kind", ["IvfSq", "HnswSq", "IvfPq"])
def test_recall_over_an_index(lake: ailake.Lake, memory: ailake.Memory, kind: str) -> None:
    """A quantised index gives about twice the distance unless it is refined."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2_000, 64)) + 4 * rng.normal(size=(20, 64)).repeat(100, axis=0)
    items = [{"text": f"m{n}", "id": f"m{n}", "vector": v} for n, v in enumerate(vectors)]
    memory.remember_many(items, judge=False, now=NOW)
    query = vectors[7] + 0.1
    before = memory.recall(query, now=NOW, touch=False)
    config = getattr(lancedb.index, kind)(distance_type="cosine", num_partitions=2)
    lake.table("episodic").create_index("embedding", config=config)
    again = memory.recall(query, now=NOW, touch=False)
    assert [hit.distance for hit in again] == pytest.approx(
        [hit.distance for hit in before], abs=2e-3
    )
    memory.remember("after the index", id="late", vector=query, now=NOW)
    lake.flush()
    indexed = memory.recall(query, now=NOW, touch=False)
    exact = memory.recall(query, now=NOW, touch=False, exact=True)
    assert not indexed.exact
    assert indexed[0].id == exact[0].id == "late"
    assert [hit.id for hit in exact][1:] == [hit.id for hit in before][:9]
    assert [hit.id for hit in indexed] == [hit.id for hit in exact]
    told = [hit.distance for hit in indexed]
    assert told == pytest.approx([hit.distance for hit in exact], abs=2e-3)


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_exact_leaves_the_index_alone(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part of an index holds but some of the nearest; exact=True must lose none."""
    monkeypatch.setattr("ailake.storage.search._PROBES", 1)
    vectors = np.random.default_rng(2).normal(size=(1_000, 64))
    items = [{"text": f"m{n}", "id": f"m{n}", "vector": v} for n, v in enumerate(vectors)]
    memory.remember_many(items, judge=False, now=NOW)
    config = lancedb.index.IvfPq(distance_type="cosine", num_partitions=8, num_sub_vectors=4)
    lake.table("episodic").create_index("embedding", config=config)
    query = np.random.default_rng(3).normal(size=64)
    stored = vectors.astype(np.float16).astype(np.float64)
    near = 1 - stored @ query / np.linalg.norm(stored, axis=1) / np.linalg.norm(query)
    best = [f"m{n}" for n in np.argsort(near)[:10]]
    hits = memory.recall(query, exact=True, now=NOW, touch=False)
    assert [hit.id for hit in hits] == best
    assert hits.exact
    hits = memory.recall(query, now=NOW, touch=False)
    assert [hit.id for hit in hits] != best
    assert (hits.exact, hits.bound_held) == (False, True)


def test_speaker_and_date_are_embedded_but_not_stored_in_the_text(memory: ailake.Memory) -> None:
    when = datetime(2025, 5, 17, tzinfo=UTC)
    memory.remember("I like tea", speaker="Bartholomew", event_time=when, now=NOW)
    memory.remember("I like tea", speaker="Ann", event_time=when, now=NOW)
    first = memory.recall("Bartholomew likes tea", now=NOW)[0]
    assert (first.speaker, first.text) == ("Bartholomew", "I like tea")
    alone = memory.recall("I like tea", limit=1, now=NOW)[0].distance
    dated = memory.recall("Bartholomew: I like tea (17 May 2025)", limit=1, now=NOW)[0].distance
    assert dated < 0.01 < alone


def test_metadata_filters(memory: ailake.Memory) -> None:
    items = [
        {"text": f"note {n}", "metadata": {"topic": "food" if n % 2 else "work", "n": n}}
        for n in range(20)
    ]
    memory.remember_many(items, now=NOW)
    food = {"metadata.topic": "food", "metadata.n": {"gte": 15}}
    assert memory.count(food, now=NOW) == 3
    assert {hit.metadata["n"] for hit in memory.recall("note", where=food, now=NOW)} == {15, 17, 19}
    assert [m.metadata["n"] for m in memory.list({"NOT": {"metadata.topic": "food"}}, limit=2)] == [
        0,
        2,
    ]
    assert memory.count({"metadata.nothing": "x"}, now=NOW) == 0


def test_session_is_an_attribute_not_a_wall(lake: ailake.Lake) -> None:
    first = lake.memory(agent_id="a", session_id="s1")
    first.remember("tea")
    second = lake.memory(agent_id="a", session_id="s2")
    second.remember("coffee")
    assert {hit.session_id for hit in second.recall("drinks")} == {"s1", "s2"}
    assert [hit.session_id for hit in second.recall("drinks", session_id="s1")] == ["s1"]


def test_max_distance_abstains(memory: ailake.Memory) -> None:
    memory.remember("green tea in the morning", now=NOW)
    assert len(memory.recall("green tea in the morning", max_distance=0.01, now=NOW)) == 1
    assert len(memory.recall("日本語のテキスト", max_distance=0.3, now=NOW)) == 0


def test_recall_by_vector(memory: ailake.Memory) -> None:
    vector = np.ones(64)
    memory.remember("a vector of mine", vector=vector, now=NOW)
    (hit,) = memory.recall(vector, now=NOW)
    assert hit.distance == pytest.approx(0, abs=1e-3)
