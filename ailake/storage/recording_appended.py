"""Which rows of tables that only grow the ledger does not tell of yet: assertions, runs of jobs.

Rows are appended and never changed, and the engine numbers them in the order of their commits: the
largest number that an entry holds is how far the ledger has come. So the entries themselves say
it, in the commit that adds them, and rows that are removed leave no gap to be filled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.recording_facts import FACT_COLUMNS
from ailake.core.recording_runs import RUN_COLUMNS
from ailake.storage.table import Signature, fragments_by_signature, payload


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the ledger has come; -1: it tells of no row.

    Attributes:
        assertion: The last row of ``assertions`` that it tells of.
        run: That of ``job_runs``.
        memory: Of the rows of ``episodic`` that are newer than all that it tells of in full, the
            last one that it tells of, too.
    """

    assertion: int = -1
    run: int = -1
    memory: int = -1


@dataclass(frozen=True, slots=True)
class Appended:
    """Rows that are to be recorded.

    Attributes:
        facts: Of ``assertions``.
        runs: Of ``job_runs``.
    """

    facts: pa.Table | None = None
    runs: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class TableSeen:
    """How far an open lake has looked through one of the tables.

    Attributes:
        columns: What is read of it.
        version: The version that nothing is left to tell of; -1: none.
        fragments: Its fragments.
        looked_to: The last row that was looked at; -1: none.
    """

    columns: tuple[str, ...]
    version: int = -1
    fragments: frozenset[Signature] = frozenset()
    looked_to: int = -1

    def share(
        self, dataset: lance.LanceDataset, told_row: int, *, most: int
    ) -> tuple[pa.Table | None, "TableSeen"]:
        """Return the next rows to record, and how far was looked once they are.

        Args:
            dataset: A version of the table.
            told_row: The last row that the ledger tells of; -1: of none.
            most: So many rows at most.
        """
        version = int(dataset.version)
        if version == self.version:
            return None, self
        looked_to = max(self.looked_to, told_row)
        present = fragments_by_signature(dataset, self.columns)
        fresh = [one for key, one in present.items() if key not in self.fragments]
        newer = _newer(dataset, fresh, looked_to)
        if len(newer) > most:
            seen = replace(self, looked_to=int(newer[most - 1]))
            return payload(dataset, newer[:most], self.columns), seen
        end = int(newer[-1]) if len(newer) else looked_to
        seen = replace(self, version=version, fragments=frozenset(present), looked_to=end)
        return payload(dataset, newer, self.columns) if len(newer) else None, seen


@dataclass(frozen=True, slots=True)
class Seen:
    """How far an open lake has looked through all of them."""

    facts: TableSeen = field(default=TableSeen(FACT_COLUMNS))
    runs: TableSeen = field(default=TableSeen(RUN_COLUMNS))

    def share(
        self, assertions: lance.LanceDataset, runs: lance.LanceDataset, told: Reached, *, most: int
    ) -> tuple[Appended, "Seen"]:
        """Return the next rows to record, and how far was looked once they are.

        Args:
            assertions: A version of ``assertions``.
            runs: A version of ``job_runs``.
            told: How far the ledger has come.
            most: So many rows of each at most.
        """
        facts, facts_seen = self.facts.share(assertions, told.assertion, most=most)
        ran, runs_seen = self.runs.share(runs, told.run, most=most)
        return Appended(facts, ran), Seen(facts_seen, runs_seen)

    def is_through(self, assertions: lance.LanceDataset, runs: lance.LanceDataset) -> bool:
        """Tell whether nothing is left to tell of these versions."""
        seen = self.facts.version, self.runs.version
        return seen == (int(assertions.version), int(runs.version))


def _newer(
    dataset: lance.LanceDataset, fragments: Sequence[lance.LanceFragment], looked_to: int
) -> NDArray[np.uint64]:
    if not fragments:
        return np.zeros(0, np.uint64)
    scanner = dataset.scanner(columns=[], fragments=list(fragments), with_row_id=True)
    found = scanner.to_table()["_rowid"].to_numpy()
    return np.sort(found[found.astype(np.int64) > looked_to])
