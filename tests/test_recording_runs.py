"""What the ledger says of runs of jobs: each once, in a chain of the lake itself, as they are."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from struct import pack
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import pytest
from kept import KEEP
from recorded import check

import ailake
from ailake.core.chain import LedgerEntry
from ailake.core.job_runs import JobRun, RunStatus, run_rows
from ailake.core.recording_runs import RUN_COLUMNS, RUN_TAG, run_hashes
from ailake.core.rows import nanoseconds
from ailake.errors import InvalidInputError, ScopeError
from ailake.maintenance import MemoryDecayJob, PurgeJob
from ailake.storage import recording, shared
from ailake.storage.exchange import exchange
from ailake.storage.job_runs import append_run
from ailake.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LAKE = ailake.LakeScope()


def ran(lake: ailake.Lake, *names: str, recorded: bool = True) -> None:
    """Append runs, as jobs do; unless recorded, as a process that dies at once."""
    with pytest.MonkeyPatch.context() as patch:
        if not recorded:
            patch.setattr(Store, "record_if_possible", lambda _: None)
        for n, name in enumerate(names):
            begun = NOW + timedelta(seconds=n)
            run = JobRun(name, "decay", RunStatus.DONE, begun, begun, {"a": 1}, {"rows": n})
            append_run(lake.store, replace(run, host="茶", pid=7))


def said(lake: ailake.Lake) -> list[LedgerEntry]:
    """Return the lake's own entries, and see that all chains hold."""
    assert lake.ledger().verify() == ()
    entries = lake.ledger().entries(LAKE)
    assert [entry.sequence for entry in entries] == list(range(len(entries)))
    return entries


def about(lake: ailake.Lake) -> list[str]:
    return [entry.subject_id for entry in said(lake)]


