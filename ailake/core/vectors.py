"""Which index of vectors a table gets, how it is searched, and what was measured of it. Pure."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from ailake.errors import InvalidInputError, LakeCorruptError

# A scope whose vectors fit into so much memory is searched there, exactly, and without an index.
RESIDENT_BYTES = 256 * 1024**2

VECTOR_INDEX = "embedding_idx"

# Where a table's configuration keeps what was measured.
MEASURED_KEY = f"ailake.index.{VECTOR_INDEX}"


def resident_bytes(dim: int) -> int:
    """Return what a vector takes in memory: float16, a byte per number, and three float32."""
    return 3 * dim + 12


class VectorKind(StrEnum):
    """How an index finds near vectors, in the engine's words."""

    IVF_SQ = "IVF_SQ"
    IVF_HNSW_SQ = "IVF_HNSW_SQ"


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """How hard a search of an index tries.

    Attributes:
        nprobes: Partitions that are looked into, at least; more where a filter leaves too few.
        refine_factor: How many times as many rows as are wanted are compared by their true
            vectors. From 1 on the distances are true: without, they are about twice as large.
        ef: Rows of a partition's graph that are kept in view, in times of the rows compared; 0
            for an index without a graph.
    """

    nprobes: int
    refine_factor: int
    ef: int = 0

    def query(self, limit: int) -> dict[str, int]:
        """Return the engine's options for a search of ``limit`` rows."""
        options = {"minimum_nprobes": self.nprobes, "refine_factor": self.refine_factor}
        return {**options, "ef": self.ef * self.refine_factor * limit} if self.ef else options


# From the fastest to the most thorough.
_EFFORTS = {
    VectorKind.IVF_SQ: tuple(
        SearchParameters(*one) for one in ((5, 1), (5, 2), (20, 2), (60, 2), (200, 4))
    ),
    VectorKind.IVF_HNSW_SQ: tuple(
        SearchParameters(*one) for one in ((5, 1, 1), (5, 2, 1), (20, 2, 2), (60, 4, 2))
    ),
}


@dataclass(frozen=True, slots=True)
class IndexPolicy:
    """Decides which index of vectors a table gets, and when that is good enough.

    Attributes:
        min_bytes: Up to here a scope's vectors need no index: recall holds them in memory, see
            ``resident_bytes``. 256 MiB are 230,614 vectors of 384 numbers.
        graph_rows: From so many rows of the largest scope on a graph (IVF_HNSW_SQ) is tried first;
            None: only where the other kind misses the goal. Of 500,000 vectors of 384 numbers it
            takes 16 times as long to build, and a search of 1,000 rows 25 ms instead of 32.
        recall: The goal: the share of the truly nearest rows that a search lists.
        limit: Length of the lists that it is measured on, such as recall asks for.
        sample: Rows whose vectors are searched for.
        seed: Which rows these are.

    Raises:
        InvalidInputError: A number is out of its range.
    """

    min_bytes: int = RESIDENT_BYTES
    graph_rows: int | None = None
    recall: float = 0.99
    limit: int = 1_000
    sample: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"min_bytes": 0, "limit": 1, "sample": 1}
        if self.graph_rows is not None:
            least["graph_rows"] = 1
        for name, bound in least.items():
            if getattr(self, name) < bound:
                wanted = f"a number from {bound} on"
                raise InvalidInputError.of(name, got=getattr(self, name), wanted=wanted)
        if not 0.0 < self.recall <= 1.0:
            raise InvalidInputError.of("recall", got=self.recall, wanted="a share in (0, 1]")

    def choose(self, rows: int, dim: int) -> VectorKind | None:
        """Return the kind of index to try first, None for none.

        Args:
            rows: Of the largest scope: a search never looks beyond its scopes, and those that fit
                into memory are searched there.
            dim: Length of the vectors.
        """
        if rows * resident_bytes(dim) <= self.min_bytes:
            return None
        is_many = self.graph_rows is not None and rows >= self.graph_rows
        return VectorKind.IVF_HNSW_SQ if is_many else VectorKind.IVF_SQ

    def candidates(self, rows: int, dim: int) -> tuple[VectorKind, ...]:
        """Return the kinds to try, the first one first; none where none is wanted."""
        first = self.choose(rows, dim)
        if first is None:
            return ()
        return (first, *(kind for kind in VectorKind if kind is not first))


def efforts(kind: VectorKind) -> tuple[SearchParameters, ...]:
    """Return the search parameters to try for a kind of index, from the fastest on."""
    return _EFFORTS[kind]


class IndexAction(StrEnum):
    """What a run does with a table's index of vectors."""

    NONE = "none"
    KEEP = "keep"
    MEASURE = "measure"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of an index of vectors.

    Attributes:
        kind: What it is.
        recall: The share of the truly nearest rows that a search listed.
        parameters: How it was searched.
        limit: Length of the lists.
        goal: The share that was wanted.
        segments: Ids of its parts; of other ones it says nothing.
    """

    kind: VectorKind
    recall: float
    parameters: SearchParameters
    limit: int
    goal: float
    segments: tuple[str, ...]

    def to_json(self) -> str:
        """Return it as a JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        """Read what ``to_json`` returned.

        Raises:
            LakeCorruptError: It is something else.
        """
        try:
            fields = json.loads(text)
            return cls(
                VectorKind(fields["kind"]),
                float(fields["recall"]),
                SearchParameters(**fields["parameters"]),
                int(fields["limit"]),
                float(fields["goal"]),
                tuple(fields["segments"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LakeCorruptError(
                f"the configuration {MEASURED_KEY} of a table holds {text!r}, not what this release"
                " writes there: its index counts as not measured; ailake index measures it"
            ) from error


def action_for(
    wanted: VectorKind | None, present: str | None, measured: Measured | None, *, goal: float
) -> IndexAction:
    """Return what to do with a table's index of vectors.

    An index that nobody asked for is left alone: someone has made it.

    Args:
        wanted: What the policy chose.
        present: The kind of the table's own index, None where there is none.
        measured: What is known of it.
        goal: The recall that is wanted.
    """
    if present is None:
        return IndexAction.NONE if wanted is None else IndexAction.BUILD
    if wanted is None or present not in set(VectorKind):
        return IndexAction.KEEP
    if measured is None:
        return IndexAction.MEASURE
    return IndexAction.KEEP if measured.recall >= goal else IndexAction.BUILD


def share_found(
    found: Sequence[tuple[Sequence[int], Sequence[float]]], farthest: Sequence[float], limit: int
) -> float:
    """Return the share of the truly nearest rows that searches listed.

    A row as near as the farthest of the nearest counts as one of them, whichever of several that
    are equally far the search returned.

    Args:
        found: For each query the row ids and their true distances.
        farthest: For each query the true distance of its ``limit``-th nearest row.
        limit: How many rows were wanted of each.
    """
    hits = 0
    for (row_ids, distances), far in zip(found, farthest, strict=True):
        near = {row for row, d in zip(row_ids, distances, strict=True) if d <= far + _EQUAL}
        hits += min(len(near), limit)
    return hits / (limit * len(farthest))


# Twice the error of a distance that is computed in float32.
_EQUAL = 1e-6
