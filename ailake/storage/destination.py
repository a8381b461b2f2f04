"""Where a copy of a lake is written: it looks like a lake only when all of it is there."""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from ailake.core.schema import TABLES
from ailake.errors import ConflictError, InvalidInputError, ReadOnlyError
from ailake.storage.location import Location
from ailake.storage.locks import FOLDER, LockedError, exclusive, remove_held
from ailake.storage.syncing import sync
from ailake.storage.unfinished import MARKER, entries, session

log = logging.getLogger(__name__)

_RECEIVING = "receive"


class Destination(Protocol):
    """A place that a copy is being written to."""

    def uri_of(self, name: str) -> str:
        """Return where the engine shall put a table."""

    def finish(self, names: Iterable[str]) -> None:
        """Make the tables a lake, ``episodic`` last; after it they survive a power cut."""


@contextmanager
def destination(
    location: Location, storage_options: Mapping[str, str], *, hold_id: str
) -> Iterator[Destination]:
    """Begin a copy at an empty place; whatever ends the block before ``finish`` empties it again.

    What a killed copy left there is removed first.

    Args:
        location: The place.
        storage_options: The engine's, for this place.
        hold_id: A fresh id of 32 characters.

    Raises:
        InvalidInputError: Something else stands there, or another copy is being written.
        ReadOnlyError: The folder can't be written.
    """
    _refuse_occupied(location, entries(location, storage_options))
    if location.root is None:
        with _bucket(location, storage_options, hold_id) as bucket:
            yield bucket
        return
    with _receiving(location, location.root), _folder(location, location.root) as folder:
        yield folder


@contextmanager
def _receiving(location: Location, root: Path) -> Iterator[None]:
    """Keep other copies away from a folder, and leave no trace there where none is made."""
    existed = root.exists()
    with ExitStack() as held:
        try:
            (root / FOLDER).mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusive(root, _RECEIVING, wait=False))
        except PermissionError as error:
            raise ReadOnlyError(f"{location.uri} can't be written: {error}") from error
        except (LockedError, FileNotFoundError) as error:
            # Not found: the other gave up at this moment, and took the folder with it.
            raise InvalidInputError(
                f"{location.uri}: another backup is being written there"
            ) from error
        try:
            yield
        finally:
            # By who holds the lock alone, and before it is let go.
            remove_held(root, _RECEIVING)
            _remove_if_empty(root / FOLDER)
            if not existed:
                _remove_if_empty(root)


def _refuse_occupied(location: Location, found: set[str]) -> None:
    tables = {f"{name}.lance" for name in TABLES}
    left = {MARKER, *tables} if MARKER in found else set()
    if location.root is not None:
        if "episodic.lance" in found:
            # It is moved there whole, as the last step.
            left = set()
        others = [path for path in (location.root / FOLDER).glob("*") if path.suffix != ".lock"]
        left |= set() if others else {FOLDER}
    else:
        # Leases that have expired are all that is in it.
        left.add(FOLDER)
    if found - left:
        raise InvalidInputError(
            f"{location.uri} is not empty: it holds {', '.join(sorted(found - left)[:3])}; wanted "
            "an empty or new place"
        )


@contextmanager
def _folder(location: Location, root: Path) -> Iterator["_Folder"]:
    # Once more, now that no other copy can begin.
    found = set(location.strangers())
    _refuse_occupied(location, found)
    if MARKER in found:
        for name in TABLES:
            shutil.rmtree(root / f"{name}.lance", ignore_errors=True)
        shutil.rmtree(root / MARKER)
    (root / MARKER).mkdir()
    folder = _Folder(root)
    try:
        yield folder
    finally:
        folder.abandon()


class _Folder:
    """A local folder: tables are copied into a folder of their own and moved out when whole."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._moved: list[Path] = []
        self._finished = False

    def uri_of(self, name: str) -> str:
        return str(self._root / MARKER / f"{name}.lance")

    def finish(self, names: Iterable[str]) -> None:
        for name in _episodic_last(names):
            source = Path(self.uri_of(name))
            _sync_tree(source)
            target = self._root / source.name
            source.rename(target)
            self._moved.append(target)
            sync(self._root)
        self._finished = True
        (self._root / MARKER).rmdir()
        sync(self._root)
        sync(self._root.parent)

    def abandon(self) -> None:
        if self._finished:
            return
        for table in [*self._moved, self._root / MARKER]:
            shutil.rmtree(table, ignore_errors=True)


@contextmanager
def _bucket(
    location: Location, storage_options: Mapping[str, str], hold_id: str
) -> Iterator["_Bucket"]:
    bucket = _Bucket(location, storage_options, hold_id)
    # From here on no lake can be made there, and a backup that still runs there gives up.
    bucket.mark()
    try:
        bucket.clear_tables()
        yield bucket
    finally:
        bucket.abandon()


class _Bucket:
    """A prefix of an object store: an object marks it until all tables are there."""

    def __init__(
        self, location: Location, storage_options: Mapping[str, str], hold_id: str
    ) -> None:
        self._uri = location.uri.rstrip("/")
        self._session = session(location, storage_options)
        self._id = hold_id.encode()
        self._finished = False

    def mark(self) -> None:
        with TemporaryDirectory() as folder:
            file = Path(folder) / MARKER
            file.write_bytes(self._id)
            self._session.upload_file(file, MARKER)

    def uri_of(self, name: str) -> str:
        self._check_mark()
        return f"{self._uri}/{name}.lance"

    def finish(self, names: Iterable[str]) -> None:  # noqa: ARG002 (they are in place)
        self._check_mark()
        self._session.delete_file(MARKER)
        self._finished = True

    def abandon(self) -> None:
        if self._finished:
            return
        try:
            if self._is_mine():
                self.clear_tables()
                self._session.delete_file(MARKER)
        except (OSError, RuntimeError):
            # The mark is deleted last: what is left is recognised by the next backup.
            log.warning("could not clear the unfinished backup %s", self._uri, exc_info=True)

    def clear_tables(self) -> None:
        for name in TABLES:
            for path in self._session.list(f"{name}.lance"):
                self._session.delete_file(path)

    def _check_mark(self) -> None:
        if not self._is_mine():
            raise ConflictError(
                f"{self._uri}: another backup to the same place took over; this one was given up"
            )

    def _is_mine(self) -> bool:
        if not self._session.contains(MARKER):
            return False
        found: bytes = self._session.read_range(MARKER, 0, len(self._id))
        return found == self._id


def _episodic_last(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name == "episodic", name))


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _sync_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        for file in files:
            sync(Path(parent) / file)
        sync(Path(parent))
