"""Locks between processes: held by the operating system, so they die with their holder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

WRITE = "write"
DECAY = "decay"

# Beside the tables, and no table: LanceDB lists only folders that end in .lance.
FOLDER = "_ailake"

_POLL_SECONDS = 0.005


class LockedError(Exception):
    """Another process or thread holds the lock."""


@contextmanager
def exclusive(root: Path | None, name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lake's lock ``name``, waiting for it.

    Args:
        root: The lake's folder, or None for an object store, which has no such locks: there the
            engine's own commit conflicts are all that orders writers.
        name: Which lock.
        wait: False gives up at once where another holds it.

    Raises:
        LockedError: Another holds it, and ``wait`` is False.
    """
    if root is None:
        yield
        return
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"{name}.lock", timeout=-1 if wait else 0, poll_interval=_POLL_SECONDS)
    try:
        lock.acquire()
    except Timeout as error:
        raise LockedError(name) from error
    try:
        yield
    finally:
        lock.release()
