"""Copies of a whole lake: made while others write, and put back."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

from ailake import clock
from ailake.errors import ConflictError
from ailake.progress import progress_bar
from ailake.storage.copying import (
    TableCopy,
    copy_table,
    open_source,
    other_tables,
    refuse_overlap,
)
from ailake.storage.destination import destination
from ailake.storage.holding import Source, held_versions
from ailake.storage.location import Location
from ailake.storage.log import segments
from ailake.storage.reaching import reaching
from ailake.storage.retries import is_lost_race, reading_again
from ailake.storage.store import Store


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup or a restore copied.

    Attributes:
        source: Address of the lake that was copied.
        target: Address of the copy, which is a lake of its own.
        tables: One entry per table.
        skipped: Tables at the source that are none of the lake's, and were left out.
        rows: Live rows of all tables.
        files: Files written.
        bytes: Size of all of them.
        seconds: Wall time.
    """

    source: str
    target: str
    tables: tuple[TableCopy, ...]
    skipped: tuple[str, ...]
    rows: int
    files: int
    bytes: int
    seconds: float


def backup_store(
    store: Store, uri: object, *, storage_options: Mapping[str, str] | None, progress: bool
) -> BackupReport:
    """Copy an open lake; see ``Lake.backup``."""
    store.ensure_open()
    store.settle()
    store.record_if_possible()
    committing = None if store.read_only else store.committing
    source = Source(store.location, store.tables, committing=committing)
    return _copy(source, Location.of(uri), storage_options, progress=progress)


def restore_lake(
    backup_uri: str | os.PathLike[str],
    to_uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    to_storage_options: Mapping[str, str] | None = None,
    progress: bool = False,
) -> BackupReport:
    """Copy a backup, or any lake, to a new place; nothing is written to the backup.

    A backup of an older schema version is copied as it is: open the copy with
    ``ailake.connect(to_uri, migrate=True)``. (One memory that was merged or replaced is brought
    back by ``Memory.restore``.)

    Args:
        backup_uri: Where the backup is: a folder, or an object store such as ``s3://bucket/a``.
        to_uri: Where the lake shall be: a new or empty folder or prefix.
        storage_options: Keys, region, endpoint and the like of the backup's object store.
        to_storage_options: Those of the new place; default: those of the backup.
        progress: Show a bar on standard error.

    Raises:
        NotFoundError: No lake at ``backup_uri``.
        InvalidInputError: ``to_uri`` is not empty, or lies within the backup, or ``backup_uri``
            is an unfinished backup.
        ReadOnlyError: The new folder can't be written.
        ConflictError: Where others write to the source: versions were cleaned up faster than they
            were copied, or its log is not empty; ``lake.backup`` copies such a lake.
    """
    source = open_source(Location.of(backup_uri), _text(storage_options))
    return _copy(source, Location.of(to_uri), to_storage_options, progress=progress)


def _copy(
    source: Source,
    target: Location,
    storage_options: Mapping[str, str] | None,
    *,
    progress: bool,
) -> BackupReport:
    remote = None in {source.location.root, target.root}
    with reaching(f"{source.location.uri} to {target.uri}", remote=remote):
        return _copied(source, target, storage_options, progress=progress)


def _copied(
    source: Source,
    target: Location,
    storage_options: Mapping[str, str] | None,
    *,
    progress: bool,
) -> BackupReport:
    started = perf_counter()
    if target.root is not None:
        options = {}
    else:
        options = source.storage_options if storage_options is None else _text(storage_options)
    refuse_overlap(source, target, options)
    if source.committing is None:
        _refuse_log(source.location)

    def attempt() -> tuple[TableCopy, ...]:
        return _attempt(source, target, options, progress=progress)

    tables = attempt() if source.committing else _again_where_files_went(source, attempt)
    return BackupReport(
        source=source.location.uri,
        target=target.uri,
        tables=tables,
        skipped=tuple(other_tables(source)),
        rows=sum(table.rows for table in tables),
        files=sum(table.files for table in tables),
        bytes=sum(table.bytes for table in tables),
        seconds=perf_counter() - started,
    )


def _refuse_log(location: Location) -> None:
    if location.root is not None and segments(location.root):
        raise ConflictError(
            f"{location.uri}: its log holds memories that are not in the tables yet and that can't "
            "be put there from here; open it for writing once, or copy it with lake.backup"
        )


def _again_where_files_went(
    source: Source, attempt: Callable[[], tuple[TableCopy, ...]]
) -> tuple[TableCopy, ...]:
    """Copy what nothing holds: a clean-up may remove a file first, then all is copied anew."""
    try:
        return reading_again(attempt)
    except (OSError, RuntimeError, ValueError) as error:
        if not is_lost_race(error):
            raise
        raise ConflictError(
            f"{source.location.uri}: files of the version that was being copied were gone each "
            "time; its versions are cleaned up faster than they can be copied, or the lake is "
            f"damaged. Nothing is left at the new place. {error}"
        ) from error


def _attempt(
    source: Source, target: Location, storage_options: Mapping[str, str], *, progress: bool
) -> tuple[TableCopy, ...]:
    hold_id = clock.new_id()
    copies = []
    with (
        destination(target, storage_options, hold_id=hold_id) as place,
        held_versions(source, hold_id=hold_id, now=clock.utc_now()) as versions,
        progress_bar("copying tables", total=len(versions), shown=progress) as advance,
    ):
        # On an object store the last manifest makes the lake: it has to be that of episodic.
        for name in sorted(versions, key=lambda name: (name == "episodic", name)):
            uri = place.uri_of(name)
            copies.append(copy_table(source.tables[name], versions[name], uri, storage_options))
            advance(1)
        place.finish(versions)
    return tuple(copies)


def _text(options: Mapping[str, str] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (options or {}).items()}
