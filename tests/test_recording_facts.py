"""What the ledger says of what was said of facts: each once, in order, and after a crash."""

from dataclasses import replace
from hashlib import sha256
from struct import pack
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from asserted import HOUR, NOW, works
from kept import KEEP
from recorded import check

import ailake
from ailake.core.assertions import AssertionKind
from ailake.core.chain import LedgerEntry
from ailake.core.fact_rows import assertion_rows
from ailake.core.recording_facts import FACT_COLUMNS, FACT_EVENTS, FACT_TAG
from ailake.core.rows import nanoseconds
from ailake.maintenance import PurgeJob
from ailake.storage import recording, shared
from ailake.storage.assertions import write_down, written
from ailake.storage.exchange import exchange

SCOPE = ailake.Scope("ana-bot", "ana")


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return lake.facts("ana-bot", user_id="ana")


def said(lake: ailake.Lake) -> list[LedgerEntry]:
    """Return the entries about facts, and see that all chains hold."""
    assert lake.ledger().verify() == ()
    return [one for one in lake.ledger().entries(SCOPE) if one.event.startswith("fact_")]


def rows_of(lake: ailake.Lake) -> pa.Table:
    dataset = lake.table("assertions").to_lance()
    return dataset.to_table(columns=list(FACT_COLUMNS), with_row_id=True)


def events(lake: ailake.Lake) -> list[str]:
    return [str(entry.event) for entry in said(lake)]


def test_what_is_said_of_facts(
    lake: ailake.Lake, memory: ailake.Memory, facts: ailake.Facts
) -> None:
    memory.remember("Ana works at A", id="m", now=NOW)
    facts.assert_([works("A", 2010)], source_memory_id="m", now=NOW)
    facts.assert_([works("B", 2015)], now=NOW + HOUR)
    facts.retract(facts.find(now=NOW + HOUR)[0].fact_id, "wrong", now=NOW + 2 * HOUR)
    (created,) = check(lake)
    entries, rows = said(lake), rows_of(lake)
    assert [entry.event for entry in entries] == ["fact_assert", "fact_assert", "fact_retract"]
    assert [entry.timestamp for entry in entries] == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert [entry.subject_id for entry in entries] == rows["assertion_id"].to_pylist()
    assert [entry.source_row for entry in entries] == rows["_rowid"].to_pylist()
    assert [entry.parents for entry in entries] == [(created.id,), (), ()]
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    version = lake.store.tables["ledger"].version
    assert len(said(lake)) == 3
    assert lake.store.tables["ledger"].version == version


def test_the_bytes_that_are_hashed(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010, 2012), works("茶", 2012)], now=NOW)
    rows = rows_of(lake)
    for row, entry in zip(rows.to_pylist(), said(lake), strict=True):
        parts = [FACT_TAG, pack("<I", 1)]
        for name in FACT_COLUMNS:
            value: Any = row[name]
            if value is None:
                value = b""
            elif name == "ordinal":
                value = pack("<I", value)
            elif not isinstance(value, str):
                value = pack("<q", nanoseconds(value.to_pydatetime()))
            told = value if isinstance(value, bytes) else value.encode()
            parts += [pack("<I", len(told)), told]
        assert entry.payload_hash == sha256(b"".join(parts)).hexdigest()


