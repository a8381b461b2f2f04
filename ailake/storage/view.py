"""The memories as one read sees them: a version of the table, and what is still in the log."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import PENDING_COLUMNS, Entries, counted_in
from ailake.core.filter_eval import matches
from ailake.core.filter_values import CheckedTexts
from ailake.core.filters import (
    METADATA,
    Not,
    Predicate,
    columns_of,
    conjunction,
    disjunction,
    parse_where,
)
from ailake.core.log import WaitingRow
from ailake.core.rows import to_pylist
from ailake.core.schema import filter_kinds
from ailake.storage.held import HeldScopes
from ailake.storage.keys import Keys
from ailake.storage.table import payload
from ailake.storage.weight_lists import WeightLists

# Greater than every row id of the engine: the first of the log counts from here.
FIRST_LOGGED = 2**63


@dataclass(frozen=True, slots=True)
class ReadView:
    """The memories at one moment, and the accesses that wait for them.

    Attributes:
        dataset: One version of ``episodic``.
        keys: Where the dataset's ids and duplicate keys are.
        held: Scopes that are held in memory.
        weights: What the memories of larger ones weigh.
        passages: The version of ``passages`` that goes with it, read after it.
        entries: Journal entries, read before it.
        logged: What has been logged and the dataset does not hold. Each is given a row id from
            ``FIRST_LOGGED`` on, in the order of writing.
    """

    dataset: lance.LanceDataset
    keys: Keys
    held: HeldScopes
    weights: WeightLists
    passages: lance.LanceDataset
    entries: Entries = field(default_factory=Entries)
    logged: tuple[WaitingRow, ...] = ()

    def is_outdated(self, version: int) -> bool:
        """Tell whether, under the write lock, what is kept differs from what is seen here.

        Args:
            version: The table's present one.
        """
        return bool(self.logged) or version != self.dataset.version

    def stored(self, column: str, values: Collection[str], columns: tuple[str, ...]) -> pa.Table:
        """Return columns of the dataset's rows that have one of some ids or duplicate keys."""
        return self.keys.rows(self.dataset, column, values, columns)

    def resolved(self, where: Predicate) -> Predicate:
        """Return a filter that finds in the dataset what ``where`` means, accesses counted in.

        The engine sees the columns without the accesses that wait: memories that have some are
        looked at one by one, and named.
        """
        if not self.entries or PENDING_COLUMNS.isdisjoint(columns_of(where)):
            return where
        columns = {"chunk_id", "folded_through", METADATA, *PENDING_COLUMNS, *columns_of(where)}
        rows = to_pylist(self.stored("chunk_id", list(self.entries), tuple(sorted(columns))))
        if not rows:
            return where
        passing = [row["chunk_id"] for row in rows if matches(where, counted_in(row, self.entries))]
        others = conjunction(where, Not(_named([row["chunk_id"] for row in rows])))
        return disjunction(others, _named(passing)) if passing else others

    def logged_places(self, where: Predicate) -> list[int]:
        """Return the places in ``logged`` of the memories that satisfy ``where``."""
        return [
            place
            for place, one in enumerate(self.logged)
            if matches(where, counted_in(one.row, self.entries))
        ]

    def rows_at(self, row_ids: NDArray[np.uint64], names: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return columns of the given rows, stored and logged, in the given order."""
        is_logged = row_ids >= FIRST_LOGGED
        found = payload(self.dataset, row_ids[~is_logged], tuple(names))
        stored = dict(zip(found["_rowid"].to_pylist(), to_pylist(found), strict=True))
        stored |= {
            FIRST_LOGGED + place: self.logged[place].row
            for place in (row_ids[is_logged] - np.uint64(FIRST_LOGGED)).tolist()
        }
        return [stored[row_id] for row_id in row_ids.tolist() if row_id in stored]


def _named(memory_ids: Sequence[str]) -> Predicate:
    named = {"chunk_id": {"in": CheckedTexts(memory_ids)}}
    return parse_where(named, filter_kinds("episodic"))
