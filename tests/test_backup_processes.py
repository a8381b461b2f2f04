"""Backups beside other processes, killed ones, full disks and folders that can't be written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import forked
import pytest
from kept import KEEP

import ailake
from ailake import InvalidInputError
from ailake.maintenance import MemoryDecayJob
from ailake.storage.unfinished import MARKER

pytestmark = pytest.mark.slow

# One writer says what it did in a file; lines are whole, because each is one write. Cleaning up
# at age zero can fail the write of another process: it is repeated, which its id makes harmless.
WRITER = """
import sys
import ailake
from ailake.storage.retries import is_lost_race

def surely(action):
    while True:
        try:
            return action()
        except (OSError, RuntimeError, ValueError) as error:
            if not is_lost_race(error):
                raise

rules = ailake.JudgeRules(retention=None)
told = open(sys.argv[2], "a", buffering=1)
with ailake.connect(sys.argv[1], judge_rules=rules) as lake, told:
    memory = lake.memory(agent_id="a")
    for n in range(1_000_000):
        surely(lambda: memory.remember(f"n{n}", id=f"n{n}"))
        print("made", n, file=told)
        if n % 3 == 2:
            print("forgetting", n - 2, file=told)
            surely(lambda: memory.forget(f"n{n - 2}"))
            print("forgot", n - 2, file=told)
"""

UPKEEP = """
import sys
from datetime import timedelta
import ailake
from ailake.maintenance import MemoryDecayJob
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    memory = lake.memory(agent_id="a")
    while True:
        memory.recall("n1", limit=5)
        MemoryDecayJob(lake).run()
        for table in lake.store.tables.values():
            table.compact()
            table.clean(older_than=timedelta(0))
"""


@contextmanager
def running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            assert process.poll() is None, process.communicate()[1]
        finally:
            process.kill()


def lines(file: Path) -> dict[str, set[int]]:
    told: dict[str, set[int]] = {"made": set(), "forgetting": set(), "forgot": set()}
    for line in file.read_text().splitlines():
        what, number = line.split()
        told[what].add(int(number))
    return told


def check(copy: Path, before: dict[str, set[int]], after: dict[str, set[int]]) -> int:
    """What was acknowledged is there unless it was being forgotten; nothing out of order."""
    with ailake.connect(copy, judge_rules=KEEP) as lake:
        assert lake.verify() == ()
        memory = lake.memory(agent_id="a")
        there = {int(record.id[1:]) for record in memory.list(limit=10_000)}
        assert before["made"] - after["forgetting"] <= there
        assert not before["forgot"] & there
        assert set(range(max(there, default=-1))) - after["forgetting"] <= there
        counts = sum(record.access_count for record in memory.list(limit=10_000))
        MemoryDecayJob(lake).run()
        assert sum(record.access_count for record in memory.list(limit=10_000)) == counts
        assert lake.tags() == []
        # New accesses count: their versions lie behind every watermark.
        hits = len(memory.recall("n1", limit=5))
        assert sum(record.access_count for record in memory.list(limit=10_000)) == counts + hits
        return len(there)


def test_backups_while_others_write_forget_decay_compact_and_clean(tmp_path: Path) -> None:
    uri, told = tmp_path / "lake", tmp_path / "told"
    told.touch()
    lake = ailake.connect(uri, embedder="hashing:16", judge_rules=KEEP)
    sizes = []
    with lake, running(WRITER, uri, told) as writer, running(UPKEEP, uri):
        while not lines(told)["forgot"]:
            assert writer.poll() is None, writer.communicate()[1]
            time.sleep(0.05)
        for n in range(14):
            copy = tmp_path / f"copy{n}"
            before = lines(told)
            if n % 2:
                # Holds nothing: begins again where a file is gone, and may give up.
                with suppress(ailake.ConflictError):
                    ailake.restore_lake(uri, copy)
                if not copy.exists():
                    continue
            else:
                lake.backup(copy)
            sizes.append(check(copy, before, lines(told)))
            time.sleep(0.1)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    with ailake.connect(uri, judge_rules=KEEP) as after:
        assert all(not t.fresh().tags.list() for t in after.store.tables.values())
        assert after.verify() == ()


KILLED = """
import os, signal, sys
import ailake
import lance
clone, calls = lance.LanceDataset.deep_clone, []

