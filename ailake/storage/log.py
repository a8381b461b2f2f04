"""The write-ahead log of a local lake: what makes a single ``remember`` durable before its commit.

Each process appends to segment files of its own in ``_ailake/log`` and syncs them to disk; whoever
drains (see draining.py) takes the segments of all processes. Nobody waits for anybody:

- A drain first renames a segment from ``.log`` to ``.sealed``, reads it then, commits, and removes
  it last. Killed in between, the next drain does the same again.
- A writer looks after each write, and before the sync, whether its segment is still there under
  its name. If not, a drain may have read it before the record was whole, and the record is written
  once more, to a new segment; a drain drops what it meets twice. Looking later would find it gone
  more often, and bring back what was drained and forgotten in between.
- What the segments hold that are still there, under either name, is not committed yet, and the
  reads of this process add it to what the tables hold.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TypeVar

from ailake import clock
from ailake.core.log import LoggedMemory, encode
from ailake.storage.locks import FOLDER
from ailake.storage.shared import shared
from ailake.storage.syncing import sync

T = TypeVar("T")

OPEN = ".log"
SEALED = ".sealed"
DAMAGED = ".damaged"

# Renaming a file that another process has open, which a drain does, needs POSIX.
SUPPORTED = os.name == "posix"


@dataclass(slots=True)
class _Segment:
    path: Path
    descriptor: int
    owner: int = field(default_factory=os.getpid)
    memories: list[LoggedMemory] = field(default_factory=list)

    def is_open(self) -> bool:
        # A forked child leaves those of its parent alone.
        return self.owner == os.getpid() and self.path.exists()

    def is_pending(self) -> bool:
        # In this order: a segment is renamed in one direction only.
        return self.path.exists() or self.path.with_suffix(SEALED).exists()


class Log:
    """What this process appends to the log of one lake; get it from ``log_of``.

    Attributes:
        lock: To be held from looking up what is known until the append, so that the threads of
            this process see each other.
    """

    def __init__(self, root: Path) -> None:
        self.folder = folder_of(root)
        self.lock = RLock()
        self._segments: list[_Segment] = []
        self._drained = 0

    def append(self, batch: Sequence[LoggedMemory]) -> None:
        """Write a batch as one record; it is on disk when this returns.

        Raises:
            OSError: It could not be written; no drain will find it.
        """
        record = encode(batch)
        with self.lock:
            while True:
                segment = self._segment()
                if self._write(segment, record):
                    break
            segment.memories.extend(batch)

    def __len__(self) -> int:
        """Return the number of memories that wait, or have been drained a moment ago."""
        return sum(len(segment.memories) for segment in self._segments)

    def beside(self, read: Callable[[], T]) -> tuple[tuple[LoggedMemory, ...], T]:
        """Return what this process has logged and no drain has committed, and what ``read`` does.

        Where a drain ends in between, ``read`` is called again: what it returns lacks none of the
        memories that are missing from the log, and no writer has changed a memory that the log
        still holds.
        """
        while True:
            drained, memories = self._pending()
            found = read()
            if not memories or self._pending()[0] == drained:
                return memories, found

    def _pending(self) -> tuple[int, tuple[LoggedMemory, ...]]:
        if not self._segments:
            return self._drained, ()
        with self.lock:
            self._prune()
            memories = (logged for segment in self._segments for logged in segment.memories)
            return self._drained, tuple(memories)

    def _prune(self) -> None:
        for segment in [one for one in self._segments if not one.is_pending()]:
            _close(segment)
            # In this order: who finds no segment must find the count changed.
            self._drained += 1
            self._segments.remove(segment)

    def _segment(self) -> _Segment:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.descriptor >= 0 and last.is_open():
            return last
        if last is not None:
            _close(last)
            self._prune()
        if not self.folder.is_dir():
            self.folder.parent.mkdir(exist_ok=True)
            self.folder.mkdir(exist_ok=True)
            sync(self.folder.parent.parent)
            sync(self.folder.parent)
        # The names sort by time.
        path = self.folder / f"{clock.utc_now():%Y%m%dT%H%M%S%f}-{clock.new_id()}{OPEN}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        segment = _Segment(path, os.open(path, flags, 0o666))
        self._segments.append(segment)
        try:
            sync(self.folder)
        except OSError:
            _close(segment)
            raise
        return segment

    def _write(self, segment: _Segment, record: bytes) -> bool:
        """Write and sync a record; tell whether every drain to come will read it whole."""
        before = os.fstat(segment.descriptor).st_size
        try:
            left = memoryview(record)
            while left:
                left = left[os.write(segment.descriptor, left) :]
            if not segment.is_open():
                return False
            os.fsync(segment.descriptor)
        except OSError:
            # Its caller is told that it failed: it must not come up at the next drain.
            with suppress(OSError):
                os.ftruncate(segment.descriptor, before)
            _close(segment)
            raise
        return True

    def __del__(self) -> None:
        for segment in self._segments:
            _close(segment)


def _close(segment: _Segment) -> None:
    if segment.descriptor >= 0:
        os.close(segment.descriptor)
        segment.descriptor = -1


def log_of(root: Path) -> Log:
    """Return this process's log of the lake in a folder."""
    return shared(Log, root, lambda: Log(root))


def folder_of(root: Path) -> Path:
    """Return the folder of a lake's segments."""
    return root / FOLDER / "log"


def segments(root: Path) -> list[Path]:
    """Return the segments of all processes that are not committed yet, oldest first."""
    with suppress(FileNotFoundError):
        names = (entry.name for entry in os.scandir(folder_of(root)))
        return [folder_of(root) / name for name in sorted(names) if name.endswith((OPEN, SEALED))]
    return []


def damaged(root: Path) -> list[Path]:
    """Return the copies of segments that could not be read to the end."""
    return sorted(folder_of(root).glob(f"*{DAMAGED}"))


def is_stale(root: Path, *, after: float) -> bool:
    """Tell whether a segment was last written to longer than ``after`` seconds ago."""
    now = clock.utc_now().timestamp()
    for path in segments(root):
        with suppress(FileNotFoundError):
            # Also of a clock that has been set back since.
            if abs(now - path.stat().st_mtime) > after:
                return True
    return False


def has_sealed(root: Path) -> bool:
    """Tell whether there are segments that a drain has taken and not removed."""
    return any(path.suffix == SEALED for path in segments(root))


def seal(root: Path) -> list[Path]:
    """Take all segments away from their writers; return them, oldest first."""
    for path in segments(root):
        if path.suffix == OPEN:
            with suppress(FileNotFoundError):
                path.rename(path.with_suffix(SEALED))
    return [path for path in segments(root) if path.suffix == SEALED]
