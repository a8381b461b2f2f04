"""Several processes and killed ones: nothing lost, nothing twice, nothing brought back."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ended import ending
from kept import KEEP

import ailake
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

WRITER = """
import json, sys
import ailake

uri, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rules = ailake.JudgeRules(retention=None)
with ailake.connect(uri, embedder="hashing:16", judge_rules=rules) as lake:
    memory = lake.memory(agent_id="a")
    for n in range(count):
        text = f"shared {n}" if n % 4 == 0 else f"{name} {n}"
        outcome = memory.remember(text)
        print(json.dumps([outcome.decision, outcome.id, text]), flush=True)
"""


def start(*arguments: object, code: str = WRITER) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_remember_at_once_into_a_new_lake(tmp_path: Path) -> None:
    """They also create it at once; a quarter of the texts is the same in all."""
    writers = [start(tmp_path / "lake", f"w{n}", 60) for n in range(4)]
    told = []
    with ending(*writers):
        for writer in writers:
            out, err = writer.communicate()
            assert writer.returncode == 0, err
            told += [json.loads(line) for line in out.splitlines()]
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        live = memory.list(limit=1_000)
        resolved = {memory_id: memory.get(memory_id).text for _, memory_id, _ in told}
        rows = lake.scan("episodic").collect()
    texts = [record.text for record in live]
    assert len(texts) == len(set(texts)) == 4 * 45 + 15
    assert set(texts) == {text for _, _, text in told}
    # Who lost a race was told of an id that stands for the survivor's.
    assert all(resolved[memory_id] == text for _, memory_id, text in told)
    assert rows["chunk_id"].n_unique() == rows.height
    assert rows.height == sum(decision == "create" for decision, _, _ in told)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_while_writing(tmp_path: Path, seed: int) -> None:
    """What was acknowledged is there exactly once; the lake opens without repair."""
    with ending(start(tmp_path / "lake", "w", 10_000)) as (writer,):
        assert writer.stdout is not None
        told = [writer.stdout.readline()]
        deadline = time.monotonic() + 0.3 + 0.35 * seed
        while time.monotonic() < deadline:
            told.append(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        told += writer.stdout.readlines()
    acknowledged = [json.loads(line) for line in told if line.endswith("\n")]
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        stored = [record.text for record in memory.list(limit=10_000)]
        assert len(stored) == len(set(stored))
        assert set(stored) >= {text for _, _, text in acknowledged}
        assert len(stored) <= len(acknowledged) + 1
        assert memory.remember("after the crash").decision is ailake.Decision.CREATE
        assert MemoryDecayJob(lake).run().rows == len(stored) + 1


READER = """
import sys
import ailake
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    memory = lake.memory(agent_id="a")
    print(memory.count(), flush=True)
    for line in sys.stdin:
        print(memory.count(), len(memory.recall("tea", touch=False)), flush=True)
"""


def test_a_reader_sees_another_processs_commit_on_its_next_call(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember("tea")
        command = [sys.executable, "-c", READER, str(tmp_path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            assert reader.stdout.readline() == "1\n"
            memory.remember("more tea")
            lake.flush()
            reader.stdin.write("again\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "2 2\n"
            reader.stdin.close()


def test_a_stale_handle_brings_nothing_back(tmp_path: Path) -> None:
    """Handle B was opened before A deleted and the versions were cleaned up.

    With a consistency interval above zero, B's next write commits on its old version and the
    engine, seeing no version in between, lets it: the deleted row is back.
    """
    with (
        ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as one,
        ailake.connect(tmp_path, judge_rules=KEEP) as two,
    ):
        a, b = one.memory(agent_id="a"), two.memory(agent_id="a")
        a.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(10)], now=NOW)
        assert b.count(now=NOW) == 10
        a.forget("n3")
        one.table("episodic").to_lance().cleanup_old_versions(timedelta(0))
        b.forget("n4")
        two.table("episodic").update(where="chunk_id = 'n5'", values={"kind": "x"})
        two.table("episodic").optimize()
        MemoryDecayJob(two).run(NOW + timedelta(days=1))
        for memory in (a, b):
            ids = {record.id for record in memory.list(now=NOW)}
            assert ids == {f"n{n}" for n in range(10)} - {"n3", "n4"}


JOURNAL = """
import sys
import ailake
from ailake.maintenance import MemoryDecayJob
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    memory = lake.memory(agent_id="a")
    for n in range(int(sys.argv[2])):
        memory.recall("tea", limit=3)
        if n % 5 == 4:
            MemoryDecayJob(lake).run()
"""


@pytest.mark.slow
def test_no_access_is_lost_or_counted_twice(tmp_path: Path) -> None:
    """Three processes recall and fold at once."""
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember_many([{"text": f"tea {n}"} for n in range(5)])
        with ending(*(start(tmp_path, 20, code=JOURNAL) for _ in range(3))) as workers:
            for worker in workers:
                _, err = worker.communicate()
                assert worker.returncode == 0, err
        assert sum(record.access_count for record in memory.list()) == 3 * 20 * 3
        MemoryDecayJob(lake).run()
        stored = lake.table("episodic").to_lance().to_table(columns=["access_count"])
        assert sum(stored["access_count"].to_pylist()) == 3 * 20 * 3
