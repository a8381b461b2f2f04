"""Jobs that are killed between any two of their steps: nothing lost, and the next run completes.

The job is tests/killed_job.py. A fork server that never imports the engine saves its start.
"""

import runpy
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import forked
import pytest
from kept import KEEP

import ailake
from ailake.clock import utc_now
from ailake.storage.table import Table

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SCRIPT = Path(__file__).parent / "killed_job.py"
KEPT = {"stays", "pinned", *(f"new{n}" for n in range(8))}
LONG = " ".join(f"Sentence number {n} is about tea." for n in range(60))


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake in many fragments: memories that go with their passages and accesses, and others."""
    monkeypatch.setattr(Table, "tidy", lambda *_, **__: None)
    with ailake.connect(tmp_path / "base", embedder="hashing:16", judge_rules=KEEP) as lake:
        lake.store.drainer.stop()
        memory = lake.memory("a")
        memory.remember("stays", id="stays", event_time=NOW, now=NOW)
        memory.remember("pinned", id="pinned", importance=1.0, event_time=NOW - 99 * DAY, now=NOW)
        for n in range(5):
            text = f"{LONG} {n}"
            memory.remember(text, id=f"old{n}", event_time=NOW - 99 * DAY, now=NOW)
            lake.flush()
        memory.update("old0", text="replaced", now=NOW)
        for n in range(8):
            memory.remember_many([{"text": f"new {n}", "id": f"new{n}"}], now=NOW)
        memory.touch(["old1", "stays", "new1"], now=NOW - 98 * DAY)
        lake.store.drainer.stop()
    return tmp_path / "base"


def run(lake: Path, job: str, deadly: int | str | None) -> int | None:
    """Run the job; return its boundaries, None where it was killed."""
    count = lake.parent / "count"
    now = NOW if job == "forget" else utc_now() + DAY
    order = {"lake": lake, "job": job, "now": now, "deadly": deadly, "count": str(count)}
    process = forked.context().Process(
        target=runpy.run_path,
        args=(str(SCRIPT),),
        kwargs={"init_globals": {"ORDER": order}, "run_name": "__main__"},
    )
    process.start()
    process.join(300)
    assert process.exitcode == (0 if deadly is None else -signal.SIGKILL)
    return int(count.read_text()) if deadly is None else None


def state(folder: Path) -> dict[str, Any]:
    """Return what a lake shows, and what its tables hold."""
    with ailake.connect(folder, judge_rules=KEEP) as lake:
        lake.store.drainer.stop()
        memory = lake.memory("a")
        records = {one.id: one.access_count for one in memory.list(limit=100, now=NOW)}
        hits = {one.id for one in memory.recall("tea", limit=100, touch=False, now=NOW)}
        assert hits == set(records)
        # A passage without its memory is passed over by reads, until the next run.
        broken = {problem.what for problem in lake.verify(now=NOW)}
        assert broken <= {"a passage belongs to no memory"}
        tables = {
            name: sorted(lake.scan(name).collect()["chunk_id"]) for name in ("accesses", "passages")
        }
        episodic = lake.store.episodic.fresh()
        return {
            "records": records,
            "rows": sorted(lake.scan("episodic").collect()["chunk_id"]),
            "fragments": [one.physical_rows for one in episodic.get_fragments()],
            "broken": broken,
            **tables,
        }


def at_every_boundary(base: Path, job: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return, for each, the lake after the kill and after the next run."""
    reference = base.parent / "reference"
    shutil.copytree(base, reference)
    boundaries = run(reference, job, None)
    assert boundaries is not None
    assert boundaries > 4
    found = []
    for deadly in range(boundaries):
        folder = base.parent / f"killed {deadly}"
        shutil.copytree(base, folder)
        run(folder, job, deadly)
        killed = state(folder)
        run(folder, job, None)
        found.append((killed, state(folder)))
    # Once more, with nothing left to do.
    run(reference, job, None)
    found.append((state(reference), state(reference)))
    return found


def test_pruning_is_completed_by_the_next_run(base: Path) -> None:
    before = state(base)
    for killed, completed in at_every_boundary(base, "forget"):
        # Whatever has happened so far, only what was to go is gone.
        assert set(before["records"]) >= set(killed["records"]) >= KEPT
        assert {one: killed["records"][one] for one in KEPT} == {
            one: before["records"][one] for one in KEPT
        }
        assert set(completed["records"]) == set(completed["rows"]) == KEPT
        assert completed["passages"] == []
        assert completed["accesses"] == ["new1", "stays"]
        assert completed["broken"] == set()


def test_compaction_is_completed_by_the_next_run(base: Path) -> None:
    before = state(base)
    shapes = set()
    for killed, completed in at_every_boundary(base, "compact"):
        for found in (killed, completed):
            same = ("records", "rows", "accesses", "passages")
            assert {name: found[name] for name in same} == {name: before[name] for name in same}
            assert found["broken"] == set()
        shapes.add(len(killed["fragments"]))
        assert len(completed["fragments"]) < len(before["fragments"]) / 2
    # Some were killed before the first commit, some after the last, some in between.
    assert len(shapes) > 2


def test_decay_is_completed_by_the_next_run(base: Path) -> None:
    before = state(base)
    for step in ("_written", "guard", "mark_folded", "done"):
        folder = base.parent / f"killed {step}"
        shutil.copytree(base, folder)
        run(folder, "decay", step)
        killed = state(folder)
        run(folder, "decay", None)
        for found in (killed, state(folder)):
            same = ("records", "rows", "passages", "broken")
            assert {name: found[name] for name in same} == {name: before[name] for name in same}
        with ailake.connect(folder, judge_rules=KEEP) as lake:
            assert lake.stats().pending_accesses == 0
