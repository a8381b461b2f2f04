"""Scopes held in memory: recall finds what a look at every row would, whatever happened before."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import KEEP

import ailake
from ailake import InvalidInputError
from ailake.core.episodic import rank
from ailake.maintenance import MemoryDecayJob
from ailake.storage import held

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIM = 16
POLICIES = [ailake.ScoringPolicy(), ailake.ScoringPolicy.SEED]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as opened:
        yield opened


def answers(memory: ailake.Memory, **options: Any) -> list[ailake.Hit]:
    hits = memory.recall(touch=False, **options)
    assert hits.exact
    return list(hits)


def assert_same(found: list[ailake.Hit], wanted: list[ailake.Hit]) -> None:
    """The same, but for the last digits of distances and whom they let in last."""
    scores = [hit.score for hit in wanted]
    assert [hit.score for hit in found] == pytest.approx(scores, rel=2e-3, abs=2e-3)
    known = {hit.id: hit for hit in wanted}
    for hit in found:
        if hit.id in known:
            other = known[hit.id]
            assert (hit.access_count, hit.passage) == (other.access_count, other.passage)
            assert hit.score == pytest.approx(other.score, rel=2e-3, abs=2e-3)
        else:
            assert hit.score == pytest.approx(scores[-1], rel=2e-3, abs=2e-3)


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_on_disk_after_any_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A second handle that holds nothing proves its answer out of lists on disk."""
    draw = random.Random(seed)  # noqa: S311 (a repeatable order)
    vectors = np.random.default_rng(seed)
    budget = held.BUDGET
    with (
        ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake,
        ailake.connect(tmp_path / "lake", judge_rules=KEEP) as plain,
    ):
        scopes = ["a", "b"]
        now, ids = NOW, ["-"]
        for step in range(40):
            now += timedelta(hours=draw.randint(1, 50))
            memory = lake.memory(agent_id=draw.choice(scopes))
            some = draw.choice(ids)
            match draw.randint(0, 9):
                case 0 | 1:
                    items = [
                        {
                            "text": f"note {step} {n} about {draw.choice(['tea', 'rain'])}",
                            "importance": draw.random(),
                            "kind": draw.choice(["x", "y"]),
                            "expires_at": draw.choice([None, now + timedelta(days=9)]),
                        }
                        for n in range(draw.randint(1, 30))
                    ]
                    ids += [made.id for made in memory.remember_many(items, now=now)]
                case 2 | 3:
                    ids.append(memory.remember(f"single {step}", now=now).id)
                case 4:
                    long = "Filler about nothing much. " * 40 + f"The bees of {step}."
                    ids.append(memory.remember(long, now=now).id)
                case 5:
                    memory.forget(some)
                case 6 if memory.list({"chunk_id": some}, now=now):
                    memory.update(some, importance=draw.random(), now=now)
                case 7 if memory.list({"chunk_id": some}, now=now):
                    ids.append(memory.update(some, text=f"changed {step}", now=now).id)
                case 8:
                    MemoryDecayJob(draw.choice([lake, plain])).run(now)
                case _:
                    draw.choice([lake, plain]).table("episodic").to_lance().optimize.compact_files()
            query: Any = draw.choice(["tea", "the bees", vectors.standard_normal(DIM)])
            options: dict[str, Any] = {
                "query": query,
                "limit": draw.choice([1, 5, 100]),
                "now": now,
                "scoring": draw.choice(POLICIES),
                "where": draw.choice([None, {"kind": "x"}, {"importance_score": {"gte": 0.5}}]),
                "max_distance": draw.choice([None, 0.9]),
            }
            scope = draw.choice(scopes)
            lake.memory(agent_id=scope).recall("touched", limit=3, now=now)
            found = answers(lake.memory(agent_id=scope), **options)
            lake.flush()
            assert_same(found, answers(lake.memory(agent_id=scope), **options))
            monkeypatch.setattr(held, "BUDGET", -1)
            assert_same(found, answers(plain.memory(agent_id=scope), **options))
            monkeypatch.setattr(held, "BUDGET", budget)
            assert plain.store.held._held == {}
        assert set(lake.store.held._held) <= {ailake.Scope(name) for name in scopes}
        assert lake.store.held._held


