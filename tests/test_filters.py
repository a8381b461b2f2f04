"""Where filters by example: every operator, every refusal."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import numpy as np
import pytest

from ailake.core.filter_eval import engine_part, matches, negation_normal, touches_metadata
from ailake.core.filters import (
    FALSE,
    MAX_DEPTH,
    MAX_SIZE,
    TRUE,
    And,
    ColumnKind,
    Compare,
    MetadataCompare,
    Not,
    Or,
    Predicate,
    columns_of,
    conjunction,
    disjunction,
    parse_where,
    where_from_json,
)
from ailake.errors import InvalidInputError, LakeCorruptError
from ailake.storage.filters import to_sql

COLUMNS = {
    "kind": ColumnKind.TEXT,
    "event_time": ColumnKind.TIMESTAMP,
    "importance_score": ColumnKind.REAL32,
    "access_count": ColumnKind.UINT32,
    "version": ColumnKind.UINT64,
    "metadata": ColumnKind.TEXT,
}
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROW: dict[str, object] = {
    "kind": "preference",
    "event_time": NOON,
    "importance_score": float(np.float32(0.9)),
    "access_count": 3,
    "version": 2**63 + 1,
    "metadata": json.dumps(
        {
            "topic": "food",
            "n": 2,
            "flag": True,
            "none": None,
            "tags": ["a", 1, True],
            "a": {"b": 1, "c.d": 2, "e": {"f": "deep"}},
            "a.b": "literal",
            "list": [{"x": 1}],
        }
    ),
}
EMPTY: dict[str, object] = {**ROW, "event_time": None, "metadata": ""}


class Kind(StrEnum):
    PREFERENCE = "preference"


def parse(where: Any) -> Predicate:
    return parse_where(where, COLUMNS, nullable={"event_time"})


def found(where: Any, row: dict[str, object] = ROW) -> bool:
    return matches(parse(where), row)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"kind": "preference"}, True),
        ({"kind": Kind.PREFERENCE}, True),
        ({"kind": {"eq": "other"}}, False),
        ({"kind": {"ne": "other"}}, True),
        ({"kind": {"in": ["x", "preference"]}}, True),
        ({"kind": {"in": ()}}, False),
        ({"kind": {"nin": {"x", "y"}}}, True),
        ({"kind": {"nin": []}}, True),
        ({"kind": {"gt": "a", "lt": "z"}}, True),
        ({"kind": {"gte": "preference", "lte": "preference"}}, True),
        ({"kind": {"gt": "preference"}}, False),
        ({"kind": {"lt": "preference"}}, False),
        ({"kind": {"contains": "fer"}}, True),
        ({"kind": {"contains": "Fer"}}, False),
        ({"importance_score": 0.9}, True),
        ({"importance_score": np.float64(0.9)}, True),
        ({"importance_score": {"gte": 1}}, False),
        ({"importance_score": {"gt": 0.9}}, False),
        ({"access_count": {"gte": 3, "lt": 4}}, True),
        ({"access_count": np.int64(3)}, True),
        ({"access_count": {"gt": -1}}, True),
        ({"version": 2**63 + 1}, True),
        ({"event_time": {"gte": NOON, "lt": NOON + timedelta(microseconds=1)}}, True),
        ({"event_time": NOON.astimezone(timezone(timedelta(hours=8)))}, True),
        ({"event_time": None}, False),
        ({"event_time": {"ne": None}}, True),
        ({"OR": [{"kind": "x"}, {"access_count": 3}]}, True),
        ({"AND": [{"kind": "x"}, {"access_count": 3}]}, False),
        ({"NOT": {"kind": "x", "access_count": 3}}, True),
        ({"NOT": {}}, False),
        ({"OR": [{}, {"kind": "x"}]}, True),
        ({}, True),
        (None, True),
    ],
)
def test_columns(where: Any, expected: bool) -> None:  # noqa: FBT001
    assert found(where) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"metadata.topic": "food"}, True),
        ({"metadata.topic": {"contains": "oo"}}, True),
        ({"metadata.topic": {"contains": 1}}, False),
        ({"metadata.topic": {"gt": "a"}}, True),
        ({"metadata.topic": {"gt": 1}}, False),
        ({"metadata.topic": {"in": [1, "food"]}}, True),
        ({"metadata.topic": {"nin": ["food"]}}, False),
        ({"metadata.n": 2.0}, True),
        ({"metadata.n": {"gte": 1.5, "lte": 2}}, True),
        ({"metadata.n": "2"}, False),
        ({"metadata.flag": True}, True),
        ({"metadata.flag": 1}, False),
        ({"metadata.flag": {"in": [1]}}, False),
        ({"metadata.flag": {"gte": 0}}, False),
        ({"metadata.n": {"gt": 1, "lt": 2}}, False),
        ({"metadata.none": None}, True),
        ({"metadata.missing": None}, True),
        ({"metadata.missing": {"ne": "x"}}, True),
        ({"metadata.missing": {"gt": 0}}, False),
        ({"metadata.missing": {"contains": "a"}}, False),
        ({"metadata.missing": {"in": [None, "x"]}}, True),
        ({"metadata.topic": {"in": [None, "x"]}}, False),
        ({"metadata.topic": {"nin": [None]}}, True),
        ({"metadata.tags": {"contains": "a"}}, True),
        ({"metadata.tags": {"contains": 1}}, True),
        ({"metadata.tags": {"contains": 2}}, False),
        ({"metadata.tags": "a"}, False),
        ({"metadata.a.b": "literal"}, True),
        ({"metadata.a.c.d": 2}, True),
        ({"metadata.a.e.f": "deep"}, True),
        ({"metadata.a.e": None}, False),
        ({"metadata.list.0": None}, True),
        ({"metadata.list.x": None}, True),
        ({"metadata.topic.x": None}, True),
    ],
)
def test_metadata(where: Any, expected: bool) -> None:  # noqa: FBT001
    assert found(where) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"event_time": None}, True),
        ({"event_time": {"ne": NOON}}, True),
        ({"event_time": {"nin": [NOON]}}, True),
        ({"event_time": {"in": [None]}}, True),
        ({"event_time": {"nin": [None, NOON]}}, False),
        ({"event_time": {"gte": NOON}}, False),
        ({"event_time": {"lt": NOON}}, False),
        ({"NOT": {"event_time": {"lt": NOON}}}, True),
        ({"metadata.topic": None}, True),
        ({"metadata.topic": {"ne": "food"}}, True),
    ],
)
def test_null_is_an_ordinary_value(where: Any, expected: bool) -> None:  # noqa: FBT001
    assert found(where, EMPTY) is expected


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ([("kind", "x")], ["where", "mapping"]),
        ("kind = 'x'", ["mapping"]),
        ({"knd": "x"}, ["'knd'", "access_count, event_time, importance_score", "metadata.<key>"]),
        ({"or": [{}]}, ["AND, OR, NOT"]),
        ({1: "x"}, ["got 1", "access_count"]),
        ({"metadata": "{}"}, ["metadata.<key>"]),
        ({"metadata.": "x"}, ["metadata.<key>"]),
        ({"kind": {"like": "x"}}, ["'like'", "eq, ne, in, nin, gt, gte, lt, lte, contains"]),
        ({"kind": {}}, ["{}", "eq, ne, in"]),
        ({"metadata.a": {"b": 1}}, ["'b'", "metadata.a.<key>"]),
        ({"kind": 1}, ["'kind'", "got 1", "text"]),
        ({"kind": ["a"]}, ["'kind'", "['a']", "{'in': [...]}"]),
        ({"kind": "\ud800"}, ["UTF-8"]),
        ({"kind": None}, ["'kind'", "got None", "never null"]),
        ({"kind": {"in": [None]}}, ["never null"]),
        ({"event_time": {"gt": None}}, ["'event_time' gt", "eq, ne, in, nin"]),
        ({"metadata.a": {"contains": None}}, ["contains", "eq, ne, in, nin"]),
        ({"event_time": datetime(2024, 1, 1)}, ["event_time", "naive"]),  # noqa: DTZ001
        ({"event_time": "2024-01-01"}, ["event_time", "timezone-aware datetime"]),
        ({"access_count": True}, ["access_count", "an int"]),
        ({"access_count": 1.0}, ["access_count", "an int"]),
        ({"version": "1"}, ["version", "an int"]),
        ({"importance_score": float("nan")}, ["importance_score", "finite"]),
        ({"importance_score": float("inf")}, ["importance_score", "finite"]),
        ({"importance_score": 1e39}, ["importance_score", "float32"]),
        ({"importance_score": 10**400}, ["importance_score", "float32"]),
        ({"importance_score": True}, ["importance_score", "number"]),
        ({"kind": {"in": "abc"}}, ["'kind' in", "list"]),
        ({"kind": {"nin": {"a": 1}}}, ["'kind' in", "list"]),
        ({"kind": {"in": ["a", 1]}}, ["'kind'", "got 1"]),
        ({"access_count": {"contains": 1}}, ["contains", "uint32", "text or metadata"]),
        ({"metadata.a": [1]}, ["'metadata.a'", "str, int, float, bool or None"]),
        ({"metadata.a": NOON}, ["'metadata.a'", "str, int, float"]),
        ({"metadata.a": float("nan")}, ["'metadata.a'", "nan"]),
        ({"metadata.a": {"gt": True}}, ["'metadata.a' gt", "a number or text"]),
        ({"OR": []}, ["where OR", "non-empty list"]),
        ({"OR": {"kind": "x"}}, ["where OR", "non-empty list"]),
        ({"AND": ["x"]}, ["where AND[0]", "mapping"]),
        ({"NOT": [{"kind": "x"}]}, ["where NOT", "mapping"]),
    ],
)
def test_refused(where: Any, words: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(where)
    for word in words:
        assert word in str(caught.value)


def nested(depth: int) -> dict[str, object]:
    where: dict[str, object] = {"kind": "preference"}
    for _ in range(depth - 1):
        where = {"NOT": where}
    return where


def test_limits() -> None:
    assert found(nested(MAX_DEPTH)) is (MAX_DEPTH % 2 == 1)
    with pytest.raises(InvalidInputError, match="nested"):
        parse(nested(MAX_DEPTH + 1))
    assert not found({"access_count": {"in": list(range(4, MAX_SIZE + 2))}})
    with pytest.raises(InvalidInputError, match="10,000"):
        parse({"access_count": {"in": list(range(MAX_SIZE))}})
    with pytest.raises(InvalidInputError, match="10,000"):
        parse({"OR": [{"kind": "x"}] * MAX_SIZE})


def test_values_are_normalised() -> None:
    assert parse({"kind": Kind.PREFERENCE}) == compare("kind", "eq", "preference")
    value = parse({"kind": Kind.PREFERENCE})
    assert isinstance(value, Compare)
    assert type(value.value) is str
    assert parse({"kind": {"in": ["b", "a", "b"]}}) == compare("kind", "in", ("b", "a"))
    same = parse({"metadata.a": {"in": [1, True, 1.0]}})
    assert isinstance(same, MetadataCompare)
    assert repr(same.value) == "(1.0, True)"


def compare(column: str, operator: str, value: Any) -> Compare:
    return Compare(column, operator, value, COLUMNS[column], nullable=column == "event_time")


def test_conjunction_and_disjunction_flatten() -> None:
    a, b = compare("kind", "eq", "a"), compare("kind", "eq", "b")
    assert conjunction() == TRUE == And(())
    assert disjunction() == FALSE == Or(())
    assert conjunction(a) == a
    assert parse({"NOT": {}}) == FALSE
    assert parse({"NOT": {"NOT": {}}}) == TRUE
    assert conjunction(a, And((b, a)), TRUE) == And((a, b, a))
    assert conjunction(a, FALSE) == FALSE
    assert disjunction(a, Or((b,)), FALSE) == Or((a, b))
    assert disjunction(a, TRUE) == TRUE


def test_engine_part_is_aware_of_polarity() -> None:
    kind = compare("kind", "eq", "x")
    assert engine_part(parse({"kind": "x", "metadata.a": 1})) == kind
    assert engine_part(parse({"OR": [{"kind": "x"}, {"metadata.a": 1}]})) == TRUE
    assert engine_part(parse({"metadata.a": {"ne": 1}})) == TRUE
    assert engine_part(parse({"NOT": {"kind": "x", "metadata.a": 1}})) == TRUE
    either = parse({"NOT": {"OR": [{"kind": "x"}, {"metadata.a": 1}]}})
    assert engine_part(either) == Not(kind)
    assert touches_metadata(either)
    assert not touches_metadata(engine_part(either))
    assert negation_normal(Not(Not(kind))) == kind


def test_a_row_of_another_shape_is_an_error() -> None:
    with pytest.raises(KeyError):
        matches(parse({"kind": "x"}), {})
    with pytest.raises(LakeCorruptError, match="not JSON"):
        matches(parse({"metadata.a": 1}), {**ROW, "metadata": "{"})
    assert found({"kind": "preference"}, {**ROW, "metadata": "{"})
    assert found({"metadata.a": None}, {**ROW, "metadata": "[1]"})
    assert found({"importance_score": 0.9}, {**ROW, "importance_score": 0.9})


def test_sql_by_example() -> None:
    assert to_sql(parse({"kind": "a\\b"})) == "(kind = 'a\\b')"
    assert to_sql(parse({"kind": "it's"})) == "(kind = arrow_cast(X'69742773', 'Utf8'))"
    assert to_sql(parse({"event_time": None})) == "event_time IS NULL"
    assert to_sql(TRUE) == "true"
    assert to_sql(FALSE) == "false"
    assert to_sql(parse({"access_count": {"gt": -1}})) == "true"
    assert to_sql(parse({"access_count": {"gte": 2**32}})) == "false"
    assert to_sql(parse({"access_count": {"ne": 2**32}})) == "NOT (false)"
    quoted = Compare("we`ird", "eq", "x", ColumnKind.TEXT, nullable=False)
    assert to_sql(quoted) == "(`we``ird` = 'x')"
    with pytest.raises(TypeError, match="engine_part"):
        to_sql(parse({"metadata.a": {"ne": 1}}))


def test_columns_of() -> None:
    where = {"NOT": {"kind": "x"}, "OR": [{"metadata.a": 1}, {"access_count": {"ne": 1}}]}
    assert columns_of(parse(where)) == {"kind", "access_count"}
    assert columns_of(TRUE) == frozenset()


def test_where_from_json() -> None:
    text = NOON.isoformat()
    where = {
        "kind": text,
        "event_time": {"gte": text, "in": [text, None]},
        "OR": [{"event_time": text}, {"NOT": {"event_time": None}}],
        "metadata.event_time": text,
    }
    assert where_from_json(where, COLUMNS) == {
        "kind": text,
        "event_time": {"gte": NOON, "in": [NOON, None]},
        "OR": [{"event_time": NOON}, {"NOT": {"event_time": None}}],
        "metadata.event_time": text,
    }
    with pytest.raises(InvalidInputError, match=r"event_time.*yesterday.*ISO 8601"):
        where_from_json({"event_time": "yesterday"}, COLUMNS)
