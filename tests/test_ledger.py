"""The ledger's table: chains apart, linked without a gap by whoever writes, and checked."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from chained import append_records
from ended import ending
from lance.commit import CommitConflictError

import ailake
from ailake.core.chain import GENESIS, LedgerEntry, LedgerHead, LedgerRecord
from ailake.core.schema import LEDGER
from ailake.errors import InvalidInputError, LakeCorruptError, SchemaMismatchError
from ailake.storage import ledger as chains
from ailake.storage.exchange import exchange

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ONE, TWO = ailake.Scope("助理", "安娜"), ailake.Scope("助理")


def told(count: int, *, of: str = "m") -> list[LedgerRecord]:
    return [
        LedgerRecord(
            id=f"{of}-e{n}",
            event="create",
            subject_id=f"{of}{n}",
            payload_hash=f"{n:064x}",
            timestamp=NOW + timedelta(seconds=n),
            parents=(f"{of}-e0",) if n else (),
        )
        for n in range(count)
    ]


def append(lake: ailake.Lake, scope: ailake.Scope, records: list[LedgerRecord]) -> None:
    table = lake.store.tables["ledger"]
    append_records(table, lake.store.location.root, {scope: records})


def test_an_empty_ledger(lake: ailake.Lake) -> None:
    ledger = lake.ledger()
    assert (ledger.entries(ONE), ledger.head(ONE), ledger.verify(), ledger.verify(ONE)) == (
        [],
        None,
        (),
        (),
    )
    (broken,) = ledger.verify(ONE, head=LedgerHead(ONE, 0, GENESIS))
    assert (broken.sequence, broken.id) == (0, "")
    assert lake.scan("ledger").collect().height == 0


def test_scopes_have_chains_of_their_own(lake: ailake.Lake) -> None:
    ledger = lake.ledger()
    append(lake, ONE, told(3))
    append(lake, TWO, told(2))
    append(lake, ONE, told(1, of="n"))
    assert [entry.id for entry in ledger.entries(ONE)] == ["m-e0", "m-e1", "m-e2", "n-e0"]
    assert [entry.sequence for entry in ledger.entries(ONE)] == [0, 1, 2, 3]
    assert [entry.id for entry in ledger.entries(TWO)] == ["m-e0", "m-e1"]
    assert ledger.entries(ailake.Scope("助理", "安")) == []
    last = ledger.entries(ONE)[-1]
    assert ledger.head(ONE) == LedgerHead(ONE, 3, last.hash)
    assert last.previous_hash == ledger.entries(ONE)[2].hash
    assert (ledger.verify(), ledger.verify(ONE), ledger.verify(TWO)) == ((), (), ())


def test_a_part_of_a_chain(lake: ailake.Lake) -> None:
    append(lake, ONE, told(5))
    entries = lake.ledger().entries(ONE)
    assert lake.ledger().entries(ONE, start=3) == entries[3:]
    assert lake.ledger().entries(ONE, start=1, limit=2) == entries[1:3]
    assert lake.ledger().entries(ONE, limit=0) == []
    assert lake.ledger().entries(ONE, subject_id="m2") == [entries[2]]
    late = chains.predicate({"timestamp": {"gte": NOW + timedelta(seconds=3)}})
    dataset = lake.store.tables["ledger"].snapshot()
    assert chains.read_chain(dataset, late)["entry_id"].to_pylist() == ["m-e3", "m-e4"]
    assert lake.ledger().entries(ONE, subject_id="' OR 1=1 --") == []


def test_analysts_read_the_table(lake: ailake.Lake) -> None:
    append(lake, ONE, told(2))
    frame = lake.scan("ledger").collect()
    assert frame["parents"].to_list() == [[], ["m-e0"]]
    assert frame["hash"][1].hex() == lake.ledger().entries(ONE)[1].hash
    assert lake.table("ledger").count_rows() == 2


def test_the_first_commit_leaves_the_schema_as_it_was(lake: ailake.Lake) -> None:
    before = lake.table("ledger").schema
    append(lake, ONE, told(1))
    assert lake.table("ledger").schema.equals(before, check_metadata=True)
    assert lake.table("ledger").to_lance().has_stable_row_ids
    with ailake.connect(lake.uri) as again:
        assert len(again.ledger().entries(ONE)) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ledger: ledger.entries("a"), "scope: got 'a', wanted a Scope"),
        (lambda ledger: ledger.head(None), "scope: got None"),
        (lambda ledger: ledger.entries(ONE, start=-1), "start: got -1"),
        (lambda ledger: ledger.entries(ONE, limit=1.5), "limit: got 1.5"),
        (lambda ledger: ledger.entries(ONE, subject_id=""), "id: got ''"),
        (lambda ledger: ledger.verify(ONE, head=LedgerHead(TWO, 0, GENESIS)), "head: got"),
        (lambda ledger: ledger.verify(head=LedgerHead(TWO, 0, GENESIS)), "head: got"),
    ],
)
def test_wrong_arguments_are_refused(
    lake: ailake.Lake, call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(lake.ledger())


def rewritten(lake: ailake.Lake, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Write the stored table anew, as somebody would who has its files."""
    dataset = lake.table("ledger").to_lance()
    rows = dataset.to_table().to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, schema=dataset.schema)
    lance.write_dataset(table, dataset.uri, mode="overwrite", enable_stable_row_ids=True)


