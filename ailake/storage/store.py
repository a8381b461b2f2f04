"""The open tables of a lake, its journal and its log."""

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock

import lance
import pyarrow as pa

from ailake.core.accesses import NO_ENTRIES, AccessEvent, Entries
from ailake.core.decisions import DecisionRecord
from ailake.core.judge import JudgeRules
from ailake.core.log import WaitingRow
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.errors import AilakeError, EmbedderMismatchError, InvalidInputError, ReadOnlyError
from ailake.storage import decisions
from ailake.storage.draining import committing, settle, settle_logged, settle_stale
from ailake.storage.graph_faults import GraphFaults
from ailake.storage.held import HeldScopes
from ailake.storage.identity import COLUMN, EmbedderIdentity, identity_of
from ailake.storage.indexes import keep_current
from ailake.storage.journal import MANY_BUFFERED, Journal
from ailake.storage.keys import Keys
from ailake.storage.location import Location, ObjectStore
from ailake.storage.locks import WRITE, LockedError, exclusive
from ailake.storage.log import Log
from ailake.storage.mentions import HeldGraphs
from ailake.storage.recording import Recorder
from ailake.storage.table import Table
from ailake.storage.upkeep import Drainer
from ailake.storage.view import ReadView
from ailake.storage.weight_lists import WeightLists

logger = logging.getLogger(__name__)

