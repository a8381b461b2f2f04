"""The table job_runs: one row per run, whoever starts it, and nothing of a memory in it."""

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ran import runs, runs_of

import ailake
from ailake import RecencyConfig, Scope, ScoringPolicy
from ailake.core.job_runs import JobRun, RunStatus, error_text, figures, run_rows
from ailake.core.records import Decision
from ailake.core.schema import arrow_schema
from ailake.embed import HashingEmbedder
from ailake.maintenance import (
    CompactionJob,
    ForgetJob,
    IndexJob,
    MaintainJob,
    MemoryDecayJob,
    ReembedJob,
)
from ailake.maintenance.runs import record_skipped
from ailake.storage.job_runs import append_run
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PRIVATE = "xylophone-9f3a"


def test_every_job_leaves_a_row(lake: ailake.Lake) -> None:
    jobs = {
        "decay": MemoryDecayJob(lake, recency=RecencyConfig.MONTHLY_DECAY),
        "prune": ForgetJob(lake, keep=5, scoring=ScoringPolicy.SEED),
        "compact": CompactionJob(lake),
        "index": IndexJob(lake),
    }
    lake.memory("a").remember("tea", now=NOW)
    for job in jobs.values():
        job.run(NOW)  # type: ignore[attr-defined]
    found = runs(lake)
    assert [run.job for run in found] == list(jobs)
    assert {run.status for run in found} == {RunStatus.DONE}
    assert len({run.id for run in found}) == 4
    decay, prune, compact, index = found
    assert decay.options["recency"]["lambda"] == RecencyConfig.MONTHLY_DECAY.lambda_
    assert decay.report["rows"] == 1
    assert decay.report["now"] == NOW.isoformat()
    assert prune.options["retention"]["keep"] == 5
    assert prune.report["looked_at"] == 1
    assert compact.report["tables"][-1]["table"] == "episodic"
    assert index.report["tables"][0]["action"] == "none"
    assert all(run.started_at <= run.finished_at and run.pid and run.host for run in found)


def test_a_pass_is_one_run_and_a_dry_run_is_none(lake: ailake.Lake) -> None:
    before = lake.table("job_runs").version
    MaintainJob(lake).run(NOW, dry_run=True)
    assert lake.table("job_runs").version == before
    MaintainJob(lake).run(NOW)
    (run,) = runs(lake)
    assert (run.job, run.status) == ("maintain", RunStatus.DONE)
    assert set(run.options) == {
        "recency",
        "retention",
        "in_some_scopes",
        "compaction",
        "indexes",
        "rebuild",
    }
    assert set(run.report) == {
        "now",
        "decay",
        "prune",
        "compaction",
        "indexes",
        "seconds",
        "dry_run",
    }


def test_what_is_refused_leaves_no_row(lake: ailake.Lake) -> None:
    with pytest.raises(ailake.InvalidInputError):
        MemoryDecayJob(lake).run(NOW.replace(tzinfo=None))
    assert runs(lake) == []


