"""Which rows of ``episodic`` the ledger does not tell of yet, so many at a time.

A share is all that some versions have written. Where one version alone has added more than that, it
is told in parts, by the numbers of its rows: their entries claim the version before, and only those
of the last part the version itself. So the entries say how far it has come, whoever dies in
between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.ledger_rows import PAYLOAD_COLUMNS, payload_hashes, scopes_of
from ailake.core.recording import CHANGED, CREATED, in_order
from ailake.storage.ledger import latest_of

READ = (*PAYLOAD_COLUMNS, "updated_at", CREATED, CHANGED)


@dataclass(frozen=True, slots=True)
class Since:
    """How far the ledger tells of ``episodic``.

    Attributes:
        version: The version that all is told up to.
        row: Of later versions' new rows the last one that is told, too; -1: none.
    """

    version: int
    row: int = -1

    def is_new(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Tell which rows it says nothing of, because they are newer."""
        later = rows[CREATED].to_numpy() > self.version
        return np.asarray(later & (rows["_rowid"].to_numpy().astype(np.int64) > self.row))

    def is_told(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Tell which of the newer rows it tells of as they are."""
        same = rows[CREATED].to_numpy() == rows[CHANGED].to_numpy()
        return np.asarray((rows[CREATED].to_numpy() > self.version) & same & ~self.is_new(rows))

    @property
    def untold(self) -> str:
        """The engine's filter for all but those."""
        told = f"{CREATED} > {self.version:d} AND {CREATED} = {CHANGED} AND _rowid <= {self.row:d}"
        return f"NOT ({told})"


def next_share(
    episodic: lance.LanceDataset,
    ledger: lance.LanceDataset,
    fragments: Sequence[lance.LanceFragment],
    *,
    since: Since,
    most: int,
) -> tuple[pa.Table | None, int]:
    """Return the next rows to record, and the version that all is told up to then.

    Args:
        episodic: A version of it.
        ledger: What tells of it.
        fragments: Those that may have rows which it does not tell of.
        since: How far it tells.
        most: So many new rows at most.
    """
    latest = int(episodic.version)
    if not fragments or since.version >= latest:
        return None, max(latest, since.version)
    # Written by versions and rows that are numbers of our own.
    newer = f"{CHANGED} > {since.version:d}"
    options: dict[str, Any] = {"fragments": list(fragments), "with_row_id": True}
    waiting = episodic.scanner(columns=[CREATED, CHANGED], filter=newer, **options).to_table()
    is_told = since.is_told(waiting)
    if is_told.any():
        waiting = waiting.filter(pa.array(~is_told))
        newer += f" AND {since.untold}"
    if not waiting.num_rows:
        return None, latest
    versions = waiting[CHANGED].to_numpy()
    if len(versions) > most:
        ordered = np.sort(versions)
        latest = int(max(ordered[0], ordered[most] - 1))
        newer += f" AND {CHANGED} <= {latest:d}"
    options |= {"columns": list(READ), "filter": newer}
    if int((versions <= latest).sum()) <= most:
        return in_order(episodic.scanner(**options).to_table()), latest
    new = np.sort(waiting["_rowid"].to_numpy()[since.is_new(waiting) & (versions <= latest)])
    if len(new) > most:
        part = f"{CREATED} > {since.version:d} AND _rowid <= {new[most - 1]:d}"
        after = f" AND _rowid > {since.row:d}" if since.row >= 0 else ""
        options["filter"] = f"{newer} AND {part}{after}"
        return episodic.scanner(**options).to_table().sort_by("_rowid"), since.version
    # Most are as they were: only the others are kept in memory.
    batches = episodic.scanner(**options, batch_size=most).to_batches()
    parts = [_untold(ledger, pa.Table.from_batches([batch]), since) for batch in batches]
    return in_order(pa.concat_tables(parts)), latest


def _untold(ledger: lance.LanceDataset, rows: pa.Table, since: Since) -> pa.Table:
    """Return those of the rows that are new, or not as the ledger says."""
    is_new = since.is_new(rows)
    places = np.flatnonzero(~is_new)
    old = rows.take(pa.array(places))
    if not old.num_rows:
        return rows
    scopes, codes = scopes_of(old)
    subjects = [
        (scopes[code], name)
        for code, name in zip(codes.tolist(), old["chunk_id"].to_pylist(), strict=True)
    ]
    latest = latest_of(ledger, subjects)
    for place, subject, own in zip(places, subjects, payload_hashes(old), strict=True):
        told = latest.get(subject)
        is_new[place] = told is None or told.payload_hash != own.hex()
    return rows.filter(pa.array(is_new))
