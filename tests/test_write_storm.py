"""Writers that are killed, stopped or race: what they were told is stored, once, and stays so.

The writers are tests/storm_writer.py. A fork server that has imported what the engine imports, but
never the engine itself (its threads do not survive a fork), saves two thirds of their start.
"""

import json
import os
import random
import runpy
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import forked
import psutil
import pytest
from kept import KEEP

import ailake
from ailake import State

pytestmark = pytest.mark.slow

WRITER = Path(__file__).parent / "storm_writer.py"
AGENT = "storm"
KILLS = 100
PATIENCE = 120.0  # seconds for what takes one or two on an idle machine

Row = dict[str, Any]


@dataclass
class Writer:
    """A writing process, its diary and its standard error."""

    process: ForkServerProcess
    folder: Path
    name: str

    @classmethod
    def start(cls, lake: Path, name: str, what: str = "storm") -> "Writer":
        order = {"lake": str(lake), "folder": str(lake.parent), "name": name, "what": what}
        process = forked.context().Process(
            target=runpy.run_path,
            args=(str(WRITER),),
            daemon=True,
            kwargs={"init_globals": {"ORDER": order}, "run_name": "__main__"},
        )
        process.start()
        return cls(process, lake.parent, name)

    def diary(self) -> list[dict[str, Any]]:
        path = self.folder / f"{self.name}.jsonl"
        written = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in written.splitlines(keepends=True) if line[-1] == "\n"]

    def errors(self) -> str:
        return (self.folder / f"{self.name}.err").read_text()

    def wait_for(self, lines: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.diary()) < lines:
            assert time.monotonic() < deadline, "the writer does not get on"
            assert self.process.exitcode is None, self.errors()
            time.sleep(0.005)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL, self.errors()
        assert not self.errors()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        seen = psutil.Process(self.process.pid)
        os.kill(seen.pid, signal.SIGSTOP)
        while seen.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)
        try:
            yield
        finally:
            os.kill(seen.pid, signal.SIGCONT)


@dataclass
class Book:
    """What a lake must hold by its writers' diaries."""

    live: dict[str, str] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)  # id -> id of what it was changed to
    shared: dict[str, set[str]] = field(default_factory=dict)  # text -> ids that were told
    in_doubt: list[dict[str, Any]] = field(default_factory=list)

    def read(self, diary: list[dict[str, Any]]) -> None:
        for line, following in pairwise([*diary, {}]):
            if "call" in line and "done" in following:
                self.note(line, following["done"], following["decisions"])
            elif "call" in line:
                self.in_doubt.append(line)

    def note(self, call: dict[str, Any], ids: list[str], decisions: list[str]) -> None:
        verb, texts = call["call"], call.get("texts", [])
        if verb == "remember":
            assert set(decisions) <= {"create"}
            self.live.update(zip(ids, texts, strict=True))
        elif verb == "shared":
            self.shared.setdefault(texts[0], set()).update(ids)
        elif verb == "again":
            assert (ids, decisions) == ([call["id"]], ["skip"])
        elif verb == "forget":
            self.forget(call["id"])
        elif verb == "update":
            del self.live[call["id"]]
            self.merged[call["id"]] = ids[0]
            self.live[ids[0]] = texts[0]

    def forget(self, memory_id: str) -> None:
        self.live.pop(memory_id, None)
        for old in [old for old, new in self.merged.items() if new == memory_id]:
            del self.merged[old]
            self.forget(old)

    def settle(self, rows: list[Row]) -> None:
        """Decide by what is stored whether the calls that nobody was told about happened."""
        ids = {row["chunk_id"]: row for row in rows}
        by_text = {row["chunk_text"]: row["chunk_id"] for row in rows}
        for call in self.in_doubt:
            verb, texts = call["call"], call.get("texts", [])
            found = [by_text[text] for text in texts if text in by_text]
            assert len(found) in {0, len(texts)}, "half a call is stored"
            if verb == "forget" and call["id"] not in ids:
                self.note(call, [], [])
            elif verb in {"remember", "update"} and found:
                self.note(call, found, ["create"] * len(found))
        self.in_doubt.clear()

    def check(self, lake: ailake.Lake) -> None:
        """Compare with everything that is stored."""
        listed = Counter(listed_ids(lake.memory(AGENT)))
        rows = lake.scan("episodic").collect().to_dicts()
        self.settle(rows)
        active = {row["chunk_id"] for row in rows if row["state"] == State.ACTIVE}
        assert listed == Counter(active)
        ids = Counter(row["chunk_id"] for row in rows)
        assert set(ids.values()) <= {1}
        assert all(len(row["embedding"]) == 16 and any(row["embedding"]) for row in rows)
        common = [row for row in rows if row["chunk_text"].startswith("everybody")]
        own = {row["chunk_id"]: row for row in rows if row not in common}
        assert {name: row["chunk_text"] for name, row in own.items() if name in active} == self.live
        merged = {name: row["merged_into"] for name, row in own.items() if name not in active}
        assert merged == self.merged
        self.check_shared(common)
        assert lake.verify() == ()

    def check_shared(self, rows: list[Row]) -> None:
        """Each text is live once; who lost a race has an id that leads to the survivor."""
        live = {row["chunk_text"]: row["chunk_id"] for row in rows if row["state"] == "active"}
        assert len(live) == sum(row["state"] == State.ACTIVE for row in rows)
        for row in rows:
            if row["state"] != State.ACTIVE:
                assert (row["state"], row["reason"]) == (State.MERGED, "exact_duplicate")
                assert row["merged_into"] == live[row["chunk_text"]]
        stored = {row["chunk_id"]: row["chunk_text"] for row in rows}
        for text, ids in self.shared.items():
            assert text in live
            assert {stored[memory_id] for memory_id in ids} == {text}


