"""The access journal: appended by recall, counted in by every read, folded in by decay.

An entry is pending for a row while the version of the accesses table that brought it
(``_row_created_at_version``, which survives compaction because stable row ids are on) is greater
than the row's ``folded_through``. Readers and the fold apply that same rule, so an entry counts
exactly once whatever dies in between.

Recall's own entries are buffered: they count in their own process at once, and are appended a
moment later, off the caller's path. A kill loses at most those of a second.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from threading import Lock

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.accesses import Access, AccessEvent
from ailake.core.filters import parse_where
from ailake.core.records import Scope
from ailake.core.remembering import Refresh
from ailake.core.rows import as_nanoseconds, nanoseconds
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema, filter_kinds
from ailake.storage.retries import reading_again
from ailake.storage.table import KEPT, Table

log = logging.getLogger("ailake")

# Its readers read what is new only: its fragments may be many.
MAX_SMALL_FRAGMENTS = 64
FOLDED_KEY = "ailake.folded_through"

# The version of an entry that is not committed: newer than every watermark.
UNCOMMITTED = 2**62

# From so many buffered entries on they are appended at once.
MANY_BUFFERED = 1_000
MOST_BUFFERED = 100_000

_VERSION = "_row_created_at_version"
_SCHEMA = arrow_schema("accesses", dim=1, embedder_id="").remove_metadata()


@dataclass(frozen=True, slots=True)
class _Entry:
    scope: Scope
    memory_id: str
    met_at: datetime
    event: AccessEvent
    hits: int
    confidence: float | None = None


class Buffer:
    """Entries that are not committed, shared by the handles of one process.

    Attributes:
        waiting: For the next flush.
        leaving: Being committed.
        flushing: Held by the flush that commits them.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.flushing = Lock()
        self.waiting: list[_Entry] = []
        self.leaving: list[_Entry] = []
        self.flushes = 0

    def entries(self) -> tuple[list[_Entry], int]:
        """Return all of them, and how many flushes have begun."""
        with self.lock:
            return self.leaving + self.waiting, self.flushes


