"""Rewriting chosen fragments, removing chosen versions, and sweeping files that nobody names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import lance
from lance.file import LanceFileSession
from lance.optimize import Compaction

from ailake.core.compaction import Fragment, Rewrite, old_versions
from ailake.storage.columns import guard
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


def rewrite_fragments(table: Table, planned: Rewrite) -> bool:
    """Make one fragment of some, in one commit; row ids and values stay.

    Returns:
        False where another writer has made others of them: then nothing was done.

    Raises:
        ConflictError: Other writers won every retry.
    """

    def attempt() -> bool:
        dataset = table.fresh()
        present = [one.fragment_id for one in dataset.get_fragments()]
        if not set(planned.fragments) <= set(present):
            return False
        options = {
            "target_rows_per_fragment": max(planned.rows, 1),
            "materialize_deletions": True,
            "materialize_deletions_threshold": _WHATEVER_IS_DELETED,
            "excluded_fragment_ids": [one for one in present if one not in planned.fragments],
            "batch_size": _BATCH_ROWS,
            "io_buffer_size": _READ_AHEAD_BYTES,
        }
        done = [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]
        # A rewrite takes long enough for versions to be cleaned up under it.
        guard(table, dataset)
        Compaction.commit(dataset, done)
        return True

    return with_retries(attempt, what=f"compaction of {table.name}")


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
