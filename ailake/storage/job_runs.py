"""The ``job_runs`` table: one row per run of a job, appended and never changed."""

from typing import TYPE_CHECKING

from ailake.core.filters import TRUE
from ailake.core.job_runs import COLUMNS, JobRun, run_rows, runs_of
from ailake.storage.retries import reading_again
from ailake.storage.table import read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

_CREATED = "_row_created_at_version"


def append_run(store: "Store", run: JobRun) -> None:
    """Record a run that has ended, in one commit, synced to disk."""
    table = store.tables["job_runs"]
    rows = run_rows([run], dim=store.embedder.dim, embedder_id=store.embedder.id)
    table.sync(table.append(rows))
    table.tidy()


def runs_since(store: "Store", version: int = 0) -> tuple[list[JobRun], int]:
    """Return the runs that were recorded after a version of ``job_runs``, and the latest version.

    Rows keep the version that they were recorded in through every compaction: who keeps the
    version returned gets each run once.

    Args:
        store: The lake.
        version: What an earlier call returned; 0 for all runs.
    """
    return reading_again(lambda: _since(store, version))


def _since(store: "Store", version: int) -> tuple[list[JobRun], int]:
    dataset = store.tables["job_runs"].snapshot()
    rows = read_rows(dataset, (*COLUMNS, _CREATED), TRUE)
    created = rows[_CREATED].to_numpy()
    return runs_of(rows.drop_columns(_CREATED).filter(created > version)), int(dataset.version)