@pytest.mark.parametrize("policy", POLICIES)
def test_the_true_top_k_of_many_old_memories(
    lake: ailake.Lake, policy: ailake.ScoringPolicy
) -> None:
    """By brute force over all rows, in an order that says who is first among equals."""
    draw = np.random.default_rng(3)
    count = 5_000
    vectors = draw.standard_normal((count, DIM)).astype(np.float16).astype(np.float32)
    vectors[100:120] = vectors[100]
    importance = draw.beta(5, 2, count).astype(np.float32)
    importance[100:120] = 0.5
    ages = draw.uniform(0, 400, count)
    ages[100:120] = 30.0
    events = [NOW - timedelta(days=float(age)) for age in ages]
    items = [
        {"id": f"m{n}", "text": f"m{n}", "vector": v, "importance": float(i), "event_time": e}
        for n, (v, i, e) in enumerate(zip(vectors, importance, events, strict=True))
    ]
    memory = lake.memory(agent_id="a")
    memory.remember_many(items, judge=False, now=NOW)
    for query in [vectors[100] + np.float32(0.01), *draw.standard_normal((4, DIM))]:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        distance = 1 - unit.astype(np.float64) @ (query / np.linalg.norm(query))
        days = np.array([(NOW - event) / timedelta(days=1) for event in events])
        weight = policy.recency_part(days) * policy.importance_part(importance.astype(np.float64))
        scores = np.maximum(distance, 0) / np.maximum(weight, np.finfo(np.float32).eps)
        born = np.array([int(event.timestamp() * 1e6) for event in events])
        names = [f"m{n}" for n in range(count)]
        order = rank(scores.round(6), weight.round(9), born, names)[:25]
        hits = memory.recall(query, limit=25, scoring=policy, now=NOW, touch=False)
        assert hits.exact
        assert hits.scored == count
        assert {hit.id for hit in hits} == {names[place] for place in order}
        assert [hit.score for hit in hits] == pytest.approx(scores[order], rel=1e-3, abs=1e-5)


def test_equals_are_ordered_as_stated_and_none_is_cut_off_by_chance(lake: ailake.Lake) -> None:
    vector = np.ones(DIM)
    items = [{"id": f"m{n:03}", "text": f"m{n}", "vector": vector} for n in range(300)]
    memory = lake.memory(agent_id="a")
    memory.remember_many(items, judge=False, now=NOW)
    hits = memory.recall(vector, limit=7, now=NOW, touch=False)
    assert [hit.id for hit in hits] == [f"m{n:03}" for n in range(7)]


def test_the_least_recently_used_scope_makes_room(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        items = [{"text": f"{name}{n}"} for n in range(100)]
        lake.memory(agent_id=name).remember_many(items, now=NOW)
    monkeypatch.setattr(held, "BUDGET", 2 * 100 * DIM * 5)
    for name in "abca":
        hits = lake.memory(agent_id=name).recall("a1", limit=1_000, now=NOW)
        assert len(hits) == 100
        assert {hit.scope.agent_id for hit in hits} == {name}
    assert list(lake.store.held._held) == [ailake.Scope("c"), ailake.Scope("a")]


def test_several_scopes(lake: ailake.Lake) -> None:
    for name in "abc":
        lake.memory(agent_id=name).remember_many(
            [{"text": f"tea {name} {n}"} for n in range(20)], now=NOW
        )
    reader = lake.read([ailake.Scope("a"), ailake.Scope("c")])
    hits = reader.recall("tea", limit=100, now=NOW)
    assert (len(hits), hits.scored, hits.exact) == (40, 40, True)
    assert {hit.scope.agent_id for hit in hits} == {"a", "c"}
    assert [hit.score for hit in hits] == sorted(hit.score for hit in hits)
    assert [hit.text for hit in hits] == [reader.get(hit.id, now=NOW).text for hit in hits]
    assert [hit.scope for hit in hits] == [reader.get(hit.id, now=NOW).scope for hit in hits]


def test_a_decay_run_without_accesses_reads_no_vector_again(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ailake.storage.resident import Resident

    memory = lake.memory(agent_id="a")
    memory.remember_many([{"text": f"n{n}"} for n in range(50)], now=NOW)
    memory.recall("n1", now=NOW, touch=False)
    read: list[int] = []
    append = Resident._append

    def counted(self: Resident, found: Any) -> None:
        read.append(found.num_rows)
        append(self, found)

    monkeypatch.setattr(Resident, "_append", counted)
    MemoryDecayJob(lake).run(NOW + timedelta(days=3))
    memory.recall("n1", now=NOW, touch=False)
    memory.forget(memory.list(limit=1, now=NOW)[0].id)
    assert len(memory.recall("n1", limit=100, now=NOW, touch=False)) == 49
    assert read == []
    memory.remember_many([{"text": "one more"}], now=NOW)
    assert len(memory.recall("n1", limit=100, now=NOW, touch=False)) == 50
    assert read == [1]


def test_a_read_that_fails_leaves_nothing_half_held(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment is gone as a whole, and what is left of another can't be read at first."""
    from ailake.storage.resident import Resident

    memory = lake.memory(agent_id="a")
    items = [{"id": f"m{n}", "text": f"m{n}", "vector": np.eye(DIM)[n]} for n in range(6)]
    memory.remember_many(items[:3], now=NOW)
    memory.remember_many(items[3:], now=NOW)
    near = np.eye(DIM)[0] + 0.1 * np.eye(DIM)[1] + 0.1 * np.eye(DIM)[2]
    memory.recall(near, now=NOW, touch=False)
    memory.forget(["m0", "m1", "m2", "m3"])
    scan = Resident._scan

    def failing(*_: object) -> Any:
        raise ConnectionError

    monkeypatch.setattr(Resident, "_scan", failing)
    with pytest.raises(ConnectionError):
        memory.recall(near, now=NOW, touch=False)
    monkeypatch.setattr(Resident, "_scan", scan)
    hits = memory.recall(near, limit=2, now=NOW, touch=False)
    assert sorted(hit.id for hit in hits) == ["m4", "m5"]
    assert hits.scored == 2


def test_a_reader_that_is_behind_takes_a_newer_version(lake: ailake.Lake) -> None:
    from ailake.storage.retries import StaleSnapshotError

    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(3)], now=NOW)
    store = lake.store
    behind = store.view()
    memory.update("m1", importance=1.0, now=NOW)
    memory.recall("m1", now=NOW, touch=False)
    with pytest.raises(StaleSnapshotError):
        store.held.rows(memory.scopes, behind.dataset, behind.passages, behind.entries)
    hits = memory.recall("m1", limit=10, now=NOW, touch=False)
    assert sorted(hit.id for hit in hits) == ["m0", "m1", "m2"]


def test_a_table_that_was_restored(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(3)], now=NOW)
    memory.recall("m1", now=NOW, touch=False)
    before = lake.table("episodic").version
    memory.forget("m1")
    assert len(memory.recall("m1", limit=10, now=NOW, touch=False)) == 2
    table = lake.table("episodic")
    table.restore(before)
    assert len(memory.recall("m1", limit=10, now=NOW, touch=False)) == 3
    assert memory.get("m1", now=NOW).text == "m1"
    assert memory.remember("another", id="m1", now=NOW).repeated


