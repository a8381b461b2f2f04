"""Predicates over rows: the checked form of a ``where``, as small frozen values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from ailake.core.filter_values import Value


class ColumnKind(StrEnum):
    """How the values of a column are compared."""

    TEXT = "text"
    UINT32 = "uint32"
    UINT64 = "uint64"
    REAL32 = "real32"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value.

    The operator is one of eq, in, gt, gte, lt, lte, contains. The value is normalised: a datetime
    in UTC, a float that float32 holds exactly, a non-empty tuple for ``in``, None only for ``eq``.
    """

    column: str
    operator: str
    value: Value
    kind: ColumnKind
    nullable: bool


@dataclass(frozen=True, slots=True)
class MetadataCompare:
    """A value inside the metadata document compared with a JSON scalar; operators as above."""

    path: str
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class And:
    """True where every term is; without terms, true."""

    terms: tuple["Predicate", ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """True where some term is; without terms, false."""

    terms: tuple["Predicate", ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """True where the term is false."""

    term: "Predicate"


Predicate: TypeAlias = Compare | MetadataCompare | And | Or | Not
Leaf: TypeAlias = Compare | MetadataCompare

TRUE = And()
FALSE = Or()


def conjunction(*predicates: Predicate) -> Predicate:
    """Return the AND of the predicates, flattened; without predicates, true."""
    terms: list[Predicate] = []
    for predicate in predicates:
        if predicate == FALSE:
            return FALSE
        terms.extend(predicate.terms if isinstance(predicate, And) else (predicate,))
    return terms[0] if len(terms) == 1 else And(tuple(terms))


def disjunction(*predicates: Predicate) -> Predicate:
    """Return the OR of the predicates, flattened; without predicates, false."""
    terms: list[Predicate] = []
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        terms.extend(predicate.terms if isinstance(predicate, Or) else (predicate,))
    return terms[0] if len(terms) == 1 else Or(tuple(terms))


def negation(predicate: Predicate) -> Predicate:
    """Return NOT the predicate; true and false are folded."""
    if predicate == TRUE:
        return FALSE
    return TRUE if predicate == FALSE else Not(predicate)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns that the predicate names; metadata is not one of them."""
    match predicate:
        case Compare(column):
            return frozenset({column})
        case MetadataCompare():
            return frozenset()
        case Not(term):
            return columns_of(term)
        case And(terms) | Or(terms):
            return frozenset().union(*map(columns_of, terms))
        case _:
            assert_never(predicate)
