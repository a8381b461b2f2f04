"""Whether anybody has committed is known without the engine, and never wrongly."""

import os
import random
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from kept import KEEP

import ailake
from ailake import clock
from ailake.storage import sighting
from ailake.storage.sighting import Sighting
from ailake.storage.table import STABLE_ROW_IDS, Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROW = pa.table({"n": [1]})
WRITER = Path(__file__).with_name("commit_writer.py")


def table_at(root: Path, *, name: str = "t") -> Table:
    database = lancedb.connect(root, read_consistency_interval=timedelta(0))
    handle = database.create_table(name, ROW, storage_options=STABLE_ROW_IDS)
    return Table(handle, storage_options={}, root=root)


def settle(table: Table) -> int:
    """Read until the engine need not be asked any more; return the version."""
    for _ in range(100):
        version = table.version
        if table._sighting.is_latest(version):
            return version
        sleep(0.05)
    pytest.fail("the engine is asked for ever")


def refuse(*_: object) -> Any:
    pytest.fail("the engine was asked")


def test_the_engine_is_not_asked_where_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path)
    table.append(ROW)
    version = settle(table)
    monkeypatch.setattr(Table, "_asked", refuse)
    assert [table.version for _ in range(100)] == [version] * 100


@pytest.mark.parametrize("rounds", [150, pytest.param(600, marks=pytest.mark.slow)])
def test_what_a_process_has_acknowledged_is_seen_by_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    # As soon as the kernel's tick allows, so that most reads do without the engine.
    monkeypatch.setattr(sighting, "_SETTLED_AFTER", sighting._TICK + 1_000_000)
    table = table_at(tmp_path)
    known: list[bool] = []
    is_latest = Sighting.is_latest

    def counted(self: Sighting, version: int) -> bool:
        known.append(is_latest(self, version))
        return known[-1]

    monkeypatch.setattr(Sighting, "is_latest", counted)
    draw = random.Random(rounds)  # noqa: S311 (a repeatable order)
    command = [sys.executable, str(WRITER), str(tmp_path / "t.lance"), str(rounds)]
    stop = threading.Event()

    def read() -> None:
        seen = 0
        while not stop.wait(0.001):
            version = table.version
            assert version >= seen
            seen = version

    reader = threading.Thread(target=read)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        reader.start()
        try:
            for turn in range(rounds):
                writer.stdin.write("\n")
                writer.stdin.flush()
                acknowledged = int(writer.stdout.readline())
                assert table.version >= acknowledged
                if draw.random() < 0.1:
                    own = table.append(ROW)
                    assert table.version >= own
                if draw.random() < 0.3:
                    sleep(draw.choice([0.0, 0.02]))
                if turn % 10 == 0:
                    settle(table)
        finally:
            stop.set()
            reader.join()
            writer.stdin.close()
    # Both kinds of reads came to be tested, however seldom the thread came to read.
    assert known.count(True) >= rounds // 10
    assert known.count(False) > rounds // 2


def test_commits_within_one_tick_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's times stay as they are, and the next version is cleaned up already."""
    monkeypatch.setattr(sighting, "_stat", ticking(4_000_001))
    versions = tmp_path / "t" / "_versions"
    versions.mkdir(parents=True)
    unchanged = 0
    for n in range(1, 301):
        (versions / f"{n}.manifest").touch()
        seen = Sighting(tmp_path / "t")
        glance = seen.glance()
        seen.note(glance, n)
        for later in (n + 1, n + 2):
            (versions / f"{later}.manifest").touch()
        (versions / f"{n + 1}.manifest").unlink()
        unchanged += sighting._stamp(str(versions)) == glance.folder
        assert not seen.is_latest(n)
        (versions / f"{n + 2}.manifest").unlink()
    assert unchanged


def ticking(tick: int) -> Any:
    """Return what tells files' times as a clock of so many nanoseconds would have set them."""
    stat = sighting._stat

    def told(path: str) -> Any:
        found = stat(path)
        if found is None:
            return None
        names = ("st_mtime_ns", "st_ctime_ns")
        times = {name: getattr(found, name) // tick * tick for name in names}
        # Of some of its fields a stat can't be made.
        rest = {name: getattr(found, name) for name in ("st_dev", "st_ino", "st_size")}
        return SimpleNamespace(**times, **rest)

    return told


def test_a_version_that_leaves_the_times_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path)
    version = settle(table)
    stamp = sighting._stamp(table._sighting._folder)
    monkeypatch.setattr(sighting, "_stamp", lambda _: stamp)
    assert table._sighting.is_latest(version)
    lance.write_dataset(ROW, tmp_path / "t.lance", mode="append")
    assert table.version == version + 1


@pytest.mark.parametrize("ahead", [0.0, 3_600.0])
def test_times_that_prove_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """Of a moment ago, or of a clock that has been set back since."""
    table = table_at(tmp_path)
    settle(table)
    folder = tmp_path / "t.lance" / "_versions"
    moment = clock.wall_nanoseconds()
    changed = moment + int(ahead * 10**9)
    os.utime(folder, ns=(changed, changed))
    monkeypatch.setattr(clock, "wall_nanoseconds", lambda: moment + 50_000_000)
    assert not table._sighting.is_latest(table.version)


