"""What is recorded in the ledger: each event once."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from kept import KEEP
from recorded import DAY, OPEN, check, told

import ailake
from ailake.maintenance import ForgetJob, MemoryDecayJob
from ailake.storage import recording, recording_shares, shared
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_life_of_a_memory(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", id="t", now=NOW)
    memory.remember("tea", now=NOW + DAY)  # A repetition: no event.
    memory.update("t", importance=0.9, now=NOW + DAY)
    memory.update("t", importance=0.9, now=NOW + DAY)  # The same again: no event.
    new = memory.update("t", text="green tea", now=NOW + 2 * DAY).id
    memory.restore("t", now=NOW + 3 * DAY)
    memory.recall("tea", now=NOW + 4 * DAY)
    MemoryDecayJob(lake).run(NOW + 5 * DAY)
    memory.forget("t", now=NOW + 6 * DAY)
    entries = check(lake)
    assert [(str(entry.event), entry.subject_id) for entry in entries] == [
        ("create", "t"),
        ("update", "t"),
        ("modify", new),
        ("merged", "t"),
        ("restore", "t"),
        ("forget_intent", "t"),
        ("memory_forget", "t"),
    ]
    days = [0, 1, 2, 2, 3, 6, 6]
    assert [entry.timestamp for entry in entries] == [NOW + n * DAY for n in days]
    ids = [entry.id for entry in entries]
    follows = [(), ids[:1], ids[1:2], ids[1:3], ids[3:4], ids[4:5], ids[5:6]]
    assert [entry.parents for entry in entries] == [tuple(one) for one in follows]
    assert len({entries[n].payload_hash for n in (0, 1, 2, 3)}) == 4
    assert entries[4].payload_hash == entries[1].payload_hash  # It is again what it was.
    assert entries[5].payload_hash == entries[6].payload_hash == entries[4].payload_hash


def test_a_decay_run_keeps_when_a_change_was_made(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """It counts repetitions in, which freshen the column that tells."""
    lake.store.drainer.stop()
    memory.remember("tea", id="t", now=NOW)
    memory.update("t", importance=0.9, now=NOW + DAY)
    memory.remember("tea", now=NOW + 2 * DAY)
    MemoryDecayJob(lake).run(NOW + 3 * DAY)
    assert memory.get("t", now=NOW + 3 * DAY).updated_at == NOW + 2 * DAY
    assert [entry.timestamp for entry in check(lake)] == [NOW, NOW + DAY]


def test_no_text_is_in_the_ledger(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("a very telling text", metadata={"topic": "telling"}, now=NOW)
    lake.flush()
    assert "telling" not in repr(lake.scan("ledger").collect().rows())


def test_scopes_are_recorded_apart(lake: ailake.Lake) -> None:
    for name in ("安娜", "波"):
        memory = lake.memory("助理", user_id=name)
        memory.remember("茶", id=name, now=NOW)
        memory.remember_many([{"text": "咖啡"}, {"text": "牛奶"}], now=NOW)
    check(lake)
    for name in ("安娜", "波"):
        chain = lake.ledger().entries(ailake.Scope("助理", name))
        assert [entry.sequence for entry in chain] == [0, 1, 2]
        assert chain[0].subject_id == name
    assert lake.ledger().entries(ailake.Scope("助理")) == []


def test_many_memories_at_once_are_recorded(lake: ailake.Lake, memory: ailake.Memory) -> None:
    vectors = np.eye(64, dtype=np.float32)
    items = [{"text": f"n{n}", "vector": vectors[n % 64], "id": f"n{n}"} for n in range(500)]
    memory.remember_many(items, now=NOW)
    entries = check(lake)
    assert [entry.subject_id for entry in entries] == [f"n{n}" for n in range(500)]
    assert {entry.event for entry in entries} == {"create"}


def test_what_is_recorded_in_shares(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake of before there was a ledger: its first opening records all, commit by commit."""
    lake.store.drainer.stop()
    monkeypatch.setattr(Table, "tidy", lambda *_, **__: None)
    with monkeypatch.context() as patch:
        patch.setattr(recording.Recorder, "_locked", lambda *_, **__: None)
        for n in range(5):
            memory.remember_many(
                [{"text": f"{n} {k}", "id": f"{n}-{k}"} for k in range(4)], now=NOW
            )
    monkeypatch.setattr(recording, "MAX_ROWS", 6)
    before = lake.store.tables["ledger"].version
    entries = check(lake)
    assert len(entries) == 20
    assert [e.subject_id for e in entries] == [f"{n}-{k}" for n in range(5) for k in range(4)]
    assert lake.store.tables["ledger"].version == before + 5
    check(lake)
    assert lake.store.tables["ledger"].version == before + 5


