"""What is only in the log yet is there for every verb, as it will be once it is a row."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ailake
from ailake import Decision, InvalidInputError, NotFoundError, State
from ailake.core.draining import DrainPlan
from ailake.core.log import replay
from ailake.maintenance import MemoryDecayJob
from ailake.storage import draining, store, table
from ailake.storage import log as logs

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def memory(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> ailake.Memory:
    """A memory whose log nobody drains in the background."""
    monkeypatch.setattr(draining, "VISIBLE_AFTER", float("inf"))
    lake.store.drainer.stop()
    return lake.memory("a")


def waiting(lake: ailake.Lake) -> int:
    """Return the number of memories in the log of all processes."""
    paths = logs.segments(Path(lake.uri))
    return sum(len(replay(path.read_bytes()).memories) for path in paths)


def stored(lake: ailake.Lake) -> int:
    return int(lake.store.rows_view(committed=True).dataset.count_rows())


def texts(memory: ailake.Memory, **options: Any) -> list[str]:
    return [record.text for record in memory.list(**options)]


def test_every_read_sees_it_before_and_after_the_drain(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember_many([{"text": f"tea {n}", "kind": "row"} for n in range(2)], now=NOW)
    kept: dict[str, Any] = {
        "kind": "logged",
        "metadata": {"cup": "blue", "size": [1, 2]},
        "importance": 0.7,
    }
    made = memory.remember("我喝茶 \0 🍵", now=NOW, speaker="Ana", session_id="s", **kept)
    memory.remember("tea 3", now=NOW + HOUR, kind="logged", expires_at=NOW + 2 * HOUR)
    assert (waiting(lake), stored(lake)) == (2, 2)
    seen = []
    for _ in range(2):
        record = memory.get(made.id, now=NOW)
        assert memory.history(made.id) == [record]
        paged = [texts(memory, limit=1, offset=n, now=NOW + HOUR) for n in range(5)]
        assert paged == [["tea 0"], ["tea 1"], ["我喝茶 \0 🍵"], ["tea 3"], []]
        newest = texts(memory, newest_first=True, limit=2, now=NOW + HOUR)
        assert newest == ["tea 3", "我喝茶 \0 🍵"]
        assert memory.count(now=NOW + HOUR) == 4
        assert memory.count(now=NOW + 2 * HOUR) == 3
        assert memory.count({"kind": "logged", "speaker": "Ana"}, now=NOW) == 1
        assert memory.count({"metadata.cup": {"in": ["blue", "red"]}}, now=NOW) == 1
        assert memory.count({"state": "merged"}, now=NOW) == 0
        hits = memory.recall("我喝茶", where={"metadata.cup": "blue"}, touch=False, now=NOW)
        assert [hit.id for hit in hits] == [made.id]
        ranked = memory.recall("tea 3", where={"kind": "logged"}, touch=False, now=NOW)
        assert [hit.text for hit in ranked] == ["tea 3", "我喝茶 \0 🍵"]
        assert len(memory.recall("tea", session_id="s", touch=False, now=NOW)) == 1
        assert lake.memory("b").count() == 0
        with pytest.raises(NotFoundError):
            lake.memory("b").get(made.id)
        seen.append((record, [hit.distance for hit in [*ranked, *hits]]))
        lake.flush()
    assert (waiting(lake), stored(lake)) == (0, 4)
    assert seen[0][0] == seen[1][0]
    assert np.allclose(seen[0][1], seen[1][1], atol=1e-6)


def test_accesses_are_counted_while_it_waits(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember("tea", now=NOW)
    memory.touch(made.id, now=NOW + HOUR)
    assert memory.recall("tea", mode="vector", now=NOW + 2 * HOUR).counted
    assert waiting(lake) == 1
    for _ in range(3):
        record = memory.get(made.id)
        assert (record.access_count, record.last_accessed_at) == (2, NOW + 2 * HOUR)
        MemoryDecayJob(lake).run(NOW + 3 * HOUR)
    assert lake.table("episodic").to_lance().to_table()["access_count"].to_pylist() == [2]


@pytest.mark.parametrize("link", [False, True])
def test_other_handles_of_the_process_see_it(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path, *, link: bool
) -> None:
    path = tmp_path / "lake"
    if link:
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "lake")
    with ailake.connect(path, judge_rules=ailake.JudgeRules(retention=None)) as other:
        other.store.drainer.stop()
        made = memory.remember("tea", id="x")
        assert other.memory("a").get("x").text == "tea"
        assert other.memory("a").remember("Tea.").id == made.id
        assert other.memory("a").remember("coffee", id="x").repeated
        other.memory("a").remember("milk")
        assert texts(memory) == ["tea", "milk"]
        assert (waiting(lake), stored(lake)) == (2, 0)
    assert (waiting(lake), stored(lake)) == (0, 2)
    assert texts(memory) == ["tea", "milk"]


DRAINING: dict[str, Callable[[ailake.Lake], object]] = {
    "flush": lambda lake: lake.flush(),
    "close": lambda lake: lake.close(),
    "scan": lambda lake: lake.scan("episodic"),
    "table": lambda lake: lake.table("accesses"),
    "versions": lambda lake: lake.versions("episodic"),
    "tag": lambda lake: lake.tag("t"),
    "at": lambda lake: lake.at(datetime.now(UTC)),  # noqa: TID251 (no other clock is wanted)
    "read": lambda lake: lake.read([ailake.Scope("a")]),
    "verify": lambda lake: lake.verify(),
    "stats": lambda lake: lake.stats(),
    "scopes": lambda lake: lake.scopes(),
    "decay": lambda lake: MemoryDecayJob(lake).run(),
    "a dry decay": lambda lake: MemoryDecayJob(lake).run(dry_run=True),
    "a dry forget": lambda lake: lake.memory("b").forget("y", dry_run=True),
    "forget": lambda lake: lake.memory("b").forget("y"),
    "remember_many": lambda lake: lake.memory("a").remember_many([{"text": "tea"}]),
}


@pytest.mark.parametrize("verb", DRAINING)
def test_what_drains(lake: ailake.Lake, memory: ailake.Memory, verb: str) -> None:
    memory.remember("tea", id="x")
    DRAINING[verb](lake)
    with ailake.connect(lake.uri) as other:
        assert waiting(lake) == 0
        assert stored(other) == 1
        assert other.memory("a").get("x").text == "tea"


def test_a_moment_between_two_logged_memories(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", kind="k", metadata={"cup": 1})
    moment = datetime.now(UTC)  # noqa: TID251 (the instants of the log are real)
    memory.remember("coffee")
    past = lake.at(moment)
    assert stored(lake) == 2
    then = past.memory("a")
    assert texts(then) == [hit.text for hit in then.recall("coffee")] == ["tea"]
    assert then.count() == then.count({"metadata.cup": 1}) == then.count({"kind": "k"}) == 1
    assert past.scan("episodic").collect()["chunk_text"].to_list() == ["tea"]
    assert past.read([ailake.Scope("a")]).count() == 1
    assert past.scopes() == [ailake.Scope("a")]
    assert texts(lake.at(datetime.now(UTC)).memory("a")) == ["tea", "coffee"]  # noqa: TID251


def test_a_moment_while_a_drain_was_running(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was logged then is in the drain after it."""
    memory.remember("tea")
    moments: list[datetime] = []
    apply = draining._apply

    def slowly(opened: store.Store, plan: DrainPlan, *, again: bool) -> None:
        if not moments:
            memory.remember("coffee")
            moments.append(datetime.now(UTC))  # noqa: TID251 (the instants of the log are real)
        apply(opened, plan, again=again)

    monkeypatch.setattr(draining, "_apply", slowly)
    lake.flush()
    assert (waiting(lake), stored(lake)) == (1, 1)
    assert sorted(texts(lake.at(moments[0]).memory("a"))) == ["coffee", "tea"]