def deep_clone(self, *arguments, **options):
    calls.append(1)
    if len(calls) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return clone(self, *arguments, **options)

lance.LanceDataset.deep_clone = deep_clone
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    lake.backup(sys.argv[2])
"""


@pytest.mark.parametrize("table", [1, 2])
def test_killed_before_a_table(tmp_path: Path, table: int) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
        target = tmp_path / "backup"
        done = forked.run(KILLED, lake.uri, target, table)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert (target / MARKER).exists()
        with pytest.raises(InvalidInputError, match="is an unfinished backup and no lake"):
            ailake.connect(target, judge_rules=KEEP)
        episodic = lake.table("episodic").to_lance()
        assert len(episodic.tags.list()) == 1
        assert lake.tags() == []
        lake.backup(target)
        assert not episodic.tags.list()
        with ailake.connect(target, judge_rules=KEEP) as copy:
            assert copy.verify() == ()
            assert copy.memory(agent_id="a").count() == 1


BACKUP = """
import signal, sys
import ailake
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    # So much work of its own later, however much others have to do, the kernel ends it.
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[3]))
    lake.backup(sys.argv[2])
    print("done", flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """After each kill the target is a whole lake, an unfinished backup, or nothing."""
    with ailake.connect(tmp_path / "lake", embedder="hashing:512", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember_many(
            [{"text": f"n{n}"} for n in range(5_000)], judge=False
        )
        target, seen = tmp_path / "backup", set()
        for n in range(6):
            ended = forked.run(BACKUP, lake.uri, target, 0.001 + 0.012 * n)
            assert ended.returncode in {0, -signal.SIGPROF}, ended.stderr
            done = ended.stdout == "done\n"
            try:
                with ailake.connect(target, create=False, judge_rules=KEEP) as copy:
                    assert copy.memory(agent_id="a").count() == 5_000
                    seen.add("whole")
                target.rename(tmp_path / f"whole{n}")
            except (InvalidInputError, ailake.NotFoundError) as error:
                assert not done
                seen.add(type(error).__name__)
        assert seen - {"whole"}
        lake.backup(target)
        with ailake.connect(target, judge_rules=KEEP) as copy:
            assert copy.memory(agent_id="a").count() == 5_000
        for table in lake.store.tables.values():
            assert not table.fresh().tags.list()


FULL = """
import resource, sys
import ailake
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        lake.backup(sys.argv[2])
    except OSError as error:
        print(error)
"""


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:64", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember_many([{"text": f"n{n}"} for n in range(1_000)])
        done = forked.run(FULL, lake.uri, tmp_path / "backup")
        assert "File too large" in done.stdout
        assert not (tmp_path / "backup").exists()
        assert not lake.table("episodic").to_lance().tags.list()


READ_ONLY = """
import os, sys
import ailake, ailake.lake, lancedb, lance, polars
if os.getuid() == 0:
    os.setuid(65534)
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    assert lake.read_only
    # The memory, and its entry in the ledger.
    assert lake.backup(sys.argv[2]).rows == 3
    try:
        lake.backup(sys.argv[1] + "-beside")
    except ailake.ReadOnlyError as error:
        print("refused")
"""


def test_a_lake_that_can_only_be_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("read-only")
    with ailake.connect(folder / "lake", embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea", id="t")
    (folder / "open").mkdir()
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    (folder / "open").chmod(0o777)
    parents = [p for p in folder.parents if p.stat().st_uid == os.getuid() and p.name]
    modes = {parent: parent.stat().st_mode for parent in parents}
    try:
        for parent in parents:
            parent.chmod(parent.stat().st_mode | 0o055)
        command = [
            sys.executable,
            "-c",
            READ_ONLY,
            str(folder / "lake"),
            str(folder / "open" / "b"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    finally:
        for path in paths:
            path.chmod(0o755)
        for parent, mode in modes.items():
            parent.chmod(mode)
    assert (done.stdout.strip(), done.returncode) == ("refused", 0), done.stderr
    with ailake.connect(folder / "open" / "b", judge_rules=KEEP) as copy:
        assert copy.memory(agent_id="a").get("t").text == "tea"
