"""The hash chain: whatever was changed, moved or left out is found, and named."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core.chain import (
    GENESIS,
    LedgerEntry,
    LedgerEvent,
    LedgerHead,
    LedgerRecord,
    append,
    encode,
    head_of,
    verify,
)
from ailake.core.records import Scope
from ailake.errors import InvalidInputError, SchemaMismatchError

SCOPE = Scope("助理", "安娜", "計畫")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ZEROS = "0" * 64

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
numbers = st.integers(0, 2**64 - 1)
instants = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (the bounds are naive)
scopes = st.builds(Scope, words.filter(bool), words, words)
values: dict[str, st.SearchStrategy[Any]] = {
    "id": words,
    "event": st.sampled_from(LedgerEvent) | words,
    "subject_id": words,
    "payload_hash": hashes,
    "timestamp": instants,
    "parents": st.lists(words, max_size=3).map(tuple),
    "source_version": numbers,
    "source_row": numbers,
    "scope": scopes,
    "sequence": numbers,
    "previous_hash": hashes,
    "hash": hashes,
    "chain_version": st.integers(0, 2**32 - 1),
}


def record(place: int, **others: Any) -> LedgerRecord:
    given_fields: dict[str, Any] = {
        "id": f"e{place}",
        "event": LedgerEvent.CREATE,
        "subject_id": f"m{place}",
        "payload_hash": f"{place:064x}",
        "timestamp": NOW + timedelta(seconds=place),
    }
    return LedgerRecord(**given_fields | others)


def chain(length: int) -> list[LedgerEntry]:
    # Each but the first follows from the one before.
    parents = [() if n == 0 else (f"e{n - 1}",) for n in range(length)]
    return append(SCOPE, None, [record(n, parents=parents[n]) for n in range(length)])


def test_a_chain_holds_however_it_was_appended() -> None:
    whole = chain(5)
    first = append(SCOPE, None, [record(0)])
    second = append(SCOPE, head_of(first), [record(1), record(2)])
    grown = [*first, *second]
    assert [entry.sequence for entry in whole] == [0, 1, 2, 3, 4]
    assert whole[0].previous_hash == GENESIS
    assert [entry.previous_hash for entry in whole[1:]] == [entry.hash for entry in whole[:-1]]
    assert verify(SCOPE, whole) is None
    assert verify(SCOPE, grown, head=head_of(first)) is None
    assert verify(SCOPE, []) is None
    assert (head_of([]), append(SCOPE, None, [])) == (None, [])


def test_every_field_is_covered_by_a_change_below() -> None:
    assert set(values) == {one.name for one in fields(LedgerEntry)}


@given(data=st.data(), name=st.sampled_from(sorted(values)), place=st.integers(0, 3))
def test_every_change_of_a_field_is_found(data: st.DataObject, name: str, place: int) -> None:
    entries = chain(4)
    value = data.draw(values[name].filter(lambda new: new != getattr(entries[place], name)))
    entries[place] = replace(entries[place], **{name: value})
    broken = verify(SCOPE, entries)
    assert broken is not None
    assert (broken.sequence, broken.id) == (place, entries[place].id)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True))
def test_every_swap_is_found(places: list[int]) -> None:
    entries = chain(6)
    one, other = places
    entries[one], entries[other] = entries[other], entries[one]
    broken = verify(SCOPE, entries)
    assert broken is not None
    assert broken.sequence == min(places)
    # Also where the places in the chain were swapped along.
    moved = [replace(entry, sequence=place) for place, entry in enumerate(entries)]
    found = verify(SCOPE, moved)
    assert found is not None
    assert found.sequence == min(places)


@given(st.lists(st.integers(0, 5), max_size=8).filter(lambda some: some != [0, 1, 2, 3, 4, 5]))
def test_every_other_arrangement_is_found(places: list[int]) -> None:
    """Moved, left out and repeated in any way, numbered anew or not, against a pinned head."""
    entries = chain(6)
    arranged = [entries[place] for place in places]
    numbered = [replace(entry, sequence=place) for place, entry in enumerate(arranged)]
    for some in (arranged, numbered):
        broken = verify(SCOPE, some, head=head_of(entries))
        assert broken is not None
        first = next((n for n, place in enumerate(places) if n != place), len(places))
        assert broken.sequence == first


@given(st.sets(st.integers(0, 5), min_size=1))
def test_every_deletion_is_found(gone: set[int]) -> None:
    """Those at the end only by a head that was pinned."""
    entries = chain(6)
    kept = [entry for entry in entries if entry.sequence not in gone]
    broken = verify(SCOPE, kept, head=head_of(entries))
    assert broken is not None
    assert broken.sequence == min(gone)
    last = max((entry.sequence for entry in kept), default=-1)
    cut = {*range(last + 1, 6)} == gone
    assert (verify(SCOPE, kept) is None) == cut
    assert (broken.id == "") == cut


def test_a_chain_that_was_written_anew_is_told_by_a_pinned_head() -> None:
    pinned = head_of(chain(3))
    forged = append(SCOPE, None, [record(n, payload_hash=ZEROS) for n in range(4)])
    assert verify(SCOPE, forged) is None
    broken = verify(SCOPE, forged, head=pinned)
    assert broken is not None
    assert (broken.sequence, broken.reason) == (2, "its hash is not that of the pinned head")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chain_version": 2}, "its chain version is 2, this release knows 1"),
        ({"scope": Scope("b")}, "it belongs to Scope"),
        ({"sequence": 7}, "its sequence is 7, wanted 1"),
        ({"previous_hash": ZEROS}, "its previous hash is not"),
        ({"payload_hash": ZEROS}, "its hash is not that of its content"),
    ],
)
def test_the_reason_is_named(change: dict[str, Any], reason: str) -> None:
    entries = chain(3)
    entries[1] = replace(entries[1], **change)
    broken = verify(SCOPE, entries)
    assert broken is not None
    assert broken.reason.startswith(reason)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"id": "e0"}, "its id is that of an earlier entry"),
        ({"parents": ("e1",)}, "a parent is no earlier entry of the chain"),
        ({"parents": ("e0", "elsewhere")}, "a parent is no earlier entry of the chain"),
    ],
)
def test_an_entry_that_was_linked_wrongly_is_named(others: dict[str, Any], reason: str) -> None:
    broken = verify(SCOPE, append(SCOPE, None, [record(0), record(1, **others)]))
    assert broken is not None
    assert (broken.sequence, broken.reason) == (1, reason)


def test_the_bytes_that_are_hashed() -> None:
    """As docs/ledger.md describes them, so that readers in other languages can check a chain."""
    (entry,) = append(
        Scope("a", "ü"),
        None,
        [record(0, parents=("x", "yz"), source_version=5, source_row=6, timestamp=NOW)],
    )
    instant = 1_769_860_800_000_000
    assert encode(entry) == b"".join(
        [
            b"ailake-ledger" + b"\1\0\0\0",
            b"\2\0\0\0e0",
            b"\1\0\0\0a",
            b"\2\0\0\0\xc3\xbc",
            b"\0\0\0\0",
            b"\x08\0\0\0" + bytes(8),
            b"\6\0\0\0create",
            b"\2\0\0\0m0",
            b"\x20\0\0\0" + bytes(32),
            b"\x0b\0\0\0" + b"\1\0\0\0x" + b"\2\0\0\0yz",
            b"\x08\0\0\0" + instant.to_bytes(8, "little"),
            b"\x10\0\0\0" + b"\5" + bytes(7) + b"\6" + bytes(7),
            b"\x20\0\0\0" + bytes(32),
        ]
    )
    assert entry.hash == sha256(encode(entry)).hexdigest()


def test_an_instant_is_the_same_in_every_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert append(SCOPE, None, [record(0, timestamp=there)])[0].hash == chain(1)[0].hash


@pytest.mark.parametrize(
    "others",
    [
        {"timestamp": NOW.replace(tzinfo=None)},
        {"payload_hash": "0" * 63},
        {"payload_hash": "G" * 64},
        {"source_row": -1},
        {"source_version": 2**64},
    ],
)
def test_what_can_not_be_recorded_is_refused(others: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{next(iter(others))}: got"):
        record(0, **others)


def test_a_head_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="head: got"):
        append(Scope("b"), head_of(chain(1)), [record(1)])
    with pytest.raises(InvalidInputError, match="sequence: got -1"):
        LedgerHead(SCOPE, -1, ZEROS)
    with pytest.raises(InvalidInputError, match="hash: got"):
        LedgerHead(SCOPE, 0, "abc")


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="its chain version is 2"):
        encode(replace(chain(1)[0], chain_version=2))