def test_changing_what_is_only_logged(lake: ailake.Lake, memory: ailake.Memory) -> None:
    for name in ("gone", "changed", "rewritten"):
        memory.remember(f"{name} text", id=name)
    assert memory.forget("gone").ids == ("gone",)
    memory.remember("a later text", id="later")
    assert memory.update("changed", importance=0.9).importance_score == 0.9
    new = memory.update("rewritten", text="quite another text")
    assert new.text == "quite another text"
    assert memory.get("rewritten").state is State.MERGED
    assert memory.restore("rewritten").state is State.ACTIVE
    with pytest.raises(NotFoundError):
        memory.get("gone")
    memory.remember("short-lived", id="gone too")
    assert memory.forget(where={"chunk_text": "short-lived"}).ids == ("gone too",)
    lake.flush()
    expected = ["changed text", "rewritten text", "quite another text", "a later text"]
    assert sorted(texts(memory)) == sorted(expected)
    assert lake.verify() == ()


def test_remembering_again_what_is_only_logged(lake: ailake.Lake, memory: ailake.Memory) -> None:
    first = memory.remember("tea", id="x", expires_at=NOW + HOUR, now=NOW)
    again = memory.remember("coffee", id="x", now=NOW)
    assert (again, again.repeated) == (first, True)
    skipped = memory.remember("Tea!", expires_at=NOW + HOUR / 2, now=NOW, confidence=0.5)
    assert (skipped.decision, skipped.id) == (Decision.SKIP, "x")
    assert (waiting(lake), stored(lake)) == (1, 0)
    with pytest.raises(InvalidInputError, match="taken in this lake"):
        lake.memory("b").remember("milk", id="x")
    assert memory.remember("tea", expires_at=NOW + 3 * HOUR, now=NOW).id == "x"
    assert memory.get("x", now=NOW + 2 * HOUR).expires_at == NOW + 3 * HOUR
    assert texts(memory, now=NOW + 2 * HOUR) == ["tea"]
    assert memory.remember("tea", judge=False, now=NOW).decision is Decision.CREATE
    assert len(texts(memory, now=NOW)) == 2


