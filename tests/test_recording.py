"""What is recorded in the ledger: each event once, whoever dies in between."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import ailake
from ailake.core.chain import LedgerEntry
from ailake.core.ledger_rows import PAYLOAD_COLUMNS, payload_hashes
from ailake.maintenance import MemoryDecayJob
from ailake.storage import ledger as chains
from ailake.storage import recording, shared
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
OPEN = "forget_intent"


def told(memory: ailake.Memory, lake: ailake.Lake) -> list[tuple[str, str]]:
    return [(str(entry.event), entry.subject_id) for entry in lake.ledger().entries(memory.scope)]


def check(lake: ailake.Lake) -> list[LedgerEntry]:
    """Assert that the ledger tells just what the table has; return all entries."""
    lake.flush()
    assert lake.ledger().verify() == ()
    rows = lake.table("episodic").to_lance().to_table(columns=list(PAYLOAD_COLUMNS))
    ids = rows["chunk_id"].to_pylist()
    stored = dict(zip(ids, [one.hex() for one in payload_hashes(rows)], strict=True))
    entries = [entry for scope in scopes_of(lake) for entry in lake.ledger().entries(scope)]
    last = {entry.subject_id: entry for entry in entries}
    for subject_id, entry in last.items():
        assert (entry.event == "memory_forget") == (subject_id not in stored)
        assert stored.get(subject_id, entry.payload_hash) == entry.payload_hash
    assert set(stored) <= set(last)
    assert len({entry.id for entry in entries}) == len(entries)
    ends = Counter(
        parent
        for e in entries
        if e.event in {"memory_forget", "forget_void"}
        for parent in e.parents
    )
    assert ends == Counter(entry.id for entry in entries if entry.event == OPEN)
    for one, other in pairwise(entries):
        assert (one.subject_id, one.event, one.payload_hash) != (
            other.subject_id,
            other.event,
            other.payload_hash,
        )
    return entries


def scopes_of(lake: ailake.Lake) -> set[ailake.Scope]:
    rows = lake.scan("ledger").select("agent_id", "user_id", "project_id").unique().collect()
    return {ailake.Scope(*row) for row in rows.rows()}


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
    other = ailake.connect(lake.uri)
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
    with ailake.connect(lake.uri) as again:
        assert again.store.tables["ledger"].snapshot().count_rows() == 2


def test_reads_write_nothing(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    lake.flush()
    version = lake.store.tables["ledger"].version
    memory.recall("tea", now=NOW)
    MemoryDecayJob(lake).run(NOW + DAY)
    assert lake.ledger().verify() == ()
    lake.flush()
    assert lake.store.tables["ledger"].version == version


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
    with ailake.connect(tmp_path / "backup") as copy:
        assert [entry.subject_id for entry in check(copy)] == ["t", "c"]
        copy.memory("ana-bot", user_id="ana").forget("t", now=NOW)
        assert len(check(copy)) == 4


def test_a_ledger_that_can_not_be_written_is_in_nobodys_way(
    lake: ailake.Lake, memory: ailake.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Except of what changes or removes memories, which it would never tell then."""
    lake.store.drainer.stop()
    data = Path(lake.uri, "ledger.lance", "data")
    data.write_text("in the way")
    memory.remember("tea", id="t", now=NOW)
    memory.remember_many([{"text": "coffee"}], now=NOW)
    assert memory.count(now=NOW) == 2
    for call in (lake.flush, lambda: memory.update("t", importance=1), lambda: memory.forget("t")):
        with pytest.raises((OSError, RuntimeError)):
            call()
    assert memory.get("t", now=NOW).importance_score == 0.5
    ailake.connect(lake.uri).close()
    assert "the ledger could not be brought up to date" in caplog.text
    data.unlink()
    assert len(check(lake)) == 2


class KilledError(BaseException):
    """Nothing of ours catches it, so the step is the last that was taken."""


def kill_at(
    patch: pytest.MonkeyPatch, owner: object, name: str, *, after: bool, of: str = ""
) -> None:
    real = getattr(owner, name)

    def dying(*arguments: Any, **options: Any) -> Any:
        mine = not of or getattr(arguments[0], "name", of) == of
        if after or not mine:
            done = real(*arguments, **options)
            if not mine:
                return done
        raise KilledError

    patch.setattr(owner, name, dying)


