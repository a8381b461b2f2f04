"""Knowing that nobody has committed to a local table, without the engine, which lists all versions.

A folder's times change with every file that is made in it or removed. As long as they are what
they were before the engine was last asked, the latest version is the one that it named; that the
next version has no file is looked at too. What leaves a doubt is left to the engine: an object
store, a network's or an unknown kind of file system, and times so young that another change might
leave them as they are.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ailake import clock

# File systems of this machine's own: nobody else changes them, and nobody caches their times.
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")

# Spaces and the like are written there as octal numbers.
_ESCAPED = re.compile(r"\\([0-7]{3})")

# Times are taken from a tick of at most 10 ms. Some file systems keep whole seconds, or every
# other one.
_TICK = 10_000_000
_SETTLED_AFTER = 100_000_000
_SETTLED_AFTER_COARSE = 3_000_000_000

# The engine counts the names of manifests down from here; of older tables it counted them up.
_LAST = 2**64 - 1

# Device and inode, which another folder in the same place does not have, and when something in
# the folder and when the folder itself was last changed, in nanoseconds since 1970.
_Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Glance:
    """A look at a table's folder of versions just before the engine is asked.

    Attributes:
        at: When, nanoseconds since 1970.
        folder: What the folder looked like, None where it can't be seen.
    """

    at: int
    folder: _Stamp | None

    def is_settled(self) -> bool:
        """Tell whether every change from now on leaves other times."""
        if self.folder is None:
            return False
        changed = self.folder[2:]
        coarse = any(instant % _TICK == 0 for instant in changed)
        wait = _SETTLED_AFTER_COARSE if coarse else _SETTLED_AFTER
        return max(changed) < self.at - wait


@dataclass(frozen=True, slots=True)
class _Seen:
    version: int
    folder: _Stamp | None
    later: str


class Sighting:
    """The versions of one local table, as they were last seen.

    Args:
        table: The table's folder, None for one in an object store.
    """

    def __init__(self, table: Path | None) -> None:
        self._folder = "" if table is None else str(table / "_versions")
        self._seen: _Seen | None = None
        # Device and inode of the folder; a manifest in it, and what tells it from others.
        self._known: tuple[tuple[int, int], str, tuple[int, ...]] | None = None
        self._kinds: dict[int, bool] = {}

    def is_latest(self, version: int) -> bool:
        """Tell whether a version that the engine named is certainly still the latest."""
        seen = self._seen
        return (
            seen is not None
            and seen.version == version
            and _stamp(self._folder) == seen.folder
            and not os.access(seen.later, os.F_OK)
        )

    def glance(self) -> Glance:
        """Return what the folder looks like; to be called before the engine is asked."""
        return Glance(clock.wall_nanoseconds(), _stamp(self._folder))

    def is_replaced(self, glance: Glance) -> bool:
        """Tell whether another table stands in the place of the one that was seen last."""
        if glance.folder is None:
            return False
        if self._known is None:
            return True
        folder, name, manifest = self._known
        # Where the manifest is gone, its version was cleaned up.
        return glance.folder[:2] != folder or _identity(name) not in {None, manifest}

    def note(self, glance: Glance, version: int) -> None:
        """Note the version that the engine named after a glance."""
        self._seen = self._known = None
        now = _stamp(self._folder)
        if glance.folder is None or now is None or now[:2] != glance.folder[:2]:
            return
        for name, later in zip(self._names(version), self._names(version + 1), strict=True):
            manifest = _identity(name)
            if manifest is None:
                continue
            self._known = (now[:2], name, manifest)
            if glance.is_settled() and self._is_local(now[0]):
                self._seen = _Seen(version, glance.folder, later)

    def _names(self, version: int) -> tuple[str, str]:
        return (
            f"{self._folder}/{_LAST - version:020}.manifest",
            f"{self._folder}/{version}.manifest",
        )

    def _is_local(self, device: int) -> bool:
        if device not in self._kinds:
            self._kinds[device] = _file_system(self._folder) in _LOCAL
        return self._kinds[device]


def _stamp(folder: str) -> _Stamp | None:
    found = _stat(folder)
    return found and (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _identity(manifest: str) -> tuple[int, ...] | None:
    """Return what tells a manifest, which nobody ever changes, from another of its name."""
    found = _stat(manifest)
    return found and (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (several times as fast, and asked at every read)
    except OSError:
        return None


def _file_system(folder: str) -> str:
    """Return the kind of file system a folder is on, empty where the system does not say."""
    try:
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    path = Path(folder).resolve()
    best, kind = -1, ""
    for mount in mounts:
        place, _, source = mount.partition(" - ")
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), place.split(" ")[4])
        if path.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), source.split(" ")[0]
    return kind
