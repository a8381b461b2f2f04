"""Structured ``where`` filters: what a user writes, checked and turned into a predicate.

``{"kind": "preference", "importance_score": {"gte": 0.5}, "OR": [{...}, {...}], "NOT": {...}}``

The entries of a mapping are ANDed, a bare value means ``eq``, several operators in one mapping are
ANDed. The logic is two-valued: a comparison with a null is false, ``ne`` is exactly NOT ``eq`` and
``nin`` exactly NOT ``in``, so ``{"kind": {"ne": "x"}}`` finds the rows without a kind too.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ailake.core.filter_values import (
    CheckedTexts,
    Value,
    distinct,
    integer,
    json_scalar,
    real32,
    text,
)
from ailake.core.instants import as_utc
from ailake.core.predicates import (
    FALSE,
    TRUE,
    And,
    ColumnKind,
    Compare,
    Leaf,
    MetadataCompare,
    Not,
    Or,
    Predicate,
    columns_of,
    conjunction,
    disjunction,
    negation,
)
from ailake.errors import InvalidInputError

__all__ = [
    "FALSE",
    "MAX_DEPTH",
    "MAX_SIZE",
    "METADATA",
    "OPERATORS",
    "TRUE",
    "And",
    "ColumnKind",
    "Compare",
    "MetadataCompare",
    "Not",
    "Or",
    "Predicate",
    "columns_of",
    "conjunction",
    "disjunction",
    "negation",
    "parse_where",
    "where_from_json",
]

# The SQL parser of the engine gives up at 50 nested expressions. With the deepest branch first it
# took chains of 40 mappings; trees of MAX_SIZE branch at most 11 times, each costs one level.
MAX_DEPTH = 24
MAX_SIZE = 10_000

METADATA = "metadata"
OPERATORS = ("eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains")
_NEGATED = {"ne": "eq", "nin": "in"}
_ORDERINGS = ("gt", "gte", "lt", "lte")


_WANTED = {
    ColumnKind.TEXT: "text that UTF-8 can encode",
    ColumnKind.UINT32: "an int",
    ColumnKind.UINT64: "an int",
    ColumnKind.REAL32: "a finite number that a float32 can hold",
    ColumnKind.TIMESTAMP: "a timezone-aware datetime",
}


def parse_where(
    where: Mapping[str, object] | None,
    columns: Mapping[str, ColumnKind],
    *,
    nullable: Collection[str] = (),
) -> Predicate:
    """Check a ``where`` mapping and return it as a predicate.

    Values are compared as the column stores them: a number given for a REAL32 column is rounded to
    float32 first, so that 0.9 equals a stored 0.9; an instant is compared in UTC.

    Args:
        where: The user's filter; None and an empty mapping are true.
        columns: The columns that may be named, and how each compares.
        nullable: The columns that may hold nulls; only these compare with None.

    Raises:
        InvalidInputError: An unknown column or operator, a value of the wrong type, nesting deeper
            than 24 mappings, or more than 10,000 values and mappings.
    """
    if where is None:
        return TRUE
    return _Parser(columns, nullable).mapping(where, name="where", depth=1)


def where_from_json(
    where: Mapping[str, object], columns: Mapping[str, ColumnKind]
) -> dict[str, object]:
    """Return a ``where`` read from JSON with the instants that JSON can't hold.

    ISO 8601 text compared with a TIMESTAMP column becomes a datetime; all else stays as it is, for
    ``parse_where`` to judge.

    Raises:
        InvalidInputError: Text compared with an instant is not ISO 8601.
    """
    return {key: _from_json(key, value, columns) for key, value in where.items()}


def _from_json(key: str, value: object, columns: Mapping[str, ColumnKind]) -> object:
    if isinstance(value, list):
        return [_from_json(key, item, columns) for item in value]
    if isinstance(value, Mapping):
        if key in {"AND", "OR", "NOT"}:
            return where_from_json(value, columns)
        return {name: _from_json(key, item, columns) for name, item in value.items()}
    if not isinstance(value, str) or columns.get(key) is not ColumnKind.TIMESTAMP:
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInputError.of(
            f"where {key!r}", got=value, wanted="ISO 8601 such as 2026-01-31T09:00:00+00:00"
        ) from error


@dataclass(frozen=True, slots=True)
class _Field:
    """What stands left of an operator; without a kind, a metadata path."""

    label: str
    kind: ColumnKind | None
    nullable: bool

    def leaf(self, operator: str, value: Value) -> Leaf:
        if self.kind is None:
            return MetadataCompare(self.label.removeprefix(f"{METADATA}."), operator, value)
        return Compare(self.label, operator, value, self.kind, self.nullable)

    def null(self) -> Leaf:
        if not self.nullable:
            raise InvalidInputError.of(
                f"where {self.label!r}", got=None, wanted=f"{self.wanted} (it is never null)"
            )
        return self.leaf("eq", None)

    @property
    def wanted(self) -> str:
        return "str, int, float, bool or None" if self.kind is None else _WANTED[self.kind]

    def normalise(self, value: object) -> Value:
        name = f"where {self.label!r}"
        if self.kind is ColumnKind.TIMESTAMP and isinstance(value, datetime):
            return as_utc(value, name=name)
        plain = json_scalar(value) if self.kind is None else _PLAIN[self.kind](value)
        if plain is None:
            hint = (
                "; several values go in {'in': [...]}"
                if isinstance(value, list | tuple | set | frozenset)
                else ""
            )
            raise InvalidInputError.of(name, got=value, wanted=self.wanted + hint)
        return plain

    def check(self, operator: str, value: object) -> None:
        """Refuse an operator that has no meaning for this field or value."""
        name = f"where {self.label!r} {operator}"
        if operator == "contains" and self.kind not in {None, ColumnKind.TEXT}:
            raise InvalidInputError.of(name, got=f"a {self.kind} column", wanted="text or metadata")
        if operator != "eq" and value is None:
            raise InvalidInputError.of(
                name, got=None, wanted=f"a value; None goes with {', '.join(OPERATORS[:4])}"
            )
        if self.kind is None and operator in _ORDERINGS and isinstance(value, bool):
            raise InvalidInputError.of(name, got=value, wanted="a number or text")


@dataclass(slots=True)
class _Parser:
    columns: Mapping[str, ColumnKind]
    nullable: Collection[str]
    size: int = 0

    def mapping(self, where: object, *, name: str, depth: int) -> Predicate:
        if not isinstance(where, Mapping):
            raise InvalidInputError.of(
                name, got=where, wanted="a mapping such as {'kind': 'preference'}"
            )
        if depth > MAX_DEPTH:
            raise InvalidInputError(
                f"where: got more than {MAX_DEPTH} nested mappings, wanted fewer; "
                "flatten AND and OR, or use 'in'"
            )
        self.spend(1)
        return conjunction(*(self.entry(key, value, depth) for key, value in where.items()))

    def entry(self, key: object, value: object, depth: int) -> Predicate:
        if key == "NOT":
            return negation(self.mapping(value, name="where NOT", depth=depth + 1))
        if key == "AND":
            return conjunction(*self.branches("AND", value, depth))
        if key == "OR":
            return disjunction(*self.branches("OR", value, depth))
        return self.field(self.resolve(key), value)

    def branches(self, key: str, value: object, depth: int) -> list[Predicate]:
        name = f"where {key}"
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInputError.of(name, got=value, wanted="a non-empty list of mappings")
        return [
            self.mapping(item, name=f"{name}[{index}]", depth=depth + 1)
            for index, item in enumerate(value)
        ]

    def resolve(self, key: object) -> _Field:
        if isinstance(key, str):
            if key.startswith(f"{METADATA}.") and len(key) > len(METADATA) + 1:
                return _Field(key, None, nullable=True)
            if key in self.columns and key != METADATA:
                return _Field(key, self.columns[key], nullable=key in self.nullable)
        known = ", ".join(sorted(name for name in self.columns if name != METADATA))
        raise InvalidInputError.of(
            "where",
            got=key,
            wanted=f"one of the columns {known}, or 'metadata.<key>', or AND, OR, NOT",
        )

    def field(self, field: _Field, value: object) -> Predicate:
        if not isinstance(value, Mapping):
            return self.comparison(field, "eq", value)
        if not value or not all(operator in OPERATORS for operator in value):
            unknown = next((operator for operator in value if operator not in OPERATORS), value)
            hint = f"; a nested key is written {field.label}.<key>" if field.kind is None else ""
            raise InvalidInputError.of(
                f"where {field.label!r}",
                got=unknown,
                wanted=f"one of the operators {', '.join(OPERATORS)}{hint}",
            )
        return conjunction(*(self.comparison(field, *item) for item in value.items()))

    def comparison(self, field: _Field, operator: str, value: object) -> Predicate:
        if operator in _NEGATED:
            return negation(self.comparison(field, _NEGATED[operator], value))
        if operator == "in":
            return self.membership(field, value)
        self.spend(1)
        field.check(operator, value)
        return field.null() if value is None else field.leaf(operator, field.normalise(value))

    def membership(self, field: _Field, values: object) -> Predicate:
        if not isinstance(values, list | tuple | set | frozenset):
            raise InvalidInputError.of(
                f"where {field.label!r} in", got=values, wanted="a list, tuple or set of values"
            )
        if isinstance(values, CheckedTexts) and values and field.kind is ColumnKind.TEXT:
            self.spend(1)
            return field.leaf("in", values)
        self.spend(1 + len(values))
        known = distinct(field.normalise(value) for value in values if value is not None)
        terms: list[Predicate] = [field.leaf("in", known)] if known else []
        if len(values) and any(value is None for value in values):
            terms.append(field.null())
        return disjunction(*terms)

    def spend(self, amount: int) -> None:
        self.size += amount
        if self.size > MAX_SIZE:
            raise InvalidInputError(
                f"where: got more than {MAX_SIZE:,} values and mappings, wanted fewer; "
                "ask in several calls"
            )


def _never(_value: object) -> None:
    return None


_PLAIN: Mapping[ColumnKind, Callable[[object], Value]] = {
    ColumnKind.TEXT: text,
    ColumnKind.UINT32: integer,
    ColumnKind.UINT64: integer,
    ColumnKind.REAL32: real32,
    ColumnKind.TIMESTAMP: _never,
}