def test_an_expiry_is_not_lost_to_a_thread_that_logs(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repetition finds it only after its own drain, as no row yet."""
    drain = draining._drain
    calls: list[store.Store] = []

    def then_log(opened: store.Store) -> None:
        drain(opened)
        if not calls:
            calls.append(opened)
            memory.remember("tea", id="x", expires_at=NOW + HOUR, now=NOW)

    memory.remember("coffee", now=NOW)
    monkeypatch.setattr(draining, "_drain", then_log)
    (outcome,) = memory.remember_many([{"text": "tea"}], now=NOW)
    assert outcome.id == "x"
    assert memory.get("x", now=NOW + 2 * HOUR).expires_at is None
    assert stored(lake) == 2


def test_threads_see_each_other(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:16") as lake:
        outcomes: list[ailake.Remembered] = []

        def write(seed: int) -> None:
            memory = lake.memory("a")
            for n in range(50):
                text = f"shared {n}" if n % 2 else f"{seed}'s {n}"
                outcomes.append(memory.remember(text))

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory = lake.memory("a")
        live = texts(memory, limit=1_000)
        assert len(live) == len(set(live)) == len({one.id for one in outcomes}) == 225
        assert lake.scan("episodic").collect().height == 225
        assert lake.verify() == ()


def test_many_memories_make_few_commits(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    before = lake.store.episodic.version
    for n in range(500):
        memory.remember(f"n{n}", judge=False)
    lake.flush()
    assert lake.store.episodic.version - before < 30
    assert texts(memory, limit=1_000) == [f"n{n}" for n in range(500)]
    size = sum(path.stat().st_size for path in Path(lake.uri).rglob("*") if path.is_file())
    assert size < 3_000_000


def test_old_versions_go_as_writes_go_on(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "KEPT", timedelta(0))
    monkeypatch.setattr(table, "CLEAN_EVERY", 10)
    memory.remember("first")
    lake.tag("t")
    for n in range(40):
        memory.remember(f"n{n}")
        lake.flush()
    assert len(lake.versions("episodic")) < 14
    assert texts(lake.at("t").memory("a")) == ["first"]
    assert len(texts(memory)) == 41
