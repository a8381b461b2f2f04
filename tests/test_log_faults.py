"""Writers that fail, die or stop: what they were told is true, and the log is never stuck."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kept import KEEP

import ailake
from ailake.storage import log as logs
from ailake.storage import shared, store, upkeep
from ailake.storage.location import Location

PATIENCE = 60.0


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    """A memory whose log nobody drains in the background."""
    lake.store.drainer.stop()
    return lake.memory("a")


def another_process(lake: ailake.Lake) -> ailake.Lake:
    """Return a handle as another process would have it, with a log of its own."""
    shared._shared.clear()
    other = ailake.connect(lake.uri, judge_rules=KEEP)
    other.store.drainer.stop()
    assert other.store.log is not lake.store.log
    return other


def segments(lake: ailake.Lake) -> list[Path]:
    return logs.segments(Path(lake.uri))


def texts(memory: ailake.Memory) -> list[str]:
    return [record.text for record in memory.list(limit=1_000)]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def grown_old(lake: ailake.Lake, seconds: float = 5) -> None:
    for path in segments(lake):
        os.utime(path, (time.time() - seconds,) * 2)  # noqa: TID251 (the files' clock)


class Failing:
    """A call, of the operating system or nearly, that fails from its nth use on, a few times."""

    def __init__(self, real: Callable[..., int | None], *, after: int = 0, times: int = 1) -> None:
        self.real, self.after, self.left = real, after, times

    def __call__(self, descriptor: int, *arguments: bytes) -> int | None:
        self.after -= 1
        if self.after < 0 < self.left:
            self.left -= 1
            raise OSError(28, "No space left on device")
        return self.real(descriptor, *(part[:40] for part in arguments))


@pytest.mark.parametrize(("call", "after"), [("write", 0), ("write", 2), ("fsync", 0)])
@pytest.mark.parametrize("opened", [False, True])
def test_a_write_that_fails_leaves_nothing(
    lake: ailake.Lake, memory: ailake.Memory, call: str, after: int, *, opened: bool
) -> None:
    """Neither in its own log nor at a drain, also where a part of it was written."""
    if opened:
        memory.remember("before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, Failing(getattr(os, call), after=after))
        with pytest.raises(OSError, match="No space left"):
            memory.remember("failed", id="x")
        assert memory.remember("after, in pieces").decision is ailake.Decision.CREATE
    expected = [*(["before"] if opened else []), "after, in pieces"]
    assert texts(memory) == expected
    lake.flush()
    assert texts(memory) == expected
    assert memory.remember("failed", id="x").decision is ailake.Decision.CREATE
    assert lake.verify() == ()


def test_a_part_that_could_not_be_taken_back_is_torn(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", Failing(os.write, after=1))
        patch.setattr(os, "ftruncate", Failing(os.ftruncate))
        with pytest.raises(OSError, match="No space left"):
            memory.remember("failed")
    memory.remember("after")
    lake.flush()
    assert texts(memory) == ["before", "after"]
    assert not list(logs.folder_of(Path(lake.uri)).iterdir())


def in_the_way(lake: ailake.Lake) -> Path:
    """Put a file where the table's data should go."""
    data = Path(lake.uri) / "episodic.lance" / "data"
    if data.exists():
        data.rename(data.with_name("kept"))
    data.write_text("in the way")
    return data


def out_of_the_way(data: Path) -> None:
    data.unlink()
    if data.with_name("kept").exists():
        data.with_name("kept").rename(data)


