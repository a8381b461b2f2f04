"""What the handles of one process on one lake share, so that they see each other at once."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_shared: WeakValueDictionary[tuple[type, int, str, int], Any] = WeakValueDictionary()
_lock = Lock()


def shared(kind: type[T], root: Path, make: Callable[[], T]) -> T:
    """Return this process's only object of a kind for the lake in a folder, made where needed.

    It lives as long as somebody holds it.
    """
    # A forked child has one of its own, and so has who makes the folder anew.
    key = (kind, os.getpid(), str(root.resolve()), root.stat().st_ino)
    with _lock:
        found: T | None = _shared.get(key)
        if found is None:
            found = _shared[key] = make()
        return found
