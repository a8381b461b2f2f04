"""Locks between processes.

In a folder they are held by the operating system, so they die with their holder; on an object
store they are leases, which expire.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import sleep

from filelock import FileLock, Timeout

from ailake.storage import leases
from ailake.storage.leases import Lease, renewed
from ailake.storage.location import ObjectStore
from ailake.storage.reaching import reaching

log = logging.getLogger("ailake")

WRITE = "write"
DECAY = "decay"

# Held by every job for as long as it runs, and taken before the others.
JOBS = "jobs"

# Held while a job asks a model or a person, which may take hours: the other jobs don't wait.
VERIFY = "verify"
REVIEW = "review"

# Beside the tables, and no table: LanceDB lists only folders that end in .lance.
FOLDER = leases.FOLDER

_POLL_SECONDS = 0.005

# What jobs hold, and which of it this thread holds: the jobs of a pass, and what a scheduler runs,
# take it again within.
_HELD_AGAIN = {JOBS, REVIEW, VERIFY}
_held: ContextVar[frozenset[tuple[str, str]]] = ContextVar("_held", default=frozenset())

# Each look at a lease is a request or two.
_POLL_LEASE_SECONDS = 2.0


class LockedError(Exception):
    """Another process or thread holds the lock."""


@contextmanager
def exclusive(root: Path | ObjectStore | None, name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lake's lock ``name``, waiting for it.

    Who holds a lock of jobs holds it again within, in the same thread; no other one. On an
    object store each commit of this thread is preceded by a look at the lease: where it was lost,
    that is a ConflictError.

    Args:
        root: The lake's folder; an object store, for what takes long enough to be worth a lease;
            None for no lock at all: then the engine's own commit conflicts are all that orders
            writers.
        name: Which lock.
        wait: False gives up at once where another holds it.

    Raises:
        LockedError: Another holds it, and ``wait`` is False.
        ObjectStoreError: The store could not be reached, or refused, within the block too.
    """
    place = root.uri if isinstance(root, ObjectStore) else str(root)
    own = (name, place)
    if root is None or own in _held.get():
        yield
        return
    lock = (
        _leased(root, name, wait=wait)
        if isinstance(root, ObjectStore)
        else _locked(root, name, wait=wait)
    )
    with lock:
        token = _held.set(_held.get() | {own}) if name in _HELD_AGAIN else None
        try:
            yield
        finally:
            if token is not None:
                _held.reset(token)


@contextmanager
def _leased(place: ObjectStore, name: str, *, wait: bool) -> Iterator[None]:
    with reaching(place.uri), renewed(_taken(place, name, wait=wait)):
        yield


@contextmanager
def _locked(root: Path, name: str, *, wait: bool) -> Iterator[None]:
    lock = FileLock(_file(root, name), timeout=-1 if wait else 0, poll_interval=_POLL_SECONDS)
    _acquire(lock, root / FOLDER)
    try:
        yield
    finally:
        lock.release()


def _taken(place: ObjectStore, name: str, *, wait: bool) -> Lease:
    lease = Lease(place, name)
    told = ""
    while (state := lease.take()) is not None:
        if not wait:
            raise LockedError(name)
        if state.who != told:
            log.info("waiting for %s, held by %s", lease.what, state.who)
            told = state.who
        sleep(_POLL_LEASE_SECONDS)
    return lease


def _acquire(lock: FileLock, folder: Path) -> None:
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock.acquire()
        except FileNotFoundError:
            # A backup that was given up has just removed the folder.
            continue
        except Timeout as error:
            raise LockedError(Path(lock.lock_file).stem) from error
        return


def remove_held(root: Path, name: str) -> None:
    """Remove the file of a lock that is held; who waits for it takes a new one."""
    # Some systems don't remove what is open: then it stays, and does no harm.
    with suppress(OSError):
        _file(root, name).unlink()


@contextmanager
def lifeline(root: Path | None, name: str) -> Iterator[None]:
    """Hold a lock of one's own that tells others that this process still lives.

    Args:
        root: The lake's folder, or None for an object store: then nothing is held.
        name: A fresh name; its file is removed at the end.
    """
    try:
        with exclusive(root, name):
            yield
    finally:
        if root is not None:
            _file(root, name).unlink(missing_ok=True)


def is_held(root: Path, name: str) -> bool:
    """Tell whether a living process holds the lock; the file that a dead one left is removed."""
    if not _file(root, name).exists():
        return False
    lock = FileLock(_file(root, name))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    _file(root, name).unlink(missing_ok=True)
    return False


def _file(root: Path, name: str) -> Path:
    return root / FOLDER / f"{name}.lock"
