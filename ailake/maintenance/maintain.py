"""MaintainJob: all that a lake needs now and then, in one pass."""

from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from ailake import clock
from ailake.core.compaction import CompactionPolicy
from ailake.core.episodic import RecencyConfig, ScoringPolicy
from ailake.core.vectors import IndexPolicy
from ailake.lake import Lake
from ailake.maintenance.compact import CompactionJob, CompactionReport
from ailake.maintenance.decay import DecayReport, MemoryDecayJob
from ailake.maintenance.forget import ForgetJob, PruneReport
from ailake.maintenance.indexing import IndexJob, IndexReport
from ailake.maintenance.runs import recorded


@dataclass(frozen=True, slots=True)
class MaintainReport:
    """What the jobs of one pass did, or with ``dry_run`` would do, in their order.

    Attributes:
        now: The instant that ages were counted to.
        decay: Accesses folded in, and weights brought up to date.
        prune: Memories removed.
        compaction: Fragments rewritten, and old versions removed.
        indexes: Indexes of vectors that were built.
        seconds: Wall time.
        dry_run: True where nothing was written; each job tells what it would do to the lake as it
            is, not as the jobs before would leave it.
    """

    now: datetime
    decay: DecayReport
    prune: PruneReport
    compaction: CompactionReport
    indexes: IndexReport
    seconds: float
    dry_run: bool


class MaintainJob:
    """Folds accesses in and decays, prunes what has expired, compacts, and builds indexes.

    Each job holds the lake's lock of jobs by itself: another may run in between.

    Args:
        lake: The lake.
        recency: The forgetting curve of the stored weights, weekly by default.
        min_weight: As of ``ForgetJob``; default: only what has expired goes.
        keep: As of ``ForgetJob``.
        scoring: As of ``ForgetJob``.
        compaction: When fragments are rewritten, and what of the past is kept.
        indexes: Which indexes of vectors to build, and when that is good enough.

    Raises:
        InvalidInputError: An argument is of another type.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        recency: RecencyConfig = RecencyConfig.WEEKLY_DECAY,
        min_weight: float | None = None,
        keep: int | None = None,
        scoring: ScoringPolicy | None = None,
        compaction: CompactionPolicy | None = None,
        indexes: IndexPolicy | None = None,
    ) -> None:
        self._store = lake.store
        self._decay = MemoryDecayJob(lake, recency=recency)
        self._prune = ForgetJob(lake, min_weight=min_weight, keep=keep, scoring=scoring)
        self._compact = CompactionJob(lake, policy=compaction)
        self._index = IndexJob(lake, policy=indexes)
        parts = (self._decay, self._prune, self._compact, self._index)
        self.options = {name: value for part in parts for name, value in part.options.items()}

    @recorded("maintain")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> MaintainReport:
        """Run all of them once, in this order.

        Args:
            now: The instant to count ages to, timezone-aware; default: the present.
            dry_run: Report what would be done, and change nothing.
            progress: Show bars on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ConflictError: Other writers won every retry; the jobs before have done their work.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        return MaintainReport(
            now=instant,
            decay=self._decay.run(instant, dry_run=dry_run, progress=progress),
            prune=self._prune.run(instant, dry_run=dry_run, progress=progress),
            compaction=self._compact.run(instant, dry_run=dry_run, progress=progress),
            indexes=self._index.run(instant, dry_run=dry_run, progress=progress),
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )
