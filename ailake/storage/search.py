"""Searches of tables: the rows nearest to a query, and what is only logged."""

from collections.abc import Sequence
from math import ceil

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import cosine_distances
from ailake.core.filters import Predicate
from ailake.storage.vectors import COLUMN, VectorIndex
from ailake.storage.view import FIRST_LOGGED, ReadView

SCORING_COLUMNS = (
    "chunk_id",
    "created_at",
    "event_time",
    "last_accessed_at",
    "importance_score",
    "folded_through",
)

# How hard an index is searched that nobody measured. A quantised one returns about twice the cosine
# distance unless it is refined. Of the nearest 200 of 300,000 memories IVF_SQ finds .98 where so
# many are refined, and all where twice as many are; of long lists more without.
_REFINE_FACTOR = 2
_LONG = 1_000

# So many parts of it are looked into, more for long lists; the engine by itself looks into all.
_PROBES = 20
_ROWS_PER_PROBE = 100


def nearest_rows(
    dataset: lance.LanceDataset,
    vector: NDArray[np.float32],
    chosen: str | None,
    *,
    limit: int,
    index: VectorIndex | None,
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return the ``limit`` rows of any table with vectors nearest to ``vector``, nearest first.

    Fewer than ``limit`` come back where there are no more, zero vectors aside, which the engine
    leaves out; of an index, where there are no more in the parts that are looked into.

    Args:
        dataset: A version of the table.
        vector: The query, float32 (dim,).
        chosen: The engine's filter, applied before the search; None for all rows.
        limit: Length of the list.
        index: The approximate index to search; None looks at every vector.
        columns: What to read beside ``_distance`` and ``_rowid``.
    """
    query = {"column": COLUMN, "q": vector, "k": limit, "metric": "cosine"}
    if index is not None:
        query |= effort(index, limit)
    return dataset.scanner(
        columns=[*columns, "_distance"],
        nearest={**query, "use_index": index is not None},
        filter=chosen,
        prefilter=True,
        with_row_id=True,
    ).to_table()


def effort(index: VectorIndex, limit: int) -> dict[str, int]:
    """Return the engine's options for a search of ``limit`` rows of an index."""
    known = index.measured
    if known is not None:
        options = known.parameters.query(limit)
        # A list longer than the measured ones comes from as many more parts.
        longer = max(ceil(limit / known.limit), 1)
        return {**options, "minimum_nprobes": options["minimum_nprobes"] * longer}
    factor = _REFINE_FACTOR if limit < _LONG else 1
    probes = _PROBES + limit // _ROWS_PER_PROBE
    return {"refine_factor": factor, "nprobes": probes, "ef": limit * factor}


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
