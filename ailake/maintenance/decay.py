"""MemoryDecayJob: rewrite recency weights, fold pending accesses, in one atomic commit."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake import clock
from ailake.core.accesses import Entries, Pending
from ailake.core.decay import (
    ACCESS_COLUMNS,
    REPEAT_COLUMNS,
    Fold,
    decayed_weights,
    folded_accesses,
    folded_repeats,
)
from ailake.core.episodic import RecencyConfig
from ailake.core.rows import as_nanoseconds, last_access, nanoseconds
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import progress_bar
from ailake.storage.columns import Compute, FragmentView, rewrite_columns, sweep_orphans
from ailake.storage.executing import Executor
from ailake.storage.folding import waiting_accesses
from ailake.storage.locks import DECAY, JOBS, exclusive
from ailake.storage.twins import merge_twins

if TYPE_CHECKING:
    import lance

_READS = ("last_accessed_at", "recency_weight")


@dataclass(frozen=True, slots=True)
class DecayReport:
    """What a decay run did, or with ``dry_run`` would do.

    Attributes:
        now: The instant that ages were counted to.
        lambda_: Decay rate per day.
        rows: Live rows of the table.
        fragments: Fragments of the table.
        fragments_written: Fragments whose columns were rewritten; the others held already what
            they should.
        accesses_folded: Memories that had pending accesses.
        bytes_written: Size of the committed column files.
        version_before: Version that was read.
        version_after: Version that was made; equal where nothing changed.
        orphans_removed: Files of an earlier run that died before its commit.
        seconds: Wall time.
        dry_run: True where nothing was written.
        duplicates_merged: Memories that were merged into an earlier one that says the same:
            writers on an object store, where none can lock out another, had stored both.
    """

    now: datetime
    lambda_: float
    rows: int
    fragments: int
    fragments_written: int
    accesses_folded: int
    bytes_written: int
    version_before: int
    version_after: int
    orphans_removed: int
    seconds: float
    dry_run: bool
    duplicates_merged: int = 0


class MemoryDecayJob:
    """Brings ``recency_weight`` of every row up to date, and counts pending accesses in.

    A weight is a function of the last access, ``now`` and lambda alone, never of its previous
    value: running twice at the same instant changes nothing, and running daily for a year equals
    running once at its end. Text, vectors, importance, row ids and indexes are not touched.
    On an object store memories that say the same are merged, too, as one process alone would have.
    Safe beside any other writer; jobs of one lake exclude each other.

    Args:
        lake: The lake; every scope of it is decayed.
        recency: The forgetting curve, weekly by default.
        executor: Who reads, computes and writes; default: threads of this process. What is
            written is the same, and this process commits it.

    Raises:
        InvalidInputError: ``recency`` is not a RecencyConfig.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        recency: RecencyConfig = RecencyConfig.WEEKLY_DECAY,
        executor: Executor | None = None,
    ) -> None:
        if not isinstance(recency, RecencyConfig):
            raise InvalidInputError.of("recency", got=recency, wanted="a RecencyConfig")
        self._store = lake.store
        self._recency = recency
        self.options = {"recency": recency}
        self._executor = executor

    @recorded("decay")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> DecayReport:
        """Run once.

        Args:
            now: The instant to count ages to, timezone-aware; default: the present.
            dry_run: Compute and report, write nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ConflictError: Other writers won every retry; nothing was applied.
        """
        instant = clock.resolve_now(now)
        if not dry_run:
            self._store.ensure_writable()
        started = perf_counter()
        place = None if dry_run else self._store.place
        root = None if dry_run else self._store.location.root
        with exclusive(place, JOBS), exclusive(root, DECAY):
            return self._run(instant, started, dry_run=dry_run, progress=progress)

    def _run(self, now: datetime, started: float, *, dry_run: bool, progress: bool) -> DecayReport:
        table = self._store.episodic
        # Where no lock keeps other runs away, only what no run can still be writing is an orphan.
        grace = timedelta(0) if self._store.location.root is not None else timedelta(days=1)
        orphans = [] if dry_run else sweep_orphans(table, before=clock.utc_now() - grace)
        # Before the memories are read: an entry up to here belongs to a row that will be seen,
        # because who was met while it was only logged becomes a row now.
        if not dry_run:
            self._store.journal.flush()
        merged = merge_twins(self._store, now=now, dry_run=dry_run)
        through, entries = self._store.journal.unfolded()
        if dry_run:
            entries = self._store.journal.known()
        else:
            self._store.settle()
            # What a repetition freshens says when a change was made that the ledger has not told.
            self._store.record_if_possible()
        run = _Run(nanoseconds(now), self._recency, through, entries)
        with progress_bar(
            "decaying", total=table.snapshot().count_rows(), shown=progress
        ) as advance:
            rewrite = rewrite_columns(
                table,
                _READS,
                run.prepare,
                new_file_id=clock.new_id,
                properties=self._properties(now, through),
                on_rows=advance,
                commit=not dry_run,
                executor=self._executor,
            )
        if run.folded and not dry_run:
            self._store.journal.mark_folded(through)
            self._store.journal.clean()
        return DecayReport(
            now=now,
            lambda_=self._recency.lambda_,
            rows=rewrite.rows,
            fragments=rewrite.fragments,
            fragments_written=rewrite.fragments_written,
            accesses_folded=run.folded,
            bytes_written=rewrite.bytes_written,
            version_before=rewrite.version_before,
            version_after=rewrite.version_after,
            orphans_removed=len(orphans),
            seconds=perf_counter() - started,
            dry_run=dry_run,
            duplicates_merged=merged,
        )

    def _properties(self, now: datetime, through: int) -> dict[str, str]:
        return {
            "ailake.job": "decay",
            "ailake.now": now.isoformat(),
            "ailake.lambda": repr(self._recency.lambda_),
            "ailake.folded_through": str(through),
        }


