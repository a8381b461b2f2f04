"""CompactionJob on real lakes: what it rewrites and removes, and who may write beside it."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from ended import ending
from kept import KEEP

import ailake
from ailake import InvalidInputError
from ailake.clock import utc_now
from ailake.core import indexing
from ailake.core.schema import TABLES
from ailake.maintenance import (
    CompactedTable,
    CompactionJob,
    CompactionPolicy,
    CompactionReport,
    ForgetJob,
    MemoryDecayJob,
)
from ailake.storage import columns, compaction
from ailake.storage.indexes import indexes_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def lake(lake: ailake.Lake) -> ailake.Lake:
    """A lake whose fragments nobody merges in the background."""
    lake.store.drainer.stop()
    return lake


def fill(lake: ailake.Lake, batches: int, *, rows: int = 20) -> ailake.Memory:
    memory = lake.memory("a")
    for batch in range(batches):
        items = [
            {"text": f"tea {batch} {n}", "id": f"m{batch}-{n}", "event_time": NOW - n * DAY}
            for n in range(rows)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lake.store.episodic, "tidy", lambda: None)
            memory.remember_many(items, judge=False, now=NOW)
    return memory


def dataset(lake: ailake.Lake) -> lance.LanceDataset:
    return lake.store.episodic.fresh()


def content(lake: ailake.Lake) -> Any:
    return dataset(lake).to_table(with_row_id=True).sort_by("_rowid")


def files(lake: ailake.Lake) -> list[int]:
    return [len(one.data_files()) for one in dataset(lake).get_fragments()]


def of(report: CompactionReport, name: str = "episodic") -> CompactedTable:
    return next(table for table in report.tables if table.table == name)


def run(lake: ailake.Lake, *, dry_run: bool = False, **policy: Any) -> CompactedTable:
    job = CompactionJob(lake, policy=CompactionPolicy(**policy))
    return of(job.run(dry_run=dry_run))


def test_small_fragments_become_one_and_nothing_else_changes(lake: ailake.Lake) -> None:
    memory = fill(lake, 12)
    before = content(lake)
    hits = [hit.id for hit in memory.recall("tea 7", limit=9, touch=False, now=NOW)]
    plan, report = run(lake, dry_run=True), run(lake)
    assert len(plan.rewrites[0].fragments) == plan.fragments_before == 12
    assert (report.rewrites, report.fragments_after) == (plan.rewrites, plan.fragments_after)
    assert (plan.fragments_after, files(lake)) == (1, [1])
    assert content(lake).equals(before)
    assert report.data_bytes_after < report.data_bytes_before
    assert [hit.id for hit in memory.recall("tea 7", limit=9, touch=False, now=NOW)] == hits
    assert run(lake).rewrites == ()
    assert lake.verify(now=NOW) == ()


def test_up_to_the_target(lake: ailake.Lake) -> None:
    fill(lake, 10)
    report = run(lake, target_rows=60)
    assert [one.rows for one in report.rewrites] == [60, 60, 60]
    assert [one.physical_rows for one in dataset(lake).get_fragments()] == [20, 60, 60, 60]


def test_a_lone_fragment_without_deletions_is_folded_into_one_file(lake: ailake.Lake) -> None:
    """The engine's own compaction leaves it alone; told by the files."""
    memory = fill(lake, 1)
    memory.recall("tea", limit=5, now=NOW)
    MemoryDecayJob(lake).run(NOW + DAY)
    MemoryDecayJob(lake).run(NOW + 2 * DAY)
    before, count = content(lake), files(lake)[0]
    assert count == 3
    dataset(lake).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert files(lake) == [count]
    assert run(lake, max_files=count).rewrites == ()
    (rewrite,) = run(lake, max_files=count - 1).rewrites
    assert (rewrite.reason, rewrite.files) == ("files", count)
    assert files(lake) == [1]
    assert content(lake).equals(before)
    (fragment,) = dataset(lake).get_fragments()
    assert -2 not in fragment.data_files()[0].fields


def test_deleted_rows_are_left_out(lake: ailake.Lake) -> None:
    memory = fill(lake, 1, rows=100)
    memory.forget([f"m0-{n}" for n in range(10)])
    assert run(lake).rewrites == ()
    memory.forget("m0-10")
    report = run(lake)
    assert (report.rewrites[0].reason, report.rewrites[0].deleted) == ("deletions", 11)
    (fragment,) = dataset(lake).get_fragments()
    assert (fragment.physical_rows, fragment.num_deletions) == (89, 0)
    assert memory.count(now=NOW) == 89


