"""On an object store: jobs that are killed at every kind of step, and many writers at once.

The job is tests/killed_job.py; tests/test_job_faults.py has more of their steps, in a folder.
"""

import json
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import forked
import killed_job
import pyarrow as pa
import pytest
from ended import ending
from kept import KEEP
from killed_job import STEPS
from leftovers import holding

import ailake
from ailake.clock import utc_now
from ailake.core.remembering import NO_CONTAINED_MATCH
from ailake.maintenance import CompactionJob, CompactionPolicy, MaintainJob, MemoryDecayJob
from ailake.storage import leases, locks
from ailake.storage.table import Table
from ailake.storage.vectors import vector_index

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SCRIPT = Path(__file__).parent / "killed_job.py"
CANARY = "q7f3a9b2c4d5e6f708192a3b4"
LONG = " ".join(f"Sentence number {n} is about tea." for n in range(60))

WRITER = """
import json, sys
import ailake

uri, options, name = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
with ailake.connect(uri, embedder="hashing:16", storage_options=options) as lake:
    memory = lake.memory("a")
    for n in range(8):
        text = f"everybody says {n}" if n % 4 == 0 else f"{name} says {n}"
        told = memory.remember(text, id=f"{name} {n}" if n % 4 == 1 else None)
        memory.touch([told.id])
        if n % 4 == 2:
            memory.update(told.id, importance=0.25)
        if n % 4 == 3:
            memory.update(told.id, text=f"{text}, corrected")
"""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of a killed run is over soon."""
    monkeypatch.setattr(leases, "SKEW", 0.0)
    monkeypatch.setattr(locks, "_POLL_LEASE_SECONDS", 0.1)


def work_for_every_job(lake: ailake.Lake) -> None:
    """Put in what decays, expires, is too small to stay as it is, or was stored twice."""
    memory = lake.memory("a")
    old = {"event_time": NOW - 99 * DAY, "importance": 0.1}
    memory.remember_many([{"text": f"old {n}", "id": f"old{n}", **old} for n in range(3)])
    memory.remember(LONG, id="long", now=NOW, importance=0.1, event_time=NOW - 99 * DAY)
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(300)], now=NOW)
    memory.remember("n1", id="twin", judge=False, now=NOW + DAY)
    raced = {"chunk_id": ["twin"], "reason": [NO_CONTAINED_MATCH]}
    lake.store.change(pa.table(raced))
    memory.touch(["old1", "n1", "n7"], now=NOW - 98 * DAY)
    lake.flush()
    memory.touch(["n1", "twin"], now=NOW)


def kill(options: dict[str, str], lake: str, job: str, step: str) -> None:
    """Run the job in a process of its own, and kill it when it gets to the step."""
    order = {"lake": lake, "job": job, "now": INSTANTS[job], "deadly": step, "options": options}
    process = forked.context().Process(
        target=runpy.run_path,
        args=(str(SCRIPT),),
        kwargs={"init_globals": {"ORDER": order}, "run_name": "__main__"},
    )
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL


def counts(options: dict[str, str], uri: str) -> dict[str, int]:
    """Return the access counts of the memories that a lake shows."""
    with ailake.connect(uri, storage_options=options, judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        return {one.id: one.access_count for one in memory.list(limit=1_000, now=NOW + DAY)}


@pytest.mark.usefixtures("brief")
def test_jobs_that_are_killed_again_and_again(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each dies at the first step of every kind, and goes on from there the next time."""
    uri = "s3://lakes/faults/killed"
    with monkeypatch.context() as patch:
        patch.setattr(Table, "tidy", lambda *_, **__: None)
        with ailake.connect(
            uri, embedder="hashing:16", storage_options=s3, judge_rules=KEEP
        ) as lake:
            work_for_every_job(lake)
    before = counts(s3, uri)
    merged = {name: count + (name == "n1") for name, count in before.items() if name != "twin"}
    kept = {name: count for name, count in merged.items() if name[0] == "n"}
    for job, (steps, after) in {
        "decay": (
            ["take", "upsert", "_written", "guard", "mark_folded", "give_back", "done"],
            merged,
        ),
        "forget": (["delete_rows"], kept),
        "compact": (
            ["_tasks", "guard", "keep_current", "remove_versions", "sweep"],
            kept,
        ),
        "index": (["build", "measure_and_keep"], kept),
    }.items():
        for step in steps:
            kill(s3, uri, job, step)
            # Nothing is lost or counted twice, whatever has been done so far.
            assert counts(s3, uri) in (before, after)
        with ailake.connect(uri, storage_options=s3, judge_rules=KEEP) as lake:
            killed_job.JOBS[job](lake, INSTANTS[job])
            assert lake.verify(now=NOW + DAY) == ()
            assert DONE[job](lake), job
            lake.flush()
            assert lake.ledger().verify() == ()
        assert counts(s3, uri) == after
        before = after


INSTANTS = {
    "decay": utc_now() + DAY, "forget": NOW, "compact": utc_now() + DAY, "index": NOW,
    "purge": NOW, "reembed": NOW,
}  # fmt: skip