def test_scopes_that_fit_one_by_one_but_not_together(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        items = [{"text": f"{name}{n}"} for n in range(100)]
        # The judge would hold the scope already.
        lake.memory(agent_id=name).remember_many(items, judge=False, now=NOW)
    monkeypatch.setattr(held, "BUDGET", 2 * 100 * DIM * 4)
    reader = lake.read([ailake.Scope(name) for name in "abc"])
    assert len(reader.recall("a1", limit=1_000, now=NOW)) == 300
    assert lake.store.held._held == {}


def test_a_tag_and_a_backup_have_the_accesses_that_were_seen(
    lake: ailake.Lake, tmp_path: Path
) -> None:
    memory = lake.memory(agent_id="a")
    made = memory.remember("tea", now=NOW).id
    memory.recall("tea", now=NOW)
    assert memory.get(made, now=NOW).access_count == 1
    lake.tag("t")
    assert lake.at("t").memory(agent_id="a").get(made, now=NOW).access_count == 1
    memory.recall("tea", now=NOW)
    lake.backup(tmp_path / "copy")
    with ailake.connect(tmp_path / "copy", judge_rules=KEEP) as copy:
        assert copy.memory(agent_id="a").get(made, now=NOW).access_count == 2


@pytest.mark.parametrize("how", ["noted", "committed", "folded"])
def test_who_was_far_behind_comes_first_once_it_was_met(lake: ailake.Lake, how: str) -> None:
    """What its weight was is remembered from an earlier recall."""
    event, near, far = NOW - timedelta(days=60), np.eye(DIM)[0], np.eye(DIM)[1]
    items: list[dict[str, Any]] = [
        {"id": f"m{n}", "text": f"m{n}", "vector": near + n / 1_000, "event_time": event}
        for n in range(200)
    ]
    items.append({"id": "far", "text": "far", "vector": far, "event_time": event})
    memory = lake.memory(agent_id="a")
    memory.remember_many(items, judge=False, now=event)
    policy = ailake.ScoringPolicy.SEED

    def first() -> ailake.Hit:
        query = near + 0.5 * far
        return memory.recall(query, limit=1, scoring=policy, now=NOW, touch=False)[0]

    assert first().id != "far"
    memory.recall(far, limit=1, now=NOW)
    if how != "noted":
        lake.store.journal.flush()
    if how == "folded":
        MemoryDecayJob(lake).run(NOW)
    assert (first().id, first().access_count) == ("far", 1)


def test_how_much_is_held_is_the_callers_choice(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("bounded") / "lake"
    with ailake.connect(path, embedder=f"hashing:{DIM}", recall_bytes=0, judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember_many([{"text": f"m{n}"} for n in range(50)], judge=False, now=NOW)
        lake.tag("then")
        for some in (memory, lake.at("then").memory(agent_id="a")):
            hits = some.recall("m7", limit=3, mode="vector", now=NOW, touch=False)
            assert (hits[0].text, hits.exact) == ("m7", True)
        assert lake.store.held._total == 0
    with ailake.connect(path, judge_rules=KEEP) as lake:
        again = lake.memory(agent_id="a").recall("m7", limit=3, mode="vector", now=NOW)
        assert [hit.id for hit in again] == [hit.id for hit in hits]
        assert lake.store.held._total > 0
    for wrong in (-1, 1.5, True, "1 GB"):
        with pytest.raises(InvalidInputError, match="recall_bytes: got"):
            ailake.connect(path, recall_bytes=wrong, judge_rules=KEEP)  # type: ignore[arg-type]