def test_an_extended_expiry_is_a_change(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", id="t", expires_at=NOW + DAY, now=NOW)
    memory.remember("tea", expires_at=NOW + 2 * DAY, now=NOW)
    memory.remember_many([{"text": "tea", "expires_at": NOW + 3 * DAY}], now=NOW)
    vector = np.ones(64, np.float32)
    memory.remember_many([{"text": "tea", "expires_at": NOW + 4 * DAY, "vector": vector}], now=NOW)
    check(lake)
    assert [event for event, _ in told(memory, lake)] == ["create", *["update"] * 3]


def test_who_loses_a_race_is_recorded_as_merged(lake: ailake.Lake) -> None:
    lake.store.drainer.stop()
    shared._shared.clear()
    other = ailake.connect(lake.uri, judge_rules=KEEP)
    other.store.drainer.stop()
    lake.memory("a").remember("tea", id="x", now=NOW)
    other.memory("a").remember("tea", id="y", now=NOW)
    entries = check(lake)
    assert {(str(entry.event), entry.subject_id) for entry in entries} == {
        ("create", "x"),
        ("merged", "y"),
    }
    assert entries[1].parents == (entries[0].id,)
    other.close()
    assert check(lake) == entries


def test_the_ledger_follows_by_itself(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """Within moments, and before the lake is closed."""
    import time

    memory.remember("tea", now=NOW)
    table = lake.store.tables["ledger"]
    deadline = time.monotonic() + 60
    while not table.snapshot().count_rows():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    memory.remember("coffee", now=NOW)
    lake.close()
    with ailake.connect(lake.uri, judge_rules=KEEP) as again:
        assert again.store.tables["ledger"].snapshot().count_rows() == 2


def test_reads_write_nothing(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    lake.flush()
    version = lake.store.tables["ledger"].version
    memory.recall("tea", now=NOW)
    assert lake.ledger().verify() == ()
    lake.flush()
    assert lake.store.tables["ledger"].version == version
    # What decay writes is no event: its run alone is.
    MemoryDecayJob(lake).run(NOW + DAY)
    lake.flush()
    assert lake.store.tables["ledger"].version == version + 1
    assert lake.table("ledger").count_rows() == 2


def test_the_past_is_read_as_it_was(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", id="t", now=NOW)
    lake.tag("then")
    memory.forget("t", now=NOW)
    then = lake.at("then").ledger()
    assert [str(entry.event) for entry in then.entries(memory.scope)] == ["create"]
    assert (then.verify(), len(check(lake))) == ((), 3)
    pinned = then.head(memory.scope)
    assert lake.ledger().verify(memory.scope, head=pinned) == ()


def test_a_backup_goes_on_from_there(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    memory.remember("tea", id="t", now=NOW)
    lake.flush()
    memory.remember("coffee", id="c", now=NOW)
    report = lake.backup(tmp_path / "backup")
    assert {table.name: table.rows for table in report.tables}["ledger"] == 2
    with ailake.connect(tmp_path / "backup", judge_rules=KEEP) as copy:
        assert [entry.subject_id for entry in check(copy)] == ["t", "c"]
        copy.memory("ana-bot", user_id="ana").forget("t", now=NOW)
        assert len(check(copy)) == 4


def test_an_id_that_was_forgotten_can_be_used_again(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("tea", id="t", now=NOW)
    memory.forget("t", now=NOW)
    memory.remember("coffee", id="t", now=NOW)
    check(lake)
    events = [event for event, _ in told(memory, lake)]
    assert events == ["create", "forget_intent", "memory_forget", "create"]


def test_a_chain_that_can_not_be_continued_is_checked(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    lake.store.drainer.stop()
    memory.remember("tea", now=NOW)
    lake.flush()
    dataset = lake.table("ledger").to_lance()
    rows = dataset.to_table()
    place = rows.schema.get_field_index("chain_version")
    newer = rows.set_column(place, rows.schema.field(place), pa.array([2], pa.uint32()))
    lance.write_dataset(newer, dataset.uri, mode="overwrite", enable_stable_row_ids=True)
    memory.remember("coffee", now=NOW)
    with pytest.raises(ailake.SchemaMismatchError, match="its chain version is 2"):
        lake.flush()
    (broken,) = lake.ledger().verify()
    assert broken.reason.startswith("its chain version is 2")
    assert memory.count(now=NOW) == 2


def test_what_is_pruned_is_announced_and_told(lake: ailake.Lake) -> None:
    for agent in "ab":
        memory = lake.memory(agent_id=agent)
        memory.remember("soon gone", id=f"{agent}-gone", expires_at=NOW + DAY, now=NOW)
        memory.remember("here to stay", id=f"{agent}-stays", now=NOW)
    done = ForgetJob(lake).run(NOW + 2 * DAY)
    assert done.ids == ("a-gone", "b-gone")
    check(lake)
    for agent in "ab":
        events = told(lake.memory(agent_id=agent), lake)
        assert events[2:] == [(OPEN, f"{agent}-gone"), ("memory_forget", f"{agent}-gone")]


def test_rows_that_were_written_again_as_they_were_are_looked_at_once(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than fit into a commit, of several versions."""
    monkeypatch.setattr(recording, "MAX_ROWS", 100)
    kinds = ["x"] * 80 + ["y"] * 80
    items = [{"id": f"m{n}", "text": f"m{n}", "kind": kind} for n, kind in enumerate(kinds)]
    memory.remember_many(items, judge=False, now=NOW)
    lake.flush()
    for kind in "xy":
        lake.table("episodic").update(where=f"kind = '{kind}'", values={"confidence": 0.7})
    looked: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        rows, told_to = recording_shares.next_share(*args, **options)
        looked.append(0 if rows is None else rows.num_rows)
        return rows, told_to

    monkeypatch.setattr(recording, "next_share", counted)
    lake.flush()
    assert sum(looked) == 160
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        other.flush()
    assert sum(looked) == 160
    assert len(check(lake)) == 160
    memory.update("m3", importance=1.0, now=NOW)
    assert sum(looked) == 160
    assert told(memory, lake)[160:] == [("update", "m3")]


def test_one_version_that_rewrote_many_rows_is_not_read_at_once(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was changed among them is told all the same."""
    monkeypatch.setattr(recording, "MAX_ROWS", 50)
    items = [{"id": f"m{n}", "text": f"m{n}"} for n in range(160)]
    memory.remember_many(items, judge=False, now=NOW)
    lake.flush()
    lake.store.drainer.stop()
    rows = lake.table("episodic").to_arrow()
    kinds = ["changed" if name == "m7" else "" for name in rows["chunk_id"].to_pylist()]
    place = rows.schema.get_field_index("kind")
    lake.store.episodic.upsert(rows.set_column(place, rows.schema.field(place), pa.array(kinds)))
    shares: list[int] = []
    untold = recording_shares._untold

    def seen(ledger: Any, rows: pa.Table, since: Any) -> pa.Table:
        assert rows.num_rows <= 50
        return untold(ledger, rows, since)

    def counted(*args: Any, **options: Any) -> Any:
        rows, told_to = recording_shares.next_share(*args, **options)
        shares.append(0 if rows is None else rows.num_rows)
        return rows, told_to

    monkeypatch.setattr(recording_shares, "_untold", seen)
    monkeypatch.setattr(recording, "next_share", counted)
    lake.flush()
    assert shares[0] == 1
    assert told(memory, lake)[160:] == [("update", "m7")]
    check(lake)
    assert sum(shares) == 1


def test_what_changed_before_there_was_a_ledger_is_created_in_it(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.store.drainer.stop()
    monkeypatch.setattr(recording, "MAX_ROWS", 10)
    with monkeypatch.context() as without:
        without.setattr(recording.Recorder, "catch_up", lambda *_, **__: None)
        items = [{"id": f"m{n}", "text": f"m{n}"} for n in range(30)]
        memory.remember_many(items, judge=False, now=NOW)
        memory.update("m3", importance=1.0, now=NOW + DAY)
    check(lake)
    assert Counter(event for event, _ in told(memory, lake)) == {"create": 30}