STEPS: dict[str, tuple[object, str, str]] = {
    "the rows": (Table, "append", "episodic"),
    "the change": (Table, "upsert", "episodic"),
    "the removal": (Table, "delete_rows", "episodic"),
    "the journal's removal": (Table, "delete_rows", "accesses"),
    "the ledger's rows": (chains, "write_fragments", ""),
    "the ledger's commit": (recording, "commit", ""),
    "the upkeep of the ledger": (Table, "tidy", "ledger"),
}
VERBS: dict[str, Callable[[ailake.Memory], object]] = {
    "remember": lambda memory: memory.remember("milk", id="m", now=NOW),
    "many": lambda memory: memory.remember_many([{"text": "milk", "id": "m"}], now=NOW),
    "update": lambda memory: memory.update("t", importance=1.0, now=NOW + DAY),
    "rewrite": lambda memory: memory.update("t", text="green tea", now=NOW + DAY),
    "restore": lambda memory: memory.restore("old", now=NOW + DAY),
    "forget": lambda memory: memory.forget(["t", "new"], now=NOW + DAY),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("verb", VERBS)
def test_who_dies_at_any_step_leaves_each_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, step: str, *, after: bool
) -> None:
    lake = ailake.connect(tmp_path, embedder="hashing:8")
    lake.store.drainer.stop()
    memory = lake.memory("a")
    memory.remember("tea", id="t", now=NOW)
    memory.remember("coffee", id="old", now=NOW)
    memory.update("old", text="espresso", now=NOW)
    lake.flush()
    memory.remember("water", id="w", now=NOW)
    owner, name, of = STEPS[step]
    with monkeypatch.context() as patch:
        kill_at(patch, owner, name, after=after, of=of)
        try:
            VERBS[verb](memory)
            lake.flush()
        except KilledError:
            pass
    shared._shared.clear()
    for _ in range(2):
        with ailake.connect(tmp_path) as heir:
            heir.store.drainer.stop()
            entries = check(heir)
            made = Counter(entry.subject_id for entry in entries if entry.event == "create")
            assert max(made.values()) == 1
            last = {entry.subject_id: str(entry.event) for entry in entries}
            is_there = heir.memory("a").count(where={"chunk_id": "t"}, now=NOW) == 1
            assert (last["t"] in {"memory_forget", "merged"}) == (not is_there)
            assert len(entries) <= 4 + 5


KILLED = """
import os, signal, sys
import ailake
from ailake.storage import ledger, recording
from ailake.storage.table import Table

uri, step = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

lake = ailake.connect(uri, embedder="hashing:8")
memory = lake.memory("a")
memory.remember("tea", id="t")
lake.flush()
if step == "announced":
    Table.delete_rows = die
elif step == "removed":
    real = Table.delete_rows
    Table.delete_rows = lambda *arguments: (real(*arguments), die())
elif step == "written":
    ledger.guard = die
elif step == "committed":
    commit = recording.commit
    recording.commit = lambda *arguments: (commit(*arguments), die())
if step in ("announced", "removed"):
    memory.forget("t")
else:
    memory.remember("coffee", id="c")
    lake.flush()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ("announced", ["create", "forget_intent", "forget_void"]),
        ("removed", ["create", "forget_intent", "memory_forget"]),
        ("written", ["create", "create"]),
        ("committed", ["create", "create"]),
    ],
)
def test_a_killed_process_leaves_each_event_once(
    tmp_path: Path, step: str, wanted: list[str]
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "lake"), step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for _ in range(2):
        with ailake.connect(tmp_path / "lake") as lake:
            assert [str(entry.event) for entry in check(lake)] == wanted


WRITER = """
import sys
import ailake

uri, name = sys.argv[1:]
with ailake.connect(uri) as lake:
    memory = lake.memory("a")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(15):
        memory.remember(f"{name} {n}", id=f"{name}-{n}")
        if n % 5 == 2:
            memory.update(f"{name}-{n}", importance=1.0)
        if n % 5 == 3:
            memory.forget(f"{name}-{n}")
        if n % 5 == 4:
            lake.flush()
"""


@pytest.mark.slow
def test_processes_that_write_at_once_are_recorded(lake: ailake.Lake) -> None:
    command = [sys.executable, "-c", WRITER, lake.uri]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*command, name], **pipes) for name in ("x", "y")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=180)
        assert writer.returncode == 0
    events = Counter(str(entry.event) for entry in check(lake))
    assert events == {"create": 30, "update": 6, "forget_intent": 6, "memory_forget": 6}


def test_a_removal_that_is_under_way_is_not_void(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process looks at the ledger between the announcement and the removal."""
    memory.remember("tea", id="t", now=NOW)
    lake.flush()
    shared._shared.clear()
    other = ailake.connect(lake.uri)
    seen: list[str] = []
    real = Table.delete_rows

    def slow(table: Table, row_ids: list[int]) -> None:
        if not seen:
            seen.extend(event for event, _ in told(memory, other))
        real(table, row_ids)

    monkeypatch.setattr(Table, "delete_rows", slow)
    memory.forget("t", now=NOW)
    assert seen == ["create", "forget_intent"]
    assert [event for event, _ in told(memory, other)][2:] == ["memory_forget"]
    other.close()
    assert len(check(lake)) == 3


def test_a_removal_that_failed_is_void(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("tea", id="t", now=NOW)

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Table, "delete_rows", failing)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                memory.forget("t", now=NOW)
    memory.update("t", importance=1.0, now=NOW)
    memory.forget("t", now=NOW)
    check(lake)
    assert [event for event, _ in told(memory, lake) if event != "update"] == [
        "create",
        *["forget_intent", "forget_void"] * 2,
        "forget_intent",
        "memory_forget",
    ]


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
