"""Handles and processes that come and go while others write through the same log."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kept import KEEP

import ailake
from ailake.storage import draining, upkeep
from ailake.storage import log as logs
from ailake.storage.draining import VISIBLE_AFTER
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.store import Store
from ailake.storage.upkeep import EXIT_PATIENCE

PATIENCE = 60.0
VECTOR = np.ones(64)


def segments(lake: ailake.Lake) -> list[Path]:
    return logs.segments(Path(lake.uri))


def texts(memory: ailake.Memory) -> list[str]:
    return [record.text for record in memory.list(limit=1_000)]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_handle_is_closed_while_another_goes_on(lake: ailake.Lake) -> None:
    lake.store.drainer.stop()
    other = ailake.connect(lake.uri, judge_rules=KEEP)
    memory = lake.memory("a")
    memory.remember("tea")
    other.memory("a").remember("coffee")
    other.close()
    other.close()
    assert not segments(lake)
    memory.remember("milk")
    assert texts(memory) == ["tea", "coffee", "milk"]
    with pytest.raises(ailake.InvalidInputError, match="is closed"):
        other.memory("a")


def test_a_handle_that_is_dropped_leaves_its_memories(lake: ailake.Lake) -> None:
    other = ailake.connect(lake.uri, judge_rules=KEEP)
    other.memory("a").remember("tea")
    gone = weakref.ref(other.store)
    log = weakref.ref(other.store.log)
    del other
    gc.collect()
    assert gone() is None
    assert log() is lake.store.log
    assert texts(lake.memory("a")) == ["tea"]


def test_the_last_handle_leaves_nothing_open(tmp_path: Path) -> None:
    before = {thread.ident for thread in threading.enumerate() if "ailake" in thread.name}
    lake = ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP)
    lake.memory("a").remember("tea")
    descriptor = lake.store.log._segments[0].descriptor  # type: ignore[union-attr]
    del lake
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert {t.ident for t in threading.enumerate() if "ailake" in t.name} <= before
    with ailake.connect(tmp_path, judge_rules=KEEP) as again:
        assert texts(again.memory("a")) == ["tea"]


def test_closing_while_a_thread_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What the thread was told is kept, whenever it is told that the lake is closed."""
    told: list[str] = []
    for turn in range(6):
        lake = ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP)
        memory = lake.memory("a")
        begun = threading.Event()

        def write(memory: ailake.Memory = memory, begun: threading.Event = begun) -> None:
            for _ in range(10_000):
                text = f"n{len(told)}"
                try:
                    memory.remember(text)
                except ailake.InvalidInputError:
                    return
                told.append(text)
                begun.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert begun.wait(PATIENCE)
        # About when the background drain begins, too.
        time.sleep(0.1 * turn)
        lake.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    with ailake.connect(tmp_path, judge_rules=KEEP) as lake:
        assert [record.text for record in lake.memory("a").list(limit=10_000)] == told
        assert lake.verify() == ()
    assert not caplog.records


