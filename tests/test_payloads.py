"""What hits show, held in memory: the same as on disk, whatever was written meanwhile."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake.core.records import MemoryRecord
from ailake.core.rows import RECORD_COLUMNS, record_of
from ailake.maintenance import MemoryDecayJob
from ailake.storage import held, payloads
from ailake.storage.held import HeldRows
from ailake.storage.view import ReadView

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LONG = "Filler about nothing much. " * 40


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16", judge_rules=KEEP) as opened:
        opened.store.drainer.stop()
        yield opened


def held_rows(lake: ailake.Lake, agent: str = "a") -> tuple[ReadView, HeldRows]:
    view = lake.store.view()
    found = view.held.rows([ailake.Scope(agent)], view.dataset, view.passages, view.entries)
    assert found is not None
    return view, found[0]


def shown(rows: HeldRows, places: list[int]) -> list[MemoryRecord]:
    return [MemoryRecord(**fields) for fields in rows.fields(places)]


def check(lake: ailake.Lake, agent: str = "a", *, times: int = 3) -> int:
    """Compare all rows of a scope with those on disk; return how many there are."""
    for _ in range(times):
        view, rows = held_rows(lake, agent)
        places = [int(place) for place in rows.memories.alive.nonzero()[0]][::-1]
        wanted = view.rows_at(rows.memories.columns["row_id"][places], RECORD_COLUMNS)
        assert shown(rows, places) == [record_of(row) for row in wanted]
        assert len(wanted) == len(places)
    return len(places)


def warm(lake: ailake.Lake, agent: str = "a") -> None:
    """Ask for one row after the other, until all are held."""
    _, rows = held_rows(lake, agent)
    lake.store.held._held[ailake.Scope(agent)].payloads.clear()
    for place in rows.memories.alive.nonzero()[0][:3].tolist():
        rows.fields([place])


def is_resident(lake: ailake.Lake, agent: str = "a") -> bool:
    blocks = lake.store.held._held[ailake.Scope(agent)].payloads._blocks
    return bool(blocks) and all(block.rows is not None for block in blocks)


def items(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    metadata = {"n": [1, {"deep": "x"}]}
    return [
        {"id": f"m{n}", "text": f"note {n}", "metadata": metadata if n % 2 else {}}
        for n in range(start, start + count)
    ]


def test_rows_are_read_at_once_when_they_are_asked_for_again(lake: ailake.Lake) -> None:
    lake.memory("a").remember_many(items(40), now=NOW)
    _, rows = held_rows(lake)
    rows.fields([1, 2])
    assert not is_resident(lake)
    rows.fields([1, 2])
    # Nothing had to be read.
    assert not is_resident(lake)
    rows.fields([3])
    assert is_resident(lake)
    assert check(lake) == 40


def test_a_fragment_that_no_row_is_left_in(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember_many(items(40), now=NOW)
    for agent in "ab":
        lake.memory(agent).remember("logged", id=agent, now=NOW)
    lake.flush()
    assert len(lake.store.episodic.fresh().get_fragments()) == 2
    assert check(lake, times=1) == 41
    # The other scope's row stays where it is.
    memory.forget("a")
    warm(lake)
    blocks = lake.store.held._held[ailake.Scope("a")].payloads._blocks
    assert [(block.stop - block.start, block.rows is None) for block in blocks] == [
        (40, False),
        (1, True),
    ]
    assert check(lake) == 40


def test_what_was_handed_out_is_the_callers_own(lake: ailake.Lake) -> None:
    lake.memory("a").remember_many(items(4), now=NOW)
    warm(lake)
    for _ in range(3):
        _, rows = held_rows(lake)
        for fields in rows.fields([0, 1, 2, 3]):
            fields["metadata"].get("n", []).append("spoilt")
            fields["metadata"]["more"] = 1
            fields["text"] = "spoilt"
        check(lake, times=1)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_on_disk_after_any_writes(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(payloads, "_MOST_MADE", 30_000)
    draw = random.Random(seed)  # noqa: S311 (a repeatable order)
    now = NOW
    for agent in "ab":
        lake.memory(agent).remember_many([{"text": f"first {n}"} for n in range(20)], now=NOW)
    versions: list[int] = []
    for step in range(30):
        now += timedelta(hours=draw.randint(1, 50))
        memory = lake.memory(draw.choice("ab"))
        listed = memory.list(now=now, limit=50)
        if draw.random() < 0.4:
            write_anywhere(lake, versions, draw, now)
        elif listed:
            write_one(memory, draw.choice(listed).id, draw, now=now)
        memory.remember_many([{"text": f"{step} {n}"} for n in range(draw.randint(1, 9))], now=now)
        memory.recall("first", now=now)
        lake.flush()
        versions.append(lake.table("episodic").version)
        for agent in "ab":
            if draw.random() < 0.3:
                warm(lake, agent)
            check(lake, agent, times=draw.randint(1, 3))


def write_anywhere(
    lake: ailake.Lake, versions: list[int], draw: random.Random, now: datetime
) -> None:
    table = lake.table("episodic")
    match draw.randint(0, 3):
        case 0:
            table.to_lance().optimize.compact_files()
        case 1 if versions:
            table.checkout(draw.choice(versions))
            table.restore()
        case _:
            MemoryDecayJob(lake).run(now)


def write_one(memory: ailake.Memory, some: str, draw: random.Random, *, now: datetime) -> None:
    step = f"{now:%d %H}"
    match draw.randint(0, 4):
        case 0:
            memory.update(some, text=f"changed {step}", now=now)
        case 1:
            memory.update(some, importance=draw.random(), metadata={"n": step}, now=now)
        case 2:
            memory.forget(some)
        case 3:
            memory.touch(some, now=now)
        case _:
            memory.remember(LONG + step, now=now)


def test_what_changes_in_place_is_read_anew(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember_many(items(10), now=NOW)
    warm(lake)
    assert is_resident(lake)
    check(lake)
    later = NOW + timedelta(days=30)

    def hit(memory_id: str) -> ailake.Hit:
        for _ in range(4):
            found = {hit.id: hit for hit in memory.recall("note", touch=False, now=later)}
        return found[memory_id]

    memory.recall("note", now=later)
    assert hit("m1").access_count == 1
    MemoryDecayJob(lake).run(later)
    assert (hit("m1").access_count, hit("m1").last_accessed_at) == (1, later)
    assert memory.get("m1", now=later).recency_weight == 1.0
    memory.touch("m1", now=later + timedelta(hours=1))
    assert hit("m1").access_count == 2
    memory.update("m1", importance=0.25, now=later)
    assert hit("m1").importance_score == 0.25
    memory.remember("note 2", confidence=1.0, now=later + timedelta(days=1))
    MemoryDecayJob(lake).run(later + timedelta(days=1))
    assert hit("m2").updated_at == later + timedelta(days=1)
    renamed = memory.update("m3", text="another", now=later).id
    assert hit(renamed).text == "another"
    memory.restore("m3", now=later)
    assert hit("m3").text == "note 3"
    memory.forget("m4")
    with pytest.raises(KeyError):
        hit("m4")
    check(lake)


def test_a_reader_that_is_behind_sees_its_own_version(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember_many(items(5), now=NOW)
    warm(lake)
    _, behind = held_rows(lake)
    MemoryDecayJob(lake).run(NOW + timedelta(days=50))
    check(lake)
    _, present = held_rows(lake)
    assert {one.recency_weight for one in shown(behind, [0, 1])} == {1.0}
    assert max(one.recency_weight for one in shown(present, [0, 1])) < 1.0


def test_texts_leave_before_vectors(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for agent in "abc":
        rows = [{"text": f"{agent} {n} {LONG}"[:600]} for n in range(100)]
        lake.memory(agent).remember_many(rows, now=NOW)
        warm(lake, agent)
        check(lake, agent)
        held_rows(lake, agent)
    sizes = {scope.agent_id: one.bytes for scope, one in lake.store.held._held.items()}
    assert lake.store.held._total == sum(sizes.values())
    assert all(is_resident(lake, agent) for agent in "abc")
    assert min(sizes.values()) > 100 * 600
    monkeypatch.setattr(held, "BUDGET", sum(sizes.values()) - 1)
    held_rows(lake, "a")
    assert {agent: is_resident(lake, agent) for agent in "abc"} == {
        "a": True,
        "b": False,
        "c": True,
    }
    assert len(lake.store.held._held) == 3
    # No texts come back at the cost of others.
    monkeypatch.setattr(held, "BUDGET", lake.store.held._total + 1_000)
    warm(lake, "b")
    assert not is_resident(lake, "b")
    assert is_resident(lake, "a")
    monkeypatch.setattr(held, "BUDGET", 3 * 100 * 16 * 5 + 1_000)
    held_rows(lake, "b")
    assert not any(is_resident(lake, agent) for agent in "abc")
    assert len(lake.store.held._held) == 3
    warm(lake, "c")
    check(lake, "c")
    assert not is_resident(lake, "c")
    assert len(lake.store.held._held) == 3


def test_what_was_made_of_rows_is_bounded(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "_MOST_MADE", 10 * payloads._MADE_BYTES)
    lake.memory("a").remember_many(items(40), now=NOW)
    check(lake)
    one = lake.store.held._held[ailake.Scope("a")].payloads
    assert len(one._made) == 9
    assert one._made_bytes == sum(made.bytes for made in one._made.values())


def test_rows_that_move_together_when_most_are_gone(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    for start in (0, 50, 150):
        memory.remember_many(items(100 if start else 50, start=start), now=NOW)
    warm(lake)
    check(lake)
    memory.forget([f"m{n}" for n in range(50, 240) if n % 9])
    assert check(lake) < 100
    warm(lake)
    check(lake)
