"""CompactionJob on a table that is larger than what it may take of memory."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import KEEP

import ailake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def frame(items: dict[str, Any]) -> Any:
    import polars as pl

    return pl.DataFrame({"text": items["text"], "vector": np.stack(items["vector"])})


MEMORY = """
import json, sys
import ailake
from ailake.clock import utc_now
from ailake.maintenance import CompactionJob, CompactionPolicy
def kib(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    lake.store.drainer.stop()
    job = CompactionJob(lake, policy=CompactionPolicy(target_rows=int(sys.argv[2])))
    job.run(dry_run=True)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = kib("VmRSS")
    report = job.run()
    print(json.dumps([len(report.tables[-1].rewrites), kib("VmHWM") - before]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_memory_is_bounded_by_a_commit_not_by_the_table(tmp_path: Path) -> None:
    """A table of 240 MB, rewritten in commits of 12 MB."""
    rows, dim = 4_000, 1_536
    with ailake.connect(tmp_path, embedder=f"hashing:{dim}", judge_rules=KEEP) as lake:
        lake.store.drainer.stop()
        vectors = np.random.default_rng(0).standard_normal((rows, dim), np.float32)
        memory = lake.memory("a")
        for batch in range(20):
            items = {"text": [f"{batch} {n}" for n in range(rows)], "vector": list(vectors)}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lake.store.episodic, "tidy", lambda: None)
                memory.remember_many(frame(items), judge=False, now=NOW)
            memory.forget(where={"chunk_text": {"contains": f"{batch} 1"}})
        size = sum(path.stat().st_size for path in tmp_path.rglob("*.lance") if path.is_file())
    command = [sys.executable, "-c", MEMORY, str(tmp_path), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rewrites, peak = json.loads(done.stdout)
    assert rewrites == 20
    assert peak * 1024 < size / 2
