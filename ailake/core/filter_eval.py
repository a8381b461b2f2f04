"""Predicates over rows: plain evaluation, and the part that a store can evaluate."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, assert_never

import numpy as np

from ailake.core.filters import (
    METADATA,
    TRUE,
    And,
    ColumnKind,
    Compare,
    MetadataCompare,
    Not,
    Or,
    Predicate,
    conjunction,
    disjunction,
)
from ailake.errors import LakeCorruptError, shorten

_ORDERINGS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def matches(predicate: Predicate, row: Mapping[str, object]) -> bool:
    """Tell whether a row satisfies the predicate.

    Args:
        predicate: What ``parse_where`` returned.
        row: Every column that the predicate names; ``metadata`` as JSON text, instants as
            timezone-aware datetimes.

    Raises:
        KeyError: The row lacks a column that the predicate names.
        LakeCorruptError: The row's metadata is not JSON.
    """
    document = _document(row) if touches_metadata(predicate) else None
    return _holds(predicate, row, document)


def touches_metadata(predicate: Predicate) -> bool:
    """Tell whether the predicate looks into the metadata document."""
    match predicate:
        case MetadataCompare():
            return True
        case Compare():
            return False
        case Not(term):
            return touches_metadata(term)
        case And(terms) | Or(terms):
            return any(touches_metadata(term) for term in terms)
        case _:
            assert_never(predicate)


def engine_part(predicate: Predicate) -> Predicate:
    """Return the strongest predicate over columns alone that the given one implies.

    It finds every row that the given one finds and maybe more, so ``matches`` has to follow where
    ``touches_metadata`` is true.
    """
    return _over_columns(negation_normal(predicate))


def negation_normal(predicate: Predicate, *, negated: bool = False) -> Predicate:
    """Return an equivalent predicate (or its negation) in which only leaves are negated."""
    match predicate:
        case Compare() | MetadataCompare():
            return Not(predicate) if negated else predicate
        case Not(term):
            return negation_normal(term, negated=not negated)
        case And(terms) | Or(terms):
            join = disjunction if isinstance(predicate, And) is negated else conjunction
            return join(*(negation_normal(term, negated=negated) for term in terms))
        case _:
            assert_never(predicate)


def _over_columns(predicate: Predicate) -> Predicate:
    # Only sound in negation normal form: under a Not, "unknown is true" would lose rows.
    match predicate:
        case MetadataCompare() | Not(MetadataCompare()):
            return TRUE
        case Compare() | Not():
            return predicate
        case And(terms):
            return conjunction(*map(_over_columns, terms))
        case Or(terms):
            return disjunction(*map(_over_columns, terms))
        case _:
            assert_never(predicate)


def _holds(predicate: Predicate, row: Mapping[str, object], document: object) -> bool:
    match predicate:
        case Compare():
            return _compare_column(predicate, row[predicate.column])
        case MetadataCompare(path, name, value):
            return _compare_json(name, _look_up(document, path), value)
        case Not(term):
            return not _holds(term, row, document)
        case And(terms):
            return all(_holds(term, row, document) for term in terms)
        case Or(terms):
            return any(_holds(term, row, document) for term in terms)
        case _:
            assert_never(predicate)


def _compare_column(compare: Compare, stored: Any) -> bool:
    wanted: Any = compare.value
    if stored is None or wanted is None:
        return stored is None and wanted is None
    if compare.kind is ColumnKind.REAL32:
        stored = float(np.float32(stored))
    if compare.operator in _ORDERINGS:
        return _ORDERINGS[compare.operator](stored, wanted)
    if compare.operator == "contains":
        return wanted in stored
    return stored in wanted if compare.operator == "in" else bool(stored == wanted)


def _compare_json(name: str, stored: object, wanted: Any) -> bool:
    if name == "eq":
        return _json_equal(stored, wanted)
    if name == "in":
        return any(_json_equal(stored, value) for value in wanted)
    if name == "contains":
        if isinstance(stored, list):
            return any(_json_equal(item, wanted) for item in stored)
        return isinstance(stored, str) and isinstance(wanted, str) and wanted in stored
    return _family(stored) == _family(wanted) and _ORDERINGS[name](stored, wanted)


def _json_equal(stored: object, wanted: object) -> bool:
    return _family(stored) == _family(wanted) and stored == wanted


def _family(value: object) -> str:
    """Name the JSON type; values of two types are never equal, so True is not 1."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


def _look_up(document: object, path: str) -> object:
    """Return the value at a dotted path, None where there is none; a literal key wins."""
    return next(_values_at(document, path), None)


def _values_at(document: object, path: str) -> Iterator[object]:
    if not isinstance(document, dict):
        return
    if path in document:
        yield document[path]
    for index in (at for at, character in enumerate(path) if character == "."):
        yield from _values_at(document.get(path[:index]), path[index + 1 :])


def _document(row: Mapping[str, object]) -> object:
    text = row[METADATA]
    if text is None or text == "":
        return None
    try:
        return json.loads(str(text))
    except ValueError as error:
        raise LakeCorruptError(f"metadata of a row is not JSON: got {shorten(text)}") from error