def test_a_drain_that_fails_is_told_and_done_again(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("tea")
    data = in_the_way(lake)
    with pytest.raises((OSError, RuntimeError)):
        lake.flush()
    with pytest.raises((OSError, RuntimeError)):
        memory.remember_many([{"text": "never stored"}])
    memory.remember("coffee")
    out_of_the_way(data)
    assert texts(memory) == ["tea", "coffee"]
    memory.remember_many([{"text": "milk"}])
    assert sorted(texts(memory)) == ["coffee", "milk", "tea"]
    assert not segments(lake)


def test_a_background_drain_that_fails_tries_again(
    lake: ailake.Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "DELAY", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_AFTER", 0.01)
    data = in_the_way(lake)
    with caplog.at_level(logging.WARNING, logger="ailake"):
        lake.memory("a").remember("tea")
        wait_until(lambda: "could not be drained" in caplog.text)
    assert segments(lake)
    out_of_the_way(data)
    wait_until(lambda: not segments(lake))
    assert texts(lake.memory("a")) == ["tea"]


def test_a_damaged_segment_is_kept_aside(
    lake: ailake.Lake, memory: ailake.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("tea", "coffee", "milk"):
        memory.remember(text)
    (path,) = segments(lake)
    content = bytearray(path.read_bytes())
    content[content.index(b"coffee")] ^= 1
    path.write_bytes(content)
    other = another_process(lake)
    other.memory("a").remember("water")
    other.flush()
    assert texts(memory) == ["tea", "milk", "water"]
    (kept,) = logs.folder_of(Path(lake.uri)).iterdir()
    assert kept.suffix == ".damaged"
    # What was read is not kept beside the table, where nobody would forget it.
    assert b"milk" not in kept.read_bytes()
    assert b"doffee" in kept.read_bytes() or b"boffee" in kept.read_bytes()
    assert "is damaged: 2 memories were read" in caplog.text


def test_segments_of_a_drain_that_died_are_replayed_once(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    """It died before its commit, or after it."""
    memory.remember("tea")
    memory.remember("coffee", judge=False)
    (path,) = segments(lake)
    content = path.read_bytes()
    path.rename(path.with_suffix(".sealed"))
    assert texts(memory) == ["tea", "coffee"]
    memory.remember("milk")
    for _ in range(3):
        other = another_process(lake)
        assert texts(other.memory("a")) == texts(memory) == ["tea", "coffee", "milk"]
        assert (other.scan("episodic").collect().height, segments(lake)) == (3, [])
        path.with_suffix(".sealed").write_bytes(content)
        assert texts(other.memory("a")) == ["tea", "coffee", "milk"]


def test_what_a_died_drain_had_committed_is_not_brought_back(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    made = memory.remember("tea")
    (path,) = segments(lake)
    content = path.read_bytes()
    lake.flush()
    path.with_suffix(".sealed").write_bytes(content)
    other = another_process(lake)
    path.with_suffix(".sealed").write_bytes(content)
    assert other.memory("a").forget(made.id).ids == (made.id,)
    lake.flush()
    assert texts(memory) == texts(other.memory("a")) == []


def test_an_id_that_had_to_move_is_stored_once(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """Two processes took it in two scopes; the drain died after its commit."""
    other = another_process(lake)
    memory.remember("tea", id="x")
    other.memory("b").remember("coffee", id="x")
    contents = {path: path.read_bytes() for path in segments(lake)}
    for _ in range(2):
        lake.flush()
        assert lake.verify() == ()
        assert sorted(texts(lake.memory("a")) + texts(lake.memory("b"))) == ["coffee", "tea"]
        (record,) = other.memory("b").list()
        assert other.memory("b").get(record.id).text == "coffee"
        for path, content in contents.items():
            path.write_bytes(content)


def test_what_is_forgotten_during_the_write_does_not_come_back(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process commits it and forgets it before its writer's sync has ended."""
    other = another_process(lake)
    fsync = os.fsync
    gone: list[str] = []

    def slow(descriptor: int) -> None:
        synced = os.fstat(descriptor).st_ino
        if not gone and synced in {path.stat().st_ino for path in segments(lake)}:
            gone.append("")
            gone[:] = other.memory("a").forget(where={"chunk_text": "tea"}).ids
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    assert [memory.remember("tea").id] == gone
    lake.flush()
    assert texts(memory) == []


def test_a_segment_that_is_drained_before_the_record_is_in_it(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another_process(lake)
    write = os.write
    drained: list[int] = []

    def slow(descriptor: int, content: bytes) -> int:
        if not drained:
            drained.append(descriptor)
            other.flush()
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", slow)
    memory.remember("tea")
    assert texts(memory) == ["tea"]
    other.flush()
    assert texts(other.memory("a")) == ["tea"]


def test_what_is_committed_and_still_in_the_log_is_there_once(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    memory.remember("tea", id="x")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stuck)
        with pytest.raises(OSError, match="No space left"):
            lake.flush()
    for _ in range(2):
        assert len(memory.recall("tea", touch=False)) == memory.count() == 1
        assert texts(memory) == [record.text for record in memory.history("x")] == ["tea"]
        memory.remember("milk", id="y")
        assert memory.forget("y").ids == ("y",)


@pytest.mark.parametrize("seconds", [5, -3_600])
def test_a_reader_commits_what_a_dead_process_left(
    lake: ailake.Lake, memory: ailake.Memory, seconds: float
) -> None:
    """Also where the clock was set back since."""
    other = another_process(lake)
    memory.remember("tea")
    assert texts(other.memory("a")) == []
    grown_old(lake, seconds)
    assert texts(other.memory("a")) == ["tea"]
    assert not segments(lake)


def test_a_read_only_lake_shows_what_the_tables_have(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember_many([{"text": "tea"}])
    memory.remember("coffee")
    grown_old(lake)
    monkeypatch.setattr(Location, "is_writable", lambda _: False)
    with ailake.connect(lake.uri, judge_rules=KEEP) as reader:
        assert reader.read_only
        assert texts(reader.memory("a")) == ["tea"]
        assert reader.stats().tables
        with pytest.raises(ailake.ReadOnlyError):
            reader.memory("a").remember("milk")
    assert len(segments(lake)) == 1


def test_a_full_log_does_not_stop_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for room must not hold what a committing thread wants."""
    monkeypatch.setattr(store, "MANY_WAITING", 1)
    monkeypatch.setattr(store, "MAX_WAITING", 2)
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:

        def single(seed: int) -> None:
            for n in range(25):
                lake.memory("a").remember(f"{seed}'s {n}")

        def many(seed: int) -> None:
            for n in range(15):
                lake.memory("a").remember_many([{"text": f"{seed}'s batch {n}"}])

        calls = [*[(single, n) for n in range(4)], *[(many, n) for n in range(2)]]
        threads = [threading.Thread(target=do, args=(n,), daemon=True) for do, n in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert lake.memory("a").count() == 4 * 25 + 2 * 15
