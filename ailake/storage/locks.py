"""Locks between processes: held by the operating system, so they die with their holder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

WRITE = "write"
DECAY = "decay"

# Beside the tables, and no table: LanceDB lists only folders that end in .lance.
FOLDER = "_ailake"


@contextmanager
def exclusive(root: Path | None, name: str) -> Iterator[None]:
    """Hold the lake's lock ``name``, waiting for it.

    Args:
        root: The lake's folder, or None for an object store, which has no such locks: there the
            engine's own commit conflicts are all that orders writers.
        name: Which lock.
    """
    if root is None:
        yield
        return
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    with FileLock(folder / f"{name}.lock"):
        yield
