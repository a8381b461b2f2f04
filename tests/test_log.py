"""The log's records: what was written is read back, and nothing else, whatever became of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from struct import pack
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ailake.core.drafts import Draft
from ailake.core.entities import EntityRef
from ailake.core.graph import entity_refs
from ailake.core.log import VERSION, LoggedMemory, Rest, encode, replay
from ailake.core.records import Decision, Remembered, Scope, SourceClass
from ailake.core.remembering import NewMemory
from ailake.errors import SchemaMismatchError

HEAD = 8

# Chinese, emoji, control characters and zero bytes among them.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
labels = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
instants = st.datetimes(datetime(1700, 1, 1), datetime(2260, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
units = st.floats(0, 1)
drafts = st.builds(
    Draft,
    text=texts,
    importance=units,
    confidence=units,
    role=texts,
    speaker=labels,
    source=st.sampled_from([source.value for source in SourceClass]),
    kind=labels,
    event_time=st.none() | instants,
    expires_at=st.none() | instants,
    metadata=st.dictionaries(labels, texts | st.integers() | st.none(), max_size=3).map(json.dumps),
    session_id=labels,
    entities=st.lists(st.from_regex("[A-Z][a-z]{0,3}", fullmatch=True), max_size=2).map(
        entity_refs
    ),
)
outcomes = st.builds(
    Remembered, texts, st.sampled_from(Decision), labels, existing_id=labels, veto=labels
)
scopes = st.builds(Scope, texts.filter(str.strip), labels, labels)
memories = st.builds(
    NewMemory,
    draft=drafts,
    outcome=outcomes,
    digest=labels,
    scope=scopes,
    created_at=instants,
    folded_through=st.integers(0, 2**53),
    rules_version=labels,
)


@st.composite
def batches(draw: st.DrawFn) -> list[LoggedMemory]:
    dim = draw(st.integers(1, 64))
    halves = st.floats(width=16, allow_nan=False, allow_infinity=False)
    vectors = arrays(np.float16, dim, elements=halves, fill=halves)
    one = st.builds(LoggedMemory, memory=memories, vector=vectors, logged_at=instants)
    return draw(st.lists(one, min_size=1, max_size=3))


def plain(logged: LoggedMemory) -> tuple[object, ...]:
    return logged.memory, logged.vector.tobytes(), logged.vector.dtype, logged.logged_at


def read(content: bytes) -> list[tuple[object, ...]]:
    return [plain(logged) for logged in replay(content).memories]


def a_memory(text: str, dim: int = 4) -> LoggedMemory:
    instant = datetime(2026, 1, 31, tzinfo=UTC)
    outcome = Remembered(f"id of {text}", Decision.CREATE, "no_contained_match")
    memory = NewMemory(Draft(text), outcome, "digest", Scope("a"), instant, 7)
    return LoggedMemory(memory, np.arange(dim, dtype=np.float16), instant, "hashing-v1-2")


# Six records of one or two memories, and where each of them ends.
BATCHES = [[a_memory(f"n{n}"), a_memory(f"m{n}")][: 1 + n % 2] for n in range(6)]
RECORDS = [encode(batch) for batch in BATCHES]
ENDS = np.cumsum([len(record) for record in RECORDS]).tolist()
CONTENT = b"".join(RECORDS)
WRITTEN = [plain(logged) for batch in BATCHES for logged in batch]


def whole(length: int) -> list[tuple[object, ...]]:
    """What stands in the records that end within so many bytes."""
    kept = [batch for batch, end in zip(BATCHES, ENDS, strict=True) if end <= length]
    return [plain(logged) for batch in kept for logged in batch]


@given(st.lists(batches(), max_size=3))
def test_what_was_written_is_read_back(written: list[list[LoggedMemory]]) -> None:
    content = b"".join(map(encode, written))
    assert read(content) == [plain(logged) for batch in written for logged in batch]
    assert replay(content).rest is Rest.NOTHING


def test_a_vector_is_read_as_it_will_be_stored() -> None:
    (logged,) = replay(encode([a_memory("tea", dim=3)])).memories
    assert logged.waiting.vector.tolist() == [0, 1, 2]
    assert logged.waiting.row["chunk_text"] == "tea"
    assert logged.memory.draft.vector is None


def test_what_it_mentions_is_read_as_it_was_spelt() -> None:
    made = a_memory("tea")
    named = (EntityRef("person", "ANA"), EntityRef("other(Kind)", "A #1"))
    telling = replace(made.memory, draft=replace(made.memory.draft, entities=named))
    (read_back,) = replay(encode([replace(made, memory=telling)])).memories
    spelt = [(one.type, one.name) for one in read_back.memory.draft.entities]
    assert spelt == [("person", "ANA"), ("other(Kind)", "A #1")]


@pytest.mark.parametrize("version", [1, 2])
def test_records_from_before_there_were_mentions_are_read(version: int) -> None:
    payload = json.loads(RECORDS[0][HEAD:].partition(b"\0")[0])
    for document in payload:
        document["v"] = version
        del document["entities"]
        if version == 1:
            del document["verdict"]
    texts = json.dumps(payload, separators=(",", ":")).encode()
    changed = texts + b"\0" + RECORDS[0][HEAD:].partition(b"\0")[2]
    record = pack("<II", len(changed), crc32(changed)) + changed
    assert read(record) == [plain(logged) for logged in BATCHES[0]]


def test_a_cut_leaves_whole_records() -> None:
    for length in range(len(CONTENT) + 1):
        found = replay(CONTENT[:length])
        assert [plain(logged) for logged in found.memories] == whole(length)
        assert found.rest is (Rest.NOTHING if length in {0, *ENDS} else Rest.TORN)


@given(st.lists(batches(), min_size=1, max_size=2), st.data())
def test_any_cut_leaves_whole_records(
    written: list[list[LoggedMemory]], data: st.DataObject
) -> None:
    records = [encode(batch) for batch in written]
    ends = np.cumsum([len(record) for record in records]).tolist()
    length = data.draw(st.integers(0, ends[-1]))
    found = replay(b"".join(records)[:length])
    kept = [batch for batch, end in zip(written, ends, strict=True) if end <= length]
    assert [plain(x) for x in found.memories] == [plain(x) for batch in kept for x in batch]
    assert found.rest is (Rest.NOTHING if length in {0, *ends} else Rest.TORN)


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@settings(max_examples=500)
def test_a_changed_byte_makes_nothing_up_and_is_told(place: int, change: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[place] ^= change
    found = replay(bytes(damaged))
    # All but the memories of the record that it is in.
    start = max((end for end in ENDS if end <= place), default=0)
    after = WRITTEN[len(whole(min(end for end in ENDS if end > place))) :]
    assert [plain(logged) for logged in found.memories] == whole(start) + after
    # A longer length of the last record can't be told from a write that was cut off.
    is_length = ENDS[-2] <= place < ENDS[-2] + 4
    assert found.rest is Rest.DAMAGED or (is_length and found.rest is Rest.TORN)


@pytest.mark.parametrize("length", [0, 1, 2**20, 2**31, 2**32 - 1])
def test_a_damaged_length_does_not_hide_what_follows(length: int) -> None:
    damaged = RECORDS[0] + pack("<I", length) + CONTENT[ENDS[0] + 4 :]
    found = replay(damaged)
    after = WRITTEN[len(whole(ENDS[1])) :]
    assert [plain(logged) for logged in found.memories] == whole(ENDS[0]) + after
    assert found.rest is Rest.DAMAGED


def test_a_text_that_looks_like_a_record_is_none() -> None:
    """A torn record whose text holds the beginning of another is torn all the same."""
    record = encode([a_memory('[{"v":1} [{"v":'), a_memory('[{"v":')])
    for length in range(1, len(record)):
        assert replay(record[:length]).rest is Rest.TORN


@pytest.mark.parametrize("zeros", [1, 7, 8, 9, 4_096])
def test_a_file_that_grew_by_zeros_is_torn(zeros: int) -> None:
    found = replay(CONTENT + bytes(zeros))
    assert [plain(logged) for logged in found.memories] == WRITTEN
    assert found.rest is Rest.TORN


def test_a_last_record_whose_end_is_zeros_is_kept_aside() -> None:
    """Nobody was told that it is kept, most likely; but zeros may as well be damage."""
    found = replay(CONTENT[: ENDS[-2] + 20] + bytes(len(RECORDS[-1]) - 20))
    assert [plain(logged) for logged in found.memories] == whole(ENDS[-2])
    assert found.rest is Rest.DAMAGED


@pytest.mark.parametrize("hole", [slice(0, ENDS[0]), slice(ENDS[1] + HEAD, ENDS[1] + 60)])
def test_zeros_in_the_middle_are_damage(hole: slice) -> None:
    content = bytearray(CONTENT)
    content[hole] = bytes(hole.stop - hole.start)
    found = replay(bytes(content))
    start = max((end for end in ENDS if end <= hole.start), default=0)
    after = WRITTEN[len(whole(min(end for end in ENDS if end > hole.start))) :]
    assert [plain(logged) for logged in found.memories] == whole(start) + after
    assert found.rest is Rest.DAMAGED


@given(st.binary(max_size=200))
def test_no_bytes_are_a_memory_by_chance(noise: bytes) -> None:
    assert replay(noise).memories == ()
    assert read(CONTENT + noise) == WRITTEN


def test_a_newer_release_is_told() -> None:
    payload = RECORDS[0][HEAD:].replace(b'"v":%d' % VERSION, b'"v":%d' % (VERSION + 1), 1)
    newer = pack("<II", len(payload), crc32(payload)) + payload
    with pytest.raises(SchemaMismatchError, match="newer release"):
        replay(RECORDS[1] + newer)


def test_a_repetition_of_an_outcome_is_no_part_of_it() -> None:
    logged = a_memory("tea")
    again = replace(logged.memory, outcome=replace(logged.memory.outcome, repeated=True))
    assert read(encode([replace(logged, memory=again)])) == [plain(logged)]
