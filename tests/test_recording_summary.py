"""What an opening need not read of the ledger, and when it has to."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asserted import works
from kept import KEEP
from recorded import check, told

import ailake
from ailake.maintenance import MemoryDecayJob
from ailake.storage import recording_rows, shared
from ailake.storage.ledger import heads_of
from ailake.storage.recording_appended import Reached
from ailake.storage.recording_rows import Known, known_of
from ailake.storage.recording_summary import summary_of
from ailake.storage.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def used(lake: ailake.Lake) -> ailake.Memory:
    lake.store.drainer.stop()
    memory = lake.memory("助理", user_id="安娜")
    memory.remember("tea", id="t", now=NOW)
    memory.remember("coffee", id="c", now=NOW)
    lake.facts("ana-bot").assert_([works("A", 2010)], now=NOW)
    memory.update("t", importance=1.0, now=NOW)
    memory.forget("c", now=NOW)
    lake.flush()
    return memory


def read(lake: ailake.Lake) -> Known:
    """Return what the entries say, read one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording_rows, "summary_of", lambda _: None)
        return known_of(lake.store.tables["ledger"].snapshot())


def summed_up(lake: ailake.Lake) -> Known:
    """Return what the last commit says of them, and see that nothing else is read."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording_rows, "read_rows", fail)
        return known_of(lake.store.tables["ledger"].snapshot())


def test_the_last_commit_says_what_all_entries_do(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "tidy", lambda *_, **__: None)
    memory = used(lake)
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: memory.remember("milk", id="m", now=NOW),
        lambda: lake.facts("ana-bot").assert_([works("B", 2015)], now=NOW),
        lambda: MemoryDecayJob(lake).run(NOW),
        lambda: memory.update("m", importance=1.0, now=NOW),
    ]
    for step in steps:
        step()
        lake.flush()
        known, entries = summed_up(lake), read(lake)
        assert (known.version, known.told_to, known.reached, known.intents) == (
            entries.version,
            entries.told_to,
            entries.reached,
            {},
        )
        assert known.heads
        ledger = lake.store.tables["ledger"].snapshot()
        assert known.heads == heads_of(ledger, list(known.heads))
    assert known.reached.run == known.reached.assertion - 1 == 0
    check(lake)


def test_who_opens_goes_on_from_there(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = used(lake)
    shared._shared.clear()
    monkeypatch.setattr("ailake.storage.recording.heads_of", None)
    with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
        later = heir.memory("助理", user_id="安娜")
        later.remember("milk", id="m", now=NOW)
        heir.flush()
        assert told(later, heir)[-1] == ("create", "m")
    assert len(check(lake)) == len(told(memory, lake)) == 6


def test_of_many_scopes_the_heads_are_looked_up(lake: ailake.Lake) -> None:
    lake.store.drainer.stop()
    for n in range(17):
        lake.memory(f"a{n}").remember("tea", now=NOW)
    lake.flush()
    assert summed_up(lake).heads == {}
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
        heir.memory("a3").remember("milk", now=NOW)
        assert len(check(heir)) == 18


def test_what_came_later_is_read(lake: ailake.Lake) -> None:
    memory = used(lake)
    table = lake.store.tables["ledger"]
    assert summary_of(table.snapshot()) is not None
    table.compact()
    assert summary_of(table.snapshot()) is None
    memory.remember("milk", now=NOW)
    lake.flush()
    assert summary_of(table.snapshot()) is not None
    last = lake.ledger().entries(memory.scope)[-1]
    lake.table("ledger").delete(f"entry_id = '{last.id}'")
    assert summary_of(table.snapshot()) is None
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
        assert told(memory, heir)[-1] == ("create", last.subject_id)
        assert heir.ledger().verify() == ()


@pytest.mark.parametrize("reached", [{"assertion": 0, "run": -1}, {**asdict(Reached()), "new": 7}])
def test_what_another_release_says_is_not_believed(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, reached: dict[str, int]
) -> None:
    memory = used(lake)
    with monkeypatch.context() as patch:
        patch.setattr("ailake.storage.recording_summary.asdict", lambda _: reached)
        memory.remember("milk", id="m", now=NOW)
        lake.flush()
    assert summary_of(lake.store.tables["ledger"].snapshot()) is None
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
        assert told(memory, heir)[-1] == ("create", "m")
    check(lake)


def test_an_open_removal_is_read(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = used(lake)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ailake.storage.table.Table.delete_rows", die)
        with pytest.raises(KeyboardInterrupt):
            memory.forget("t", now=NOW + timedelta(days=1))
    assert summary_of(lake.store.tables["ledger"].snapshot()) is None
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
        heir.flush()
        assert told(memory, heir)[-1] == ("forget_void", "t")
    check(lake)


def test_others_use_the_table_meanwhile(lake: ailake.Lake) -> None:
    """The engine lends a handle to nobody else while it reads a transaction by it."""
    used(lake)
    dataset = lake.store.tables["ledger"].snapshot()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: [summary_of(dataset) for _ in range(300)])
        while not reading.done():
            assert dataset.latest_version == dataset.version
    assert None not in reading.result()
