"""What is written at once: drafts, their vectors, and what is known of them so far."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ailake import clock
from ailake.core.columnar import Columns, read_columns
from ailake.core.drafts import Draft, Items, as_table, drafts_of
from ailake.core.remembering import Addition, DuplicateKey, Plan, duplicate_keys
from ailake.embed import EmbeddedPassages, Vectors, check_vector, check_vectors


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """The embeddings that came with n drafts.

    Attributes:
        matrix: Those that did, in order, float32 (k, dim).
        known: Which these are, (n,), k of them true.
    """

    matrix: Vectors
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, drafts: Sequence[Draft], dim: int) -> Self:
        """Check the vectors that come with the drafts.

        Raises:
            InvalidInputError: One isn't fit for the store; its draft is named by its position.
        """
        known = np.array([draft.vector is not None for draft in drafts], np.bool_)
        given = [draft.vector for draft in drafts if draft.vector is not None]
        if len(given) == len(drafts):
            return cls(check_vectors(given, dim=dim, name="vector of item"), known)
        matrix = np.empty((len(given), dim), np.float32)
        for row, place in enumerate(np.flatnonzero(known)):
            matrix[row] = check_vector(given[row], dim=dim, name=f"vector of item {place}")
        return cls(matrix, known)

    def share(self, start: int, count: int) -> Self:
        """Return those of consecutive drafts."""
        before, known = self.known[:start].sum(), self.known[start : start + count]
        return type(self)(self.matrix[before : before + known.sum()], known)

    def spread(self) -> Vectors:
        """Return a row per draft, (n, dim); those that are not known mean nothing."""
        if self.known.all():
            return self.matrix
        rows = np.empty((len(self.known), self.matrix.shape[1]), np.float32)
        rows[self.known] = self.matrix
        return rows


@dataclass(frozen=True, slots=True)
class Unembedded:
    """Drafts of which some have no vector, or which are unusual in another way."""

    drafts: Sequence[Draft]
    vectors: GivenVectors


@dataclass(frozen=True, slots=True)
class Embedded:
    """Drafts that all bring their vectors, float32 (n, dim)."""

    drafts: Columns
    vectors: Vectors

    def one_by_one(self) -> Unembedded:
        """Return them as drafts, each of which can be judged."""
        known = np.ones(len(self.drafts), np.bool_)
        return Unembedded(self.drafts.drafts(), GivenVectors(self.vectors, known))


def read_items(items: Items, *, default_session: str, dim: int) -> Embedded | Unembedded:
    """Check what is given to ``remember_many``.

    Raises:
        InvalidInputError: The first bad item, named by its position.
    """
    table = as_table(items)
    given = items if table is None else table
    whole = read_columns(given, default_session=default_session)
    if whole is not None:
        vectors = check_vectors(whole.vectors, dim=dim, name="vector of item")
        return Embedded(whole.columns, vectors)
    drafts = drafts_of(given, default_session=default_session)
    return Unembedded(drafts, GivenVectors.of(drafts, dim))


@dataclass(slots=True)
class Part:
    """The share of a batch that is written in one commit.

    Attributes:
        vectors: A row per draft, (n, dim).
        known: Which of them have been filled in, (n,).
    """

    drafts: Sequence[Draft]
    given: InitVar[GivenVectors]
    judge: bool
    now: datetime
    vectors: Vectors = field(init=False)
    known: NDArray[np.bool_] = field(init=False)
    keys: list[DuplicateKey] = field(init=False)
    fresh_ids: list[str] = field(init=False)
    given_ids: list[str] = field(init=False)
    passages: dict[int, EmbeddedPassages] = field(default_factory=dict)

    def __post_init__(self, given: GivenVectors) -> None:
        self.vectors, self.known = given.spread(), given.known.copy()
        self.given_ids = [draft.id for draft in self.drafts if draft.id is not None]
        self.keys = duplicate_keys(self.drafts)
        self.fresh_ids = clock.new_ids(len(self.drafts))

    def put(self, additions: Sequence[Addition], vectors: Vectors) -> None:
        """Fill in the vectors of some additions, (len(additions), dim)."""
        places = [one.position for one in additions]
        self.vectors[places] = vectors
        self.known[places] = True

    def missing(self, plan: Plan) -> list[Addition]:
        """Return the additions that have no vector yet."""
        return [plan.additions[place] for place in np.flatnonzero(~self.known[positions(plan)])]

    def is_ready(self, plan: Plan) -> bool:
        """Tell whether every addition has its vector."""
        return bool(self.known[positions(plan)].all())


def positions(plan: Plan) -> NDArray[np.int64]:
    """Return the places of the plan's additions in its batch, (n,)."""
    return np.array([addition.position for addition in plan.additions], np.int64)
