"""CompactionJob: few large fragments, current indexes, and nothing of the past beyond need."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter

from ailake import clock
from ailake.core.compaction import CompactionPolicy, Rewrite, plan_rewrites
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import Advance, progress_bar
from ailake.storage.compaction import (
    fragments_of,
    orphan_files,
    removable_versions,
    remove_versions,
    rewrite_fragments,
    sizes,
    sweep,
)
from ailake.storage.executing import Executor, Threads
from ailake.storage.indexes import boundaries, due_indexes, keep_current
from ailake.storage.locks import JOBS, exclusive
from ailake.storage.table import Table


@dataclass(frozen=True, slots=True)
class CompactedTable:
    """What a run did with one table, or with ``dry_run`` would do.

    Attributes:
        table: The table.
        rewrites: Fragments that became one, each with the reason.
        left: Rewrites that were planned, and left because others had changed the fragments.
        indexes: Indexes that were made or brought up to date.
        fragments_before: Fragments that were found.
        fragments_after: Fragments at the end.
        data_bytes_before: Size of the column files that the latest version consisted of.
        data_bytes_after: The same at the end; with ``dry_run`` as before.
        bytes_before: Everything on disk, older versions and indexes included.
        bytes_after: The same at the end; with ``dry_run`` as before. What was rewritten is there
            twice until the versions with the old files are removed.
        versions_removed: Versions that are gone.
        version_bytes_removed: Size of the files that only they named.
        orphans_removed: Files that no version named, by path within the table.
        version_before: Version that was found.
        version_after: Version at the end.
    """

    table: str
    rewrites: tuple[Rewrite, ...]
    left: int
    indexes: tuple[str, ...]
    fragments_before: int
    fragments_after: int
    data_bytes_before: int
    data_bytes_after: int
    bytes_before: int
    bytes_after: int
    versions_removed: int
    version_bytes_removed: int
    orphans_removed: tuple[str, ...]
    version_before: int
    version_after: int


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a run did, or with ``dry_run`` would do.

    Attributes:
        now: The instant that ages were counted to.
        tables: One entry per table.
        seconds: Wall time.
        dry_run: True where nothing was written.
    """

    now: datetime
    tables: tuple[CompactedTable, ...]
    seconds: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done with a table; all of it is known before anything is done."""

    rewrites: tuple[Rewrite, ...]
    indexes: tuple[str, ...]
    versions: tuple[int, ...]
    orphans: tuple[str, ...]


class CompactionJob:
    """Merges small fragments, leaves deleted rows out, and removes what nobody needs.

    Of every table, one commit at a time: neighbouring fragments become one, up to
    ``target_rows``; a fragment with many deleted rows, or of many column files, is written anew;
    the indexes are brought up to date; old versions are removed, and files that no version names.
    Row ids and values stay. Memory is bounded by the fragments of one commit. Safe beside any
    other writer; jobs of one lake exclude each other, and small fragments of a local one are not
    merged by others meanwhile. A run that is killed leaves the lake as its last commit made it.

    Args:
        lake: The lake.
        policy: When fragments are rewritten, and what of the past is kept.
        executor: Who rewrites; default: this process, one fragment after the other. The commits
            are made here.

    Raises:
        InvalidInputError: ``policy`` is not a CompactionPolicy.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        policy: CompactionPolicy | None = None,
        executor: Executor | None = None,
    ) -> None:
        chosen = CompactionPolicy() if policy is None else policy
        if not isinstance(chosen, CompactionPolicy):
            raise InvalidInputError.of("policy", got=policy, wanted="a CompactionPolicy")
        self._store = lake.store
        self._policy = chosen
        self.options = {"compaction": chosen}
        # One at a time: a rewrite uses all processors already, and holds a fragment in memory.
        self._executor = executor or Threads(1)

    @recorded("compact")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> CompactionReport:
        """Run once.

        Args:
            now: The instant from which the ages of versions are counted, timezone-aware; default:
                the present.
            dry_run: Report what would be done, and change nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ConflictError: Other writers won every retry; earlier commits of the run stand.
        """
        instant = clock.resolve_now(now)
        if not dry_run:
            self._store.ensure_writable()
        started = perf_counter()
        with exclusive(None if dry_run else self._store.place, JOBS):
            if not dry_run:
                self._store.settle()
            tables = list(self._store.tables.values())
            plans = [self._plan(table, instant) for table in tables]
            planned = [_described(table, plan) for table, plan in zip(tables, plans, strict=True)]
            if dry_run:
                done = [_with_removed(*one) for one in zip(tables, plans, planned, strict=True)]
            else:
                done = self._apply_all(tables, plans, planned, progress=progress)
        return CompactionReport(instant, tuple(done), perf_counter() - started, dry_run)

    def _plan(self, table: Table, now: datetime) -> _Plan:
        dataset = table.snapshot()
        rewrites = plan_rewrites(fragments_of(dataset, boundaries(dataset)), self._policy)
        # Whatever `now` says: what is being written is young by the clock of the files.
        before = min(now, clock.utc_now()) - self._policy.orphan_grace
        return _Plan(
            rewrites,
            due_indexes(table),
            removable_versions(table, now=now, keep=self._policy.keep_versions),
            tuple(orphan_files(table, before=before)),
        )

    def _apply_all(
        self,
        tables: Sequence[Table],
        plans: Sequence[_Plan],
        planned: Sequence[CompactedTable],
        *,
        progress: bool,
    ) -> list[CompactedTable]:
        total = sum(one.rows for plan in plans for one in plan.rewrites)
        with progress_bar("compacting", total=total, shown=progress) as advance:
            return [
                _apply(table, plan, described, self._executor, advance=advance)
                for table, plan, described in zip(tables, plans, planned, strict=True)
            ]


