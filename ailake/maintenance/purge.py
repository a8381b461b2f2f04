"""PurgeJob: erase a scope, or memories, so that no file that is left holds anything of them."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from ailake import clock
from ailake.core.erasure import Target
from ailake.core.records import Scope
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import progress_bar
from ailake.storage.erasing import Erased, deleted_fragments, erase_deleted, stray_files
from ailake.storage.indexes import indexes_of
from ailake.storage.locks import DECAY, JOBS, exclusive
from ailake.storage.measures import versions
from ailake.storage.purging import (
    EPISODIC,
    PurgePlan,
    delete_rows,
    drop_tags,
    plan_purge,
    purged_tables,
    refuse_backups,
    remove_damaged,
)
from ailake.storage.staging import remove_staged
from ailake.storage.table import Table


@dataclass(frozen=True, slots=True)
class PurgedTable:
    """What a run did with one table, or with ``dry_run`` would do.

    Attributes:
        table: The table.
        rows: Rows that were deleted; some may have been before, and stand in old versions.
        fragments: Fragments that were written anew without their deleted rows; with ``dry_run``
            those that have some already.
        indexes: Indexes that were built anew.
        versions: Old versions that were removed; with ``dry_run`` those that are there.
        files: Files that were removed because no version named them.
    """

    table: str
    rows: int
    fragments: int
    indexes: tuple[str, ...]
    versions: int
    files: int


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a run erased, or with ``dry_run`` would erase.

    Attributes:
        now: When.
        scope: The scope that was named, if one was.
        ids: The memories that were named, those that they stand for, and those that were merged
            into them, whether or not there was a row of them yet, sorted; empty for a scope.
        tables: One entry for each table that holds texts, ids of memories or vectors.
        tags: Tags that hold some of it, sorted; a run deletes them.
        damaged: Unreadable pieces of the log that are deleted, by the names of their files.
        seconds: Wall time.
        dry_run: True where nothing was changed.
    """

    now: datetime
    scope: Scope | None
    ids: tuple[str, ...]
    tables: tuple[PurgedTable, ...]
    tags: tuple[str, ...]
    damaged: tuple[str, ...]
    seconds: float
    dry_run: bool

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


class PurgeJob:
    """Erases all of a scope, or of some memories, from every file of the lake.

    Rows go from every table by the registry's rule; what memories had been merged into one that
    is named goes along. Then every fragment with deleted rows is written anew, every index is
    built anew, old versions are removed at any age, and so is what no version names: files of
    writers that died, unreadable pieces of the log, vectors of a re-embedding that is not done.
    What was forgotten earlier and still stands in old versions is erased, too, whether it is named
    or not. The ledger keeps its entries, which are ids, scopes and hashes, and says that there was
    a purge.

    Writers of a local lake wait; readers go on, and what they hold of old versions is gone. On an
    object store no lock can stop the others: stop all writers first, or their files may be taken
    for stray ones. A run that is killed is completed by the next one with the same terms: each
    step can be taken twice. Backups are lakes of their own and keep what they hold.

    Args:
        lake: The lake.
        scope: Erase all of it; with ``ids`` only these of it.
        ids: Erase these memories, in whatever scope; those that were forgotten, too.
        confirm_tags: Tags that may be deleted, by name, or True for all: a tag keeps a version.

    Raises:
        InvalidInputError: Neither scope nor ids, or something else.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        scope: Scope | None = None,
        ids: str | Iterable[str] | None = None,
        confirm_tags: bool | Iterable[str] = (),
    ) -> None:
        self._store = lake.store
        self._target = Target.of(scope, ids)
        self._confirmed = confirm_tags is True or _names(confirm_tags)
        self.options = {"scope": scope, "ids": self._target.ids, "confirm_tags": self._confirmed}

    @recorded("purge")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> PurgeReport:
        """Run once.

        Args:
            now: When the ledger says that it was, timezone-aware; default: the present.
            dry_run: Report what would go, and change nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive, or a tag holds some of it and is not confirmed;
                nothing was changed.
            ReadOnlyError: The lake can't be written.
            ConflictError: A backup is running, or other writers won every retry; the next run
                goes on.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        if dry_run:
            self._store.settle()
            self._store.record_if_possible()
            plan = plan_purge(self._store, self._target)
            tables = tuple(_foreseen(table, plan) for table in purged_tables(self._store))
        else:
            self._store.ensure_writable()
            plan, tables = self._erase(instant, progress=progress)
        return PurgeReport(
            now=instant,
            scope=self._target.scope,
            ids=plan.target.ids or (),
            tables=tables,
            tags=plan.tags,
            damaged=tuple(path.name for path in plan.damaged),
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )

    def _erase(self, now: datetime, *, progress: bool) -> tuple[PurgePlan, tuple[PurgedTable, ...]]:
        store, root = self._store, self._store.location.root
        with ExitStack() as held:
            held.enter_context(exclusive(store.place, JOBS))
            held.enter_context(exclusive(root, DECAY))
            held.enter_context(store.committing())
            store.recorder.catch_up(store, alone=False)
            refuse_backups(store, now=now)
            plan = plan_purge(store, self._target)
            self._refuse_tags(plan)
            drop_tags(store, plan.tags)
            delete_rows(store, plan, now=now)
            remove_damaged(plan.damaged)
            remove_staged(store.location, store.episodic.storage_options)
            tables = purged_tables(store)
            done = []
            with progress_bar("purging", total=len(tables), shown=progress) as advance:
                for table in tables:
                    done.append(_purged(table.name, plan, erase_deleted(table)))
                    advance(1)
            store.recorder.note_purge(store, plan.target, now=now)
        return plan, tuple(done)

    def _refuse_tags(self, plan: PurgePlan) -> None:
        if self._confirmed is True:
            return
        held = [tag for tag in plan.tags if tag not in self._confirmed]
        if held:
            raise InvalidInputError(
                f"purge: the tags {', '.join(map(repr, held))} hold some of it, and would be "
                "deleted; name them in confirm_tags, or give True for all"
            )


def _names(given: object) -> frozenset[str]:
    listed = [given] if isinstance(given, str) else given or ()
    if not isinstance(listed, Iterable):
        raise InvalidInputError.of("confirm_tags", got=given, wanted="True, or names of tags")
    names = frozenset(listed)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError.of("confirm_tags", got=given, wanted="True, or names of tags")
    return names


def _rows(name: str, plan: PurgePlan) -> int:
    return plan.memories.num_rows if name == EPISODIC else len(plan.rows.get(name, ()))


def _purged(name: str, plan: PurgePlan, done: Erased) -> PurgedTable:
    return PurgedTable(
        name, _rows(name, plan), done.fragments, done.indexes, done.versions, done.files
    )


def _foreseen(table: Table, plan: PurgePlan) -> PurgedTable:
    dataset = table.snapshot()
    return PurgedTable(
        table=table.name,
        rows=_rows(table.name, plan),
        fragments=len(deleted_fragments(dataset)),
        indexes=tuple(index.name for index in indexes_of(dataset)),
        versions=len(versions(table)) - 1,
        files=len(stray_files(table)),
    )