def listed_ids(memory: ailake.Memory) -> Iterator[str]:
    for offset in count(step=10_000):
        page = memory.list(limit=10_000, offset=offset)
        yield from (record.id for record in page)
        if len(page) < 10_000:
            return


def live_and_die(writer: Writer, seed: str) -> None:
    """Kill a writer at a random moment: of opening the lake, or after its first calls."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    writer.wait_for(chance.choice([1, 4, 4, 4]))
    time.sleep(chance.random() * 0.7)
    writer.kill()


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Two writers at a time, the same lake all the while, nothing repaired in between."""
    lake, book = tmp_path / "lake", Book()
    calls = 0
    for turn in range(KILLS // 2):
        what = ("storm", "creations")[turn % 2]
        writers = [Writer.start(lake, f"w{turn}{side}", what) for side in "ab"]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(live_and_die, writers, [writer.name for writer in writers]))
        for writer in writers:
            calls += sum("done" in line for line in writer.diary())
            book.read(writer.diary())
        with ailake.connect(lake, embedder="hashing:16", judge_rules=KEEP) as opened:
            book.check(opened)
    assert calls > 2 * KILLS


def test_eight_processes_race(tmp_path: Path) -> None:
    lake, book = tmp_path / "lake", Book()
    writers = [Writer.start(lake, f"w{n}", "race") for n in range(8)]
    for writer in writers:
        writer.process.join(10 * PATIENCE)
        assert writer.process.exitcode == 0 or writer.errors()
        book.read(writer.diary())
    with ailake.connect(lake, judge_rules=KEEP) as opened:
        opened.flush()
        book.check(opened)
        keys = ["role", "speaker", "source", "dedupe_key"]
        live = opened.scan("episodic").collect().filter(state=State.ACTIVE)
        assert live.select(keys).is_duplicated().sum() == 0
    if all(writer.process.exitcode == 0 for writer in writers):
        # Of the 250 texts of each, 63 are everybody's.
        assert live.height == 8 * 187 + 63


def test_a_copy_of_any_moment_opens(tmp_path: Path) -> None:
    """What a power cut or a snapshot of the disk leaves: the files as they were, in mid-write."""
    chance = random.Random(1)  # noqa: S311 (no secret)
    writer = Writer.start(tmp_path / "lake", "w")
    writer.wait_for(4)
    moments = []
    for moment in range(12):
        time.sleep(chance.random() * 0.7)
        copy = tmp_path / f"copy {moment}"
        with writer.stopped():
            shutil.copytree(tmp_path / "lake", copy)
            moments.append((copy, writer.diary()))
    writer.kill()
    for copy, diary in moments:
        book = Book()
        book.read(diary)
        with ailake.connect(copy, create=False, judge_rules=KEEP) as opened:
            book.check(opened)
