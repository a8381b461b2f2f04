"""Around ``where`` filters: what a predicate names, and filters that came as JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ailake.core.filters import And, ColumnKind, Compare, MetadataCompare, Not, Or, Predicate
from ailake.errors import InvalidInputError


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns that a predicate names, ``metadata`` included."""
    match predicate:
        case Compare(column=column):
            return frozenset({column})
        case MetadataCompare():
            return frozenset({"metadata"})
        case Not(term=term):
            return columns_of(term)
        case And(terms=terms) | Or(terms=terms):
            return frozenset().union(*(columns_of(term) for term in terms))


def where_from_json(where: Mapping[str, Any], columns: Mapping[str, ColumnKind]) -> dict[str, Any]:
    """Return a ``where`` that came as JSON with its ISO 8601 strings turned into instants.

    Only strings that are compared with a timestamp column are; JSON itself has no instants.

    Raises:
        InvalidInputError: Such a string is no ISO 8601 instant.
    """
    return {key: _from_json(key, value, columns) for key, value in where.items()}


def _from_json(key: str, value: Any, columns: Mapping[str, ColumnKind]) -> Any:
    if key in {"AND", "OR"} and isinstance(value, list):
        return [where_from_json(v, columns) if isinstance(v, dict) else v for v in value]
    if key == "NOT" and isinstance(value, dict):
        return where_from_json(value, columns)
    if columns.get(key) is not ColumnKind.TIMESTAMP:
        return value
    if isinstance(value, dict):
        return {operator: _instants(operand, key) for operator, operand in value.items()}
    return _instants(value, key)


def _instants(value: Any, column: str) -> Any:
    if isinstance(value, list):
        return [_instants(item, column) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInputError.of(column, got=value, wanted="an ISO 8601 instant") from error