@dataclass(slots=True)
class _Run:
    """One run's constants.

    Attributes:
        folded: Memories whose pending accesses were counted in.
    """

    now: int
    recency: RecencyConfig
    through: int
    entries: Entries
    folded: int = 0

    def prepare(self, dataset: "lance.LanceDataset") -> Compute:
        """Find where the journal's memories are in this version; return the computation."""
        folds = self._folds(dataset)
        self.folded = sum(len(fold.pending) for fold in folds.values())
        return _NewColumns(self.now, self.recency, folds)

    def _folds(self, dataset: "lance.LanceDataset") -> dict[int, Fold]:
        pending: dict[int, dict[int, Pending]] = {}
        for address, waiting in waiting_accesses(dataset, self.entries).items():
            pending.setdefault(address >> 32, {})[address & 0xFFFFFFFF] = waiting
        return {fragment: Fold(found, self.through) for fragment, found in pending.items()}


@dataclass(frozen=True, slots=True)
class _NewColumns:
    """The computation of a fragment's new columns; it can be pickled."""

    now: int
    recency: RecencyConfig
    folds: Mapping[int, Fold]

    def __call__(self, view: FragmentView) -> Mapping[str, pa.Array] | None:
        """Return the new weights, with the access columns where accesses are counted in."""
        fold = self.folds.get(view.id)
        accessed = _last_access(view)
        columns: dict[str, pa.Array] = {}
        if fold is not None:
            accessed, columns = folded_accesses(accessed, view.read(ACCESS_COLUMNS), fold)
            if fold.has_repeats:
                repeats = view.read(REPEAT_COLUMNS)
                columns |= folded_repeats(repeats["updated_at"], repeats["confidence"], fold)
        weights = decayed_weights(accessed, self.now, self.recency)
        stored = view.columns["recency_weight"].to_numpy()
        if not columns and np.array_equal(weights, stored):
            return None
        return {"recency_weight": pa.array(weights), **columns}


def _last_access(view: FragmentView) -> NDArray[np.int64]:
    stored = view.columns["last_accessed_at"]
    if not stored.null_count:
        return as_nanoseconds(stored)
    birth = view.read(("event_time", "created_at"))
    return last_access(birth.append_column("last_accessed_at", stored))