OTHERS: dict[str, Any] = {
    "entry_id": "other",
    "agent_id": "other",
    "user_id": "other",
    "project_id": "other",
    "sequence": 9,
    "event": "update",
    "subject_id": "other",
    "payload_hash": b"\1" * 32,
    "previous_hash": b"\1" * 32,
    "hash": b"\1" * 32,
    "parents": ["m-e0", "m-e0"],
    "timestamp": NOW,
    "source_version": 9,
    "source_row": 9,
    "chain_version": 2,
}


@pytest.mark.parametrize("name", [column.name for column in LEDGER.columns])
def test_a_value_that_was_changed_on_disk_is_found(lake: ailake.Lake, name: str) -> None:
    append(lake, ONE, told(4))
    append(lake, TWO, told(2))
    rewritten(lake, lambda rows: rows[2].update({name: OTHERS[name]}))
    found = {one.scope: one for one in lake.ledger().verify()}
    gone = name in {"agent_id", "user_id", "project_id", "sequence"}
    there = "m-e3" if gone else "other" if name == "entry_id" else "m-e2"
    assert (found[ONE].sequence, found[ONE].id) == (2, there)
    assert lake.ledger().verify(ONE) == (found[ONE],)
    assert TWO not in found


def test_entries_that_were_taken_out_moved_or_cut_off_are_found(lake: ailake.Lake) -> None:
    append(lake, ONE, told(4))
    pinned = lake.ledger().head(ONE)
    assert lake.ledger().verify(ONE, head=pinned) == ()
    rewritten(lake, lambda rows: rows.pop(3))
    assert lake.ledger().verify(ONE) == ()
    (broken,) = lake.ledger().verify(ONE, head=pinned)
    assert (broken.sequence, broken.id, "missing" in broken.reason) == (3, "", True)

    def swap(rows: list[dict[str, Any]]) -> None:
        rows[1]["sequence"], rows[2]["sequence"] = 2, 1

    rewritten(lake, swap)
    assert lake.ledger().verify()[0].id == "m-e2"
    rewritten(lake, lambda rows: rows.pop(0))
    (broken,) = lake.ledger().verify()
    assert (broken.sequence, broken.reason) == (0, "its sequence is 1, wanted 0")


def test_what_a_newer_release_wrote_is_refused(lake: ailake.Lake) -> None:
    append(lake, ONE, told(2))
    rewritten(lake, lambda rows: rows[1].update(chain_version=2))
    ledger = lake.ledger()
    for call in (
        lambda: ledger.entries(ONE),
        lambda: ledger.head(ONE),
        lambda: append(lake, ONE, told(1, of="n")),
    ):
        with pytest.raises(SchemaMismatchError, match="its chain version is 2"):
            call()
    assert lake.table("ledger").count_rows() == 2
    assert ledger.verify()[0].reason.startswith("its chain version is 2")


