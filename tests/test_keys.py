"""The resident index of ids and texts finds what a scan of the same version finds."""

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import lance
import pytest

import ailake
from ailake.core.rows import to_pylist
from ailake.maintenance import MemoryDecayJob
from ailake.storage import keys as resident
from ailake.storage.keys import COLUMNS, Keys

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Changes:
    """Random changes of a lake, each a commit of another kind."""

    def __init__(self, lake: ailake.Lake, seed: int) -> None:
        self.lake = lake
        self.memory = lake.memory("a")
        self.random = random.Random(seed)  # noqa: S311 (no secret)
        self.count = 0
        self.now = NOW

    def step(self) -> None:
        steps: list[Callable[[], object]] = [
            self.append, self.append, self.forget, self.update, self.rewrite, self.decay,
            self.compact, self.clean,
        ]  # fmt: skip
        self.random.choice(steps)()

    def append(self) -> None:
        size = self.random.choice([1, 3, 100])
        items = [
            {"text": f"text {self.count + n}", "id": f"n{self.count + n}"} for n in range(size)
        ]
        self.memory.remember_many(items, judge=self.random.random() < 0.5, now=self.now)
        # A text that is there again, under another id, and one that equals nothing.
        self.memory.remember("the same", judge=False, now=self.now)
        self.memory.remember(f"chat {self.count}", source="group_chat", now=self.now)
        self.count += size

    def ids(self) -> list[str]:
        found = [record.id for record in self.memory.list(limit=1_000, now=self.now)]
        return self.random.sample(found, k=min(len(found), 3))

    def forget(self) -> None:
        if ids := self.ids():
            self.memory.forget(ids)

    def update(self) -> None:
        for memory_id in self.ids():
            self.memory.update(memory_id, importance=self.random.random(), now=self.now)

    def rewrite(self) -> None:
        for memory_id in self.ids()[:1]:
            self.count += 1
            self.memory.update(memory_id, text=f"text {self.count} anew", now=self.now)

    def decay(self) -> None:
        self.now += timedelta(hours=1)
        if ids := self.ids():
            self.memory.touch(ids, now=self.now)
        MemoryDecayJob(self.lake).run(self.now)

    def compact(self) -> None:
        options = {"materialize_deletions_threshold": 0.0} if self.count % 2 else {}
        self.lake.table("episodic").to_lance().optimize.compact_files(**options)

    def clean(self) -> None:
        self.lake.table("episodic").to_lance().cleanup_old_versions(timedelta(0))


def check(keys: Keys, dataset: lance.LanceDataset) -> None:
    everything = to_pylist(dataset.to_table(columns=list(COLUMNS), with_row_id=True))
    for column in COLUMNS:
        wanted = {row[column] for row in everything[::3]} - {""} | {"missing", "n0", "n7"}
        columns = (*COLUMNS, "_rowid")
        found = to_pylist(keys.rows(dataset, column, wanted, columns))
        expected = [row for row in everything if row[column] in wanted]
        assert sorted(map(str, found)) == sorted(map(str, expected))


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_a_scan_finds(lake: ailake.Lake, seed: int) -> None:
    changes = Changes(lake, seed)
    kept = Keys()
    for _ in range(12):
        changes.step()
        lake.flush()
        check(kept, lake.store.episodic.snapshot())
        check(lake.store.keys, lake.store.episodic.snapshot())


def test_it_goes_back_and_forth_between_versions(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    keys = Keys()
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(5)])
    old = lake.store.episodic.snapshot()
    memory.forget("n0")
    memory.remember("more", id="n9")
    lake.flush()
    lake.table("episodic").optimize()
    for dataset in [old, lake.store.episodic.snapshot()] * 2:
        check(keys, dataset)
    assert keys.rows(old, "chunk_id", ["n0"], ("chunk_id",)).num_rows == 1
    new = lake.store.episodic.snapshot()
    assert keys.rows(new, "chunk_id", ["n0"], ("chunk_id",)).num_rows == 0


def test_equal_hashes_are_told_apart(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = resident.hashes_of
    monkeypatch.setattr(resident, "hashes_of", lambda values: hashes(values) % 3)
    lake.memory("a").remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(20)])
    check(Keys(), lake.store.episodic.snapshot())


def test_a_table_too_large_is_scanned(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "MAX_RESIDENT_ROWS", 10)
    memory = lake.memory("a")
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(20)])
    keys = Keys()
    check(keys, lake.store.episodic.snapshot())
    assert not keys._fragments
    assert memory.remember("N7").id == "n7"


def test_nothing_is_found_where_nothing_is(lake: ailake.Lake) -> None:
    columns = ("chunk_id", "expires_at", "_rowid")
    dataset = lake.store.episodic.snapshot()
    for wanted in ([], ["x"]):
        found = Keys().rows(dataset, "chunk_id", wanted, columns)
        assert (found.num_rows, tuple(found.schema.names)) == (0, columns)
    check(Keys(), dataset)


def test_a_fragment_is_read_once(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for rewritten weights, deletions, or what else was added."""
    memory = lake.memory("a")
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(80)], now=NOW)
    keys, read = lake.store.keys, resident._read
    check(keys, lake.store.episodic.snapshot())
    fragments: list[int] = []

    def counted(dataset: lance.LanceDataset, fragment: lance.LanceFragment) -> object:
        fragments.append(fragment.fragment_id)
        return read(dataset, fragment)

    monkeypatch.setattr(resident, "_read", counted)
    MemoryDecayJob(lake).run(NOW + timedelta(days=3))
    memory.forget("n3")
    check(keys, lake.store.episodic.snapshot())
    assert fragments == []
    memory.remember("more", now=NOW)
    lake.flush()
    check(keys, lake.store.episodic.snapshot())
    assert len(fragments) == 1