def test_indexes_are_made_and_brought_up_to_date(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lake, 2)
    lake.table("episodic").drop_index("state_idx")
    lake.store.keep_indexes_current()
    fill(lake, 2)
    monkeypatch.setattr(indexing, "MOST_BEHIND", 10)
    lake.table("episodic").drop_index("user_id_idx")
    plan = run(lake, dry_run=True)
    assert {"user_id_idx", "chunk_text_idx"} <= set(plan.indexes)
    assert run(lake).indexes == plan.indexes
    assert all(one.coverage.unindexed_rows == 0 for one in indexes_of(dataset(lake)))
    assert run(lake).indexes == ()


def test_a_merge_keeps_what_indexes_know(lake: ailake.Lake) -> None:
    fill(lake, 3)
    lake.store.keep_indexes_current()
    fill(lake, 2, rows=600)
    lake.store.keep_indexes_current()
    before = [(one.name, one.coverage.indexed_rows) for one in indexes_of(dataset(lake))]
    run(lake)
    after = [(one.name, one.coverage.indexed_rows) for one in indexes_of(dataset(lake))]
    assert after == before


def test_old_versions_go_tagged_and_young_ones_stay(lake: ailake.Lake) -> None:
    memory = fill(lake, 2)
    lake.tag("then")
    tagged = lake.store.episodic.version
    memory.forget("m0-0")
    fill(lake, 1)
    made = {one.version: one.created_at for one in lake.versions("episodic")}
    job = CompactionJob(lake, policy=CompactionPolicy(keep_versions=2 * DAY))
    assert of(job.run()).versions_removed == 0
    assert set(made) <= {one.version for one in lake.versions("episodic")}
    dry = of(job.run(utc_now() + 3 * DAY, dry_run=True))
    latest = lake.store.episodic.version
    report = of(job.run(utc_now() + 3 * DAY))
    assert report.versions_removed == dry.versions_removed > 5
    assert report.version_bytes_removed == dry.version_bytes_removed > 0
    assert [one.version for one in lake.versions("episodic")] == [tagged, latest]
    assert report.bytes_after < report.bytes_before
    assert lake.at("then").memory("a").count(now=NOW) == 40


def test_orphans_are_swept_when_they_are_old(lake: ailake.Lake, tmp_path: Path) -> None:
    fill(lake, 1)
    table = tmp_path / "lake" / "episodic.lance"
    old = ["data/left.lance", "data/ailake-left.lance", "_indices/left/part.lance"]
    kept = ["data/young.lance", "_versions/no.manifest", "_transactions/left.txn"]
    for name in old + kept:
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(b"left")
    long_ago = (utc_now() - 2 * DAY).timestamp()
    for path in table.rglob("*"):
        # What is in use is as old.
        if path.name != "young.lance":
            os.utime(path, (long_ago, long_ago))
    (table / "_versions/no.manifest").unlink()
    job = CompactionJob(lake)
    # A clock that is told is not that of the files: what is young by them may be in the making.
    later = utc_now() + 6 * DAY
    assert list(of(job.run(later, dry_run=True)).orphans_removed) == sorted(old)
    assert list(of(job.run(later)).orphans_removed) == sorted(old)
    assert not any((table / name).exists() for name in old)
    assert (table / "data/young.lance").exists()
    assert (table / "_transactions/left.txn").exists()
    assert of(job.run()).orphans_removed == ()
    assert lake.memory("a").count(now=NOW) == 20


def test_a_dry_run_writes_nothing(lake: ailake.Lake, tmp_path: Path) -> None:
    fill(lake, 3)
    before = sorted(path for path in (tmp_path / "lake").rglob("*"))
    report = CompactionJob(lake).run(utc_now() + 30 * DAY, dry_run=True)
    assert report.dry_run
    assert of(report).versions_removed > 0
    assert sorted(path for path in (tmp_path / "lake").rglob("*")) == before


def test_all_tables(lake: ailake.Lake) -> None:
    memory = fill(lake, 1)
    for _ in range(3):
        memory.touch("m0-1", now=NOW)
    report = CompactionJob(lake).run()
    assert of(report, "accesses").fragments_before == 3
    assert of(report, "accesses").fragments_after == 1
    assert memory.get("m0-1", now=NOW).access_count == 3
    MemoryDecayJob(lake).run(NOW)
    assert memory.get("m0-1", now=NOW).access_count == 3


