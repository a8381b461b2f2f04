"""The indexes that every lake has: made, kept current, mended, and never built where none may."""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import KEEP

import ailake
from ailake.core import indexing
from ailake.maintenance import MemoryDecayJob
from ailake.storage.indexes import indexes_of, missing_indexes, text_index

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ALL = ["agent_id_idx", "chunk_text_idx", "project_id_idx", "state_idx", "user_id_idx"]


def state(lake: ailake.Lake) -> dict[str, tuple[int, int, int]]:
    """Return rows in it, rows beside it and parts of each index."""
    found = indexes_of(lake.store.episodic.fresh())
    return {
        i.name: (i.coverage.indexed_rows, i.coverage.unindexed_rows, i.coverage.segments)
        for i in found
    }


def drop_all(lake: ailake.Lake) -> None:
    for name in state(lake):
        lake.table("episodic").drop_index(name)
    assert not state(lake)


def notes(count: int, name: str = "note") -> list[dict[str, Any]]:
    return [{"text": f"{name} {n}", "vector": np.ones(64)} for n in range(count)]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes may lack ten rows, and consist of three parts."""
    monkeypatch.setattr(indexing, "MOST_BEHIND", 10)
    monkeypatch.setattr(indexing, "MOST_SEGMENTS", 3)


def test_a_new_lake_has_them(lake: ailake.Lake) -> None:
    assert state(lake) == dict.fromkeys(ALL, (0, 0, 1))
    described = lake.table("episodic").to_lance().describe_indices()
    (text,) = (index for index in described if index.name == "chunk_text_idx")
    assert text.details["base_tokenizer"] == "icu"
    assert text.details["remove_stop_words"] is True
    assert text_index(lake.store.episodic.snapshot())
    assert not text_index(lake.store.tables["passages"].snapshot())


@pytest.mark.usefixtures("small")
def test_searches_use_them(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many(notes(50), now=NOW)
    lake.flush()
    scanner = (
        lake.table("episodic")
        .to_lance()
        .scanner(columns=["chunk_id"], filter="agent_id = 'ana-bot' AND state = 'active'")
    )
    plan = scanner.explain_plan()
    assert "agent_id_idx" in plan
    assert "state_idx" in plan


def test_a_lake_without_them_gets_them_off_the_callers_path(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember_many(notes(20), now=NOW)
    lake.flush()
    drop_all(lake)
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        assert not state(other)
        other.memory("b").remember("tea")
        wait_until(lambda: sorted(state(other)) == ALL)
    assert not missing_indexes("episodic", lake.store.episodic.snapshot())


@pytest.mark.usefixtures("small")
def test_a_few_rows_are_left_and_many_are_appended(lake: ailake.Lake) -> None:
    lake.store.drainer.stop()
    upkeep = lake.store.keep_indexes_current
    memory = lake.memory("a")
    memory.remember_many(notes(10), now=NOW)
    upkeep()
    assert set(state(lake).values()) == {(0, 10, 1)}
    memory.remember_many(notes(1, "more"), now=NOW)
    upkeep()
    assert set(state(lake).values()) == {(11, 0, 1)}
    memory.remember_many(notes(11, "others"), now=NOW)
    before = lake.table("episodic").version
    upkeep()
    assert state(lake) == {**dict.fromkeys(ALL, (22, 0, 1)), "chunk_text_idx": (22, 0, 2)}
    assert lake.table("episodic").version == before + 2
    for turn in range(2):
        memory.remember_many(notes(11, f"turn {turn}"), now=NOW)
        upkeep()
    assert state(lake) == {**dict.fromkeys(ALL, (44, 0, 1)), "chunk_text_idx": (44, 0, 4)}
    # Four parts are one too many.
    memory.remember_many(notes(1, "last"), now=NOW)
    upkeep()
    assert state(lake) == {**dict.fromkeys(ALL, (44, 1, 1)), "chunk_text_idx": (45, 0, 1)}


@pytest.mark.usefixtures("small")
def test_rows_that_moved_are_merged_and_found_once(lake: ailake.Lake) -> None:
    """A part of its own for a changed row would find it twice, and under its old values."""
    memory = lake.memory("a")
    ids = [one.id for one in memory.remember_many(notes(20), now=NOW)]
    lake.flush()
    for memory_id in ids[:11]:
        memory.update(memory_id, text=f"tea {memory_id}", now=NOW)
    lake.flush()
    # The old row and its replacement: each of the 11 old ones has moved.
    for indexed, behind, parts in state(lake).values():
        assert (indexed + behind, parts) == (31, 1)
        assert behind <= 10
    dataset = lake.table("episodic").to_lance()
    merged = dataset.to_table(columns=["chunk_id"], filter="state = 'merged'")
    assert sorted(merged["chunk_id"].to_pylist()) == sorted(ids[:11])
    assert memory.count(now=NOW) == 20


@pytest.mark.usefixtures("small")
def test_many_commits_of_one_call_are_indexed_once(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ailake.writing.COMMIT_ROWS", 20)
    monkeypatch.setattr("ailake.bulk.COMMIT_ROWS", 20)
    monkeypatch.setattr("ailake.storage.upkeep.DELAY", 0.0)
    memory = lake.memory("a")
    lake.store.drainer.wake(at_once=True)
    before = lake.table("episodic").version
    memory.remember_many(notes(100), now=NOW)
    lake.flush()
    assert set(state(lake).values()) == {(100, 0, 1)}
    assert lake.table("episodic").version == before + 5 + 2


@pytest.mark.usefixtures("small")
def test_close_sees_to_it(lake: ailake.Lake) -> None:
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        other.memory("a").remember_many(notes(30), now=NOW)
    assert set(state(lake).values()) == {(30, 0, 1)}


def test_nothing_is_done_where_nothing_is_due(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    lake.flush()
    before = lake.table("episodic").version
    lake.store.keep_indexes_current()
    lake.flush()
    assert lake.table("episodic").version == before


def test_what_others_drop_is_made_again(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many(notes(5), now=NOW)
    lake.flush()
    lake.table("episodic").drop_index("state_idx")
    lake.table("episodic").drop_index("chunk_text_idx")
    memory.remember("tea", now=NOW)
    lake.flush()
    assert sorted(state(lake)) == ALL


def test_an_index_of_ones_own_is_left_alone(lake: ailake.Lake) -> None:
    from lancedb.index import FTS

    table = lake.table("episodic")
    table.create_index("chunk_text", config=FTS(base_tokenizer="whitespace"), replace=True)
    lake.memory("a").remember_many(notes(5), now=NOW)
    lake.flush()
    described = table.to_lance().describe_indices()
    kept = [index for index in described if index.field_names == ["chunk_text"]]
    assert [index.details["base_tokenizer"] for index in kept] == ["whitespace"]


def test_compaction_goes_on_within_the_parts_of_an_index(lake: ailake.Lake) -> None:
    """The engine merges no fragments that different parts of an index cover."""
    lake.store.drainer.stop()
    table, memory = lake.store.episodic, lake.memory("a")
    names = list(state(lake))
    for turn in range(3):
        for batch in range(4):
            memory.remember_many(notes(5, f"{turn} {batch}"), now=NOW)
        dataset = table.fresh()
        dataset.optimize.optimize_indices(index_names=names, num_indices_to_merge=0)
    lake.flush()
    sizes = [fragment.physical_rows for fragment in table.fresh().get_fragments()]
    assert sum(sizes) == 60
    assert len(sizes) < 9
    version = table.version
    table.tidy()
    assert table.version == version
    table.fresh().optimize.optimize_indices(index_names=names, num_indices_to_merge=100)
    table.tidy(most=1)
    assert len(table.fresh().get_fragments()) == 1


def test_a_failure_of_upkeep_is_told_and_harms_nobody(
    lake: ailake.Lake, memory: ailake.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.remember_many(notes(5), now=NOW)
    lake.flush()
    drop_all(lake)
    memory.remember("tea", now=NOW)
    folder = Path(lake.uri) / "episodic.lance" / "_indices"
    shutil.rmtree(folder)
    folder.write_text("in the way")
    with caplog.at_level(logging.WARNING, "ailake"):
        lake.flush()
    assert "upkeep of episodic failed" in caplog.text
    assert memory.count(now=NOW) == 6
    folder.unlink()
    lake.store.keep_indexes_current()
    assert sorted(state(lake)) == ALL


@pytest.mark.usefixtures("small")
def test_a_read_only_view_builds_nothing(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember_many(notes(5), now=NOW)
    drop_all(lake)
    lake.tag("before")
    memory.remember_many(notes(20, "more"), now=NOW)
    lake.flush()
    with lake.at("before") as past:
        past.store.keep_indexes_current()
        assert not state(past)
        past.memory("a").recall("note 1", now=NOW)
        past.flush()
    assert {rows for rows, _, _ in state(lake).values()} == {25}


def test_a_backup_has_them(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    memory.remember_many(notes(20), now=NOW)
    lake.flush()
    lake.backup(tmp_path / "backup")
    with ailake.connect(tmp_path / "backup", judge_rules=KEEP) as copy:
        assert state(copy) == state(lake)
        assert copy.memory("ana-bot", user_id="ana").count(now=NOW) == 20


@pytest.mark.usefixtures("small")
def test_decay_leaves_them(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many(notes(30), now=NOW)
    lake.flush()
    memory.recall("note 3", now=NOW)
    assert MemoryDecayJob(lake).run(NOW + timedelta(days=9)).fragments_written == 1
    assert set(state(lake).values()) == {(30, 0, 1)}


@pytest.mark.usefixtures("small")
def test_threads_that_write_many_at_once_leave_it_to_the_last(lake: ailake.Lake) -> None:
    def write(name: str) -> None:
        lake.memory(name).remember_many(notes(30, name), now=NOW)

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lake.flush()
    assert set(state(lake).values()) == {(120, 0, 1)}
