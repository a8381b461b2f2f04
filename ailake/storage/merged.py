"""Which memories were merged into which, held in memory and kept current for the entity graph.

Mentions stay under the id that they were written for, and are read as those of the memory that
lives on. So a merge writes no mention, a restore gives them back, and no kill leaves the two apart.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.recording import CHANGED, CREATED
from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS
from ailake.storage.retries import reading_again
from ailake.storage.table import Signature, Table, fragments_by_signature

Merged = Mapping[str, str]
NOT_MERGED: Merged = MappingProxyType({})

_READ = ("chunk_id", *SCOPE_COLUMNS, "merged_into")
_FEW = 2_048

# Where these two stay as they are, so does what was merged.
_DECIDING = ("merged_into", "chunk_id")


class MergedIds:
    """The memories of a lake that were merged into others, as of its latest version.

    Some 300 bytes each are held. After a write only the rows that it wrote are read, and after a
    removal all that were merged.

    Args:
        table: ``episodic``.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lock = Lock()
        self._version = self._incarnation = -1
        # Rows of that version.
        self._count = 0
        self._fragments: frozenset[Signature] = frozenset()
        self._merged: dict[Scope, Merged] = {}
        # All of their ids.
        self._ids: set[str] = set()

    def of(self, scope: Scope) -> Merged:
        """Return what each merged memory of a scope was merged into, by their ids.

        It is the same object as long as nothing of it changes.
        """
        with self._lock:
            reading_again(self._refresh)
            return self._merged.get(scope, NOT_MERGED)

    def _refresh(self) -> None:
        dataset = self._table.snapshot()
        version, incarnation = int(dataset.version), self._table.incarnation
        if (version, incarnation) == (self._version, self._incarnation):
            return
        present, count = fragments_by_signature(dataset, _DECIDING), dataset.count_rows()
        rows = None
        if incarnation == self._incarnation and version > self._version:
            fresh = [one for key, one in present.items() if key not in self._fragments]
            rows = _changed(dataset, fresh, since=self._version)
            added = pc.sum(pc.greater(rows[CREATED], self._version)).as_py() or 0
            # What was removed has left no row to be read, and its id may be used again.
            rows = rows if count == self._count + added else None
        if rows is None:
            options = {"filter": "merged_into != ''"}
            rows = dataset.scanner(columns=list(_READ), **options).to_table()
            self._merged, self._ids = {}, set()
        self._take_in(rows)
        self._version, self._incarnation, self._count = version, incarnation, count
        self._fragments = frozenset(present)

    def _take_in(self, rows: pa.Table) -> None:
        found: dict[Scope, dict[str, str]] = {}
        named = zip(rows["chunk_id"].to_pylist(), rows["merged_into"].to_pylist(), strict=True)
        # Most are new, and merged into nothing.
        places = [n for n, (one, into) in enumerate(named) if into or one in self._ids]
        for row in rows.take(pa.array(places, pa.int64())).to_pylist() if places else ():
            scope = Scope(*(row[name] for name in SCOPE_COLUMNS))
            found.setdefault(scope, {})[row["chunk_id"]] = row["merged_into"]
        for scope, told in found.items():
            known = self._merged.get(scope, NOT_MERGED)
            news = {one: into for one, into in told.items() if known.get(one, "") != into}
            self._ids.update(news)
            if news:
                # What was restored is merged into nothing.
                both = {**known, **news}
                self._merged[scope] = {one: into for one, into in both.items() if into}


def _changed(
    dataset: lance.LanceDataset, fragments: list[lance.LanceFragment], *, since: int
) -> pa.Table:
    """Return the rows of some fragments that were written after a version, perhaps with others."""
    # A filter takes longer than so many rows.
    few = sum(one.physical_rows for one in fragments) <= _FEW
    newer = None if few else f"{CHANGED} > {since:d}"
    columns = [*_READ, CREATED]
    if not fragments:
        return dataset.scanner(columns=columns, filter="false").to_table()
    return dataset.scanner(columns=columns, filter=newer, fragments=fragments).to_table()