def test_whole_seconds_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_at(tmp_path)
    changed = (tmp_path / "t.lance" / "_versions").stat().st_mtime_ns
    monkeypatch.setattr(clock, "wall_nanoseconds", lambda: changed + 1_900_000_000)
    assert table._sighting.is_latest(table.version)
    monkeypatch.setattr(sighting, "_stat", ticking(10**9))
    for _ in range(2):
        assert not table._sighting.is_latest(table.version)


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", ""])
def test_a_file_system_of_others_is_left_to_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounts = tmp_path / "mounts"
    lines = ["1 0 0:1 / / rw - ext4 /dev/a rw", f"2 1 0:2 / {tmp_path} rw - {kind} host:/x rw"]
    mounts.write_text("\n".join(lines if kind else []))
    monkeypatch.setattr(sighting, "_MOUNTS", mounts)
    table = table_at(tmp_path)
    sleep(0.2)
    assert not table._sighting.is_latest(table.version)
    assert not table._sighting.is_latest(table.version)


def test_mounts_with_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    mounts = tmp_path / "mounts"
    point = str(folder).replace(" ", "\\040")
    mounts.write_text(f"1 0 0:1 / / rw - nfs x rw\n2 1 0:2 / {point} rw shared:1 - xfs /dev/b rw")
    monkeypatch.setattr(sighting, "_MOUNTS", mounts)
    assert sighting._file_system(str(folder)) == "xfs"
    assert sighting._file_system(str(tmp_path / "a bc")) == "nfs"
    monkeypatch.setattr(sighting, "_MOUNTS", tmp_path / "none")
    assert sighting._file_system(str(folder)) == ""


@pytest.mark.parametrize("newer", [False, True])
def test_names_of_older_manifests(tmp_path: Path, newer: bool) -> None:  # noqa: FBT001
    lance.write_dataset(ROW, tmp_path / "t.lance", enable_v2_manifest_paths=newer)
    names = os.listdir(tmp_path / "t.lance" / "_versions")  # noqa: PTH208
    assert ("1.manifest" in names) is not newer
    handle = lancedb.connect(tmp_path, read_consistency_interval=timedelta(0)).open_table("t")
    table = Table(handle, storage_options={}, root=tmp_path)
    for version in range(1, 4):
        assert settle(table) == version
        lance.write_dataset(ROW, tmp_path / "t.lance", mode="append")
    assert table.version == 4


def test_a_table_that_was_cleaned_or_restored(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    version = table.append(ROW)
    assert settle(table) == version
    other = lance.dataset(tmp_path / "t.lance")
    other.cleanup_old_versions(timedelta(0))
    assert settle(table) == version
    lance.write_dataset(ROW, tmp_path / "t.lance", mode="append")
    lance.dataset(tmp_path / "t.lance", version=version).restore()
    assert table.version == version + 2
    assert table.snapshot().count_rows() == 2


@pytest.mark.parametrize("more", [0, 1, 3])
@pytest.mark.parametrize("settled", [False, True])
def test_another_lake_in_its_place(tmp_path: Path, more: int, settled: bool) -> None:  # noqa: FBT001
    """Its versions may have the numbers of the first one's."""
    path = tmp_path / "lake"

    def fill(kind: str, commits: int) -> None:
        with ailake.connect(path, embedder="hashing:16", judge_rules=KEEP) as made:
            items = [{"id": f"m{n}", "text": f"{kind} {n}"} for n in range(5)]
            made.memory("a").remember_many(items, judge=False, now=NOW)
            for n in range(commits):
                made.memory("a").update("m0", importance=n / 10, now=NOW)

    fill("tea", 0)
    with ailake.connect(path, create=False, judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        assert {hit.text for hit in memory.recall("tea", now=NOW)} == {f"tea {n}" for n in range(5)}
        lake.flush()
        if settled:
            for table in lake.store.tables.values():
                settle(table)
            memory.recall("tea", touch=False, now=NOW)
        path.rename(tmp_path / "moved")
        fill("rum", more)
        hits = memory.recall("tea", touch=False, now=NOW)
        assert {hit.text for hit in hits} == {f"rum {n}" for n in range(5)}
        assert {hit.access_count for hit in hits} == {0}
        assert memory.get("m1", now=NOW).text == "rum 1"
        memory.recall("tea", limit=100, now=NOW)
        assert memory.get("m1", now=NOW).access_count == 1


def test_a_folder_that_gets_the_number_of_the_old_one(tmp_path: Path) -> None:
    """What tells two folders apart can be given out again; a manifest's own times can't."""
    table = table_at(tmp_path)
    table.snapshot()
    seen = table._sighting
    glance = seen.glance()
    assert not seen.is_replaced(glance)
    manifest = next((tmp_path / "t.lance" / "_versions").glob("*.manifest"))
    os.utime(manifest, ns=(1, 1))
    assert seen.is_replaced(glance)
    manifest.unlink()
    assert not seen.is_replaced(glance)
    manifest.parent.rename(tmp_path / "moved")
    manifest.parent.mkdir()
    assert seen.is_replaced(seen.glance())
