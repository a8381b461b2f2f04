"""Predicates as the SQL text that the engine's filters take.

Every value is rendered by ``lancedb.expr``, in a form that can't end its literal; none is pasted
into SQL here. Only AND, OR, NOT and IS NULL are, which the expression builder lacks. No leaf
evaluates to SQL NULL, so the engine's three-valued logic agrees with the two-valued one of
``ailake.core.filters``.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, assert_never

import pyarrow as pa
from lancedb.expr import col, func, lit

from ailake.core.filter_eval import negation_normal
from ailake.core.filters import And, ColumnKind, Compare, MetadataCompare, Not, Or, Predicate

_Expr: TypeAlias = Any  # lancedb ships no types

_BITS = {ColumnKind.UINT32: 32, ColumnKind.UINT64: 64}
_INSTANT = pa.timestamp("ns", tz="UTC")
_MAX_INT64 = 2**63 - 1
_ORDERINGS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class _Sql(NamedTuple):
    text: str
    depth: int  # how many nested expressions the engine's parser needs for it


def to_sql(predicate: Predicate) -> str:
    """Render a predicate for ``search().where``, ``count_rows`` and a scanner's ``filter``.

    Raises:
        TypeError: The predicate looks into metadata; give ``engine_part`` of it.
    """
    return _render(negation_normal(predicate)).text


def _render(predicate: Predicate) -> _Sql:
    match predicate:
        case Compare():
            return _Sql(_leaf(predicate), 1)
        case Not(Compare() as leaf):
            return _Sql(f"NOT ({_leaf(leaf)})", 1)
        case And(terms):
            return _joined(" AND ", [_grouped(term) for term in terms], empty="true")
        case Or(terms):
            return _joined(" OR ", [_render(term) for term in terms], empty="false")
        case MetadataCompare(path) | Not(MetadataCompare(path)):
            raise TypeError(f"metadata.{path} has no SQL: pass engine_part(predicate)")
        case Not():
            raise TypeError("negation normal form negates leaves only")
        case _:
            assert_never(predicate)


def _grouped(term: Predicate) -> _Sql:
    sql = _render(term)
    return _Sql(f"({sql.text})", sql.depth + 1) if isinstance(term, Or) else sql


def _joined(word: str, terms: list[_Sql], *, empty: str) -> _Sql:
    # The parser gives up at 50 nested expressions and counts each right operand as one: writing
    # the deepest term first keeps every tree that parse_where lets through below that.
    ordered = sorted(terms, key=lambda sql: sql.depth, reverse=True)
    if not ordered:
        return _Sql(empty, 1)
    depth = max([ordered[0].depth, *(sql.depth + 1 for sql in ordered[1:2])])
    return _Sql(word.join(sql.text for sql in ordered), depth)


def _leaf(compare: Compare) -> str:
    column = col(compare.column)
    name = column.to_sql()
    if compare.value is None:
        return f"{name} IS NULL"
    if compare.operator == "eq" and compare.value == "":
        # The engine compares with the empty string five times as slowly as it counts bytes.
        empty = f"octet_length({name}) = 0"
        return f"({name} IS NOT NULL AND {empty})" if compare.nullable else empty
    text = _constant(compare)
    if text is None:
        text = _comparison(column, compare).to_sql()
    return f"({name} IS NOT NULL AND {text})" if compare.nullable else text


def _constant(compare: Compare) -> str | None:
    """Return true or false where an int is out of the column's range: the engine refuses those."""
    bits = _BITS.get(compare.kind)
    if bits is None:
        return None
    if compare.operator == "in":
        return None if _in_range(compare, bits) else "false"
    value: Any = compare.value
    if 0 <= value < 2**bits:
        return None
    return "true" if _ORDERINGS[compare.operator](0, value) else "false"


def _in_range(compare: Compare, bits: int) -> list[int]:
    values: Any = compare.value
    return [value for value in values if 0 <= value < 2**bits]


def _comparison(column: _Expr, compare: Compare) -> _Expr:
    value: Any = compare.value
    if compare.operator == "contains":
        return func("contains", column, _literal(value))
    if compare.operator == "in":
        bits = _BITS.get(compare.kind)
        kept = value if bits is None else _in_range(compare, bits)
        return column.isin([_literal(item) for item in kept])
    return _ORDERINGS[compare.operator](column, _literal(value))


def _literal(value: Any) -> _Expr:
    if isinstance(value, datetime):
        # lit(datetime) goes through a float and is off by a microsecond for some instants.
        return lit(value.isoformat()).cast(_INSTANT)
    if isinstance(value, int) and value > _MAX_INT64:
        return lit(str(value)).cast(pa.uint64())  # lit(int) makes it a float
    if isinstance(value, str) and "'" in value:
        # lit(str) takes a quote after a backslash or another quote for an escaped one and leaves
        # it alone: a value could end its literal and go on as SQL. Bytes become hex digits.
        return lit(value.encode()).cast(pa.string())
    return lit(value)
