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

from ailake.core.accesses import Access, AccessEvent, AccessLog, Entries
from ailake.core.decisions import DecisionRecord
from ailake.core.filters import parse_where
from ailake.core.records import Scope
from ailake.core.remembering import Refresh
from ailake.core.rows import as_nanoseconds, nanoseconds
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema, filter_kinds
from ailake.errors import InvalidInputError
from ailake.storage.retries import reading_again
from ailake.storage.table import KEPT, Table

log = logging.getLogger(__name__)

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
class _Batch:
    """Accesses that have everything but the memory in common."""

    met: Sequence[tuple[Scope, str]]
    met_at: datetime
    event: AccessEvent
    hits: int
    confidence: float | None = None


class Noted:
    """Accesses that are not committed: as rows to come, and as what counts already."""

    def __init__(self) -> None:
        self.batches: list[_Batch] = []
        self.verdicts: list[DecisionRecord] = []
        self.log = AccessLog()

    def add(self, batch: _Batch) -> None:
        """Note one more batch; one thread at a time."""
        self.batches.append(batch)
        instant = nanoseconds(batch.met_at)
        access = Access(UNCOMMITTED, instant, batch.hits, batch.confidence)
        for _, memory_id in batch.met:
            self.log.add(memory_id, access)


class Buffer:
    """Accesses that are not committed, shared by the handles of one process.

    Attributes:
        waiting: For the next flush.
        leaving: Being committed.
        flushing: Held by the flush that commits them.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.flushing = Lock()
        self.waiting = Noted()
        self.leaving = Noted()
        self.flushes = 0

    def parts(self) -> tuple[tuple[tuple[AccessLog, int], ...], int]:
        """Return all of them as parts of ``Entries``, and how many flushes have begun."""
        with self.lock:
            logs = (self.leaving.log, self.waiting.log)
            return tuple((log, len(log)) for log in logs), self.flushes

    def take(self) -> Noted:
        """Let what waits leave; return it."""
        with self.lock:
            self.leaving, self.waiting = self.waiting, Noted()
            self.flushes += 1
            return self.leaving

    def end(self) -> None:
        """Go on after a flush: where it was not committed, it is first in line again."""
        with self.lock:
            if self.leaving.batches:
                batches = [*self.leaving.batches, *self.waiting.batches]
                verdicts = [*self.leaving.verdicts, *self.waiting.verdicts]
                self.waiting = Noted()
                for batch in batches:
                    self.waiting.add(batch)
                self.waiting.verdicts = verdicts
            self.leaving = Noted()


def _nowhere(verdicts: Sequence[DecisionRecord]) -> None:
    """Refuse verdicts where nothing is written.

    Raises:
        InvalidInputError: There are some.
    """
    if verdicts:
        raise InvalidInputError("a view of the past records no decisions")


class Journal:
    """The ``accesses`` table, with its unfolded entries resident.

    Only what a version adds is read when the table has moved on.
    """

    def __init__(
        self,
        table: Table,
        *,
        buffer: Buffer | None = None,
        record_verdicts: Callable[[Sequence[DecisionRecord]], None] = _nowhere,
    ) -> None:
        self.table = table
        self.record_verdicts = record_verdicts
        self.buffer = Buffer() if buffer is None else buffer
        self._lock = Lock()
        self._log = AccessLog()
        self._seen: int | None = None
        self._folded = 0
        self._incarnation = 0

    def record(
        self, met: Sequence[tuple[Scope, str]], event: AccessEvent, *, now: datetime
    ) -> None:
        """Count one hit for each memory, in one commit.

        Args:
            met: Scope and id of each memory.
            event: Why they were met; not for repetitions.
            now: When.
        """
        self._append([_Batch(met, now, event, 1)])

    def note(self, met: Sequence[tuple[Scope, str]], event: AccessEvent, *, now: datetime) -> bool:
        """Count one hit for each memory, and commit it with the next ``flush``.

        Returns:
            False where too many wait already, because they can't be committed; nothing is noted.
        """
        with self.buffer.lock:
            if len(self) > MOST_BUFFERED:
                return False
            if met:
                self.buffer.waiting.add(_Batch(met, now, event, 1))
            return True

    def note_refreshes(
        self, scope: Scope, refreshes: Sequence[Refresh], verdicts: Sequence[DecisionRecord] = ()
    ) -> None:
        """Note repetitions of stored memories, for the next ``flush``.

        Args:
            scope: The memories' scope.
            refreshes: The repetitions.
            verdicts: What was decided of each; recorded by the same flush.
        """
        with self.buffer.lock:
            self.buffer.waiting.verdicts += verdicts
            for batch in _refreshes(scope, refreshes):
                self.buffer.waiting.add(batch)

    def __len__(self) -> int:
        """Return how many accesses are noted and not committed."""
        return len(self.buffer.waiting.log)

    def flush(self) -> None:
        """Commit what was noted; where that fails it waits for the next flush."""
        with self.buffer.flushing:
            leaving = self.buffer.take()
            try:
                # Once: after this they are not first in line again, whatever fails.
                self.record_verdicts(leaving.verdicts)
                leaving.verdicts = []
                self._append(leaving.batches)
            finally:
                self.buffer.end()

    def record_refreshes(self, scope: Scope, refreshes: Sequence[Refresh]) -> None:
        """Record repetitions of stored memories, in one commit."""
        self._append(_refreshes(scope, refreshes))

    def _append(self, batches: Sequence[_Batch]) -> None:
        if not any(batch.met for batch in batches):
            return
        rows = _rows(batches)
        version = self.table.append(rows)
        # Every read needs this table: a power cut must not leave it with files that are not there.
        self.table.sync(version)
        with self._lock:
            if batches is self.buffer.leaving.batches:
                self.buffer.leaving = Noted()
            if self._seen == version - 1:
                # Nobody else came in between: what this version brings need not be read.
                self._take_in(_entries_of(rows, [version] * rows.num_rows), version)
        self.table.tidy(most=MAX_SMALL_FRAGMENTS)

    def unfolded(self) -> tuple[int, Entries]:
        """Return the present version, and the entries up to it that may not be folded yet.

        Memories that were met first stand first.

        Ask before the rows are read: an entry that is folded in between is then counted in the
        row, whose watermark says so; asked the other way round, it would be in neither.
        """
        with self._lock:
            self._current()
            return self._seen or 0, Entries((self._log, len(self._log)))

    def known(self) -> Entries:
        """Return the same entries with those that are noted and not committed."""
        with self._lock:
            while True:
                noted, flushes = self.buffer.parts()
                if not self.buffer.leaving.batches or self._seen is None:
                    self._current()
                    # Otherwise a flush has begun, and what it commits may be in both.
                    if self.buffer.flushes != flushes or self.buffer.leaving.batches:
                        continue
                # While one is on, a newer version may hold what is leaving; what was read before
                # does not.
                return Entries((self._log, len(self._log)), *noted)

    def forget(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        """Delete the entries of erased memories of a scope."""
        self.flush()
        gone = pa.array(memory_ids, pa.string())
        wall = parse_where(asdict(scope), filter_kinds("accesses"))
        rows = self.table.read(("chunk_id",), wall, with_row_id=True)
        listed = rows.filter(pc.is_in(rows["chunk_id"], value_set=gone))
        self.table.delete_rows(listed["_rowid"].to_pylist())
        erased = set(listed["chunk_id"].to_pylist())
        with self._lock:
            self._keep(lambda memory_id, _: memory_id not in erased)

    def sweep(self, *, through: int, gone: Callable[[pa.Array], pa.Array]) -> int:
        """Delete the entries of memories that are gone; return how many there were.

        Args:
            through: Entries that later versions of the table brought stay.
            gone: Returns which of some ids no memory has.
        """
        where = f"{_VERSION} <= {through:d}"
        rows = reading_again(
            lambda: self.table.snapshot().to_table(["chunk_id"], filter=where, with_row_id=True)
        )
        erased = gone(pc.unique(rows["chunk_id"]))
        left = rows.filter(pc.is_in(rows["chunk_id"], value_set=erased))
        self.table.delete_rows(left["_rowid"].to_pylist())
        listed = set(erased.to_pylist())
        with self._lock:
            self._keep(lambda one, access: one not in listed or access.version > through)
        return int(left.num_rows)

    def begin_anew(self) -> None:
        """Read the entries anew at the next call: some of those that were read are erased."""
        with self._lock:
            self._seen = None

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

    def _current(self) -> None:
        reading_again(self._refresh)

    def _refresh(self) -> None:
        snapshot = self.table.snapshot()
        version = int(snapshot.version)
        if self._seen is None or self._incarnation != self.table.incarnation:
            self._log = AccessLog()
            self._seen = self._folded = _folded_mark(snapshot)
            self._incarnation = self.table.incarnation
        if self._seen < version:
            self._drop_folded(_folded_mark(snapshot))
            self._take_in(_entries_after(snapshot, self._seen), version)

    def _drop_folded(self, mark: int) -> None:
        # Only up to the mark before the last: rows that were read before the last fold still need
        # the entries that it counted.
        if mark > self._folded:
            self._keep(lambda _, access: access.version > self._folded)
            self._folded = mark

    def _keep(self, wanted: Callable[[str, Access], bool]) -> None:
        """Go on with a new log: the old one may be in somebody's hands."""
        entries = self._log.between(0, len(self._log))
        self._log = AccessLog(entry for entry in entries if wanted(*entry))

    def _take_in(self, entries: Iterable[tuple[str, Access]], version: int) -> None:
        for memory_id, access in entries:
            self._log.add(memory_id, access)
        self._seen = version


def _refreshes(scope: Scope, refreshes: Sequence[Refresh]) -> list[_Batch]:
    return [
        _Batch([(scope, note.memory_id)], note.met_at, AccessEvent.SKIP, 0, note.confidence)
        for note in refreshes
    ]


def _rows(batches: Sequence[_Batch]) -> pa.Table:
    met = [(batch, scope, memory_id) for batch in batches for scope, memory_id in batch.met]
    instants = [nanoseconds(batch.met_at) for batch, _, _ in met]
    columns = {
        "chunk_id": [memory_id for _, _, memory_id in met],
        **{name: [getattr(scope, name) for _, scope, _ in met] for name in SCOPE_COLUMNS},
        "accessed_at": pa.array(instants, pa.int64()).cast(INSTANT),
        "event": [batch.event.value for batch, _, _ in met],
        "hits": [batch.hits for batch, _, _ in met],
        "confidence": [batch.confidence for batch, _, _ in met],
    }
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field, column in ((field, columns[field.name]) for field in _SCHEMA)
    ]
    return pa.table(arrays, schema=_SCHEMA)


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
