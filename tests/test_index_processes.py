"""IndexJob beside real writers, and killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ended import ending
from kept import KEEP

import ailake
from ailake.maintenance import IndexJob, MemoryDecayJob
from ailake.storage.indexes import indexes_of
from ailake.storage.vectors import vector_index

DIM = 64
POLICY = ailake.IndexPolicy(min_bytes=0, limit=100, sample=8)

JOB = """
import sys
import ailake
from ailake.maintenance import IndexJob

policy = ailake.IndexPolicy(min_bytes=0, limit=100, sample=8)
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    print("open", flush=True)
    for turn in range(int(sys.argv[2])):
        print(IndexJob(lake, policy=policy, rebuild=True).run().tables[0].kind, flush=True)
"""

WRITER = """
import json, sys
import numpy as np
import ailake

uri, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(int(name))
kept = []
with ailake.connect(uri, judge_rules=ailake.JudgeRules(retention=None)) as lake:
    memory = lake.memory("a")
    for n in range(count):
        vector = rng.standard_normal(64)
        kept.append(memory.remember(f"{name} {n}", vector=vector).id)
        if n % 7 == 3:
            memory.forget(kept.pop(0))
        if n % 11 == 5:
            kept.append(memory.update(kept.pop(0), text=f"{name} changed {n}").id)
        if n % 20 == 10:
            many = [{"text": f"{name} many {n} {i}", "vector": v}
                    for i, v in enumerate(rng.standard_normal((300, 64)))]
            kept += [one.id for one in memory.remember_many(many)]
print(json.dumps(kept))
"""

DECAY = """
import sys
from datetime import UTC, datetime, timedelta
import ailake
from ailake.maintenance import MemoryDecayJob

with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    for turn in range(int(sys.argv[2])):
        MemoryDecayJob(lake).run(datetime.now(UTC) + timedelta(days=turn))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fill(lake: ailake.Lake, count: int) -> None:
    drawn = np.random.default_rng(99).standard_normal((count, DIM))
    items = [{"text": f"first {n}", "vector": v} for n, v in enumerate(drawn)]
    lake.memory("a").remember_many(items)


def assert_whole(lake: ailake.Lake) -> None:
    """Searches over the indexes find what a look at every row finds."""
    dataset = lake.store.episodic.fresh()
    rows = dataset.to_table(columns=["chunk_id", "state", "embedding"], with_row_id=True)
    states = rows["state"].to_pylist()
    active = sorted(
        row for row, state in zip(rows["_rowid"].to_pylist(), states, strict=True)
        if state == "active"
    )  # fmt: skip
    scanned = dataset.to_table(columns=["chunk_id"], filter="state = 'active'", with_row_id=True)
    assert sorted(scanned["_rowid"].to_pylist()) == active
    query = np.asarray(rows["embedding"][0].as_py(), np.float32)
    near = {"column": "embedding", "q": query, "k": rows.num_rows, "metric": "cosine"}
    listed = dataset.scanner(
        columns=["chunk_id", "_distance"],
        nearest={**near, "refine_factor": 1, "minimum_nprobes": 1_000},
        filter="state = 'active'",
        prefilter=True,
        with_row_id=True,
    ).to_table()
    assert sorted(listed["_rowid"].to_pylist()) == active
    for index in indexes_of(dataset):
        covered = index.coverage.indexed_rows + index.coverage.unindexed_rows
        assert covered == rows.num_rows
    assert lake.verify() == ()


@pytest.mark.slow
def test_beside_writers_and_decay(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake:
        fill(lake, 3_000)
    writers = [start(WRITER, tmp_path / "lake", name, 120) for name in range(2)]
    decay = start(DECAY, tmp_path / "lake", 15)
    job = start(JOB, tmp_path / "lake", 6)
    outs = []
    with ending(*writers, decay, job) as processes:
        for process in processes:
            out, err = process.communicate()
            assert process.returncode == 0, err
            outs.append(out)
    assert outs[-1].split() == ["open", *6 * ["IVF_SQ"]]
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        found = vector_index(lake.store.episodic.fresh())
        assert found is not None
        assert found.recall is not None
        assert_whole(lake)
        memory = lake.memory("a")
        wanted = {memory_id for out in outs[:2] for memory_id in json.loads(out)}
        assert wanted <= {record.id for record in memory.list(limit=10_000)}
        assert memory.count() == 3_000 + len(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.02, 0.15, 0.4, 0.8, 1.5])
def test_killed_in_the_middle(tmp_path: Path, after: float) -> None:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake:
        fill(lake, 6_000)
        lake.flush()
        with ending(start(JOB, tmp_path / "lake", 100)) as (job,):
            assert job.stdout is not None
            assert job.stdout.readline() == "open\n"
            time.sleep(after)
            os.kill(job.pid, signal.SIGKILL)
        assert_whole(lake)
        # The lock died with its holder: nothing has to be mended first.
        lake.memory("a").remember("tea", vector=np.ones(DIM))
        done = IndexJob(lake, policy=POLICY).run().tables[0]
        assert done.recall is not None
        assert MemoryDecayJob(lake).run().rows == 6_001
        assert_whole(lake)
