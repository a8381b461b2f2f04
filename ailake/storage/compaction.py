"""Rewriting chosen fragments, removing chosen versions, and sweeping files that nobody names."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import lance
from lance.file import LanceFileSession
from lance.optimize import Compaction, CompactionTask, RewriteResult

from ailake.core.compaction import Fragment, Rewrite, old_versions
from ailake.storage.column_files import Snapshot
from ailake.storage.columns import guard
from ailake.storage.executing import Executor
from ailake.storage.fences import check_fences
from ailake.storage.holding import tags_of
from ailake.storage.measures import versions
from ailake.storage.retries import reading_again, with_retries
from ailake.storage.table import Table

# What a rewrite reads ahead: the engine's own 2 GiB hold most tables whole.
_READ_AHEAD_BYTES = 64 * 1024**2
_BATCH_ROWS = 8_192

# The engine rewrites a fragment alone only for its deletions. Below zero their share always is
# large enough, even that of none.
_WHATEVER_IS_DELETED = -1.0

# Where writers put their files before a commit names them.
_SWEPT = ("data/", "_indices/")


@dataclass(frozen=True, slots=True)
class Removed:
    """What went with old versions.

    Attributes:
        versions: How many.
        bytes: Size of their files.
    """

    versions: int
    bytes: int


def fragments_of(dataset: lance.LanceDataset, parts: dict[int, frozenset[str]]) -> list[Fragment]:
    """Return the fragments of a version, in order.

    Args:
        dataset: The version.
        parts: Which parts of indexes cover each.
    """
    return [
        Fragment(
            id=one.fragment_id,
            rows=one.physical_rows,
            deleted=one.num_deletions,
            files=len(one.data_files()),
            parts=parts.get(one.fragment_id, frozenset()),
        )
        for one in dataset.get_fragments()
    ]


def rewrite_fragments(
    table: Table, planned: Sequence[Rewrite], executor: Executor
) -> Iterator[bool]:
    """Make one fragment of some, several times over, each in a commit of its own.

    Row ids and values stay. As many as the executor does at a time are made from one version, and
    committed in order as they are done.

    Yields:
        For each whether it was done: not where another writer has made others of its fragments.

    Raises:
        ConflictError: Other writers won every retry; what was committed before stands.
    """
    for start in range(0, len(planned), executor.width):
        yield from _Wave(table, planned[start : start + executor.width], executor).outcomes()


@dataclass(slots=True)
class _Wave:
    """Rewrites that are made at a time; those that lost a race are made again."""

    table: Table
    planned: Sequence[Rewrite]
    executor: Executor
    done: list[bool] = field(default_factory=list)

    def outcomes(self) -> list[bool]:
        with_retries(self._attempt, what=f"compaction of {self.table.name}")
        return self.done

    def _attempt(self) -> None:
        dataset = self.table.fresh()
        present = [one.fragment_id for one in dataset.get_fragments()]
        left = self.planned[len(self.done) :]
        tasks = [_tasks(dataset, present, one) for one in left]
        work = _Rewriting(Snapshot(dataset, storage_options=self.table.storage_options))
        with closing(self.executor.map(work, tasks)) as rewritten:
            for results in rewritten:
                if results:
                    self._commit(dataset, results)
                self.done.append(bool(results))

    def _commit(self, dataset: lance.LanceDataset, results: Sequence[RewriteResult]) -> None:
        # A handle moves on with its commit: the next one would not see the conflicts between.
        read = dataset.checkout_version(int(dataset.version))
        # A rewrite takes long enough for versions to be cleaned up under it.
        guard(self.table, read)
        Compaction.commit(read, list(results))


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """Writes the new fragments of one version; it can be pickled."""

    snapshot: Snapshot

    def __call__(self, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
        return [task.execute(self.snapshot.dataset) for task in tasks]


def _tasks(
    dataset: lance.LanceDataset, present: Sequence[int], planned: Rewrite
) -> list[CompactionTask]:
    """Return what makes one fragment of them, nothing where they are not there any more."""
    if not set(planned.fragments) <= set(present):
        return []
    options = {
        "target_rows_per_fragment": max(planned.rows, 1),
        "materialize_deletions": True,
        "materialize_deletions_threshold": _WHATEVER_IS_DELETED,
        "excluded_fragment_ids": [one for one in present if one not in planned.fragments],
        "batch_size": _BATCH_ROWS,
        "io_buffer_size": _READ_AHEAD_BYTES,
    }
    return list(Compaction.plan(dataset, options).tasks)


def removable_versions(table: Table, *, now: datetime, keep: timedelta) -> tuple[int, ...]:
    """Return the versions that are older than ``keep``; the latest and tagged ones stay."""

    def listed() -> tuple[int, ...]:
        made = {one.version: one.created_at for one in versions(table)}
        tagged = [int(tag["version"]) for tag in tags_of(table).values()]
        return old_versions(made, tagged, now=now, keep=keep)

    return reading_again(listed)


def remove_versions(table: Table, removed: Sequence[int], *, dry_run: bool) -> Removed:
    """Remove versions and the files that they alone name; one that is tagged by now stays."""
    if not removed:
        return Removed(0, 0)

    def remove() -> Removed:
        check_fences()
        dataset = table.fresh()
        options = {"versions": list(removed), "error_if_tagged_old_versions": False}
        if dry_run:
            stats = dataset.explain_cleanup_old_versions(**options).stats
        else:
            stats = dataset.cleanup_old_versions(**options)
        return Removed(int(stats.old_versions), int(stats.bytes_removed))

    return reading_again(remove)


def orphan_files(table: Table, *, before: datetime) -> list[str]:
    """Return the files of data and indexes that no version names, by path within the table.

    Args:
        table: The table.
        before: Only files last written before; younger ones may be those of a commit to come.
    """

    def found() -> list[str]:
        dataset = table.snapshot()
        files = dataset.all_files().read_all()
        old = {
            path
            for path, written in zip(
                files["path"].to_pylist(), files["last_modified"].to_pylist(), strict=True
            )
            if path.startswith(_SWEPT) and written < before
        }
        # Asked after the files are listed: what is committed in between is named.
        tracked = table.fresh().tracked_files().read_all()["path"].to_pylist() if old else []
        return sorted(old.difference(tracked))

    return reading_again(found)


def sweep(table: Table, paths: Sequence[str]) -> None:
    """Delete files of a table."""
    check_fences()
    session = LanceFileSession(table.snapshot().uri, storage_options=table.storage_options or None)
    for path in paths:
        session.delete_file(path)


def sizes(table: Table) -> tuple[int, int]:
    """Return the bytes of the latest version's column files, and of everything on disk."""
    dataset = table.snapshot()
    data = sum(f.file_size_bytes or 0 for one in dataset.get_fragments() for f in one.data_files())
    files = reading_again(lambda: dataset.all_files().read_all())
    return data, sum(files["size_bytes"].to_pylist())
