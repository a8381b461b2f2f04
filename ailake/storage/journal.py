"""The access journal: appended by recall, counted in by every read, folded in by decay.

An entry is pending for a row while the version of the accesses table that brought it
(``_row_created_at_version``, which survives compaction because stable row ids are on) is greater
than the row's ``folded_through``. Readers and the fold apply that same rule, so an entry counts
exactly once whatever dies in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import Access, AccessEvent, Pending, pending_of
from ailake.core.records import Scope
from ailake.core.remembering import Refresh
from ailake.core.rows import as_nanoseconds, nanoseconds
from ailake.core.schema import INSTANT, SCOPE_COLUMNS
from ailake.storage.table import Table

FOLDED_KEY = "ailake.folded_through"

_VERSION = "_row_created_at_version"


@dataclass(frozen=True, slots=True)
class _Entry:
    scope: Scope
    memory_id: str
    met_at: datetime
    event: AccessEvent
    hits: int
    confidence: float | None = None


class Journal:
    """The ``accesses`` table, with its unfolded entries resident.

    Only what a version adds is read when the table has moved on.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._lock = Lock()
        self._entries: dict[str, list[Access]] = {}
        self._seen: int | None = None

    def record(
        self, met: Sequence[tuple[Scope, str]], event: AccessEvent, *, now: datetime
    ) -> None:
        """Count one hit for each memory, in one commit.

        Args:
            met: Scope and id of each memory.
            event: Why they were met; not for repetitions.
            now: When.
        """
        self._append([_Entry(scope, memory_id, now, event, 1) for scope, memory_id in met])

    def record_refreshes(self, scope: Scope, refreshes: Sequence[Refresh]) -> None:
        """Note repetitions of stored memories, in one commit."""
        self._append(
            [
                _Entry(scope, note.memory_id, note.met_at, AccessEvent.SKIP, 0, note.confidence)
                for note in refreshes
            ]
        )

    def _append(self, entries: Sequence[_Entry]) -> None:
        if not entries:
            return
        schema = self.table.handle.schema
        instants = [nanoseconds(entry.met_at) for entry in entries]
        columns = {
            "chunk_id": [entry.memory_id for entry in entries],
            **{name: [getattr(entry.scope, name) for entry in entries] for name in SCOPE_COLUMNS},
            "accessed_at": pa.array(instants, pa.int64()).cast(INSTANT),
            "event": [entry.event.value for entry in entries],
            "hits": [entry.hits for entry in entries],
            "confidence": [entry.confidence for entry in entries],
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field, column in ((field, columns[field.name]) for field in schema)
        ]
        rows = pa.table(arrays, schema=schema)
        version = self.table.append(rows)
        with self._lock:
            if self._seen == version - 1:
                # Nobody else came in between: what this version brings need not be read.
                self._take_in(_entries_of(rows, [version] * len(entries)), version)
        self.table.tidy()

    def pending(
        self, memory_ids: Iterable[str], folded_through: Iterable[int]
    ) -> dict[str, Pending]:
        """Return what waits for these rows, by memory id; rows without entries are absent.

        Args:
            memory_ids: Ids of the rows.
            folded_through: Their watermarks, in the same order.
        """
        with self._lock:
            entries = self._current()
            if not entries:
                return {}
            found = [
                (memory_id, pending_of(entries[memory_id], folded_through=watermark))
                for memory_id, watermark in zip(memory_ids, folded_through, strict=True)
                if memory_id in entries
            ]
        return {memory_id: pending for memory_id, pending in found if pending is not None}

    def unfolded(self) -> tuple[int, dict[str, tuple[Access, ...]]]:
        """Return the present version, and the entries up to it that may not be folded yet."""
        with self._lock:
            entries = self._current()
            return self._seen or 0, {name: tuple(found) for name, found in entries.items()}

    def forget(self, memory_ids: Sequence[str]) -> None:
        """Delete the entries of erased memories."""
        gone = pa.array(memory_ids, pa.string())
        rows = self.table.snapshot().scanner(columns=["chunk_id"], with_row_id=True).to_table()
        listed = rows.filter(pc.is_in(rows["chunk_id"], value_set=gone))
        self.table.delete_rows(listed["_rowid"].to_pylist())
        with self._lock:
            self._seen = None

    def mark_folded(self, version: int) -> None:
        """Note that every entry up to ``version`` is folded, so that readers need not load it."""
        self.table.snapshot().update_metadata({FOLDED_KEY: str(version)})
        with self._lock:
            self._seen = None

    def _current(self) -> Mapping[str, list[Access]]:
        snapshot = self.table.snapshot()
        version = int(snapshot.version)
        if self._seen is None:
            self._entries = {}
            self._seen = int(snapshot.metadata.get(FOLDED_KEY, "0"))
        if self._seen < version:
            self._take_in(_entries_after(snapshot, self._seen), version)
        return self._entries

    def _take_in(self, entries: Iterable[tuple[str, Access]], version: int) -> None:
        for memory_id, access in entries:
            self._entries.setdefault(memory_id, []).append(access)
        self._seen = version


def _entries_after(snapshot: lance.LanceDataset, version: int) -> Iterable[tuple[str, Access]]:
    columns = ["chunk_id", "accessed_at", "hits", "confidence", _VERSION]
    scanner = snapshot.scanner(columns=columns, filter=f"{_VERSION} > {version:d}")
    rows = scanner.to_table()
    return _entries_of(rows, rows[_VERSION].to_pylist())


def _entries_of(rows: pa.Table, versions: Sequence[int]) -> Iterable[tuple[str, Access]]:
    accesses = zip(
        versions,
        as_nanoseconds(rows["accessed_at"]).tolist(),
        rows["hits"].to_pylist(),
        rows["confidence"].to_pylist(),
        strict=True,
    )
    for memory_id, fields in zip(rows["chunk_id"].to_pylist(), accesses, strict=True):
        yield memory_id, Access(*fields)
