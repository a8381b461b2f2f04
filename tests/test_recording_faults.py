"""What is recorded in the ledger where something fails or somebody dies: each event once."""

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import forked
import pytest
from ended import ending
from kept import KEEP
from recorded import DAY, check, told

import ailake
from ailake.storage import exchange, recording, shared
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


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
    ailake.connect(lake.uri, judge_rules=KEEP).close()
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
    "the ledger's rows": (exchange, "write_fragments", ""),
    "the ledger's commit": (recording, "exchange", ""),
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


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a memory, and with another that was changed; to be copied."""
    folder = tmp_path_factory.mktemp("begun") / "lake"
    with ailake.connect(folder, embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.store.drainer.stop()
        memory = lake.memory("a")
        memory.remember("tea", id="t", now=NOW)
        memory.remember("coffee", id="old", now=NOW)
        memory.update("old", text="espresso", now=NOW)
    return folder


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("verb", VERBS)
def test_who_dies_at_any_step_leaves_each_event_once(
    begun: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    verb: str,
    step: str,
    after: bool,
) -> None:
    shutil.copytree(begun, tmp_path / "lake")
    lake = ailake.connect(tmp_path / "lake", judge_rules=KEEP)
    lake.store.drainer.stop()
    memory = lake.memory("a")
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
        with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as heir:
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
from ailake.storage import exchange, recording
from ailake.storage.table import Table

uri, step = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

lake = ailake.connect(uri, embedder="hashing:8", judge_rules=ailake.JudgeRules(retention=None))
memory = lake.memory("a")
memory.remember("tea", id="t")
lake.flush()
if step == "announced":
    Table.delete_rows = die
elif step == "removed":
    real = Table.delete_rows
    Table.delete_rows = lambda *arguments: (real(*arguments), die())
elif step == "written":
    exchange.guard = die
elif step == "committed":
    whole = recording.exchange
    recording.exchange = lambda *arguments, **options: (whole(*arguments, **options), die())
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
    done = forked.run(KILLED, tmp_path / "lake", step)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for _ in range(2):
        with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
            assert [str(entry.event) for entry in check(lake)] == wanted


WRITER = """
import sys
import ailake

uri, name = sys.argv[1:]
with ailake.connect(uri, judge_rules=ailake.JudgeRules(retention=None)) as lake:
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
    with ending(*writers):
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate()
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
    other = ailake.connect(lake.uri, judge_rules=KEEP)
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