@pytest.mark.parametrize(
    "edit",
    [{"agent_id": ""}, {"timestamp": 9 * 10**17}, {"parents": [None]}],
    ids=lambda e: next(iter(e)),
)
def test_an_entry_that_can_not_be_read_is_named_and_others_are_checked(
    lake: ailake.Lake, edit: dict[str, Any]
) -> None:
    append(lake, ONE, told(3))
    append(lake, TWO, told(3, of="n"))

    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["entry_id"] == "m-e1").update(edit)
        next(row for row in rows if row["entry_id"] == "n-e2").update(subject_id="other")

    rewritten(lake, change)
    found = {one.id: one for one in lake.ledger().verify()}
    assert (found["m-e1"].sequence, "can't be read" in found["m-e1"].reason) == (1, True)
    assert found["m-e1"].scope == (ailake.LakeScope() if "agent_id" in edit else ONE)
    assert (found["n-e2"].scope, found["n-e2"].sequence) == (TWO, 2)
    # A chain of which one is moved away has a gap, too.
    assert len(found) == (3 if "agent_id" in edit else 2)
    assert [one.scope for one in lake.ledger().verify(ONE)] == [ONE]
    if "agent_id" not in edit:
        with pytest.raises(LakeCorruptError, match="entry 'm-e1' can't be read"):
            lake.ledger().entries(ONE)


def test_a_lost_race_for_a_head_links_nothing(lake: ailake.Lake) -> None:
    """Also for the first entry of all; what the loser wrote is removed."""
    table = lake.store.tables["ledger"]
    for n in range(3):
        dataset = table.snapshot()
        rows, _ = chains.linked({ONE: told(1, of=f"a{n}")}, chains.heads_of(dataset, [ONE]))
        append(lake, TWO, told(1, of=f"b{n}"))
        with pytest.raises(CommitConflictError):
            exchange(table, dataset, rows)
    assert lake.ledger().entries(ONE) == []
    assert len(lake.ledger().entries(TWO)) == 3
    assert len(list(Path(lake.uri, "ledger.lance", "data").iterdir())) == 3


def test_a_merge_of_fragments_in_between_is_a_lost_race(lake: ailake.Lake) -> None:
    table = lake.store.tables["ledger"]
    append(lake, ONE, told(1))
    append(lake, ONE, told(1, of="n"))
    dataset = table.snapshot()
    rows, _ = chains.linked({ONE: told(1, of="o")}, chains.heads_of(dataset, [ONE]))
    table.compact()
    with pytest.raises(CommitConflictError):
        exchange(table, dataset, rows)
    append(lake, ONE, told(1, of="o"))
    assert (lake.ledger().verify(ONE), len(lake.ledger().entries(ONE))) == ((), 3)


def test_many_scopes_at_once(lake: ailake.Lake) -> None:
    scopes = [ailake.Scope("a", f"u{n}") for n in range(40)]
    table, root = lake.store.tables["ledger"], lake.store.location.root
    for turn in range(2):
        append_records(table, root, {s: told(2, of=f"t{turn}") for s in scopes})
    assert lake.ledger().verify() == ()
    for scope in scopes:
        assert [entry.sequence for entry in lake.ledger().entries(scope)] == [0, 1, 2, 3]


APPEND = """
import sys
from datetime import UTC, datetime
import ailake
from ailake.core.chain import LedgerRecord

uri, name, locked, tests = sys.argv[1:]
sys.path.insert(0, tests)
from chained import append_records
now = datetime(2026, 1, 31, 12, tzinfo=UTC)
with ailake.connect(uri) as lake:
    root = lake.store.location.root if locked == "True" else None
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(25):
        told = [
            LedgerRecord(id=f"{name}-{n}-{k}", event="create", subject_id=name,
                         payload_hash="0" * 64, timestamp=now)
            for k in range(3)
        ]
        table = lake.store.tables["ledger"]
        append_records(table, root, {ailake.Scope("a"): told, ailake.Scope(name): told})
"""


@pytest.mark.parametrize("locked", [True, False])
def test_processes_that_append_at_once(lake: ailake.Lake, *, locked: bool) -> None:
    """Without the lock, as on an object store, conflicts alone keep them apart."""
    command = [sys.executable, "-c", APPEND, lake.uri]
    others = [
        subprocess.Popen(
            [*command, name, str(locked), str(Path(__file__).parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("x", "y")
    ]
    with ending(*others):
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        for other in others:
            other.communicate("go\n")
            assert other.returncode == 0
    ledger = lake.ledger()
    entries: list[LedgerEntry] = ledger.entries(ailake.Scope("a"))
    assert [entry.sequence for entry in entries] == list(range(150))
    assert {entry.id for entry in entries} == {
        f"{name}-{n}-{k}" for name in "xy" for n in range(25) for k in range(3)
    }
    assert ledger.verify() == ()
    for name in "xy":
        assert [entry.sequence for entry in ledger.entries(ailake.Scope(name))] == list(range(75))
