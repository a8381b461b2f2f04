"""Candidate lists for recall: row ids with what scoring needs, and no payload.

Recall asks for candidates, scores them, and reads the payload of the winners alone. Further lists
(heaviest by weight, best by words) belong beside this one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import cosine_distances
from ailake.core.filters import Predicate
from ailake.storage.table import select
from ailake.storage.vectors import vector_index
from ailake.storage.view import FIRST_LOGGED, ReadView

SCORING_COLUMNS = (
    "chunk_id",
    "created_at",
    "event_time",
    "last_accessed_at",
    "importance_score",
    "folded_through",
)

# A quantised index returns about twice the cosine distance unless it is refined. Lists here are
# so much longer than what is wanted of them that refining no more rows than are listed is enough,
# where nobody has measured what is.
REFINE_FACTOR = 1


@dataclass(frozen=True, slots=True)
class Nearest:
    """The rows nearest to a query, nearest first.

    Attributes:
        columns: What was asked for, ``_distance`` and ``_rowid``.
        complete: No row that satisfies the filter is missing.
        true_distances: Found without an approximate index.
    """

    columns: pa.Table
    complete: bool
    true_distances: bool


def nearest(
    view: ReadView,
    vector: NDArray[np.float32],
    where: Predicate,
    *,
    limit: int,
    exact: bool,
) -> Nearest:
    """Return at least the ``limit`` memories nearest to ``vector`` by cosine distance.

    The columns are ``SCORING_COLUMNS``.

    What is only logged is all listed, behind the others.

    Args:
        view: The memories.
        vector: The query, float32 (dim,).
        where: Applied before the search, never to its result.
        limit: Length of the list.
        exact: Leave the approximate index alone, where there is one.
    """
    found = nearest_rows(
        view.dataset,
        vector,
        select(view.dataset, where),
        columns=SCORING_COLUMNS,
        limit=limit,
        exact=exact,
    )
    logged = logged_rows(view, vector, where, found.columns.schema)
    return replace(found, columns=pa.concat_tables([found.columns, logged]))


def nearest_rows(
    dataset: lance.LanceDataset,
    vector: NDArray[np.float32],
    chosen: str,
    *,
    columns: Sequence[str],
    limit: int,
    exact: bool,
) -> Nearest:
    """Return at least the ``limit`` rows of any table with vectors nearest to ``vector``.

    Args:
        dataset: A version of the table.
        vector: The query, float32 (dim,).
        chosen: The engine's filter, applied before the search.
        columns: What to read beside ``_distance`` and ``_rowid``.
        limit: Length of the list.
        exact: Leave the approximate index alone, where there is one.
    """
    index = None if exact else vector_index(dataset)
    # One more than asked for tells a list that is cut off from one that holds all there is.
    query = {"column": "embedding", "q": vector, "k": limit + 1, "metric": "cosine"}
    if index is not None:
        known = index.parameters
        query |= {"refine_factor": REFINE_FACTOR} if known is None else known.query(limit + 1)
    rows = dataset.scanner(
        columns=[*columns, "_distance"],
        nearest={**query, "use_index": index is not None},
        filter=chosen,
        prefilter=True,
        with_row_id=True,
    ).to_table()
    return Nearest(
        rows,
        complete=rows.num_rows <= limit,
        true_distances=index is None,
    )


def logged_rows(
    view: ReadView, vector: NDArray[np.float32], where: Predicate, schema: pa.Schema
) -> pa.Table:
    """Return what is only logged and satisfies ``where``, with its distances."""
    rows = []
    for place in view.logged_places(where):
        one = view.logged[place]
        (distance,) = cosine_distances(one.vector, vector).tolist()
        rows.append({**one.row, "_distance": distance, "_rowid": FIRST_LOGGED + place})
    return pa.Table.from_pylist(rows, schema=schema)
