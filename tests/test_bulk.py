"""Batches that are read and written column by column, against the same drafts one by one."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ailake
from ailake.core.bulk import Batch, BulkRows, plan_bulk
from ailake.core.columnar import read_columns
from ailake.core.drafts import Draft, drafts_of
from ailake.core.judge import dedupe_digest, dedupe_digests, dedupe_key
from ailake.core.prompts import CLOSING, OPENING
from ailake.core.records import Decision, Remembered, Scope, SourceClass
from ailake.core.remembering import NewMemory, Twin, duplicate_keys, plan_batch
from ailake.core.rows import episodic_rows
from ailake.embed.checked import FLOAT16_MAX
from ailake.errors import InvalidInputError
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.streams import SLICE_ROWS, Stream

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HERE = timezone(timedelta(hours=5, minutes=30))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIM = 8

instants = st.integers(-(10**15), 3 * 10**15).flatmap(
    lambda micros: st.sampled_from(
        [(EPOCH + timedelta(microseconds=micros)).astimezone(zone) for zone in (UTC, HERE)]
    )
)
words = st.sampled_from(
    ["tea", "Tea.", " tea ", "tea?", "茶", "Ana left!", "n!", "x" * 40, OPENING, f"tea {CLOSING}"]
)
labels = st.none() | st.sampled_from(["", "ana", "bo"])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "importance": st.none() | st.floats(0, 1),
    "confidence": st.none() | st.floats(0, 1),
    "role": st.none() | st.sampled_from(["user", "tool"]),
    "speaker": labels,
    "source": st.none() | st.sampled_from([*SourceClass]).map(str),
    "kind": labels,
    "id": st.none() | st.sampled_from(["a", "b", "c", "d", "e"]),
    "event_time": st.none() | instants,
    "expires_at": st.none() | st.sampled_from([NOW - timedelta(1), NOW + timedelta(1)]) | instants,
    "metadata": st.none() | st.sampled_from(["{}", '{"b": 1, "a": [null]}', '{"a": "é"}']),
    "session_id": labels,
}
BAD: dict[str, st.SearchStrategy[Any]] = {
    "importance": st.sampled_from([1.5, float("nan")]),
    "role": st.just(" "),
    "speaker": st.just("x" * 1_025),
    "source": st.just("rumour"),
    "id": st.just(""),
    "event_time": st.just(datetime(1600, 1, 1, tzinfo=UTC)),
    "metadata": st.sampled_from(["{", "[]", "null", '{"a": NaN}']),
}


@st.composite
def batches(draw: st.DrawFn, *, bad: bool = False, most: int = 12) -> list[dict[str, Any]]:
    """Return items that all bring a vector, with the same fields in each."""
    names = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=6))
    texts = words | st.sampled_from(["", "\u2003\n", "\x1f"]) if bad else words
    fields = {
        name: FIELDS[name] | BAD[name] if bad and name in BAD else FIELDS[name] for name in names
    }
    items = draw(
        st.lists(st.fixed_dictionaries({"text": texts, **fields}), min_size=1, max_size=most)
    )
    rng = np.random.default_rng(len(items))
    return [{**item, "vector": rng.standard_normal(DIM).astype(np.float32)} for item in items]


def as_table(items: list[dict[str, Any]]) -> pa.Table:
    kinds = {
        **dict.fromkeys(("importance", "confidence"), pa.float64()),
        "event_time": pa.timestamp("us", "Asia/Kolkata"),
        "expires_at": pa.timestamp("us", "UTC"),
    }
    flat = pa.array(np.concatenate([item["vector"] for item in items]))
    columns: dict[str, Any] = {
        name: pa.array([item[name] for item in items], kinds.get(name, pa.string()))
        for name in items[0]
        if name != "vector"
    }
    return pa.table({**columns, "vector": pa.FixedSizeListArray.from_arrays(flat, DIM)})


def as_dicts(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def parsed(name: str, value: Any) -> Any:
        return json.loads(value) if name == "metadata" and value is not None else value

    return [{name: parsed(name, value) for name, value in item.items()} for item in items]


def one_by_one(items: Any) -> list[Draft] | str:
    """Return the drafts that ``drafts_of`` makes of the items, or what it says of a bad one."""
    try:
        drafts = drafts_of(items, default_session="s")
    except InvalidInputError as error:
        return str(error)
    return [replace(draft, vector=None) for draft in drafts]


@given(batches())
def test_what_is_right_is_read_as_columns(items: list[dict[str, Any]]) -> None:
    for given_as in (as_table(items), as_dicts(items)):
        whole = read_columns(given_as, default_session="s")
        assert whole is not None
        assert whole.columns.drafts() == one_by_one(given_as)
        assert np.array_equal(np.asarray(whole.vectors), [item["vector"] for item in items])


@given(batches(bad=True))
def test_what_is_wrong_is_left_to_the_rows(items: list[dict[str, Any]]) -> None:
    table = as_table(items)
    expected = one_by_one(table)
    whole = read_columns(table, default_session="s")
    assert whole is None if isinstance(expected, str) else True
    assert whole is None or whole.columns.drafts() == expected


UNUSUAL = [
    [{"text": "x", "vector": [1.0] * DIM}, {"text": "y"}],
    [{"text": "x", "vector": [1.0] * DIM, "kind": ["a"]}],
    [{"text": "x", "vector": [1.0] * DIM, 5: "a"}],
    [{"text": "\ud800", "vector": [1.0] * DIM}],
    [{"vector": [1.0] * DIM}],
    [{"text": "x", "vector": [1.0] * DIM}, {"vector": [1.0] * DIM}],
    [],
    pa.table({"text": ["x"], "vector": [[1.0] * DIM], "importance": [1]}),
    pa.table({"text": ["x"], "vector": [[1.0] * DIM], "event_time": [datetime(2026, 1, 1)]}),  # noqa: DTZ001
    pa.table({"text": ["x", "y"], "vector": [[1.0] * DIM, [1.0]]}),
    pa.table({"text": pa.array([b"x\xff"]).view(pa.string()), "vector": [[1.0] * DIM]}),
    pa.table([["x"], [[1.0] * DIM], ["a"], ["b"]], ["text", "vector", "kind", "kind"]),
]


@pytest.mark.parametrize("items", UNUSUAL)
def test_what_is_unusual_is_left_to_the_rows(items: Any) -> None:
    assert read_columns(items, default_session="") is None


def test_other_frames_of_the_same_values() -> None:
    rows = {
        "text": ["a", "b", "c"],
        "role": ["user", None, "tool"],
        "metadata": [{"a": 1}, None, {"a": 2}],
        **dict.fromkeys(("kind", "importance", "event_time", "id"), [None] * 3),
        "vector": np.eye(3, DIM, dtype=np.float32),
    }
    types: dict[str, Any] = {"role": pl.Categorical, "vector": pl.Array(pl.Float32, DIM)}
    frame = pa.table(pl.DataFrame(rows, schema_overrides=types))
    for table in (frame, pa.concat_tables([frame.slice(0, 1), frame.slice(1)]), frame.slice(1)):
        whole = read_columns(table, default_session="")
        assert whole is not None
        drafts = drafts_of(table)
        assert whole.columns.drafts() == [replace(draft, vector=None) for draft in drafts]
        vectors: list[Any] = [draft.vector for draft in drafts]
        assert np.array_equal(np.asarray(whole.vectors), vectors)


@given(st.lists(st.text() | st.text(alphabet="aZ5 .,;!?)\"'\t\x1f\né茶")))
def test_digests_of_a_column(texts: list[str]) -> None:
    column = pa.chunked_array([texts[:3], texts[3:]], pa.string())
    assert dedupe_digests(column) == [dedupe_digest(dedupe_key(text)) for text in texts]


@given(batches(), st.booleans(), st.data())
def test_a_plan_and_its_rows(items: list[dict[str, Any]], judge: bool, data: st.DataObject) -> None:  # noqa: FBT001
    whole = read_columns(as_table(items), default_session="s")
    assert whole is not None
    drafts = drafts_of(as_table(items), default_session="s")
    keys = duplicate_keys(drafts)
    fresh = [f"new-{place}" for place in range(len(drafts))]
    stored = data.draw(st.sets(st.sampled_from(sorted({key.digest for key in keys}))))
    expiry = data.draw(FIELDS["expires_at"])
    known = {key: Twin(f"twin of {key.digest}", expiry) for key in keys if key.digest in stored}
    outcomes = {"a": Remembered("a", Decision.CREATE, "earlier", repeated=True)}
    known_ids = data.draw(st.sampled_from([{}, outcomes]))
    plan = plan_batch(
        drafts, keys, fresh_ids=fresh, known_ids=known_ids, known_keys=known, judge=judge, now=NOW
    )

    batch = Batch(
        whole.columns,
        ids=[draft.id or new for draft, new in zip(drafts, fresh, strict=True)],
        given_ids=[draft.id for draft in drafts if draft.id is not None],
        digests=whole.columns.digests() if judge else (),
        judge=judge,
        now=NOW,
    )
    bulk = plan_bulk(batch, known_ids=known_ids, known_keys=known if judge else {})
    assert bulk.outcomes(batch) == list(plan.outcomes)
    assert bulk.decided.refreshes == plan.refreshes
    assert bulk.decided.extensions == plan.extensions
    assert bulk.places.tolist() == [addition.position for addition in plan.additions]

    scope, vectors = Scope("ana-bot", "ana"), np.asarray(whole.vectors)
    new = [NewMemory(a.draft, a.outcome, a.digest, scope, NOW, 7) for a in plan.additions]
    expected = episodic_rows(new, vectors[bulk.places], embedder_id="e")
    rows = BulkRows(batch, bulk, vectors, scope, "e", 7)
    cut = len(new) // 2
    got = pa.concat_tables([rows.rows_of(0, cut), rows.rows_of(cut, len(new))])
    assert got.equals(expected, check_metadata=True)


def stored_rows(memory: ailake.Memory) -> list[dict[str, Any]]:
    """Return what a memory holds, fresh ids numbered in the order of writing."""
    numbers: dict[str, int] = {}
    rows = [vars_of(record) for record in memory.list(limit=1_000, where={"state": "active"})]
    for row in rows:
        row["id"] = (
            row["id"] if len(row["id"]) < 32 else numbers.setdefault(row["id"], len(numbers))
        )
    return rows


def vars_of(record: ailake.MemoryRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


@settings(max_examples=15)
@given(batches(), batches(), st.booleans())
def test_lakes_written_in_three_ways(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[dict[str, Any]],
    second: list[dict[str, Any]],
    judge: bool,  # noqa: FBT001
) -> None:
    ways = (as_table, as_dicts, lambda items: iter(as_dicts(items)))
    told, kept = [], []
    for way in ways:
        with ailake.connect(tmp_path_factory.mktemp("lake"), embedder=f"hashing:{DIM}") as lake:
            memory = lake.memory(agent_id="a", session_id="s")
            for hours, items in enumerate((first, second, first)):
                outcomes = memory.remember_many(
                    way(items), judge=judge, now=NOW + timedelta(hours=hours)
                )
                told.append([(o.decision, o.reason, o.veto, o.repeated) for o in outcomes])
            kept.append(stored_rows(memory))
    assert told[:3] == told[3:6] == told[6:]
    assert kept[0] == kept[1] == kept[2]


def test_the_first_bad_vector_is_named(memory: ailake.Memory) -> None:
    vectors = np.eye(64, dtype=np.float32)
    vectors[3] = 0
    frame = pl.DataFrame({"text": [f"n{n}" for n in range(64)], "vector": vectors})
    items = [{"text": f"n{n}", "vector": vector} for n, vector in enumerate(vectors)]
    for batch in (frame, items, iter(items)):
        with pytest.raises(InvalidInputError, match="vector of item 3: got a zero vector"):
            memory.remember_many(batch)
    assert memory.count() == 0


def test_an_id_of_another_scope_is_refused(lake: ailake.Lake) -> None:
    frame = pa.table({"text": ["x"], "id": ["one"], "vector": [[1.0] * 64]})
    lake.memory(agent_id="a").remember_many(frame, now=NOW)
    with pytest.raises(InvalidInputError, match="taken in this lake"):
        lake.memory(agent_id="b").remember_many(frame, now=NOW)


def test_many_slices_keep_their_order_and_columns_of_others(lake: ailake.Lake) -> None:
    lake.table("episodic").add_columns(pa.field("theirs", pa.int32()))
    count = 2 * SLICE_ROWS + 5
    vectors = np.tile(np.eye(64, dtype=np.float32), (count // 64 + 1, 1))[:count]
    frame = pl.DataFrame({"text": [f"n{n}" for n in range(count)], "vector": vectors})
    memory = lake.memory(agent_id="a")
    outcomes = memory.remember_many(frame, now=NOW)
    rows = lake.table("episodic").to_arrow()
    assert rows["chunk_text"].to_pylist() == frame["text"].to_list()
    assert rows["chunk_id"].to_pylist() == [outcome.id for outcome in outcomes]
    stored = rows["embedding"].combine_chunks().flatten().to_numpy().reshape(count, -1)
    assert np.array_equal(stored, vectors)
    assert len({outcome.id for outcome in outcomes}) == count
    assert rows["theirs"].null_count == count
    assert len(lake.table("episodic").to_lance().get_fragments()) == 1
    again = memory.remember_many(frame, now=NOW)
    assert {outcome.decision for outcome in again} == {Decision.SKIP}


def test_vectors_are_rounded_as_numpy_rounds_them() -> None:
    bits = np.arange(0, 2**32, 9_973, dtype=np.uint32).view(np.float32)
    kept = bits[np.abs(bits) < FLOAT16_MAX]
    vectors = kept[: len(kept) // 16 * 16].reshape(-1, 16)
    items = [{"text": f"n{n}", "vector": vector} for n, vector in enumerate(vectors)]
    whole = read_columns(items, default_session="")
    assert whole is not None
    ids = [f"{n}" for n in range(len(items))]
    batch = Batch(whole.columns, ids, (), (), judge=False, now=NOW)
    plan = plan_bulk(batch, known_ids={}, known_keys={})
    rows = BulkRows(batch, plan, vectors, Scope("a"), "e", 0).rows_of(0, len(items))
    stored = rows["embedding"].combine_chunks().flatten().to_numpy().reshape(vectors.shape)
    assert np.array_equal(stored, vectors.astype(np.float16))


def test_what_was_written_since_the_look_counts(lake: ailake.Lake, tmp_path: Path) -> None:
    frame = pa.table({"text": ["tea", "coffee"], "vector": [[1.0] * 64] * 2})
    memory = lake.memory(agent_id="a")
    rules = ailake.JudgeRules(retention=None)
    other = ailake.connect(tmp_path / "lake", judge_rules=rules)
    with other, ThreadPoolExecutor(1) as pool:
        with exclusive(lake.store.location.root, WRITE):
            coming = pool.submit(memory.remember_many, frame, now=NOW)
            time.sleep(0.3)
            # By way of the log, for which nobody waits.
            other.memory(agent_id="a").remember("Tea", id="first", now=NOW)
            assert not coming.done()
        outcomes = coming.result()
    assert [outcome.decision for outcome in outcomes] == [Decision.SKIP, Decision.CREATE]
    assert outcomes[0].id == "first"
    assert memory.count(now=NOW) == 2


def test_a_stream_is_made_again_after_a_conflict() -> None:
    rows = pa.table({"n": range(2 * SLICE_ROWS)})
    asked = []

    def rows_of(start: int, stop: int) -> pa.Table:
        asked.append(start)
        return rows.slice(start, stop - start)

    stream = Stream(rows.num_rows, rows_of)
    assert stream.read().read_all() == stream.read().read_all() == rows
    assert asked == [0, SLICE_ROWS] * 2


def test_what_fails_while_rows_are_made_writes_nothing(
    memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: BulkRows, start: int, stop: int) -> pa.Table:
        if start:
            raise MemoryError(stop)
        return made(self, start, stop)

    made = BulkRows.rows_of
    monkeypatch.setattr(BulkRows, "rows_of", failing)
    count = 2 * SLICE_ROWS
    frame = pl.DataFrame({"text": [f"n{n}" for n in range(count)], "vector": np.ones((count, 64))})
    with pytest.raises(Exception, match=str(count)):
        memory.remember_many(frame, judge=False, now=NOW)
    assert memory.count() == 0
