"""Runs of jobs as their rows tell them, for the tests that look."""

import json

import pyarrow as pa

import ailake
from ailake.core.job_runs import JobRun, RunStatus
from ailake.core.rows import instant_of


def runs(lake: ailake.Lake) -> list[JobRun]:
    """Return all runs of a lake, by their beginning."""
    return runs_of(lake.store.tables["job_runs"].snapshot().to_table())


def runs_of(rows: pa.Table) -> list[JobRun]:
    """Return the runs of rows of ``job_runs``, by their beginning."""
    instants = {
        name: rows[name].cast(pa.int64()).to_pylist() for name in ("started_at", "finished_at")
    }
    others = rows.drop_columns(list(instants)).to_pylist()
    runs = [
        JobRun(
            id=row["run_id"],
            job=row["job"],
            status=RunStatus(row["status"]),
            started_at=instant_of(started),
            finished_at=instant_of(finished),
            options=json.loads(row["options"]),
            report=json.loads(row["report"]),
            error=row["error"],
            host=row["host"],
            pid=row["pid"],
        )
        for row, started, finished in zip(others, *instants.values(), strict=True)
    ]
    return sorted(runs, key=lambda run: (run.started_at, run.id))