def test_closing_beside_the_background_drain_warns_of_nothing(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for the lock that the closing thread holds, and must not find the lake closed."""
    monkeypatch.setattr(upkeep, "DELAY", 0.0)
    wake, drain = lake.store.drainer.wake, draining._drain

    def slowly(opened: Store) -> None:
        wake(at_once=True)
        time.sleep(0.3)
        drain(opened)

    monkeypatch.setattr(lake.store.drainer, "wake", lambda **_: None)
    lake.memory("a").remember("tea")
    monkeypatch.setattr(draining, "_drain", slowly)
    lake.close()
    assert not segments(lake)
    assert not caplog.records


def test_a_folder_that_is_removed_is_told(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember("tea", vector=VECTOR)
    shutil.rmtree(lake.uri)
    with pytest.raises((OSError, RuntimeError)):
        memory.remember("coffee", judge=False, vector=VECTOR)
    assert not Path(lake.uri).exists()


def test_a_lake_made_anew_has_a_log_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    old = ailake.connect(path, embedder="hashing:64", judge_rules=KEEP)
    old.store.drainer.stop()
    old.memory("a").remember("tea")
    path.rename(tmp_path / "moved")
    with ailake.connect(path, embedder="hashing:64", judge_rules=KEEP) as new:
        assert new.store.log is not old.store.log
        assert texts(new.memory("a")) == []
        new.memory("a").remember("coffee")
    with ailake.connect(tmp_path / "moved", judge_rules=KEEP) as moved:
        assert texts(moved.memory("a")) == ["tea"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_writes_to_a_segment_of_its_own(lake: ailake.Lake) -> None:
    """A failure of one must not cut off what the other has just been told."""
    lake.store.drainer.stop()
    memory = lake.memory("a")
    memory.remember("parent", judge=False, vector=VECTOR)
    child = os.fork()
    if child == 0:
        memory.remember("child", judge=False, vector=VECTOR)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    memory.remember("parent again", judge=False, vector=VECTOR)
    assert len(segments(lake)) == 2
    assert texts(memory) == ["parent", "parent again"]
    lake.flush()
    assert sorted(texts(memory)) == ["child", "parent", "parent again"]


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


LAST_WORDS = """
import sys, ailake
rules = ailake.JudgeRules(retention=None)
lake = ailake.connect(sys.argv[1], embedder="hashing:16", judge_rules=rules)
lake.memory("a").remember("last words")
"""
KILLED = LAST_WORDS + "import os; os.kill(os.getpid(), 9)"
AT_EXIT = """
import sys, ailake, atexit
rules = ailake.JudgeRules(retention=None)
lake = ailake.connect(sys.argv[1], embedder="hashing:16", judge_rules=rules)
atexit.register(lambda: lake.memory("a").remember("last words"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [LAST_WORDS, AT_EXIT])
def test_an_exit_without_close_loses_nothing(tmp_path: Path, code: str) -> None:
    assert run(code, tmp_path / "lake") == ""
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        assert texts(lake.memory("a")) == ["last words"]


@pytest.mark.slow
def test_an_open_reader_finds_what_a_killed_process_left(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16", judge_rules=KEEP) as lake:
        killed = subprocess.run([sys.executable, "-c", KILLED, lake.uri], check=False)
        assert killed.returncode == -signal.SIGKILL
        wait_until(lambda: texts(lake.memory("a")) == ["last words"])


WRITER = """
import sys, ailake
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    lake.memory("a").remember("tea")
    print(flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_another_process_sees_it_soon(tmp_path: Path, *, stopped: bool) -> None:
    """Also where the writer can't drain: its open handle was stopped right after it was told."""
    code = WRITER.replace('remember("tea")', 'remember("tea"); lake.store.drainer.stop()')
    command = [sys.executable, "-c", code if stopped else WRITER, str(tmp_path)]
    pipe = subprocess.PIPE
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "\n"
            time.sleep(VISIBLE_AFTER + 1.5)
            assert texts(lake.memory("a")) == ["tea"]
            assert lake.memory("a").recall("tea")[0].text == "tea"
            writer.stdin.write("\n")
        assert writer.returncode == 0


BUSY = """
import sys, time, ailake
lake = ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None))
print(flush=True)
sys.stdin.readline()
lake.memory("a").remember("tea")
time.sleep(1)
"""


@pytest.mark.slow
def test_an_exit_does_not_wait_for_another_process(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        command = [sys.executable, "-c", BUSY, str(tmp_path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "\n"
            with exclusive(tmp_path, WRITE):
                out, err = writer.communicate("\n", timeout=EXIT_PATIENCE + PATIENCE)
        assert (writer.returncode, out, err) == (0, "", "")
        assert texts(lake.memory("a")) == ["tea"]


SPAWNING = """
import multiprocessing, sys
import ailake


def write(path, name):
    with ailake.connect(path, judge_rules=ailake.JudgeRules(retention=None)) as lake:
        for n in range(30):
            lake.memory("a").remember(f"shared {n}" if n % 3 == 0 else f"{name} {n}")


if __name__ == "__main__":
    rules = ailake.JudgeRules(retention=None)
    with ailake.connect(sys.argv[1], embedder="hashing:16", judge_rules=rules) as lake:
        context = multiprocessing.get_context("spawn")
        children = [context.Process(target=write, args=(sys.argv[1], n)) for n in range(3)]
        for child in children:
            child.start()
        for n in range(30):
            lake.memory("a").remember(f"shared {n}")
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0] * 3
"""


@pytest.mark.slow
def test_spawned_children_and_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SPAWNING)
    path = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, script, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with ailake.connect(path, judge_rules=KEEP) as lake:
        found = texts(lake.memory("a"))
        assert len(found) == len(set(found)) == 30 + 3 * 20
        assert lake.verify() == ()
