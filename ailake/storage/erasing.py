"""Erasing what is deleted: no file that is left of a table holds a row that it has no more.

A delete only marks rows, and an index, an old version and a file that no version names keep what
they held. Nobody else may write the table meanwhile: a file that is being written is named by no
version yet, and is taken for a stray one.
"""

from dataclasses import dataclass
from datetime import timedelta

import lance
from lance.file import LanceFileSession

from ailake.core.compaction import Reason, Rewrite
from ailake.errors import ConflictError
from ailake.storage.compaction import fragments_of, rewrite_fragments
from ailake.storage.executing import Threads
from ailake.storage.measures import versions
from ailake.storage.rebuilding import rebuild_indexes
from ailake.storage.retries import reading_again
from ailake.storage.table import Table

# All that a table consists of but its tags, which hold names and version numbers.
_FOLDERS = ("data/", "_indices/", "_deletions/", "_transactions/", "_versions/")
_HINT = "_versions/latest_version_hint.json"


@dataclass(frozen=True, slots=True)
class Erased:
    """What was done to one table.

    Attributes:
        fragments: Fragments that were written anew without their deleted rows.
        indexes: Indexes that were built anew.
        versions: Old versions that were removed.
        files: Files that were removed because no version names them.
    """

    fragments: int
    indexes: tuple[str, ...]
    versions: int
    files: int


def erase_deleted(table: Table) -> Erased:
    """Erase all that a table has deleted, and all of its past that is not tagged.

    Each step can be taken twice, and a kill in between leaves the table as it reads.

    Raises:
        ConflictError: Others write the table in spite of the lake's write lock.
    """
    before = len(versions(table))
    with table.alone():
        rewritten = _without_deleted(table)
        indexes = rebuild_indexes(table)
        table.clean(older_than=timedelta(0))
        with table.appending():
            files = stray_files(table)
            _remove(table, files)
    return Erased(rewritten, indexes, before - len(versions(table)), len(files))


def stray_files(table: Table) -> list[str]:
    """Return the files of a table that no version names, by path within it, whatever their age."""

    def found() -> list[str]:
        dataset = table.snapshot()
        there = {*dataset.all_files().read_all()["path"].to_pylist(), *_unlisted(table)}
        tracked = table.fresh().tracked_files().read_all()["path"].to_pylist()
        return sorted(
            path for path in there.difference(tracked, {_HINT}) if path.startswith(_FOLDERS)
        )

    return reading_again(found)


def deleted_fragments(dataset: lance.LanceDataset) -> list[Rewrite]:
    """Return the fragments of a version that hold deleted rows, each to be rewritten alone."""
    return [
        Rewrite((one.id,), one.live, one.deleted, one.files, Reason.DELETIONS)
        for one in fragments_of(dataset, {})
        if one.deleted
    ]


def _without_deleted(table: Table) -> int:
    rewrites = deleted_fragments(table.fresh())
    if not all(rewrite_fragments(table, rewrites, Threads(1))):
        raise ConflictError(
            f"purge of {table.name}: another writer rewrote what was being rewritten; stop it and "
            "run again"
        )
    return len(rewrites)


def _unlisted(table: Table) -> set[str]:
    """Return what the engine does not list in a local folder: files that it began to write."""
    if table.folder is None:
        return set()
    paths = (path for name in _FOLDERS for path in (table.folder / name).rglob("*"))
    return {path.relative_to(table.folder).as_posix() for path in paths if path.is_file()}


def _remove(table: Table, paths: list[str]) -> None:
    if table.folder is not None:
        for path in paths:
            (table.folder / path).unlink(missing_ok=True)
        return
    session = LanceFileSession(table.snapshot().uri, storage_options=table.storage_options or None)
    for path in paths:
        session.delete_file(path)