def test_every_kind_has_an_event(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    dataset = lake.store.tables["assertions"].snapshot()
    (key_id,) = rows_of(lake)["key_id"].to_pylist()
    ((key, first),) = written(dataset, [key_id])

    others = [
        (key, replace(first, kind=kind, assertion_id=kind.value))
        for kind in AssertionKind
        if kind is not AssertionKind.ASSERT
    ]
    write_down(lake.store, others)
    assert events(lake) == [
        "fact_assert", "fact_retract", "fact_supersede", "fact_reject", "fact_keep_both",
        "fact_defer",
    ]  # fmt: skip
    assert set(FACT_EVENTS) == set(AssertionKind)


def test_what_was_written_down_twice_is_one_event(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    assert len(said(lake)) == 1
    table = lake.store.tables["assertions"]
    (key_id,) = rows_of(lake)["key_id"].to_pylist()
    twice = written(table.snapshot(), [key_id]) * 2
    identity = lake.store.embedder
    table.append(assertion_rows(twice, dim=identity.dim, embedder_id=identity.id))
    assert len(said(lake)) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_who_dies_at_the_ledgers_commit_leaves_each_once(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    lake.store.drainer.stop()
    facts = lake.facts("ana-bot", user_id="ana")
    facts.assert_([works("A", 2010), works("B", 2015)], now=NOW)
    real = exchange

    class KilledError(BaseException):
        """Nothing of ours catches it."""

    def dying(*arguments: Any, **options: Any) -> None:
        if after:
            real(*arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(recording, "exchange", dying)
        with pytest.raises(KilledError):
            lake.store.flush_ledger()
    shared._shared.clear()
    for _ in range(2):
        with ailake.connect(lake.uri, judge_rules=KEEP) as heir:
            assert events(heir) == ["fact_assert", "fact_assert"]


def test_two_that_record_at_once(lake: ailake.Lake, facts: ailake.Facts) -> None:
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        for one in (lake, other):
            one.store.drainer.stop()
        facts.assert_([works(f"A{n}", 2000 + n) for n in range(5)], now=NOW)
        barrier = Barrier(2)

        def record(one: ailake.Lake) -> None:
            barrier.wait()
            one.store.flush_ledger()

        both = [Thread(target=record, args=(one,)) for one in (lake, other)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        facts.retract(facts.find(now=NOW)[0].fact_id, "wrong", now=NOW + HOUR)
        assert events(other) == ["fact_assert"] * 5 + ["fact_retract"]
        assert events(lake) == events(other)


def test_facts_are_recorded_in_shares(
    lake: ailake.Lake, facts: ailake.Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.store.drainer.stop()
    facts.assert_([works(f"A{n}", 2000 + n) for n in range(7)], now=NOW)
    monkeypatch.setattr(recording, "MAX_ROWS", 3)
    before = lake.store.tables["ledger"].version
    assert [e.subject_id for e in said(lake)] == rows_of(lake)["assertion_id"].to_pylist()
    assert lake.store.tables["ledger"].version == before + 3


@pytest.mark.parametrize("purged", [False, True], ids=["forgotten", "purged"])
def test_entries_outlive_what_they_are_about(
    lake: ailake.Lake, memory: ailake.Memory, facts: ailake.Facts, *, purged: bool
) -> None:
    memory.remember("Ana works at A", id="m", now=NOW)
    facts.assert_([works("A", 2010)], source_memory_id="m", now=NOW)
    if purged:
        PurgeJob(lake, scope=SCOPE).run(NOW + HOUR)
    else:
        memory.forget("m", now=NOW + HOUR)
    assert rows_of(lake).num_rows == 0
    (entry,) = said(lake)
    assert (entry.event, entry.timestamp) == ("fact_assert", NOW)
    facts.assert_([works("B", 2015)], now=NOW + 2 * HOUR)
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as again:
        assert events(again) == ["fact_assert", "fact_assert"]


def test_an_entry_that_was_changed_is_found(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010), works("B", 2015)], now=NOW)
    last = said(lake)[-1]
    lake.table("ledger").update(f"entry_id = '{last.id}'", {"event": "fact_retract"})
    (broken,) = lake.ledger().verify()
    assert (broken.sequence, broken.reason) == (1, "its hash is not that of its content")


def test_a_memory_with_the_id_of_an_assertion_is_one_of_its_own(
    lake: ailake.Lake, memory: ailake.Memory, facts: ailake.Facts
) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    (entry,) = said(lake)
    memory.remember("tea", id=entry.subject_id, now=NOW)
    memory.update(entry.subject_id, importance=1.0, now=NOW + HOUR)
    created, updated = check(lake)
    assert (created.event, updated.event, updated.parents) == ("create", "update", (created.id,))
    assert len(said(lake)) == 1
