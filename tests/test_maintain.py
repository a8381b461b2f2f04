"""The jobs together: MaintainJob, commands, scripts, and that they wait for each other."""

import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake import RecencyConfig, ScoringPolicy
from ailake.cli import main
from ailake.clock import utc_now
from ailake.maintenance import (
    CompactionJob,
    CompactionPolicy,
    ForgetJob,
    IndexJob,
    MaintainJob,
    MemoryDecayJob,
)
from ailake.storage.locks import JOBS, LockedError, exclusive

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ROOT = Path(__file__).parents[1]


def fill(lake: ailake.Lake) -> ailake.Memory:
    """Three fragments; one memory has expired, one is old, one was recalled."""
    lake.store.drainer.stop()
    memory = lake.memory("a")
    memory.remember_many([{"text": "tea", "id": "tea", "event_time": NOW - DAY}], now=NOW)
    memory.remember_many([{"text": "gone", "id": "gone", "expires_at": NOW}], now=NOW - DAY)
    memory.remember_many(
        [{"text": "old", "id": "old", "event_time": NOW - 90 * DAY}], now=NOW - DAY
    )
    memory.touch("tea", now=NOW)
    return memory


def test_one_pass(lake: ailake.Lake) -> None:
    memory = fill(lake)
    made = {one.version for one in lake.versions("episodic")}
    job = MaintainJob(
        lake,
        recency=RecencyConfig.MONTHLY_DECAY,
        min_weight=0.1,
        scoring=ScoringPolicy.SEED,
        compaction=CompactionPolicy(keep_versions=DAY),
    )
    plan = job.run(NOW + DAY, dry_run=True)
    assert {one.version for one in lake.versions("episodic")} == made
    report = job.run(NOW + DAY)
    assert (plan.decay.accesses_folded, report.decay.accesses_folded) == (1, 1)
    assert plan.prune.ids == report.prune.ids == ("gone", "old")
    assert report.prune.counts.expired == report.prune.counts.below_weight == 1
    assert [one.table for one in report.indexes.tables] == ["episodic", "passages"]
    (record,) = memory.list(now=NOW)
    assert (record.id, record.access_count) == ("tea", 1)
    assert record.recency_weight == pytest.approx(0.977, abs=0.001)
    assert report.now == NOW + DAY
    assert lake.verify(now=NOW) == ()


def test_old_versions_go_with_it(lake: ailake.Lake) -> None:
    fill(lake)
    report = MaintainJob(lake).run(utc_now() + 8 * DAY)
    (episodic,) = (one for one in report.compaction.tables if one.table == "episodic")
    assert episodic.versions_removed > 3


JOB_KINDS: dict[str, Callable[[ailake.Lake], Any]] = {
    "decay": lambda lake: MemoryDecayJob(lake).run(NOW),
    "forget": lambda lake: ForgetJob(lake).run(NOW),
    "compact": lambda lake: CompactionJob(lake).run(),
    "index": lambda lake: IndexJob(lake).run(NOW),
}
DRY: dict[str, Callable[[ailake.Lake], Any]] = {
    "decay": lambda lake: MemoryDecayJob(lake).run(NOW, dry_run=True),
    "forget": lambda lake: ForgetJob(lake).run(NOW, dry_run=True),
    "compact": lambda lake: CompactionJob(lake).run(dry_run=True),
    "index": lambda lake: IndexJob(lake).run(NOW, dry_run=True),
}


@pytest.mark.parametrize("kind", sorted(JOB_KINDS))
def test_a_job_waits_for_another(lake: ailake.Lake, kind: str) -> None:
    """A dry run does not, nor does anyone who reads or writes."""
    memory = fill(lake)
    root = lake.store.location.root
    done: list[Any] = []
    job = threading.Thread(target=lambda: done.append(JOB_KINDS[kind](lake)), daemon=True)
    with exclusive(root, JOBS):
        job.start()
        job.join(0.3)
        assert job.is_alive()
        assert DRY[kind](lake).dry_run
        memory.remember("milk", id="milk", now=NOW)
        memory.update("milk", importance=0.7, now=NOW)
        assert memory.recall("milk", limit=1, now=NOW)[0].id == "milk"
    job.join(60)
    assert len(done) == 1


