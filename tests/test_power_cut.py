"""A power cut: of what was not synced nothing is left, and what was acknowledged is there."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kept import KEEP

import ailake
from ailake.maintenance import MemoryDecayJob
from ailake.storage import log as logs

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

# Accesses may be lost, and no test has long texts.
UNHEEDED = {"accesses.lance", "passages.lance", "latest_version_hint.json"}


class Disk:
    """Knows what of a lake has been synced since it was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.sync)

    def sync(self, descriptor: int) -> None:
        self.fsync(descriptor)
        self.synced.add(os.fstat(descriptor).st_ino)

    def keep(self, lake: ailake.Lake) -> None:
        self.synced |= {path.stat().st_ino for path in Path(lake.uri).rglob("*")}

    def cut(self, lake: ailake.Lake, to: Path) -> list[str]:
        """Copy what is on disk; return what is not."""
        shutil.copytree(lake.uri, to)
        lost = [
            path.relative_to(lake.uri)
            for path in Path(lake.uri).rglob("*")
            if not path.is_dir() and not UNHEEDED & set(path.relative_to(lake.uri).parts)
            if path.suffix != ".lock" and path.stat().st_ino not in self.synced
        ]
        for path in lost:
            (to / path).unlink()
        return [str(path) for path in lost]


@pytest.fixture
def disk(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> Disk:
    lake.store.drainer.stop()
    memory = lake.memory("a")
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(9)], now=NOW)
    made = Disk(monkeypatch)
    made.keep(lake)
    return made


def drain_often(lake: ailake.Lake) -> None:
    for n in range(15):
        lake.memory("a").remember(f"single {n}")
        lake.flush()


# None of these syncs what it writes.
BEFORE: dict[str, Callable[[ailake.Lake], object]] = {
    "nothing": lambda _: None,
    "a merge of fragments": drain_often,
    "a decay run": lambda lake: MemoryDecayJob(lake).run(),
    "a removal": lambda lake: lake.memory("a").forget("n1"),
    "an update": lambda lake: lake.memory("a").update("n2", importance=0.9),
    "another text": lambda lake: lake.memory("a").update("n3", text="something else"),
}


@pytest.mark.parametrize("by", ["a drain", "a commit"])
@pytest.mark.parametrize("before", BEFORE)
def test_what_was_acknowledged_is_there(
    lake: ailake.Lake, disk: Disk, tmp_path: Path, *, before: str, by: str
) -> None:
    """A manifest on disk must not name a file of an earlier commit that is not."""
    BEFORE[before](lake)
    memory = lake.memory("a")
    if by == "a drain":
        memory.remember("last", id="last")
        lake.flush()
    else:
        memory.remember_many([{"text": "last", "id": "last"}])
    assert not logs.segments(Path(lake.uri))
    disk.cut(lake, tmp_path / "copy")
    with ailake.connect(tmp_path / "copy", create=False, judge_rules=KEEP) as copy:
        assert copy.memory("a").list() == memory.list()
        assert copy.memory("a").get("last").text == "last"


def test_what_is_only_logged_is_there(lake: ailake.Lake, disk: Disk, tmp_path: Path) -> None:
    """Also the folder's own entry, the first time."""
    before = disk.synced.copy()
    disk.synced.clear()
    lake.memory("a").remember("last", id="last")
    (segment,) = logs.segments(Path(lake.uri))
    for path in (segment, segment.parent, segment.parent.parent, Path(lake.uri)):
        assert path.stat().st_ino in disk.synced
    disk.synced |= before
    assert not disk.cut(lake, tmp_path / "copy")
    with ailake.connect(tmp_path / "copy", create=False, judge_rules=KEEP) as copy:
        assert copy.memory("a").get("last").text == "last"
        assert copy.memory("a").count() == 10


def test_a_file_is_synced_once(lake: ailake.Lake, disk: Disk) -> None:
    lake.memory("a").remember("one")
    lake.flush()
    files = {path.stat().st_ino for path in Path(lake.uri).glob("episodic.lance/data/*")}
    assert files <= disk.synced
    disk.synced.clear()
    lake.memory("a").remember("two")
    lake.flush()
    assert not files & disk.synced
