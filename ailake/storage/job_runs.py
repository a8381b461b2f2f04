"""The ``job_runs`` table: one row per run of a job, appended and never changed."""

from typing import TYPE_CHECKING

from ailake.core.job_runs import JobRun, run_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

JOB_RUNS = "job_runs"


def append_run(store: "Store", run: JobRun) -> None:
    """Record a run that has ended, in one commit, synced to disk; the ledger follows.

    Where it can't, whoever next brings the ledger up to date records the run.
    """
    table = store.tables[JOB_RUNS]
    rows = run_rows([run], dim=store.embedder.dim, embedder_id=store.embedder.id)
    table.sync(table.append(rows))
    table.tidy()
    store.record_if_possible()
