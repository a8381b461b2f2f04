"""The index of vectors of a table: built by policy, its recall measured and kept beside it."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.filters import parse_where
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds
from ailake.core.vectors import (
    MEASURED_KEY,
    VECTOR_INDEX,
    IndexPolicy,
    Measured,
    SearchParameters,
    VectorKind,
    efforts,
    share_found,
)
from ailake.errors import LakeCorruptError
from ailake.storage.filters import to_sql
from ailake.storage.retries import is_lost_race, with_retries

if TYPE_CHECKING:
    from ailake.storage.table import Table

log = logging.getLogger(__name__)

COLUMN = "embedding"

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """The index of vectors of one version of a table.

    Attributes:
        name: Its name.
        kind: The engine's name for it.
        indexed_rows: Rows in it.
        unindexed_rows: Rows that it lacks; searches look at them one by one.
        measured: What was measured of it; None where nobody did, because someone else made it.
    """

    name: str
    kind: str
    indexed_rows: int
    unindexed_rows: int
    measured: Measured | None

    @property
    def recall(self) -> float | None:
        """The share of the truly nearest rows that a search lists, where it was measured."""
        return None if self.measured is None else self.measured.recall

    @property
    def parameters(self) -> SearchParameters | None:
        """How to search it so that it reaches that share."""
        return None if self.measured is None else self.measured.parameters


@dataclass(frozen=True, slots=True)
class Within:
    """Where an index is measured: the rows that a search of the largest scope looks at.

    Attributes:
        where: The engine's filter, None for the whole table.
        rows: How many there are.
    """

    where: str | None
    rows: int


def vector_index(dataset: lance.LanceDataset) -> VectorIndex | None:
    """Return the index of vectors that a search of this version uses, None where there is none."""
    for index in dataset.describe_indices():
        if index.field_names == [COLUMN]:
            indexed = int(index.num_rows_indexed)
            return VectorIndex(
                name=str(index.name),
                kind=str(index.index_type),
                indexed_rows=indexed,
                unindexed_rows=int(dataset.count_rows()) - indexed,
                measured=_measured(dataset, index),
            )
    return None


def build(
    table: "Table", kind: VectorKind, *, on_progress: Callable[[Any], None] | None = None
) -> None:
    """Build an index of vectors over all rows, in the place of the present one.

    Hold the lock of the table's upkeep: a merge of fragments meanwhile would be preferred to it.
    """
    with_retries(
        lambda: table.fresh().create_index(
            COLUMN, kind.value, name=VECTOR_INDEX, metric="cosine", replace=True,
            progress_callback=on_progress,
        ),
        what=f"index of {table.name}",
        attempts=3,
    )  # fmt: skip


def drop(table: "Table", name: str) -> None:
    """Remove an index; searches look at all vectors then."""
    with_retries(lambda: table.fresh().drop_index(name), what=f"index of {table.name}")


def measure(dataset: lance.LanceDataset, policy: IndexPolicy, within: Within) -> Measured:
    """Measure recall with growing effort until the policy's goal is reached.

    Costs one reading of the vectors, and a search per sampled row and effort.

    Args:
        dataset: A version with an index of vectors.
        policy: The goal, the lists' length and the sample.
        within: Where to search.

    Returns:
        What the last effort reached, which may be less than the goal.
    """
    (index,) = (one for one in dataset.describe_indices() if one.field_names == [COLUMN])
    kind = VectorKind(index.index_type)
    limit = min(policy.limit, within.rows)
    queries = _sample(dataset, policy, within)
    farthest = _farthest(dataset, queries, within, limit)
    reached = SearchParameters(0, 1), 0.0
    for parameters in efforts(kind):
        found = [_search(dataset, query, within, (limit, parameters)) for query in queries]
        reached = parameters, share_found(found, farthest, limit)
        if reached[1] >= policy.recall:
            break
    parameters, recall = reached
    return Measured(kind, recall, parameters, limit, policy.recall, _segments(index))


def measure_and_keep(table: "Table", policy: IndexPolicy) -> Measured:
    """Measure a table's index and keep what was found, or drop an index that misses the goal.

    Returns:
        What was measured; where its recall is below the goal, the index is gone.
    """
    dataset = table.fresh()
    measured = measure(dataset, policy, largest_scope(table.name, dataset))
    if measured.recall >= policy.recall:
        keep_measured(table, measured)
    else:
        log.warning(
            "the %s index of %s lists %.4f of the nearest, wanted %.4f: it is dropped, and "
            "searches look at all vectors; ailake index tries again",
            measured.kind, table.name, measured.recall, policy.recall,
        )  # fmt: skip
        drop(table, VECTOR_INDEX)
    return measured


def largest_scope(table_name: str, dataset: lance.LanceDataset) -> Within:
    """Return the scope with the most rows: where a search has the most to look at."""
    counts: Counter[tuple[str, ...]] = Counter()
    for batch in dataset.scanner(columns=list(SCOPE_COLUMNS)).to_batches():
        groups = pa.Table.from_batches([batch]).group_by(list(SCOPE_COLUMNS))
        for group in groups.aggregate([([], "count_all")]).to_pylist():
            counts[tuple(group[name] for name in SCOPE_COLUMNS)] += group["count_all"]
    if not counts:
        return Within(None, 0)
    ((values, rows),) = counts.most_common(1)
    scope = dict(zip(SCOPE_COLUMNS, values, strict=True))
    return Within(to_sql(parse_where(scope, filter_kinds(table_name))), rows)


def keep_measured(table: "Table", measured: Measured) -> None:
    """Keep with the table what was measured, so that every reader finds it."""
    with_retries(
        lambda: table.fresh().update_config({MEASURED_KEY: measured.to_json()}),
        what=f"configuration of {table.name}",
        # Two that measured the same index at once: whichever comes last stays.
        retry_on=lambda error: (
            is_lost_race(error) or "incompatible transaction" in str(error).lower()
        ),
    )


def _measured(dataset: lance.LanceDataset, index: Any) -> Measured | None:
    text = dataset.config().get(MEASURED_KEY)
    if text is None or index.name != VECTOR_INDEX:
        return None
    measured = _read(text)
    return measured if measured and measured.segments == _segments(index) else None


@lru_cache(maxsize=64)
def _read(text: str) -> Measured | None:
    try:
        return Measured.from_json(text)
    except LakeCorruptError as error:
        # Distances are true all the same, and another release may have written it.
        log.warning("%s", error)
        return None


def _segments(index: Any) -> tuple[str, ...]:
    return tuple(sorted(str(segment.uuid) for segment in index.segments))


def _sample(dataset: lance.LanceDataset, policy: IndexPolicy, within: Within) -> Vectors:
    rows = dataset.scanner(columns=[], filter=within.where, with_row_id=True).to_table()
    row_ids = np.sort(rows["_rowid"].to_numpy())
    chosen = np.random.default_rng(policy.seed).choice(
        row_ids, min(policy.sample, len(row_ids)), replace=False
    )
    taken = dataset._take_rows(chosen.tolist(), columns=[COLUMN])  # noqa: SLF001 (by row id)
    return _matrix(taken[COLUMN].combine_chunks())


def _farthest(
    dataset: lance.LanceDataset, queries: Vectors, within: Within, limit: int
) -> Sequence[float]:
    """Return for each query the true distance of its ``limit``-th nearest row, in one reading."""
    wanted = _unit(queries)
    nearest = np.full((len(queries), limit), np.inf, np.float32)
    for batch in dataset.scanner(columns=[COLUMN], filter=within.where).to_batches():
        distances = 1.0 - wanted @ _unit(_matrix(batch[COLUMN])).T
        both = np.concatenate([nearest, distances], axis=1)
        nearest = np.partition(both, limit - 1, axis=1)[:, :limit]
    return [float(one) for one in nearest.max(axis=1)]


def _search(
    dataset: lance.LanceDataset,
    query: Vectors,
    within: Within,
    how: tuple[int, SearchParameters],
) -> tuple[Sequence[int], Sequence[float]]:
    limit, parameters = how
    options = {"column": COLUMN, "q": query, "k": limit, "metric": "cosine"}
    rows = dataset.scanner(
        columns=["_distance"],
        nearest={**options, **parameters.query(limit)},
        filter=within.where,
        prefilter=True,
        with_row_id=True,
    ).to_table()
    return rows["_rowid"].to_pylist(), rows["_distance"].to_pylist()


def _matrix(column: Any) -> Vectors:
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat.reshape(len(column), -1), np.float32)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)