def _described(table: Table, plan: _Plan) -> CompactedTable:
    """Return what the plan would do."""
    fragments = len(table.snapshot().get_fragments())
    data, every = sizes(table)
    return CompactedTable(
        table=table.name,
        rewrites=plan.rewrites,
        left=0,
        indexes=plan.indexes,
        fragments_before=fragments,
        fragments_after=fragments - sum(len(one.fragments) - 1 for one in plan.rewrites),
        data_bytes_before=data,
        data_bytes_after=data,
        bytes_before=every,
        bytes_after=every,
        versions_removed=len(plan.versions),
        version_bytes_removed=0,
        orphans_removed=plan.orphans,
        version_before=table.version,
        version_after=table.version,
    )


def _with_removed(table: Table, plan: _Plan, planned: CompactedTable) -> CompactedTable:
    removed = remove_versions(table, plan.versions, dry_run=True)
    return replace(planned, versions_removed=removed.versions, version_bytes_removed=removed.bytes)


def _apply(
    table: Table, plan: _Plan, planned: CompactedTable, executor: Executor, *, advance: Advance
) -> CompactedTable:
    done: list[Rewrite] = []
    # Otherwise what merges small fragments as writes go on would take them away.
    with table.alone():
        outcomes = rewrite_fragments(table, plan.rewrites, executor)
        for rewrite, is_done in zip(plan.rewrites, outcomes, strict=True):
            if is_done:
                done.append(rewrite)
            advance(rewrite.rows)
    keep_current(table)
    removed = remove_versions(table, plan.versions, dry_run=False)
    sweep(table, plan.orphans)
    data, every = sizes(table)
    return replace(
        planned,
        rewrites=tuple(done),
        left=len(plan.rewrites) - len(done),
        fragments_after=len(table.snapshot().get_fragments()),
        data_bytes_after=data,
        bytes_after=every,
        versions_removed=removed.versions,
        version_bytes_removed=removed.bytes,
        version_after=table.version,
    )
