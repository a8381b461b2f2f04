"""Accesses that wait: handed out without a copy, as they were at that moment."""

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import KEEP

import ailake
from ailake.core.accesses import Access, AccessLog, Entries, pending_of, pending_of_rows
from ailake.maintenance import MemoryDecayJob
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
Met = list[tuple[str, Access]]

confidences = st.none() | st.floats(0, 1)
accesses = st.builds(Access, st.integers(1, 9), st.integers(0, 99), st.integers(0, 2), confidences)
met = st.lists(st.tuples(st.sampled_from("abcd"), accesses), max_size=30)


def by_memory(entries: Met) -> dict[str, tuple[Access, ...]]:
    found: dict[str, tuple[Access, ...]] = {}
    for memory_id, access in entries:
        found[memory_id] = (*found.get(memory_id, ()), access)
    return found


@given(met, met, met)
def test_what_comes_later_changes_nothing(first: Met, other: Met, later: Met) -> None:
    one, two = AccessLog(first), AccessLog(other)
    entries = Entries((one, len(one)), (two, len(two)))
    for log in (one, two):
        for memory_id, access in later:
            log.add(memory_id, access)
    wanted = by_memory([*first, *other])
    assert dict(entries) == wanted
    assert list(entries) == list(wanted)
    assert len(entries) == len(wanted)
    assert bool(entries) is bool(wanted)
    assert {name for name in "abcd" if name in entries} == set(wanted)
    assert list(entries.after(())) == [*first, *other]
    newer = Entries((one, len(one)), (two, len(two)))
    assert list(newer.after(entries.parts)) == [*later, *later]
    renewed = AccessLog(later)
    parts = Entries((renewed, len(renewed)), (two, len(two)))
    assert list(parts.after(entries.parts)) == [*later, *later]


@given(met, met, met, st.integers(0, 9))
def test_sums_are_those_of_each_access(first: Met, other: Met, later: Met, mark: int) -> None:
    one, two = AccessLog(first), AccessLog(other)
    entries = Entries((one, len(one)), (two, len(two)))
    for memory_id, access in later:
        one.add(memory_id, access)
    for name in "abcd":
        accesses = entries.get(name, ())
        wanted = pending_of(accesses, folded_through=mark)
        assert entries.pending(name, folded_through=mark) == wanted
        assert pending_of_rows(entries, [name], [mark]) == ({name: wanted} if wanted else {})


@pytest.mark.parametrize("handles", [1, 2])
def test_every_access_counts_once_at_every_moment(
    tmp_path_factory: pytest.TempPathFactory, handles: int
) -> None:
    """Noted, being committed, committed, folded: by the handle that met them and by another."""
    path = tmp_path_factory.mktemp("lake") / "lake"
    with (
        ailake.connect(path, embedder="hashing:16", judge_rules=KEEP) as lake,
        ailake.connect(path, judge_rules=KEEP) as second,
    ):
        reader = (second if handles == 2 else lake).memory("a")
        memory = lake.memory("a")
        made = memory.remember("tea", now=NOW).id
        lake.flush()
        lake.store.drainer.stop()
        second.store.drainer.stop()
        for n in range(1, 13):
            met_at = NOW + timedelta(minutes=n)
            memory.recall("tea", now=met_at)
            for _ in range(2):
                (hit,) = reader.recall("tea", touch=False, now=met_at)
                assert (hit.access_count, hit.last_accessed_at) == (n, met_at)
                assert hit.recency_weight == 1.0
                assert reader.get(made, now=met_at).access_count == n
                if n % 3 == 0:
                    lake.store.journal.flush()
                if n % 6 == 0:
                    MemoryDecayJob(lake).run(met_at)


def test_accesses_that_could_not_be_committed_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16", judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        made = memory.remember("tea", now=NOW).id
        lake.flush()
        lake.store.drainer.stop()
        append = Table.append

        def full(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "no space left")

        for n in range(1, 4):
            memory.recall("tea", now=NOW)
            monkeypatch.setattr(Table, "append", full)
            with pytest.raises(OSError, match="no space"):
                lake.store.journal.flush()
            assert memory.get(made, now=NOW).access_count == n
        monkeypatch.setattr(Table, "append", append)
        lake.store.journal.flush()
        assert memory.get(made, now=NOW).access_count == 3
        assert len(lake.store.journal) == 0
    assert lake_rows(tmp_path / "lake") == 3


def lake_rows(path: Path) -> int:
    with ailake.connect(path, judge_rules=KEEP) as lake:
        return int(lake.table("accesses").count_rows())
