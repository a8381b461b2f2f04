"""Wrong input is refused before anything is written, saying what was got and what is wanted."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ailake
from ailake import InvalidInputError, ScopeError
from ailake.core.schema import TABLES

NAIVE = datetime(2026, 1, 31)  # noqa: DTZ001 (what is refused here)
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"text": ""}, "text: got ''"),
    ({"text": " \n\t"}, "wanted at least one visible character"),
    ({"text": None}, "text: got None, wanted a string"),
    ({"text": 5}, "text: got 5, wanted a string"),
    ({"text": b"tea"}, "text: got b'tea', wanted a string"),
    ({"text": "\ud800"}, "text that UTF-8 can encode"),
    ({"text": "x" * 200_001}, "got 200,001 characters, wanted at most 200,000"),
    ({"importance": 1.1}, "importance: got 1.1, wanted a number in"),
    ({"importance": -0.1}, "importance: got -0.1"),
    ({"importance": math.nan}, "importance: got nan"),
    ({"importance": "high"}, "importance: got 'high'"),
    ({"importance": True}, "importance: got True"),
    ({"confidence": 2}, "confidence: got 2"),
    ({"event_time": NAIVE}, "event_time: got '2026-01-31T00:00:00', wanted a timezone-aware"),
    ({"event_time": "2026-01-31"}, "event_time: got '2026-01-31', wanted a timezone-aware"),
    ({"expires_at": NAIVE}, "expires_at: got"),
    ({"event_time": datetime(1000, 1, 1, tzinfo=UTC)}, "wanted a year from 1678 to 2261"),
    ({"source": "rumour"}, "source: got 'rumour', wanted one of direct, tool, document"),
    ({"source": ["direct"]}, "source: got"),
    ({"role": ""}, "role: got ''"),
    ({"speaker": 5}, "speaker: got 5"),
    ({"kind": "x" * 1_025}, "wanted a string of at most 1,024 characters"),
    ({"id": ""}, "id: got ''"),
    ({"id": 7}, "id: got 7"),
    ({"metadata": [1]}, "metadata: got .*wanted a mapping with string keys"),
    ({"metadata": {1: 2}}, "wanted a mapping with string keys"),
    ({"metadata": {"a": math.nan}}, "wanted values that JSON can hold"),
    ({"metadata": {"a": object()}}, "wanted values that JSON can hold"),
    ({"metadata": {"a": "x" * 70_000}}, "wanted at most 65,536"),
    ({"session_id": 5}, "session_id: got 5"),
    ({"vector": [1.0] * 63}, "wanted a vector of 64 numbers"),
    ({"vector": [0.0] * 64}, "got a zero vector"),
    ({"vector": [math.inf] * 64}, "wanted finite"),
    ({"vector": "abc"}, "wanted a vector of 64|instead of vectors"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_FIELDS)
def test_a_bad_field(lake: ailake.Lake, bad: dict[str, Any], message: str) -> None:
    memory = lake.memory(agent_id="a")
    before = lake.table("episodic").version
    fields: dict[str, Any] = {"text": "a good one", **bad}
    with pytest.raises(InvalidInputError, match=message):
        memory.remember(fields.pop("text"), **fields)
    good = {"text": "fine"}
    with pytest.raises(InvalidInputError, match=message) as caught:
        memory.remember_many([good, good, {"text": "a good one", **bad}])
    assert "item 2" in str(caught.value)
    assert lake.table("episodic").version == before


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("text", "items: got 'text', wanted a list of mappings"),
        ({"text": "x"}, "wanted a list of mappings, or a frame"),
        (5, "wanted a list of mappings"),
        (["x"], "item 0: memory: got 'x', wanted a mapping"),
        ([{"txt": "x"}], 'item 0: memory: got .*wanted a key "text"'),
        ([{"text": "x", "txt": 1}], "item 0: memory field: got 'txt', wanted one of confidence"),
        (pl.DataFrame({"content": ["x"]}), 'wanted a key "text"'),
        (pl.DataFrame({"text": ["x", None]}), "item 1: text: got None"),
        (pl.DataFrame({"text": ["x"], "event_time": [NAIVE]}), "item 0: event_time"),
        (pa.table({"text": ["x"], "metadata": ["{"]}), "metadata: got '{', wanted a JSON object"),
        (pa.table({"text": ["x"], "vector": [[1.0, 2.0]]}), "wanted a vector of 64"),
        (pa.table({"text": ["x", "y"], "vector": [[1.0] * 64, [1.0]]}), "vector of item 1"),
    ],
)
def test_a_bad_batch(memory: ailake.Memory, items: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        memory.remember_many(items)
    assert memory.count() == 0


BAD_CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: m.recall(""), "text: got ''"),
    (lambda m: m.recall([1.0, 2.0]), "query: .*wanted a vector of 64"),
    (lambda m: m.recall(None), "query: "),
    (lambda m: m.recall("x", limit=0), "limit: got 0, wanted a whole number from 1 to 10,000"),
    (lambda m: m.recall("x", limit=2.5), "limit: got 2.5"),
    (lambda m: m.recall("x", limit=True), "limit: got True"),
    (lambda m: m.recall("x", now=NAIVE), "now: got"),
    (lambda m: m.recall("x", max_distance=3), "max_distance: got 3"),
    (lambda m: m.recall("x", max_distance=math.nan), "max_distance: got nan"),
    (lambda m: m.recall("x", scoring="seed"), "scoring: got 'seed'"),
    (lambda m: m.recall("x", where={"nope": 1}), "nope.*chunk_id"),
    (lambda m: m.recall("x", where={"kind": {"like": "a"}}), "like.*contains"),
    (lambda m: m.recall("x", where={"importance_score": "high"}), "importance_score"),
    (lambda m: m.recall("x", where={"created_at": {"gt": NAIVE}}), "created_at"),
    (lambda m: m.recall("x", where="kind = 'a'"), "where: got"),
    (lambda m: m.recall("x", session_id=5), "session_id"),
    (lambda m: m.get(""), "id: got ''"),
    (lambda m: m.list(limit=-1), "limit: got -1"),
    (lambda m: m.list(offset=-1), "offset: got -1"),
    (lambda m: m.count({"nope": 1}), "nope"),
    (lambda m: m.forget(), "got no term, wanted ids, where or older_than"),
    (lambda m: m.forget(where={}), "got no term"),
    (lambda m: m.forget([]), "got an empty list"),
    (lambda m: m.forget([5]), "id: got 5"),
    (lambda m: m.forget(older_than=NAIVE), "older_than: got"),
    (lambda m: m.forget(older_than=30), "older_than: got 30"),
    (lambda m: m.forget(older_than=timedelta(days=10**6)), "older_than"),
    (lambda m: m.remember("x", now=NAIVE), "now: got"),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS)
def test_a_bad_call(lake: ailake.Lake, call: Callable[[Any], Any], message: str) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", now=NOW)
    before = [lake.table(name).version for name in TABLES]
    with pytest.raises(InvalidInputError, match=message):
        call(memory)
    assert [lake.table(name).version for name in TABLES] == before


@pytest.mark.parametrize(
    "scope", [{"agent_id": ""}, {"agent_id": 5}, {"agent_id": "a", "user_id": None}]
)
def test_a_bad_scope(lake: ailake.Lake, scope: dict[str, Any]) -> None:
    with pytest.raises(ScopeError, match=r"(agent|user)_id: got"):
        lake.memory(**scope)


def test_one_bad_vector_among_texts_is_named(memory: ailake.Memory) -> None:
    items: list[dict[str, Any]] = [{"text": "one"}, {"text": "two", "vector": np.zeros(64)}]
    with pytest.raises(InvalidInputError, match="vector of item 1: got a zero vector"):
        memory.remember_many(items)
    assert memory.count() == 0


def test_errors_are_also_what_python_expects() -> None:
    assert issubclass(ailake.InvalidInputError, ValueError)
    assert issubclass(ailake.NotFoundError, KeyError)
    assert issubclass(ailake.MissingExtraError, ImportError)
    assert issubclass(ailake.ReadOnlyError, PermissionError)
    assert str(ailake.NotFoundError("plain words")) == "plain words"
    assert str(ailake.MissingExtraError.of("x", extra="local")).endswith(
        "pip install 'ailake-memory[local]'"
    )
