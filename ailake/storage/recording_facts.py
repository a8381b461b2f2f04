"""Which rows of ``assertions`` the ledger does not tell of yet, and what is to be recorded of them.

Rows are appended and never changed, and the engine numbers them in the order of their commits: the
largest number that an entry holds is how far the ledger has come. So the entries themselves say
it, in the commit that adds them, and rows that are removed leave no gap to be filled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.recording import Records
from ailake.core.recording_facts import FACT_COLUMNS, fact_records, subjects_of
from ailake.storage.ledger import latest_of
from ailake.storage.recording_rows import new_ids, told_in
from ailake.storage.table import Signature, fragments_by_signature, payload


@dataclass(frozen=True, slots=True)
class FactsSeen:
    """How far an open lake has looked through ``assertions``.

    Attributes:
        version: The version that nothing is left to tell of; -1: none.
        fragments: Its fragments.
        looked_to: The last row that was looked at; -1: none.
    """

    version: int = -1
    fragments: frozenset[Signature] = frozenset()
    looked_to: int = -1

    def share(
        self, dataset: lance.LanceDataset, told_row: int, *, most: int
    ) -> tuple[pa.Table | None, "FactsSeen"]:
        """Return the next rows to record, and how far was looked once they are.

        Args:
            dataset: A version of ``assertions``.
            told_row: The last row that the ledger tells of; -1: of none.
            most: So many rows at most.
        """
        version = int(dataset.version)
        if version == self.version:
            return None, self
        looked_to = max(self.looked_to, told_row)
        present = fragments_by_signature(dataset, FACT_COLUMNS)
        fresh = [one for key, one in present.items() if key not in self.fragments]
        newer = _newer(dataset, fresh, looked_to)
        if len(newer) > most:
            seen = replace(self, looked_to=int(newer[most - 1]))
            return payload(dataset, newer[:most], FACT_COLUMNS), seen
        end = int(newer[-1]) if len(newer) else looked_to
        seen = FactsSeen(version, frozenset(present), end)
        return payload(dataset, newer, FACT_COLUMNS) if len(newer) else None, seen


def _newer(
    dataset: lance.LanceDataset, fragments: Sequence[lance.LanceFragment], looked_to: int
) -> NDArray[np.uint64]:
    if not fragments:
        return np.zeros(0, np.uint64)
    scanner = dataset.scanner(columns=[], fragments=list(fragments), with_row_id=True)
    found = scanner.to_table()["_rowid"].to_numpy()
    return np.sort(found[found.astype(np.int64) > looked_to])


def facts_told(
    ledger: lance.LanceDataset, rows: pa.Table, made: pa.Table, *, source_version: int
) -> Records:
    """Return what is to be recorded of rows of ``assertions``.

    Args:
        ledger: The version of the ledger that is added to.
        rows: The rows.
        made: Entries that the same commit adds before.
        source_version: The version of ``episodic`` that is told up to.
    """
    said, sources = subjects_of(rows)
    memories = {**latest_of(ledger, sources), **told_in(made, [one for _, one in sources])}
    known = latest_of(ledger, said, of_facts=True)
    return fact_records(rows, known, memories, new_ids(), source_version=source_version)