HOLDER = """
import sys, time
from pathlib import Path
from ailake.storage.locks import JOBS, exclusive
with exclusive(Path(sys.argv[1]), JOBS):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_dies_with_its_holder(lake: ailake.Lake) -> None:
    root = lake.store.location.root
    assert root is not None
    command = [sys.executable, "-c", HOLDER, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError), exclusive(root, JOBS, wait=False):
            pass
        holder.kill()
    assert MaintainJob(lake).run(NOW).decay.rows == 0


@dataclass
class Shell:
    """Runs commands and scripts against one lake."""

    lake: Path
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def run(self, call: Callable[[], object], *arguments: str, code: int = 0) -> str:
        self.patch.setattr(sys, "argv", ["ailake", *arguments])
        try:
            call()
            ended: object = 0
        except SystemExit as end:
            ended = end.code or 0
        told = self.capture.readouterr()
        assert ended == code, told.err
        return told.out + told.err

    def ailake(self, *arguments: str, code: int = 0) -> str:
        return self.run(main, *arguments, code=code)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ailake(*arguments, "--json"))

    def script(self, name: str, *arguments: str, code: int = 0) -> str:
        path = str(ROOT / "jobs" / f"{name}.py")
        return self.run(lambda: runpy.run_path(path, run_name="__main__"), *arguments, code=code)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    with ailake.connect(tmp_path / "cli", embedder="hashing:64", judge_rules=KEEP) as lake:
        fill(lake)
    monkeypatch.setenv("AILAKE_URI", str(tmp_path / "cli"))
    monkeypatch.setenv("COLUMNS", "250")
    return Shell(tmp_path / "cli", monkeypatch, capsys)


def test_prune_on_the_command_line(shell: Shell) -> None:
    at = ["--now", NOW.isoformat()]
    options = ["prune", "--min-weight", "0.1", "--policy", "seed", *at]
    plan = shell.json(*options, "--dry-run")
    assert (plan["ids"], plan["dry_run"]) == (["gone", "old"], True)
    assert plan["scopes"][0]["counts"] == plan["counts"]
    assert "2 of 3 memories" in shell.ailake(*options, "--dry-run")
    # No weight of recall's own is as low.
    assert shell.json("prune", "--min-weight", "0.1", *at, "--dry-run")["ids"] == ["gone"]
    assert shell.json(*options)["ids"] == ["gone", "old"]
    assert shell.json("prune", "--keep", "1", *at)["counts"]["over_cap"] == 0
    assert "keep: got 0" in shell.ailake("prune", "--keep", "0", code=2)


def test_compact_on_the_command_line(shell: Shell) -> None:
    later = ["--now", (utc_now() + 8 * DAY).isoformat()]
    plan = shell.json("compact", *later, "--dry-run")["tables"][-1]
    assert plan["rewrites"][0]["reason"] == "small"
    assert "compaction (dry run)" in shell.ailake("compact", *later, "--dry-run")
    done = shell.json("compact", *later)["tables"][-1]
    assert (done["fragments_before"], done["fragments_after"]) == (3, 1)
    assert done["versions_removed"] == plan["versions_removed"] > 3
    assert "keep_versions" in shell.ailake("compact", "--keep-versions", "0", code=2)
    assert "--keep-versions: got nan" in shell.ailake("compact", "--keep-versions", "nan", code=2)


def test_maintain_on_the_command_line(shell: Shell) -> None:
    options = ["maintain", "--now", NOW.isoformat(), "--min-weight", "0.1", "--policy", "seed"]
    plan = shell.json(*options, "--dry-run")
    done = shell.json(*options)
    assert done["prune"]["ids"] == plan["prune"]["ids"] == ["gone", "old"]
    assert done["decay"]["accesses_folded"] == plan["decay"]["accesses_folded"] == 1
    told = shell.ailake(*options)
    for what in ("decay: 1 rows", "prune: 0 of 1", "compaction", "index of episodic: none"):
        assert what in told
    assert "got several" in shell.ailake("maintain", "--curve", "daily", "--half-life", "3", code=2)


FRAGMENTS = {"accesses": [1, 1], "passages": [0, 0], "episodic": [3, 1]}
TOLD: dict[str, list[dict[str, Any]]] = {
    "compact": [{"fragments": FRAGMENTS}, {"fragments": FRAGMENTS | {"episodic": [1, 1]}}],
    "forget": [
        {"expired": 1, "below_weight": 0, "over_cap": 1, "merged": 0},
        {"expired": 0, "below_weight": 0, "over_cap": 0, "merged": 0},
    ],
    "maintain": [{"rows": 3, "removed": 1}, {"rows": 2, "removed": 0}],
}


@pytest.mark.parametrize("name", sorted(TOLD))
def test_the_scripts(shell: Shell, name: str) -> None:
    bounds = ["--keep", "1"] if name == "forget" else []
    first, second = TOLD[name]
    for expected, arguments in [(first, ["--dry-run"]), (first, []), (second, [])]:
        done = json.loads(shell.script(name, *arguments, *bounds))
        # How many commits the ledger takes depends on when it was told.
        for other in set(done.get("fragments", ())) - set(FRAGMENTS):
            del done["fragments"][other]
        assert {"job": name, **expected}.items() <= done.items()
    shell.patch.delenv("AILAKE_URI")
    assert "give the lake's URI" in shell.script(name, code=2)
    lines = (ROOT / "jobs" / f"{name}.py").read_text().splitlines()
    assert len(lines) <= 40
