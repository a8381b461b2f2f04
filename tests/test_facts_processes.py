"""Facts of several processes: one live winner, and a kill between any two steps."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import forked
import pytest
from ended import ending
from lance.commit import CommitConflictError

import ailake
from ailake import FactTriple
from ailake.storage.exchange import exchange

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
START = datetime(2020, 1, 1, tzinfo=UTC)

RACE = """
import sys
from datetime import UTC, datetime, timedelta
import ailake, ailake.lake, lance, lancedb

start = datetime(2020, 1, 1, tzinfo=UTC)
with ailake.connect(sys.argv[1]) as lake:
    facts = lake.facts("a")
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(15):
        # The first turn of both meets an empty table.
        when = start + timedelta(days=turn // 3)
        facts.assert_([ailake.FactTriple("Ana", "works_at", f"{sys.argv[2]} {turn}", when)])
"""


def test_two_processes_leave_one_live_winner(tmp_path: Path) -> None:
    ailake.connect(tmp_path, embedder="hashing:8").close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    with ending(*writers):
        for writer in writers:
            assert writer.stdout
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin
            writer.stdin.write("\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate()
            assert writer.returncode == 0
    with ailake.connect(tmp_path) as lake:
        facts = lake.facts("a")
        assert lake.verify() == ()
        entries = facts.history("Ana", "works_at")
        assert [entry.version_id for entry in entries] == list(
            dict.fromkeys(entry.version_id for entry in entries)
        )
        assert sum(entry.origin == "asserted" for entry in entries) == 30
        assert len(facts.find("Ana", "works_at")) == 1
        # At no instant did nobody or more than one win.
        for known_at in {entry.recorded_at for entry in entries}:
            assert len(facts.find(as_of=NOW, known_at=known_at)) == 1


KILLED = """
import os, sys
from datetime import UTC, datetime, timedelta
import ailake
from ailake.storage import facts as stored
from ailake.storage.table import Table

name, step = sys.argv[2:]
with ailake.connect(sys.argv[1]) as lake:
    place = Table if step in ("append", "sync") else stored
    whole = getattr(place, step)

    def die(*args, **options):
        if name == "after":
            whole(*args, **options)
        os.kill(os.getpid(), 9)

    setattr(place, step, die)
    start = datetime(2022, 1, 1, tzinfo=UTC)
    now = datetime(2026, 1, 31, 13, tzinfo=UTC)
    again = ailake.FactTriple("Ana", "works_at", "A", datetime(2021, 1, 1, tzinfo=UTC))
    lake.facts("a").assert_([again, ailake.FactTriple("Ana", "works_at", "B", start)], now=now)
"""


@pytest.mark.parametrize(
    ("when", "step", "applied"),
    [
        ("before", "append", False),
        ("after", "sync", False),
        ("before", "exchange", False),
        ("after", "exchange", True),
        ("after", "write_down", True),
    ],
)
def test_killed_between_the_steps(tmp_path: Path, when: str, step: str, *, applied: bool) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        lake.facts("a").assert_([FactTriple("Ana", "works_at", "A", START)], now=NOW)
    done = forked.run(KILLED, tmp_path, when, step)
    assert done.returncode == -9, done.stderr
    with ailake.connect(tmp_path) as lake:
        facts = lake.facts("a")
        assert lake.verify() == ()
        later = NOW + timedelta(hours=2)
        assert [v.object for v in facts.find(now=later)] == ["B" if applied else "A"]
        entries = facts.history("Ana", "works_at")
        assert sum(bool(v.lost_to) for v in entries) == int(applied)
        told = {v.object: v.assertions for v in entries}
        assert told == {"A": 2 if step == "write_down" else 1, **({"B": 1} if applied else {})}
        # The same call again, which was not told that it was done.
        same = [
            FactTriple("Ana", "works_at", "A", datetime(2021, 1, 1, tzinfo=UTC)),
            FactTriple("Ana", "works_at", "B", datetime(2022, 1, 1, tzinfo=UTC)),
        ]
        facts.assert_(same, now=NOW + timedelta(hours=1))
        told = {v.object: v.assertions for v in facts.history("Ana", "works_at")}
        assert told == {"A": 2, "B": 1}
        # Another winner at the same instant: the decision that died must not speak for it.
        (again,) = facts.assert_(
            [FactTriple("Ana", "works_at", "C", START + timedelta(days=900))],
            now=NOW + timedelta(hours=1),
        )
        assert [v.object for v in facts.find(now=later)] == ["C"]
        entries = facts.history("Ana", "works_at")
        assert [v.lost_to for v in entries if v.lost_to][-1] == again.fact_id
        assert lake.verify() == ()


def test_the_second_of_two_who_found_the_same_is_refused(tmp_path: Path) -> None:
    """What orders writers on an object store, where there is no lock."""
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        table = lake.store.tables["facts"]
        for turn in range(2):
            seen = [table.fresh() for _ in range(2)]
            if not turn:
                lake.facts("a").assert_([FactTriple("Ana", "works_at", "A", START)], now=NOW)
                rows = table.snapshot().to_table()
                removed: list[int] = []
            else:
                exchange(table, seen[0], rows, removed=[0])
                removed = [0]
            with pytest.raises(CommitConflictError):
                exchange(table, seen[1], rows, removed=removed)
        assert lake.table("facts").count_rows() == 1