# What can be seen of a job that was completed.
DONE: dict[str, Callable[[ailake.Lake], bool]] = {
    "decay": lambda lake: lake.stats().pending_accesses == 0,
    "forget": lambda lake: lake.scan("passages").collect().is_empty(),
    "compact": lambda lake: len(lake.versions("episodic")) < 5,
    "index": lambda lake: vector_index(lake.store.episodic.snapshot()) is not None,
}


def small(options: dict[str, str], uri: str) -> None:
    """Make a lake of three memories, one of them long, one to be purged, which a tag holds."""
    with ailake.connect(
        uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory("a")
        items = [{"text": "tea", "id": "tea"}, {"text": LONG, "id": "long"}]
        memory.remember_many([*items, {"text": CANARY, "id": "gone"}], now=NOW)
        lake.tag("held")


@pytest.mark.usefixtures("brief")
def test_a_purge_that_is_killed_again_and_again(s3: dict[str, str], tmp_path: Path) -> None:
    uri, needles = "s3://lakes/faults/purge", {"canary": CANARY.encode()}
    small(s3, uri)
    there = []
    for step in STEPS["purge"]:
        kill(s3, uri, "purge", step[1])
        with ailake.connect(uri, storage_options=s3, judge_rules=KEEP) as lake:
            names = {one.id for one in lake.memory("a").list(now=NOW)}
            assert {"tea", "long"} <= names <= {"tea", "long", "gone"}
            assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
            there.append("gone" in names)
    # Never back once it was away.
    assert there == sorted(there, reverse=True)
    assert set(there) == {True, False}
    with ailake.connect(uri, storage_options=s3, judge_rules=KEEP) as lake:
        killed_job.JOBS["purge"](lake, NOW)
        assert not any(holding(lake, needles, tmp_path).values())
        assert lake.tags() == []
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "steps",
    [
        # The last of each is behind the switch, which whoever opens the lake next completes.
        ["add", "switch_vectors", "rewrite_columns", "finish_switch"],
        ["_put_passages"],
        ["_name_embedder"],
        ["mend"],
    ],
)
def test_a_reembedding_that_is_killed_again_and_again(s3: dict[str, str], steps: list[str]) -> None:
    uri = f"s3://lakes/faults/reembed{len(steps)}{steps[0]}"
    small(s3, uri)
    for step in steps:
        kill(s3, uri, "reembed", step)
        with ailake.connect(uri, storage_options=s3, judge_rules=KEEP) as lake:
            assert lake.embedder_id.endswith("-24" if step == steps[-1] else "-16")
            memory = lake.memory("a")
            assert {one.id for one in memory.list(now=NOW)} == {"tea", "long", "gone"}
            assert memory.recall("tea", limit=1, touch=False, now=NOW)[0].id == "tea"
    with ailake.connect(uri, storage_options=s3, judge_rules=KEEP) as lake:
        killed_job.JOBS["reembed"](lake, NOW)
        hit = lake.memory("a").recall("Sentence number 39 is about tea.", limit=1, now=NOW)[0]
        assert (hit.id, "39" in (hit.passage or "")) == ("long", True)
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


@pytest.mark.usefixtures("brief")
def test_many_writers_beside_jobs(s3: dict[str, str]) -> None:
    """Nothing lost, nothing counted twice; what raced is one memory in the end."""
    uri, names = "s3://lakes/faults/many", ["w0", "w1"]
    pipe = subprocess.PIPE
    with ailake.connect(uri, embedder="hashing:16", storage_options=s3, judge_rules=KEEP) as lake:
        command = [sys.executable, "-c", WRITER, uri, json.dumps(s3)]
        writers = [subprocess.Popen([*command, name], stderr=pipe, text=True) for name in names]
        policy = CompactionPolicy(keep_versions=timedelta(hours=1))
        with ending(*writers):
            while any(writer.poll() is None for writer in writers):
                MemoryDecayJob(lake).run(utc_now() + DAY)
                CompactionJob(lake, policy=policy).run()
            for writer in writers:
                _, told = writer.communicate()
                assert writer.returncode == 0, told
        MaintainJob(lake).run(utc_now() + DAY)
        memory = lake.memory("a")
        records = memory.list(limit=100)
        both = [f"everybody says {n}" for n in (0, 4)]
        own = [f"{name} says {n}" for name in names for n in range(8) if n % 4]
        wanted = [*both, *(f"{one}, corrected" if int(one[8:]) % 4 == 3 else one for one in own)]
        assert sorted(one.text for one in records) == sorted(wanted)
        assert sum(one.access_count for one in records) == 2 * 8
        assert {one.importance_score for one in records if one.text.endswith((" 2", " 6"))} == {
            0.25
        }
        assert {memory.get(f"{name} {n}").id for name in names for n in (1, 5)} <= {
            one.id for one in records
        }
        assert lake.verify() == ()
        lake.flush()
        assert lake.ledger().verify() == ()
