"""Rows of the ledger: many new memories at once are hashed as each by itself is."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import pack
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core.chain import LedgerEntry, LedgerHead, LedgerRecord, append, head_of, verify
from ailake.core.ledger_rows import (
    PAYLOAD_COLUMNS,
    created_rows,
    entries_of,
    entry_rows,
    payload_hashes,
)
from ailake.core.records import ChainScope, Scope
from ailake.core.schema import EPISODIC, INSTANT
from ailake.errors import LakeCorruptError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

SCOPES = [Scope("a"), Scope("a", "b"), Scope("助理", "a", "b")]
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
instants = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (the bounds are naive)


def episodic(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows in which all texts, all numbers and all instants are those of one draw."""
    types = {column.name: column.type for column in EPISODIC.columns} | {"_rowid": pa.uint64()}
    arrays = {}
    for name in (*PAYLOAD_COLUMNS, "_rowid"):
        kind = types[name]
        if kind == INSTANT:
            micros = pa.array([one[name] for one in rows], pa.timestamp("us", "UTC"))
            arrays[name] = micros.cast(INSTANT)
        else:
            drawn_as = "word" if kind == pa.string() else "number"
            arrays[name] = pa.array([one.get(name, one[drawn_as]) for one in rows], kind)
    return pa.table(arrays)


def row(place: int, scope: Scope = SCOPES[0], **others: Any) -> dict[str, Any]:
    return {
        "chunk_id": f"m{place}", "word": "w", "number": 0.5, "_rowid": place,
        "agent_id": scope.agent_id, "user_id": scope.user_id, "project_id": scope.project_id,
        "created_at": NOW + timedelta(seconds=place), "event_time": None, "expires_at": None,
    } | others  # fmt: skip


drawn = st.builds(
    row,
    st.integers(0, 9),
    st.sampled_from(SCOPES),
    word=words,
    number=st.floats(0, 1, width=32),
    created_at=instants,
    event_time=st.none() | instants,
    expires_at=st.none() | instants,
)


@given(st.lists(drawn, max_size=12), st.booleans())
def test_many_at_once_are_linked_as_each_by_itself(rows: list[dict[str, Any]], begun: bool) -> None:  # noqa: FBT001 (drawn)
    begun_at = LedgerHead(SCOPES[0], 2**40, "ab" * 32)
    heads: dict[ChainScope, LedgerHead] = {SCOPES[0]: begun_at} if begun else {}
    ids = [f"e{n}" for n in range(len(rows))]
    table = episodic(rows)
    made, after = created_rows(table, ids, heads, source_version=7)
    entries = list(entries_of(made))
    assert entry_rows(entries).equals(made)
    hashes = payload_hashes(table)
    for scope in SCOPES:
        places = [n for n, one in enumerate(entries) if one.scope == scope]
        records = [
            LedgerRecord(
                id=ids[n],
                event="create",
                subject_id=rows[n]["chunk_id"],
                payload_hash=hashes[n].hex(),
                timestamp=rows[n]["created_at"],
                source_version=7,
                source_row=rows[n]["_rowid"],
            )
            for n in places
        ]
        wanted = append(scope, heads.get(scope), records)
        assert [entries[n] for n in places] == wanted
        assert after.get(scope) == (head_of(wanted) or heads.get(scope))


def test_the_bytes_of_a_memory() -> None:
    """As docs/ledger.md describes them."""
    table = episodic([row(3, word="ü", event_time=NOW)])
    created, happened = ((1_769_860_800 + more) * 1_000_000_000 for more in (3, 0))

    def field(value: bytes) -> bytes:
        return pack("<I", len(value)) + value

    text = field("ü".encode())
    wanted = b"".join(
        [
            b"ailake-memory" + pack("<I", 1),
            field(b"m3") + text,
            field(b"a") + field(b"") + field(b""),
            text * 5,  # session, role, speaker, kind, source
            field(pack("<f", 0.5)),
            field(pack("<q", created)) + field(pack("<q", happened)) + field(b""),
            text * 7,  # state, merged_into, decision, reason, veto, rules_version, metadata
        ]
    )
    assert payload_hashes(table) == [sha256(wanted).digest()]
    assert payload_hashes(table.slice(0, 0)) == []


@pytest.mark.parametrize("name", PAYLOAD_COLUMNS)
def test_every_column_of_a_memory_counts(name: str) -> None:
    other: Any = {"importance_score": 0.25}.get(name, "other")
    if name in {"created_at", "event_time", "expires_at"}:
        other = NOW - timedelta(days=1)
    one, two = payload_hashes(episodic([row(0), row(0) | {name: other}]))
    assert one != two


def test_many_scopes_and_rows_are_linked() -> None:
    rows = [row(n, Scope(f"a{n * n % 7}", "安")) for n in range(100)]
    made, heads = created_rows(episodic(rows), [f"e{n}" for n in range(100)], {}, source_version=1)
    for scope, head in heads.items():
        mine = [entry for entry in entries_of(made) if entry.scope == scope]
        assert verify(scope, mine, head=head) is None
    assert np.sum([head.sequence + 1 for head in heads.values()]) == 100


@pytest.mark.parametrize(
    ("name", "value"), [("agent_id", " "), ("timestamp", 9 * 10**17), ("timestamp", -(2**62))]
)
def test_what_nobody_could_have_written_is_named(name: str, value: Any) -> None:
    (entry,) = append(SCOPES[0], None, [LedgerRecord(**_told())])
    rows = entry_rows([entry])
    place = rows.schema.get_field_index(name)
    kind = rows.schema.field(name).type
    cell = pa.array([value]) if name == "agent_id" else pa.array([value], pa.int64()).cast(kind)
    with pytest.raises(LakeCorruptError, match="entry 'e0' can't be read"):
        list(entries_of(rows.set_column(place, rows.schema.field(name), cell)))


def _told() -> dict[str, Any]:
    return {
        "id": "e0",
        "event": "create",
        "subject_id": "m",
        "payload_hash": "0" * 64,
        "timestamp": NOW,
    }


def test_an_empty_table_has_no_entries() -> None:
    none: list[LedgerEntry] = []
    assert list(entries_of(entry_rows(none))) == none