def test_what_is_said_of_a_run(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", id="t", now=NOW)
    MemoryDecayJob(lake).run(NOW, dry_run=True)
    assert said(lake) == []
    MemoryDecayJob(lake).run(NOW)
    (entry,) = said(lake)
    (row,) = lake.table("job_runs").to_lance().to_table(with_row_id=True).to_pylist()
    assert (entry.event, entry.subject_id, entry.source_row, entry.parents) == (
        "job_run",
        row["run_id"],
        row["_rowid"],
        (),
    )
    assert entry.timestamp == row["finished_at"].to_pydatetime()
    assert lake.ledger().entries(LAKE, subject_id=row["run_id"]) == [entry]
    head = lake.ledger().head(LAKE)
    assert head is not None
    assert (head.scope, head.sequence, head.hash) == (LAKE, 0, entry.hash)
    assert lake.ledger().verify(LAKE, head=head) == ()
    assert [one.event for one in check(lake)] == ["create"]


def test_a_run_is_recorded_with_it_and_not_twice(lake: ailake.Lake) -> None:
    lake.store.drainer.stop()
    MemoryDecayJob(lake).run(NOW)
    assert lake.table("ledger").count_rows() == 1
    version = lake.store.tables["ledger"].version
    assert len(said(lake)) == 1
    assert lake.store.tables["ledger"].version == version


def test_the_bytes_that_are_hashed(lake: ailake.Lake) -> None:
    ran(lake, "r1", "r2")
    rows = lake.table("job_runs").to_arrow().to_pylist()
    for row, entry in zip(rows, said(lake), strict=True):
        parts = [RUN_TAG, pack("<I", 1)]
        for name in RUN_COLUMNS:
            value: Any = row[name]
            if name in {"options", "report"}:
                told = sha256(value.encode()).digest()
            elif name == "pid":
                told = pack("<I", value)
            elif isinstance(value, str):
                told = value.encode()
            else:
                told = pack("<q", nanoseconds(value.to_pydatetime()))
            parts += [pack("<I", len(told)), told]
        assert entry.payload_hash == sha256(b"".join(parts)).hexdigest()


def test_no_memory_can_have_the_lakes_scope(lake: ailake.Lake) -> None:
    ran(lake, "r1")
    for call in (
        lambda: ailake.Scope(LAKE.agent_id),
        lambda: lake.memory(LAKE.agent_id),
        lambda: lake.facts(LAKE.agent_id),
    ):
        with pytest.raises(ScopeError):
            call()
    with pytest.raises(InvalidInputError):
        PurgeJob(lake, scope=LAKE)  # type: ignore[arg-type]
    assert lake.scopes() == []
    assert str(LAKE) == "the lake itself"


def test_each_value_of_a_run_is_hashed() -> None:
    run = JobRun("r", "decay", RunStatus.DONE, NOW, NOW, {"a": 1}, {"rows": 1})
    later = NOW + timedelta(microseconds=1)
    others = [
        replace(run, id="s"),
        replace(run, job="prune"),
        replace(run, status=RunStatus.FAILED),
        replace(run, started_at=later),
        replace(run, finished_at=later),
        replace(run, options={"a": 2}),
        replace(run, report={"rows": 2}),
        replace(run, error="e"),
        replace(run, host="h"),
        replace(run, pid=1),
    ]
    assert len(others) == len(RUN_COLUMNS)
    assert len(set(run_hashes(run_rows([run, *others], dim=4, embedder_id="e")))) == 11


def test_a_run_that_was_changed_is_found(lake: ailake.Lake) -> None:
    ran(lake, "r1", "r2")
    before = said(lake)
    lake.table("job_runs").update("run_id = 'r2'", {"report": "{}"})
    (broken,) = lake.ledger().verify()
    assert (broken.scope, broken.sequence, broken.id) == (LAKE, 1, before[1].id)
    assert broken.reason == "its run was changed in job_runs"
    assert lake.ledger().verify(LAKE) == (broken,)
    assert lake.ledger().entries(LAKE) == before


def test_a_run_that_was_removed_is_found(lake: ailake.Lake) -> None:
    ran(lake, "r1", "r2", "r3")
    before = said(lake)
    row = lake.table("job_runs").search().where("run_id = 'r2'").to_arrow()
    lake.table("job_runs").delete("run_id = 'r2'")
    (broken,) = lake.ledger().verify()
    assert (broken.sequence, broken.reason) == (1, "its run is gone in job_runs")
    lake.table("job_runs").add(row)  # Put back, it is another row, and the ledger says so.
    assert lake.ledger().verify() == (broken,)
    assert lake.ledger().entries(LAKE)[:-1] == before


def test_the_first_of_what_does_not_hold_is_named(lake: ailake.Lake) -> None:
    ran(lake, "r1", "r2", "r3")
    said(lake)
    lake.table("job_runs").update("run_id = 'r3'", {"job": "other"})
    assert lake.ledger().verify()[0].sequence == 2
    lake.table("ledger").update("subject_id = 'r2'", {"event": "purge"})
    assert lake.ledger().verify()[0].reason == "its hash is not that of its content"
    lake.table("job_runs").update("run_id = 'r1'", {"job": "other"})
    assert [one.sequence for one in lake.ledger().verify()] == [0]


def test_an_entry_that_was_moved_to_the_lakes_chain_is_found(lake: ailake.Lake) -> None:
    lake.memory("a").remember("tea", now=NOW)
    lake.flush()
    lake.table("ledger").update(values={"agent_id": ""})
    (broken,) = lake.ledger().verify()
    told = "its hash is not that of its content"
    assert (broken.scope, broken.sequence, broken.reason) == (LAKE, 0, told)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_who_dies_at_the_ledgers_commit_leaves_each_once(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    lake.store.drainer.stop()
    real = exchange

    class KilledError(BaseException):
        """Nothing of ours catches it."""

    def dying(*arguments: Any, **options: Any) -> None:
        if after:
            real(*arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(recording, "exchange", dying)
        with pytest.raises(KilledError):
            ran(lake, "r1")
    shared._shared.clear()
    for _ in range(2):
        with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
            assert about(heir) == ["r1"]


def test_a_lake_with_older_runs_gets_their_entries(lake: ailake.Lake) -> None:
    """In shares, and also where the table was merged in between."""
    lake.store.drainer.stop()
    lake.memory("a").remember("tea", now=NOW)
    ran(lake, *(f"r{n}" for n in range(7)), recorded=False)
    lake.store.tables["job_runs"].compact()
    assert lake.table("ledger").count_rows() == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "MAX_ROWS", 3)
        before = lake.store.tables["ledger"].version
        assert about(lake) == [f"r{n}" for n in range(7)]
    assert lake.store.tables["ledger"].version == before + 3
    ran(lake, "r7")
    lake.store.tables["job_runs"].compact()
    assert about(lake)[7:] == ["r7"]


def test_two_that_run_jobs_at_once(lake: ailake.Lake) -> None:
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        barrier = Barrier(2)

        def run(one: ailake.Lake, name: str) -> None:
            barrier.wait()
            ran(one, *(f"{name}{n}" for n in range(4)))

        both = [Thread(target=run, args=pair) for pair in ((lake, "x"), (other, "y"))]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert sorted(about(lake)) == [f"{name}{n}" for name in "xy" for n in range(4)]
        assert about(other) == about(lake)


def test_a_memory_with_the_id_of_a_run_is_purged_and_the_run_stays(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    """Its entry is no word about the memory, and holds nothing of it."""
    ran(lake, "t")
    memory.remember("tea", id="t", now=NOW)
    memory.remember("coffee", id="c", now=NOW)
    lake.tag("between")
    memory.forget("c", now=NOW)
    report = PurgeJob(lake, ids=["t"], confirm_tags=True).run(NOW)
    assert report.tags == ("between",)
    assert about(lake)[0] == "t"
    assert [entry.event for entry in lake.ledger().entries(memory.scope, subject_id="t")] == [
        "create",
        "forget_intent",
        "memory_forget",
        "purge",
    ]
    assert len(about(lake)) == 2


@pytest.mark.parametrize("how", ["tag", "backup"])
def test_the_past_and_a_copy_hold(tmp_path: Path, lake: ailake.Lake, how: str) -> None:
    ran(lake, "r1", "r2")
    opened: dict[str, Callable[[], ailake.Lake]] = {
        "tag": lambda: lake.at("then"),
        "backup": lambda: ailake.connect(tmp_path / "copy", judge_rules=KEEP),
    }
    lake.tag("then")
    if how == "backup":
        lake.backup(tmp_path / "copy")
    ran(lake, "r3")
    with opened[how]() as then:
        assert about(then) == ["r1", "r2"]
        if how == "backup":
            ran(then, "r4")
            assert about(then) == ["r1", "r2", "r4"]


def test_a_table_that_was_taken_away_is_found(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        ran(lake, "r1")
    shutil.rmtree(tmp_path / "job_runs.lance")
    with ailake.connect(tmp_path) as lake:
        (broken,) = lake.ledger().verify()
        assert (broken.scope, broken.sequence) == (LAKE, 0)
