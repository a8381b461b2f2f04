"""What the ledger says of runs of jobs: one entry for each row of ``job_runs``. Pure.

Runs belong to no scope: their entries are in the chain of the lake itself. docs/ledger.md describes
every byte that is hashed.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import pyarrow as pa

from ailake.core.chain import BrokenEntry, LedgerEntry, LedgerEvent, LedgerRecord
from ailake.core.job_runs import COLUMNS
from ailake.core.ledger_rows import payload_hashes
from ailake.core.recording import Records
from ailake.core.records import LakeScope
from ailake.core.rows import to_pylist

RUN_TAG = b"ailake-run"

# All of a run: a row is never changed.
RUN_COLUMNS = COLUMNS

# Of any size, and so hashed for themselves.
_OBJECTS = ("options", "report")


def run_hashes(rows: pa.Table) -> list[str]:
    """Return the SHA-256 of each run, 64 hexadecimal digits.

    Args:
        rows: Rows with ``RUN_COLUMNS``.
    """
    for name in _OBJECTS:
        hashes = [sha256(text.encode()).digest() for text in rows[name].to_pylist()]
        column = pa.array(hashes, pa.binary(32))
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return [one.hex() for one in payload_hashes(rows, columns=RUN_COLUMNS, tag=RUN_TAG)]


def run_records(rows: pa.Table, ids: Iterator[str], *, source_version: int) -> Records:
    """Return what is to be recorded of rows of ``job_runs``.

    Args:
        rows: Rows with ``RUN_COLUMNS`` and ``_rowid``, in the order of their writing.
        ids: Ids for the entries.
        source_version: The version of ``episodic`` that is told up to.
    """
    records = [
        LedgerRecord(
            id=next(ids),
            event=LedgerEvent.JOB_RUN,
            subject_id=row["run_id"],
            payload_hash=own,
            timestamp=row["finished_at"],
            source_version=source_version,
            source_row=row["_rowid"],
        )
        for row, own in zip(to_pylist(rows), run_hashes(rows), strict=True)
    ]
    return {LakeScope(): records} if records else {}


def broken_run(
    entries: Iterable[LedgerEntry | BrokenEntry], hashes: Mapping[int, str]
) -> BrokenEntry | None:
    """Return the first entry whose run is not in ``job_runs`` as it was, or None where all are.

    Args:
        entries: The chain of the lake itself, by their sequence; what can't be read is left out.
        hashes: Of each run that is there, by its row.
    """
    for entry in entries:
        if isinstance(entry, BrokenEntry):
            continue
        present = hashes.get(entry.source_row)
        if entry.event == LedgerEvent.JOB_RUN and present != entry.payload_hash:
            reason = "its run is gone" if present is None else "its run was changed"
            return BrokenEntry(entry.scope, entry.sequence, entry.id, f"{reason} in job_runs")
    return None