def test_a_failure_leaves_a_row_and_is_raised(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lake.store.journal, "flush", fail)
    with pytest.raises(OSError, match="No space"):
        MaintainJob(lake).run(NOW)
    monkeypatch.undo()
    (run,) = runs(lake)
    assert (run.job, run.status, run.report) == ("maintain", RunStatus.FAILED, {})
    assert run.error == "OSError: [Errno 28] No space left on device"
    (told,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    assert vars(told)["job"] == "maintain"
    assert vars(told)["status"] == "failed"
    assert vars(told)["run_id"] == run.id


def test_a_row_that_cannot_be_written_does_not_undo_the_run(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append = Table.append

    def failing(self: Table, *args: object, **options: object) -> int:
        if self.name == "job_runs":
            raise OSError(28, "No space left on device")
        return append(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "append", failing)
    assert MemoryDecayJob(lake).run(NOW).rows == 0
    assert "the run of decay could not be recorded" in caplog.text
    monkeypatch.undo()
    assert runs(lake) == []


def test_nothing_of_a_memory_is_kept(lake: ailake.Lake) -> None:
    memory = lake.memory(f"agent-{PRIVATE}", user_id=f"user-{PRIVATE}")
    for n in range(3):
        memory.remember(f"{PRIVATE} {n}", id=f"id-{PRIVATE}-{n}", expires_at=NOW, now=NOW - DAY)
    gone = ForgetJob(lake, scopes=[memory.scope]).run(NOW)
    assert len(gone.ids) == 3
    MaintainJob(lake).run(NOW)
    first, second = runs(lake)
    assert (first.report["ids"], first.report["scopes"]) == (3, 1)
    assert first.options["in_some_scopes"] is True
    assert PRIVATE not in lake.scan("job_runs").collect().write_ndjson()
    assert second.report["prune"]["ids"] == []


@dataclass(frozen=True)
class Case:
    """What a report may come to hold."""

    scope: Scope
    text: str
    decision: Decision
    table: str
    took: timedelta


def test_figures_keep_no_string_that_could_be_of_a_memory() -> None:
    case = Case(Scope(PRIVATE), PRIVATE, Decision.SKIP, "facts", DAY)
    told: dict[str, object] = {
        "one": case,
        "many": [case, case],
        "ids": (PRIVATE,),
        "by": {PRIVATE: 1},
    }
    told["why"] = {Decision.SKIP: 2}
    kept = figures(
        {**told, "kind": "IVF_SQ", "none": None, "text": PRIVATE, "lambda_": 0.5, "sizes": (1, 2)}
    )
    assert kept == {
        "one": {"decision": "skip", "table": "facts", "took": 86_400.0},
        "many": 2,
        "ids": 1,
        "by": 1,
        "why": {"skip": 2},
        "kind": "IVF_SQ",
        "none": None,
        "lambda": 0.5,
        "sizes": [1, 2],
    }
    assert figures(PRIVATE) == {}


def test_the_message_of_a_stranger_is_not_kept() -> None:
    assert error_text(KeyError(PRIVATE)) == "KeyError"
    assert error_text(ailake.NotFoundError(PRIVATE)) == "NotFoundError"
    assert error_text(ailake.ConflictError("x" * 900)) == f"ConflictError: {'x' * 485}"
    assert error_text(OSError(28, "No space left")) == "OSError: [Errno 28] No space left"
    for kind in (RuntimeError, OSError):
        assert error_text(kind(PRIVATE)) == kind.__name__
        # A worker's error has lost the frames of its model on the way.
        for module in ("somebody.model", "ailake.maintenance.distributed"):
            assert error_text(raised_in(module, kind(PRIVATE))) == kind.__name__
        told = error_text(raised_in("lance.dataset", kind("lance error")))
        assert told == f"{kind.__name__}: lance error"
    refused = ailake.ProviderError("openai:m: status 403", told=PRIVATE)
    assert error_text(refused) == "ProviderError: openai:m: status 403"
    assert str(refused) == f"openai:m: status 403: {PRIVATE}"


def raised_in(module: str, error: Exception) -> Exception:
    """Return an error that code of a module has raised."""
    code = {"__name__": module, "error": error}
    with pytest.raises(type(error)) as raised:
        exec("raise error", code)  # noqa: S102 (whose code it is, is what counts)
    return raised.value


def test_what_a_model_says_of_a_memory_is_not_kept(lake: ailake.Lake) -> None:
    class Quoting(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            raise RuntimeError(f"could not tokenize {texts[0]!r}")

    lake.memory("a").remember(PRIVATE)
    with pytest.raises(RuntimeError, match=PRIVATE):
        ReembedJob(lake, embedder=Quoting(24)).run(NOW)
    (row,) = lake.scan("job_runs").collect().to_dicts()
    assert (row["status"], row["error"]) == ("failed", "RuntimeError")


instants = st.datetimes(
    min_value=NOW.replace(year=1980, tzinfo=None),
    max_value=NOW.replace(year=2200, tzinfo=None),
    timezones=st.just(UTC),
)
texts = st.text('aé喝\n"{', max_size=9)


@settings(max_examples=25)
@given(
    st.builds(
        JobRun,
        id=texts,
        job=texts,
        status=st.sampled_from(RunStatus),
        started_at=instants,
        finished_at=instants,
        options=st.dictionaries(texts, st.none() | st.integers() | st.floats(allow_nan=False)),
        error=texts,
        pid=st.integers(0, 2**32 - 1),
    )
)
def test_a_run_comes_back_as_it_was(run: JobRun) -> None:
    rows = run_rows([run], dim=4, embedder_id="e")
    assert rows.schema == arrow_schema("job_runs", dim=4, embedder_id="e")
    assert runs_of(rows) == [run]


def test_runs_stay_through_compaction(lake: ailake.Lake) -> None:
    record_skipped(lake.store, "decay", {}, why="another job is running")
    (first,) = runs(lake)
    assert (first.status, first.error) == (RunStatus.SKIPPED, "another job is running")
    assert first.seconds >= 0
    for n in range(3):
        append_run(lake.store, JobRun(f"r{n}", "x", RunStatus.DONE, NOW, NOW))
    lake.store.tables["job_runs"].compact()
    assert [run.id for run in runs(lake)] == ["r0", "r1", "r2", first.id]


def test_a_lake_without_the_table_gets_it(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        lake.memory("a").remember("tea")
        lake.tag("before")
    shutil.rmtree(tmp_path / "job_runs.lance")
    with ailake.connect(tmp_path) as lake:
        MemoryDecayJob(lake).run(NOW)
        assert len(runs(lake)) == 1
        assert lake.at("before").scan("job_runs").collect().is_empty()
        assert json.loads(lake.scan("job_runs").collect()["report"][0])["rows"] == 1
        memory = lake.memory("a")
        memory.forget(where={"agent_id": "a"})
        assert len(runs(lake)) == 1