# From so many memories in the log on it is drained at once; beyond the second number the writer
# waits for it.
MANY_WAITING = 1_000
MAX_WAITING = 10_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class Store:
    """The tables of a lake, until it is closed.

    Attributes:
        log: Where single writes go first; None for an object store, where nobody could lock out
            another, and where nothing can be written.
        keys: Where ids and duplicate keys are in ``episodic``.
        held: Scopes that are held in memory for recall.
        weights: What the memories of larger ones weigh.
        graphs: What is mentioned in the scopes that were asked for last.
        graph_faults: How often that has failed a write.
        rules: What new memories are judged by.
        recorder: What tells the ledger of what is committed.
        recall_bytes: What recall may hold of vectors in memory, and again of weights; None for
            the default.
        drained_later: In a view of the past what had been logged by then and was drained later.
    """

    location: Location
    embedder: EmbedderIdentity
    tables: Mapping[str, Table]
    journal: Journal
    read_only: bool
    log: Log | None = None
    recall_bytes: int | None = None
    keys: Keys = field(init=False)
    held: HeldScopes = field(init=False)
    weights: WeightLists = field(init=False)
    graphs: HeldGraphs = field(init=False)
    rules: JudgeRules = field(default_factory=JudgeRules)
    drained_later: pa.Table | None = None
    drainer: Drainer = field(init=False)
    recorder: Recorder = field(default_factory=Recorder)
    graph_faults: GraphFaults = field(default_factory=GraphFaults)
    _without_logged: int = 0
    _checked: int = 0
    _vectors: int | None = None
    _incarnations: tuple[int, ...] = ()
    _logged_then: tuple[WaitingRow, ...] = field(init=False)
    _many: int = 0
    _counting: Lock = field(default_factory=Lock)
    _written: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        self._hold_nothing()
        self.graphs = HeldGraphs(self.tables)
        if not self.read_only:
            self.journal.record_verdicts = _recorder(self.tables["decisions"], self.embedder)
        self._logged_then = _waiting(self.drained_later)
        # The thread must not keep the store alive, nor outlive it for long.
        self.drainer = Drainer(partial(_settled, weakref.ref(self)), at_end=self.journal.flush)
        # Whoever frees the last reference may hold any lock: it only tells the thread to end.
        weakref.finalize(self, self.drainer.end).atexit = False

    @property
    def place(self) -> Path | ObjectStore:
        """Where locks are that are leases on an object store: those of jobs."""
        uri, root = self.location.uri, self.location.root
        return ObjectStore(uri, self.episodic.storage_options) if root is None else root

    @property
    def episodic(self) -> Table:
        """The table of memories."""
        self.ensure_open()
        return self.tables["episodic"]

    def view(self, *, committed: bool = False) -> ReadView:
        """Return the present state of the memories, for one consistent read.

        Args:
            committed: Leave out what this process has logged and no drain has committed.
        """
        # In this order: an entry that is folded in between is then counted in the row, whose
        # watermark says so; the other way round it would be in neither.
        return self.rows_view(committed=committed, entries=self.journal.known())

    def rows_view(self, *, committed: bool = False, entries: Entries = NO_ENTRIES) -> ReadView:
        """Return the same with no accesses that wait, or those that are given."""
        if self.log is None or committed:
            return self._rows_view(self.episodic.snapshot(), self._logged_then, entries)
        logged, dataset = self.log.beside(self.episodic.snapshot)
        waiting = tuple(one.waiting for one in logged)
        view = self._rows_view(dataset, waiting, entries)
        if logged and self._without_logged != dataset.version:
            # A drain that has not ended may have committed them.
            ids = [one.memory.id for one in logged]
            stored = set(view.stored("chunk_id", ids, ("chunk_id",))["chunk_id"].to_pylist())
            if stored:
                left = tuple(one for one in waiting if one.row["chunk_id"] not in stored)
                return replace(view, logged=left)
            # What is logged from now on is not in this version either.
            self._without_logged = int(dataset.version)
        return view

    def keys_view(self) -> ReadView:
        """Return the present rows for looking up ids and keys, whatever embedder's they are."""
        return self._rows_view(self.episodic.snapshot(), (), NO_ENTRIES, checked=False)

    def _rows_view(
        self,
        dataset: lance.LanceDataset,
        logged: tuple[WaitingRow, ...],
        entries: Entries,
        *,
        checked: bool = True,
    ) -> ReadView:
        # Passages are written before their memories.
        passages = self.tables["passages"].snapshot()
        if self._incarnations != self._found_incarnations():
            self._hold_nothing()
        if checked:
            self._check_embedder(dataset)
        return ReadView(
            dataset,
            keys=self.keys,
            held=self.held,
            weights=self.weights,
            passages=passages,
            entries=entries,
            logged=logged,
        )

    def _hold_nothing(self) -> None:
        """Begin anew: another lake's versions may have the numbers of this one's."""
        self.keys = Keys()
        self.held = HeldScopes(dim=self.embedder.dim, budget=self.recall_bytes)
        self.weights = WeightLists(dim=self.embedder.dim, budget=self.recall_bytes)
        self._without_logged = self._checked = 0
        self._incarnations = self._found_incarnations()

    def _found_incarnations(self) -> tuple[int, ...]:
        return tuple(table.incarnation for table in self.tables.values())

    def make_room(self) -> None:
        """Wait for a drain where too much is in the log; ask before anything is logged.

        Raises:
            EmbedderMismatchError: See ``check_embedder``.
        """
        self.check_embedder()
        if self.log is not None and len(self.log) > MAX_WAITING:
            self.settle()

    def drain_soon(self) -> None:
        """See to it that what has just been logged becomes rows soon."""
        if self.log is not None and len(self.log):
            self._written = True
            self.drainer.wake(at_once=len(self.log) > MANY_WAITING)

    def upkeep_soon(self) -> None:
        """See to it that indexes learn soon of what has just been committed."""
        self._written = True
        self.drainer.wake(at_once=False)

    @contextmanager
    def writing_many(self) -> Iterator[None]:
        """Put upkeep of indexes off to the end of the block, however many commits it makes."""
        with self._counting:
            self._many += 1
        try:
            yield
        finally:
            with self._counting:
                self._many -= 1
            self.upkeep_soon()

    def keep_indexes_current(self) -> None:
        """Make what indexes lack, unless this process is just writing many memories."""
        if not self.read_only and not self._many and not self.is_gone():
            self._written = False
            done = [keep_current(table) for table in self.tables.values()]
            if not all(done):
                self.upkeep_soon()

    def is_gone(self) -> bool:
        """Tell whether the lake's folder was moved or removed."""
        return self.location.root is not None and not self.location.root.exists()

    def note_accesses(
        self, met: Sequence[tuple[Scope, str]], event: AccessEvent, *, now: datetime
    ) -> bool:
        """Count accesses at once here, and within a second in the journal.

        Returns:
            False where they can't be counted, because too many wait already.
        """
        noted = self.journal.note(met, event, now=now)
        if met:
            self.drainer.wake(at_once=len(self.journal) > MANY_BUFFERED)
        return noted

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Hold the lake's write lock, with the log of all processes drained.

        Raises:
            EmbedderMismatchError: See ``check_embedder``.
        """
        self.journal.flush()
        with committing(self):
            self.check_embedder()
            yield

    def check_embedder(self) -> None:
        """Refuse to go on where the lake has the vectors of another embedder by now.

        Raises:
            EmbedderMismatchError: It has.
        """
        self._check_embedder(self.episodic.snapshot())

    def _check_embedder(self, dataset: lance.LanceDataset) -> None:
        if self._checked == dataset.version:
            return
        present = identity_of(dataset.schema)
        if present != self.embedder:
            raise EmbedderMismatchError(
                f"{self.location.uri} was opened with embedder {self.embedder.id!r} "
                f"({self.embedder.dim} dimensions), and its memories have been embedded anew with "
                f"{present.id!r} ({present.dim}) since: connect again"
            )
        # Made anew twice, they are the same embedder's again; what is held may not be.
        column = int(dataset.lance_schema.field(COLUMN).id())
        if self._vectors not in {None, column}:
            self._hold_nothing()
        self._checked, self._vectors = int(dataset.version), column

    def settle(self) -> None:
        """Return when what was logged so far, by whatever process, is committed."""
        self.ensure_open()
        try:
            settle(self)
        finally:
            self.journal.flush()

    def flush(self) -> None:
        """Settle, tell the ledger, and see upkeep through."""
        self.flush_ledger()
        self.drainer.finish()

    def flush_ledger(self) -> None:
        """Settle, and bring the ledger up to date with it, where it can be written."""
        self.settle()
        if not self.read_only and not self.is_gone():
            self._record()

    def record_if_possible(self) -> None:
        """Bring the ledger up to date; where that fails, the next write or flush tries again."""
        try:
            if not self.read_only and not self.is_gone():
                self._record()
        except (OSError, RuntimeError, ValueError, AilakeError):
            logger.warning("the ledger could not be brought up to date", exc_info=True)

    def _record(self) -> None:
        self.recorder.catch_up(self, alone=False)
        root = self.location.root
        if self.recorder.is_waiting and root is not None:
            # Who holds the write lock may be removing it; otherwise nobody is any more.
            with suppress(LockedError), exclusive(root, WRITE, wait=False):
                self.recorder.catch_up(self, alone=True)

    def change(self, rows: pa.Table, *, at: lance.LanceDataset | None = None) -> None:
        """Write over stored memories, once the ledger tells what they were.

        Args:
            rows: As ``Table.upsert`` takes them.
            at: As of ``Table.upsert``.
        """
        self.recorder.catch_up(self, alone=False)
        self.episodic.upsert(rows, at=at)

    def unless_changed(self, view: ReadView) -> lance.LanceDataset | None:
        """Return the version that rows were read at, where no lock keeps a fold from them."""
        return view.dataset if self.location.root is None else None

    def settle_stale(self) -> None:
        """Commit what another process logged a while ago and did not live to commit."""
        self.ensure_open()
        settle_stale(self)

    def settle_logged(self) -> None:
        """Commit what this process has logged, unless another one is committing."""
        self.ensure_open()
        settle_logged(self)

    def close(self) -> None:
        """Commit what was logged; no more can be done then."""
        if self.closed:
            return
        # First, so that no drain of its own finds the lake closed half-way.
        self.drainer.stop()
        try:
            self.settle()
            self.record_if_possible()
            if self._written:
                self.keep_indexes_current()
        finally:
            self.closed = True

    def ensure_open(self) -> None:
        """Refuse to go on after the lake was closed.

        Raises:
            InvalidInputError: It was.
        """
        if self.closed:
            raise InvalidInputError(f"the lake {self.location.uri} is closed; connect again")

    def ensure_writable(self) -> None:
        """Refuse to go on where nothing may be written.

        Raises:
            ReadOnlyError: The lake's folder is read-only for this process.
        """
        self.ensure_open()
        if self.read_only:
            raise ReadOnlyError(f"{self.location.uri} is read-only for this process")


def _recorder(
    table: Table, embedder: EmbedderIdentity
) -> Callable[[Sequence[DecisionRecord]], None]:
    def record(verdicts: Sequence[DecisionRecord]) -> None:
        decisions.append_to(table, verdicts, dim=embedder.dim, embedder_id=embedder.id)

    return record


def _waiting(rows: pa.Table | None) -> tuple[WaitingRow, ...]:
    if rows is None or not rows.num_rows:
        return ()
    flat = rows["embedding"].combine_chunks().flatten().to_numpy()
    listed = to_pylist(rows.drop_columns("embedding"))
    return tuple(map(WaitingRow, listed, flat.reshape(len(listed), -1)))


def _settled(reference: "weakref.ref[Store]") -> bool:
    store = reference()
    if store is None or store.closed:
        return False
    if store.is_gone():
        # Moved or removed: whoever writes there again wakes the thread again.
        return False
    store.settle()
    store.record_if_possible()
    store.keep_indexes_current()
    return True
