"""The ``job_runs`` table: one row per run of a job, appended and never changed."""

from typing import TYPE_CHECKING

from ailake.core.job_runs import JobRun, run_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

_CREATED = "_row_created_at_version"


def append_run(store: "Store", run: JobRun) -> None:
    """Record a run that has ended, in one commit, synced to disk."""
    table = store.tables["job_runs"]
    rows = run_rows([run], dim=store.embedder.dim, embedder_id=store.embedder.id)
    table.sync(table.append(rows))
    table.tidy()
