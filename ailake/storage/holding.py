"""Holding one state of all tables still while it is copied and others go on writing."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from ailake.storage.location import Location
from ailake.storage.locks import DECAY, exclusive, is_held, lifeline
from ailake.storage.retries import StaleSnapshotError, reading_again, with_retries
from ailake.storage.table import Table

log = logging.getLogger(__name__)

# No name that a user may give to a tag begins so.
RESERVED = "_backup."

# On an object store no lock tells whether the process that made a tag still lives.
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Source:
    """What is copied.

    Attributes:
        tables: By name; they stay where they are.
        committing: Holds the lake's write lock, with the log drained; None where nothing may be
            written, not even a tag: then a clean-up can remove a version while it is copied.
    """

    location: Location
    tables: Mapping[str, Table]
    committing: Callable[[], AbstractContextManager[None]] | None

    @property
    def storage_options(self) -> dict[str, str]:
        """What the engine was given to open the tables."""
        return next(iter(self.tables.values())).storage_options


@contextmanager
def held_versions(source: Source, *, hold_id: str, now: datetime) -> Iterator[dict[str, int]]:
    """Yield the version of every table at one moment; none is cleaned up within the block.

    Writers wait only while the versions are taken.

    Args:
        source: The tables.
        hold_id: A fresh id: names the tags that keep the versions, and the lock that tells others
            that this process still needs them.
        now: The present.

    Raises:
        ConflictError: On an object store, where no lock can stop them, other writers committed
            in between time after time.
    """
    if source.committing is None:
        yield with_retries(lambda: _moment(source, _version, locked=False), what="backup")
        return
    drop_holds(source.tables, abandoned_holds(source.location, source.tables, now=now))
    tag = RESERVED + hold_id
    root = source.location.root
    with lifeline(root, tag):
        try:
            with exclusive(root, DECAY), source.committing():
                versions = with_retries(lambda: _tagged_moment(source, tag), what="backup")
            yield versions
        finally:
            _let_go(source.tables, tag)


def abandoned_holds(location: Location, tables: Mapping[str, Table], *, now: datetime) -> list[str]:
    """Return the tags of backups that died: their lock is free, or they are over a day old."""
    found: dict[str, datetime] = {}
    for table in tables.values():
        for name, tag in tags_of(table).items():
            if name.startswith(RESERVED):
                found[name] = tag["created_at"]
    if location.root is not None:
        return sorted(name for name in found if not is_held(location.root, name))
    return sorted(name for name, made in found.items() if made < now - _ABANDONED_AFTER)


def drop_holds(tables: Mapping[str, Table], names: list[str]) -> None:
    """Delete tags that keep versions for a backup."""
    for table in tables.values():
        for name in set(names) & set(tags_of(table)):
            # ValueError: another process deletes them too, and was first.
            with suppress(ValueError):
                table.fresh().tags.delete(name)


def tags_of(table: Table) -> dict[str, Any]:
    """Return all tags of a table, those of backups included.

    The engine lists them and then reads each: one that is deleted in between is an error.
    """
    return reading_again(lambda: dict(table.fresh().tags.list()))


def _let_go(tables: Mapping[str, Table], tag: str) -> None:
    try:
        drop_holds(tables, [tag])
    except (OSError, RuntimeError):
        # No copy hangs on it, and the next backup finds the tag and deletes it.
        log.warning("could not delete the tag %s", tag, exc_info=True)


def _tagged_moment(source: Source, tag: str) -> dict[str, int]:
    locked = source.location.root is not None
    return _moment(source, lambda table: _tagged(table, tag), locked=locked)


def _tagged(table: Table, tag: str) -> int:
    def attempt() -> int:
        version, there = table.version, tag in tags_of(table)
        tags = table.fresh().tags
        try:
            (tags.update if there else tags.create)(tag, version)
        except ValueError as error:
            raise StaleSnapshotError(f"version {version} was cleaned up") from error
        # A clean-up that read the tags before keeps what was then the latest version. Where there
        # is a later one by now, it may be about to remove this one in spite of the tag.
        if table.version != version:
            raise StaleSnapshotError(f"a version followed {version} before it was tagged")
        return version

    return with_retries(attempt, what=f"holding {table.name}")


def _moment(source: Source, version_of: Callable[[Table], int], *, locked: bool) -> dict[str, int]:
    # The journal first: a row may then lack accesses that are pending, but never count one that
    # the journal does not have, whose version a later access would take again.
    journal = {"accesses": version_of(source.tables["accesses"])}
    others = {name: table for name, table in source.tables.items() if name not in journal}
    versions = {name: version_of(table) for name, table in others.items()}
    if any(table.version != versions[name] for name, table in others.items()):
        raise StaleSnapshotError("a table was written while the versions were taken")
    if not locked:
        _check_watermarks(source.tables["episodic"], versions["episodic"], journal["accesses"])
    return journal | versions


def _version(table: Table) -> int:
    return table.version


def _check_watermarks(episodic: Table, version: int, journal_version: int) -> None:
    dataset = episodic.fresh().checkout_version(version)
    for batch in dataset.scanner(columns=["folded_through"]).to_batches():
        highest = pc.max(batch["folded_through"]).as_py()
        if highest is not None and highest > journal_version:
            raise StaleSnapshotError("a decay run was folding while the versions were taken")
