"""Accesses that wait in the journal: each counts once, for what lives on of the memory, too."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake import changing
from ailake.changing import Changer
from ailake.core.decisions import DecisionRecord
from ailake.maintenance import MemoryDecayJob, decay
from ailake.storage import columns

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SMALL, WHOLE = "Ana has a dog", "Ana has a small brown dog"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder="hashing:64", judge_rules=KEEP) as opened:
        yield opened


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    return lake.memory("a")


def fold(lake: ailake.Lake) -> dict[str, int]:
    """Fold, and return the access counts of all rows, which are the stored ones then."""
    MemoryDecayJob(lake).run(NOW + 9 * DAY)
    assert MemoryDecayJob(lake).run(NOW + 9 * DAY).accesses_folded == 0
    assert lake.stats().pending_accesses == 0
    rows = lake.store.episodic.fresh().to_table(columns=["chunk_id", "access_count"])
    return dict(zip(*rows.to_pydict().values(), strict=True))


def update(memory: ailake.Memory) -> str:
    return memory.update("old", text=WHOLE, now=NOW + DAY).id


def modify(memory: ailake.Memory) -> str:
    told = memory.remember(WHOLE, id="new", now=NOW + DAY)
    assert told.decision == "modify"
    return told.id


def review(memory: ailake.Memory) -> str:
    memory.remember("Ben sails to Oslo", id="new", now=NOW)

    def decide(pair: tuple[ailake.MemoryRecord, ailake.MemoryRecord]) -> DecisionRecord:
        new, existing = (one.id for one in pair)
        return DecisionRecord(
            id="d", scope=memory.scope, decided_at=NOW + DAY, decision="merge", memory_id=new,
            existing_id=existing, absorbed_id=existing,
        )  # fmt: skip

    changer = Changer(memory.store, memory.embedder, memory.scope)
    assert changer.review(("new", "old"), decide) is not None
    return "new"


@pytest.mark.parametrize("merge", [update, modify, review])
def test_an_access_counts_once_for_both(
    lake: ailake.Lake, memory: ailake.Memory, merge: Callable[[ailake.Memory], str]
) -> None:
    memory.remember(SMALL, id="old", now=NOW)
    lake.flush()
    memory.touch("old", now=NOW)
    new = merge(memory)
    lake.flush()
    assert memory.get(new).access_count == memory.get("old").access_count == 1
    # As who looked the memory up while another writer was merging it.
    memory.touch("old", now=NOW + 2 * DAY)
    assert memory.get("old").access_count == 2
    assert fold(lake) == {"old": 2, new: 2}
    assert memory.get(new).last_accessed_at == NOW + 2 * DAY
    memory.touch(new, now=NOW + 2 * DAY)
    assert fold(lake) == {"old": 2, new: 3}


def test_it_goes_on_to_the_end_of_a_chain(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember(SMALL, id="old", now=NOW)
    lake.flush()
    second = memory.update("old", text="Ana has a cat", now=NOW).id
    third = memory.update(second, text="Ana has a parrot", now=NOW).id
    memory.touch(["old", second], now=NOW + DAY)
    memory.touch(["old", third], now=NOW + DAY)
    assert fold(lake) == {"old": 2, second: 3, third: 4}


def test_where_nothing_lives_on(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember(SMALL, id="old", now=NOW)
    lake.flush()
    new = memory.update("old", text=WHOLE, now=NOW).id
    row = lake.store.episodic.fresh().to_table(filter=f"chunk_id = '{new}'", with_row_id=True)
    memory.touch("old", now=NOW + DAY)
    # As of a lake that somebody has edited.
    lake.store.episodic.delete_rows(row["_rowid"].to_pylist())
    assert fold(lake) == {"old": 1}


def test_what_is_merged_while_the_fold_is_on(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row counts later entries than the fold does, and they stay counted."""
    memory.remember_many([{"text": t, "id": t} for t in (SMALL, "Ben sails")], now=NOW)
    lake.flush()
    memory.touch("Ben sails", now=NOW)
    rewrite, new = columns.rewrite_columns, ""

    def meanwhile(*args: Any, **options: Any) -> Any:
        # The fold has read the journal, and this is not in what it read.
        nonlocal new
        memory.touch(SMALL, now=NOW)
        with monkeypatch.context() as patch:
            # On an object store no lock makes the writer wait.
            patch.setattr(changing, "exclusive", lambda *_: nullcontext())
            new = memory.update(SMALL, text=WHOLE, now=NOW).id
        memory.touch(new, now=NOW)
        lake.store.episodic.compact()
        return rewrite(*args, **options)

    monkeypatch.setattr(decay, "rewrite_columns", meanwhile)
    MemoryDecayJob(lake).run(NOW + DAY)
    assert len(lake.store.episodic.fresh().get_fragments()) == 1
    monkeypatch.undo()
    assert fold(lake) == {SMALL: 1, new: 2, "Ben sails": 1}


def test_a_version_can_be_read_while_it_is_written_on(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember(SMALL, id="old", now=NOW)
    lake.flush()
    table, done = lake.store.episodic, Event()
    rows = table.fresh().to_table(columns=["chunk_id", "access_count"])

    def read() -> None:
        while not done.is_set():
            table.snapshot().to_table()

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for _ in range(9):
                table.upsert(rows, at=table.snapshot())
        finally:
            done.set()
    for reader in readers:
        reader.result()
