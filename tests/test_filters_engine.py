"""Where filters against the real engine: what it finds is what a plain-Python filter finds."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ailake.core.filter_eval import engine_part, matches, touches_metadata
from ailake.core.filters import MAX_DEPTH, ColumnKind, Predicate, conjunction, parse_where
from ailake.storage.filters import to_sql

Row = dict[str, Any]
Find = Callable[[str], list[list[int]]]

COLUMNS = {
    "kind": ColumnKind.TEXT,
    "role": ColumnKind.TEXT,
    "event_time": ColumnKind.TIMESTAMP,
    "importance_score": ColumnKind.REAL32,
    "access_count": ColumnKind.UINT32,
    "version": ColumnKind.UINT64,
}
NULLABLE = {"role", "event_time"}
NASTY = [
    "", "it's", "''", "a''b", 'a"b', "back`tick", "100%", "a_b", "_", "%", "back\\slash", "\\'",
    "\\') OR (1=1) --", "\\'\\'",
    "x'; DROP TABLE t; --", "' OR '1'='1", "-- comment", "/* c */", "new\nline", "cr\r\n", "\t",
    "nul\0inside", "\x01\x1f\x7f", "😀", "👩‍👩‍👧", "日本語", "中文，标点。", "שלום",
    "\u202eRTL", "e\u0301",
    "é", "\ufeff", "\ufffe", "\u2028", "$1", "?", "{}", ":name", "NULL", "null", "true", "Ａ", "a",
    "A", " a ", "\U0010ffff", "\ud7ff\ue000",
]  # fmt: skip
REALS = [0.0, 0.1, 0.5, 0.9, 1.0, 1 / 3, 1e-45, 0.9 + 1e-9, 2.5e-8]
COUNTS = [0, 1, 2, 7, 2**31, 2**32 - 1]
VERSIONS = [0, 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
TIMES = [
    datetime(2024, 5, 1, tzinfo=UTC),
    datetime(2024, 5, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2029, 3, 25, 20, 58, 24, 867000, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1678, 1, 1, tzinfo=UTC),
    datetime(2261, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2252, 4, 13, 2, 20, 7, 703895, tzinfo=UTC),
]
JSONS = [None, True, False, 0, 1, 1.0, 2.5, -3, "", "a", "1", "it's", "日本"]
PLAIN: list[Any] = [{"x": value} for value in JSONS]
DOCUMENTS: list[Any] = [
    {},
    *PLAIN,
    {"x": {"y": 1}},
    {"x.y": "a"},
    {"x.y": None, "x": {"y": "a"}},
    {"x": ["a", 1, True, None]},
    {"x": {"y": {"z": 2}}},
    {"x": {"y.z": "it's"}, "y": 1},
]


def make_rows() -> list[Row]:
    return [
        {
            "id": index,
            "kind": NASTY[index % len(NASTY)],
            "role": None if index % 3 == 0 else NASTY[(index * 7) % len(NASTY)],
            "event_time": None if index % 4 == 0 else TIMES[index % len(TIMES)],
            "importance_score": float(np.float32(REALS[index % len(REALS)])),
            "access_count": COUNTS[index % len(COUNTS)],
            "version": VERSIONS[(index * 3) % len(VERSIONS)],
            "metadata": json.dumps(DOCUMENTS[index % len(DOCUMENTS)]),
        }
        for index in range(60)
    ]


ROWS = make_rows()
COLUMN_TYPES: list[tuple[str, Any]] = [
    ("id", pa.int64()),
    ("kind", pa.string()),
    ("role", pa.string()),
    ("event_time", pa.timestamp("ns", tz="UTC")),
    ("importance_score", pa.float32()),
    ("access_count", pa.uint32()),
    ("version", pa.uint64()),
    ("metadata", pa.string()),
]
SCHEMA = pa.schema(COLUMN_TYPES)


@pytest.fixture(scope="module")
def find(tmp_path_factory: pytest.TempPathFactory) -> Find:
    return open_table(tmp_path_factory.mktemp("filters"))


def open_table(folder: Path) -> Find:
    connection = lancedb.connect(str(folder), read_consistency_interval=timedelta(0))
    table = connection.create_table("t", pa.Table.from_pylist(ROWS, schema=SCHEMA))
    dataset = table.to_lance()

    def run(sql: str) -> list[list[int]]:
        found = table.search().where(sql).select(["id"]).limit(len(ROWS)).to_arrow()
        scanned = dataset.scanner(columns=["id"], filter=sql).to_table()
        assert table.count_rows(sql) == found.num_rows
        return [sorted(result["id"].to_pylist()) for result in (found, scanned)]

    return run


# The model: the rules of the docstring once more, straight over the where mapping.


def expected(where: dict[str, Any], row: Row) -> bool:
    return all(entry(key, value, row) for key, value in where.items())


def entry(key: str, value: Any, row: Row) -> bool:
    if key == "AND":
        return all(expected(item, row) for item in value)
    if key == "OR":
        return any(expected(item, row) for item in value)
    if key == "NOT":
        return not expected(value, row)
    stored = lookup(key, row)
    operators = value if isinstance(value, dict) else {"eq": value}
    return all(holds(stored, name, operand, key) for name, operand in operators.items())


def lookup(key: str, row: Row) -> Any:
    if not key.startswith("metadata."):
        return row[key]
    document = json.loads(row["metadata"])
    ways: dict[str, list[tuple[str, ...]]] = {
        "x": [("x",)],
        "y": [("y",)],
        "x.y": [("x.y",), ("x", "y")],
        "x.y.z": [("x.y.z",), ("x", "y.z"), ("x", "y", "z"), ("x.y", "z")],
    }
    candidates = (dig(document, way) for way in ways[key.removeprefix("metadata.")])
    return next((value for present, value in candidates if present), None)


def dig(document: Any, way: tuple[str, ...]) -> tuple[bool, Any]:
    for part in way:
        if not isinstance(document, dict) or part not in document:
            return False, None
        document = document[part]
    return True, document


def equal(stored: Any, operand: Any) -> bool:
    return isinstance(stored, bool) == isinstance(operand, bool) and bool(stored == operand)


def holds(stored: Any, name: str, operand: Any, key: str) -> bool:
    if name in {"ne", "nin"}:
        return not holds(stored, {"ne": "eq", "nin": "in"}[name], operand, key)
    if name == "in":
        return any(holds(stored, "eq", item, key) for item in operand)
    if key == "importance_score":
        operand = float(np.float32(operand))
    if name == "eq":
        return equal(stored, operand)
    if name == "contains":
        return contains(stored, operand)
    return ordered(stored, name, operand)


def contains(stored: Any, operand: Any) -> bool:
    if isinstance(stored, list):
        return any(equal(item, operand) for item in stored)
    return isinstance(stored, str) and isinstance(operand, str) and operand in stored


def ordered(stored: Any, name: str, operand: Any) -> bool:
    numbers = all(type(side) in {int, float} for side in (stored, operand))
    if not numbers and type(stored) is not type(operand):
        return False
    if stored is None or isinstance(stored, (bool, list, dict)):
        return False
    signs = {"gt": [1], "gte": [0, 1], "lt": [-1], "lte": [-1, 0]}
    return int(stored > operand) - int(stored < operand) in signs[name]


# Random filters.

TEXTS = st.sampled_from(NASTY) | st.text(max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "kind": TEXTS,
    "role": TEXTS,
    "event_time": st.sampled_from(TIMES),
    "importance_score": st.sampled_from(REALS) | st.floats(-1, 2, width=32),
    "access_count": st.sampled_from([*COUNTS, -1, 2**32, 2**40, -(2**70), 2**70]),
    "version": st.sampled_from([*VERSIONS, -1, 2**64, 2**80]),
}
JSON_VALUES = st.sampled_from([value for value in JSONS if value is not None])
ORDERINGS = ["gt", "gte", "lt", "lte"]


def operands(values: st.SearchStrategy[Any], *, null: bool, text: bool) -> st.SearchStrategy[Any]:
    maybe_null = st.none() | values if null else values
    comparable = values.filter(lambda value: not isinstance(value, bool))
    one = st.one_of(
        st.tuples(st.sampled_from(["eq", "ne"]), maybe_null),
        st.tuples(st.sampled_from(["in", "nin"]), st.lists(maybe_null, max_size=5)),
        st.tuples(st.sampled_from(ORDERINGS), comparable),
        *([st.tuples(st.just("contains"), values)] if text else []),
    )
    return st.one_of(maybe_null, st.lists(one, min_size=1, max_size=2).map(dict))


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    name: operands(values, null=name in NULLABLE, text=COLUMNS[name] is ColumnKind.TEXT)
    for name, values in VALUES.items()
}
PATHS = {
    f"metadata.{path}": operands(JSON_VALUES, null=True, text=True)
    for path in ("x", "y", "x.y", "x.y.z")
}


def wheres(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    flat = st.fixed_dictionaries({}, optional=fields).filter(lambda where: len(where) <= 3)
    named = st.sampled_from(sorted(fields)).flatmap(
        lambda name: fields[name].map(lambda operand: {name: operand})
    )
    return st.recursive(
        named | flat,
        lambda inner: st.one_of(
            st.fixed_dictionaries({"NOT": inner}),
            st.fixed_dictionaries({"OR": st.lists(inner, min_size=1, max_size=3)}),
            st.tuples(st.lists(inner, min_size=1, max_size=3), named).map(
                lambda pair: {"AND": pair[0], **pair[1]}
            ),
            st.tuples(inner, named).map(lambda pair: {"NOT": pair[0], **pair[1]}),
        ),
        max_leaves=8,
    )


def parse(where: dict[str, Any]) -> Predicate:
    return parse_where(where, COLUMNS, nullable=NULLABLE)


fuzz = settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@fuzz
@given(where=wheres(FIELDS))
def test_columns_alone_are_exact_in_the_engine(find: Find, where: dict[str, Any]) -> None:
    predicate = parse(where)
    assert not touches_metadata(predicate)
    want = [row["id"] for row in ROWS if expected(where, row)]
    assert find(to_sql(predicate)) == [want, want]
    assert [row["id"] for row in ROWS if matches(predicate, row)] == want


@fuzz
@given(where=wheres({**FIELDS, **PATHS}))
def test_engine_part_then_matches_is_exact(find: Find, where: dict[str, Any]) -> None:
    predicate = parse(where)
    want = [row["id"] for row in ROWS if expected(where, row)]
    for ids in find(to_sql(engine_part(predicate))):
        assert [index for index in ids if matches(predicate, ROWS[index])] == want


@pytest.mark.parametrize("operator", ["eq", "in", "contains"])
@pytest.mark.parametrize("column", ["kind", "role"])
def test_every_nasty_string_finds_itself(find: Find, column: str, operator: str) -> None:
    for text in NASTY:
        where = {column: {operator: [text] if operator == "in" else text}}
        want = [row["id"] for row in ROWS if expected(where, row)]
        assert find(to_sql(parse(where))) == [want, want]


def test_every_instant_finds_itself(find: Find) -> None:
    for instant in TIMES:
        for name in ("eq", "gt", "gte", "lt", "lte"):
            where = {"event_time": {name: instant}}
            want = [row["id"] for row in ROWS if expected(where, row)]
            assert find(to_sql(parse(where))) == [want, want]


def test_long_lists(find: Find) -> None:
    where = {"kind": {"in": [*(f"v{index}" for index in range(9_900)), "it's"]}}
    want = [row["id"] for row in ROWS if row["kind"] == "it's"]
    assert find(to_sql(parse(where))) == [want, want]


def chain(depth: int, *, last_first: bool) -> dict[str, Any]:
    where: dict[str, Any] = {"event_time": {"gte": TIMES[0]}}
    for index in range(depth - 1):
        plain = {"access_count": {"ne": index}, "role": {"ne": str(index)}}
        either = [where, plain] if last_first else [plain, where]
        where = {"OR": either, "event_time": {"lt": TIMES[-1]}} if index % 3 else {"NOT": where}
    return where


@pytest.mark.parametrize("last_first", [True, False])
def test_the_deepest_chain(find: Find, last_first: bool) -> None:  # noqa: FBT001
    where = chain(MAX_DEPTH, last_first=last_first)
    want = [row["id"] for row in ROWS if expected(where, row)]
    assert find(to_sql(parse(where))) == [want, want]


def bush(depth: int, splits: int) -> dict[str, Any]:
    if depth == 1:
        return {"event_time": TIMES[0]}
    inner = bush(depth - 1, splits - 1)
    word = "OR" if depth % 2 else "AND"
    return {word: [inner, inner] if splits > 0 else [inner, {"role": "x"}]}


@pytest.mark.parametrize("splits", [0, 4, 6])
def test_the_bushiest_tree(find: Find, splits: int) -> None:
    where = bush(MAX_DEPTH, splits)
    want = [row["id"] for row in ROWS if expected(where, row)]
    assert find(to_sql(parse(where))) == [want, want]
    want = [row["id"] for row in ROWS if not expected(where, row)]
    assert find(to_sql(parse({"NOT": where["AND"][0]}))) == [want, want]


def spread(depth: int, splits: int) -> dict[str, Any]:
    if depth == 1:
        return {"event_time": {"nin": TIMES[:1]}, "role": {"ne": "it's"}}
    inner = spread(depth - 1, splits)
    branches = [inner, inner] if depth <= splits + 1 else [{"role": "x"}, inner]
    return {"OR": branches, "event_time": {"lt": TIMES[-1]}}


def test_the_worst_tree_within_a_scope(find: Find) -> None:
    where = spread(MAX_DEPTH, 9)
    predicate = conjunction(parse({"kind": {"ne": "a"}, "OR": [{"role": None}, {}]}), parse(where))
    want = [row["id"] for row in ROWS if row["kind"] != "a" and expected(where, row)]
    assert find(to_sql(predicate)) == [want, want]