def between(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, change: Any
) -> tuple[CompactedTable, int]:
    """Run the job; call ``change`` once, before its first commit."""
    guard = columns.guard
    calls: list[int] = []

    def late(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            change()
        guard(*args)

    monkeypatch.setattr(compaction, "guard", late)
    return of(CompactionJob(lake).run()), len(calls)


@pytest.mark.parametrize("how", ["append", "forget", "update", "decay"])
def test_writers_beside_it(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    memory = fill(lake, 4)
    changes: dict[str, Any] = {
        "append": lambda: memory.remember_many([{"text": "new"}], now=NOW),
        "forget": lambda: memory.forget("m2-3"),
        "update": lambda: memory.update("m2-3", importance=0.9, now=NOW),
        "decay": lambda: lake.table("episodic").update(
            where="true", values_sql={"recency_weight": "cast(0.5 as float)"}
        ),
    }
    report, attempts = between(lake, monkeypatch, changes[how])
    assert memory.count(now=NOW) == 80 + {"append": 1, "forget": -1}.get(how, 0)
    if how == "append":
        assert (attempts, report.left) == (1, 0)
    if how == "update":
        assert memory.get("m2-3", now=NOW).importance_score == 0.9
    if how == "decay":
        assert set(content(lake)["recency_weight"].to_pylist()) == {0.5}
    assert lake.verify(now=NOW) == ()


def test_a_cleaned_up_delete_is_not_undone(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the version that it was made in is gone."""
    memory = fill(lake, 4)
    lake.tag("kept")

    def change() -> None:
        memory.forget("m2-3")
        memory.remember_many([{"text": "and one more version"}], now=NOW)
        dataset(lake).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

    _, attempts = between(lake, monkeypatch, change)
    assert attempts == 2
    assert memory.count(now=NOW) == 80
    assert not memory.count({"chunk_id": "m2-3"}, now=NOW)


def test_fragments_that_others_have_merged_are_left(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fill(lake, 4)
    before = content(lake)
    report, _ = between(lake, monkeypatch, lake.store.episodic.compact)
    assert (report.rewrites, report.left) == ((), 1)
    assert content(lake).equals(before)
    assert memory.count(now=NOW) == 80


WORKER = """
import sys
import ailake
from ailake.maintenance import MemoryDecayJob
uri, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with ailake.connect(uri, judge_rules=ailake.JudgeRules(retention=None)) as lake:
    memory = lake.memory("a")
    for n in range(count):
        outcome = memory.remember(f"{name} writes {n}", id=f"{name}{n}")
        if n % 5 == 0:
            memory.remember_many([{"text": f"{name} batch {n} {i}"} for i in range(3)])
        assert memory.recall(f"{name} {n}", limit=2)
        if n % 4 == 3:
            memory.forget(f"{name}{n}")
        if n % 10 == 9:
            MemoryDecayJob(lake).run()
"""


@pytest.mark.slow
def test_beside_writers_recalls_and_decay_in_other_processes(tmp_path: Path) -> None:
    """Nothing is lost, brought back or counted twice while it runs again and again."""
    count = 40
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        fill(lake, 5)
        command = [sys.executable, "-c", WORKER, str(tmp_path)]
        pipe = subprocess.PIPE
        workers = [
            subprocess.Popen([*command, name, str(count)], stderr=pipe, text=True)
            for name in ("x", "y")
        ]
        job = CompactionJob(lake, policy=CompactionPolicy(keep_versions=timedelta(minutes=1)))
        runs = removed = 0
        with ending(*workers):
            while any(worker.poll() is None for worker in workers):
                # Whoever reads has a version of the last seconds in hand.
                removed += of(job.run(utc_now() + timedelta(seconds=55))).versions_removed
                runs += 1
            for worker in workers:
                errors = worker.communicate()[1]
                assert worker.returncode == 0, errors
        lake.flush()
        ids = {one.id for one in lake.memory("a").list(limit=1_000)}
        single = {f"{name}{n}" for name in "xy" for n in range(count) if n % 4 != 3}
        assert single < ids
        assert len(ids) == 100 + len(single) + 2 * 8 * 3
        assert runs > 2
        assert removed > 20
        # What others met while it was forgotten is left, and goes with the next pruning.
        ForgetJob(lake).run()
        accesses = lake.scan("accesses").collect()
        assert accesses["chunk_id"].is_in(sorted(ids)).all()
        MemoryDecayJob(lake).run()
        stored = dataset(lake).to_table(columns=["access_count"])["access_count"].to_pylist()
        assert sum(stored) == accesses["hits"].sum() > count
        assert lake.verify() == ()


def test_bad_options(lake: ailake.Lake) -> None:
    with pytest.raises(InvalidInputError, match="policy: got 5, wanted a CompactionPolicy"):
        CompactionJob(lake, policy=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"now: got .* timezone-aware"):
        CompactionJob(lake).run(NOW.replace(tzinfo=None))


def test_an_empty_lake(lake: ailake.Lake) -> None:
    report = CompactionJob(lake).run()
    assert [one.table for one in report.tables] == list(TABLES)
    assert all(one.version_after == one.version_before for one in report.tables)