class Journal:
    """The ``accesses`` table, with its unfolded entries resident.

    Only what a version adds is read when the table has moved on.
    """

    def __init__(self, table: Table, *, buffer: Buffer | None = None) -> None:
        self.table = table
        self.buffer = Buffer() if buffer is None else buffer
        self._lock = Lock()
        self._entries: dict[str, tuple[Access, ...]] = {}
        self._seen: int | None = None
        self._folded = 0

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

    def note(self, met: Sequence[tuple[Scope, str]], event: AccessEvent, *, now: datetime) -> bool:
        """Count one hit for each memory, and commit it with the next ``flush``.

        Returns:
            False where too many wait already, because they can't be committed; nothing is noted.
        """
        entries = [_Entry(scope, memory_id, now, event, 1) for scope, memory_id in met]
        with self.buffer.lock:
            if len(self.buffer.waiting) > MOST_BUFFERED:
                return False
            self.buffer.waiting += entries
            return True

    def note_refreshes(self, scope: Scope, refreshes: Sequence[Refresh]) -> None:
        """Note repetitions of stored memories, for the next ``flush``."""
        with self.buffer.lock:
            self.buffer.waiting += _refreshes(scope, refreshes)

    def __len__(self) -> int:
        """Return how many entries are noted and not committed."""
        return len(self.buffer.waiting)

    def flush(self) -> None:
        """Commit what was noted; where that fails it waits for the next flush."""
        buffer = self.buffer
        with buffer.flushing:
            with buffer.lock:
                buffer.leaving, buffer.waiting = buffer.waiting, []
                buffer.flushes += 1
            try:
                self._append(buffer.leaving)
            finally:
                with buffer.lock:
                    # Committed: emptied. Not: first in line again.
                    buffer.leaving, buffer.waiting = [], buffer.leaving + buffer.waiting

    def record_refreshes(self, scope: Scope, refreshes: Sequence[Refresh]) -> None:
        """Record repetitions of stored memories, in one commit."""
        self._append(_refreshes(scope, refreshes))

    def _append(self, entries: Sequence[_Entry]) -> None:
        if not entries:
            return
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
            for field, column in ((field, columns[field.name]) for field in _SCHEMA)
        ]
        rows = pa.table(arrays, schema=_SCHEMA)
        version = self.table.append(rows)
        # Every read needs this table: a power cut must not leave it with files that are not there.
        self.table.sync(version)
        with self._lock:
            if entries is self.buffer.leaving:
                self.buffer.leaving = []
            if self._seen == version - 1:
                # Nobody else came in between: what this version brings need not be read.
                self._take_in(_entries_of(rows, [version] * len(entries)), version)
        self.table.tidy(most=MAX_SMALL_FRAGMENTS)

    def unfolded(self) -> tuple[int, dict[str, tuple[Access, ...]]]:
        """Return the present version, and the entries up to it that may not be folded yet.

        Memories that were met last stand last.

        Ask before the rows are read: an entry that is folded in between is then counted in the
        row, whose watermark says so; asked the other way round, it would be in neither.
        """
        with self._lock:
            entries = self._current()
            return self._seen or 0, dict(entries)

    def known(self) -> dict[str, tuple[Access, ...]]:
        """Return the same entries with those that are noted and not committed."""
        with self._lock:
            noted, entries = self._beside_the_buffer()
        for entry in noted:
            met = entries.pop(entry.memory_id, ())
            instant = nanoseconds(entry.met_at)
            access = Access(UNCOMMITTED, instant, entry.hits, entry.confidence)
            entries[entry.memory_id] = (*met, access)
        return entries

    def _beside_the_buffer(self) -> tuple[list[_Entry], dict[str, tuple[Access, ...]]]:
        while True:
            noted, flushes = self.buffer.entries()
            if self.buffer.leaving and self._seen is not None:
                # A newer version may hold what is leaving; what was read before does not.
                return noted, dict(self._entries)
            entries = dict(self._current())
            # Otherwise a flush has begun, and what it commits may be in both.
            if self.buffer.flushes == flushes and not self.buffer.leaving:
                return noted, entries

    def forget(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        """Delete the entries of erased memories of a scope."""
        self.flush()
        gone = pa.array(memory_ids, pa.string())
        wall = parse_where(asdict(scope), filter_kinds("accesses"))
        rows = self.table.read(("chunk_id",), wall, with_row_id=True)
        listed = rows.filter(pc.is_in(rows["chunk_id"], value_set=gone))
        self.table.delete_rows(listed["_rowid"].to_pylist())
        with self._lock:
            for memory_id in listed["chunk_id"].to_pylist():
                self._entries.pop(memory_id, None)

    def mark_folded(self, version: int) -> None:
        """Note that every entry up to ``version`` is folded, so that readers need not load it."""
        self._keep_up(lambda: self.table.fresh().update_metadata({FOLDED_KEY: str(version)}))

    def clean(self) -> None:
        """Remove versions of the table that are older than a day; tagged ones stay."""
        self._keep_up(lambda: self.table.clean(older_than=KEPT))

    def _keep_up(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (OSError, RuntimeError):
            # Saves readers work, and no more: what it follows has been committed.
            log.warning("upkeep of %s failed", self.table.name, exc_info=True)

    def _current(self) -> dict[str, tuple[Access, ...]]:
        return reading_again(self._refreshed)

    def _refreshed(self) -> dict[str, tuple[Access, ...]]:
        snapshot = self.table.snapshot()
        version = int(snapshot.version)
        if self._seen is None:
            self._entries = {}
            self._seen = self._folded = _folded_mark(snapshot)
        if self._seen < version:
            self._drop_folded(_folded_mark(snapshot))
            self._take_in(_entries_after(snapshot, self._seen), version)
        return self._entries

    def _drop_folded(self, mark: int) -> None:
        # Only up to the mark before the last: rows that were read before the last fold still need
        # the entries that it counted.
        if mark <= self._folded:
            return
        kept = (
            (memory_id, tuple(access for access in accesses if access.version > self._folded))
            for memory_id, accesses in self._entries.items()
        )
        self._entries = {memory_id: accesses for memory_id, accesses in kept if accesses}
        self._folded = mark

    def _take_in(self, entries: Iterable[tuple[str, Access]], version: int) -> None:
        for memory_id, access in entries:
            # Taken out first: who was met last stands last, and what is new is found from the end.
            met = self._entries.pop(memory_id, ())
            self._entries[memory_id] = (*met, access)
        self._seen = version


def _refreshes(scope: Scope, refreshes: Sequence[Refresh]) -> list[_Entry]:
    return [
        _Entry(scope, note.memory_id, note.met_at, AccessEvent.SKIP, 0, note.confidence)
        for note in refreshes
    ]


def _folded_mark(snapshot: lance.LanceDataset) -> int:
    return int(snapshot.metadata.get(FOLDED_KEY, "0"))


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
