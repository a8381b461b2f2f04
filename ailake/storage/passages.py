"""The ``passages`` table: written beside memories, searched for what lies deep in long texts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.episodic import cosine_distances
from ailake.core.filters import TRUE, Predicate, parse_where
from ailake.core.records import Scope
from ailake.core.schema import filter_kinds
from ailake.storage.search import SCORING_COLUMNS, Nearest, nearest_rows
from ailake.storage.table import read_rows, row_ids_in, select
from ailake.storage.view import ReadView

if TYPE_CHECKING:
    from ailake.storage.store import Store

_LISTED = (*SCORING_COLUMNS, "embedding", "_rowid")

COLUMNS = ("chunk_id", "part", "start", "end")

# Up to here the engine is given the rows to search among: 10,000 of 100,000 take it three times as
# long as no filter, 50,000 eleven times. Ranking all and keeping the chosen takes four at most.
_FEW = 10_000

# How many more are ranked than should suffice, where the nearest are a fair sample.
_SPARE = 1.25


@dataclass(frozen=True, slots=True)
class Best:
    """What is nearest of each memory: its own vector, or one of its passages.

    Attributes:
        distance: The smallest cosine distance, float64 (n,).
        part: The passage that it belongs to, int64 (n,); -1 where the memory's own vector is as
            near.
        start: The passage's first character, int64 (n,); -1 as above.
        end: After its last character, int64 (n,); -1 as above.
    """

    distance: NDArray[np.float64]
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def append(store: "Store", rows: pa.Table) -> None:
    """Add rows of ``passage_rows`` in one commit; none make none."""
    if rows.num_rows:
        table = store.tables["passages"]
        table.sync(table.append(rows))
        table.tidy()


def remove(store: "Store", scope: Scope, memory_ids: Sequence[str]) -> None:
    """Delete the passages of erased memories of a scope, in one commit."""
    table = store.tables["passages"]
    if not memory_ids or not table.snapshot().count_rows():
        return
    wall = parse_where(asdict(scope), filter_kinds("passages"))
    rows = table.read(("chunk_id",), wall, with_row_id=True)
    gone = rows.filter(_among(rows, pa.array(memory_ids, pa.string())))
    table.delete_rows(gone["_rowid"].to_pylist())


def remove_orphans(store: "Store") -> int:
    """Delete the passages that a writer or a ``forget`` left without a memory when it died.

    Returns:
        How many there were.
    """
    with store.committing():
        rows = store.tables["passages"].read(("chunk_id",), TRUE, with_row_id=True)
        kept = store.episodic.read(("chunk_id",), TRUE)["chunk_id"].combine_chunks()
        gone = rows.filter(pc.invert(_among(rows, kept)))["_rowid"].to_pylist()
        store.tables["passages"].delete_rows(gone)
    return len(gone)


def nearest_passages(
    dataset: lance.LanceDataset,
    vector: NDArray[np.float32],
    wall: Predicate,
    *,
    limit: int | None,
    memory_ids: pa.Array | None = None,
    exact: bool = False,
) -> Nearest:
    """Return at least the ``limit`` passages nearest to ``vector`` by cosine distance.

    Args:
        dataset: A version of the passages table.
        vector: The query, float32 (dim,).
        wall: The scopes to look in; it may name columns of ``passages`` only.
        limit: Length of the list; None lists all.
        memory_ids: Only passages of these memories, such as those that pass a filter; chosen
            before the search, so that ``limit`` is reached where there are as many.
        exact: Leave the approximate index alone, where there is one.

    Returns:
        ``COLUMNS``, ``_distance`` and ``_rowid``, nearest first.
    """
    stored = dataset.count_rows()
    search = _Search(dataset, vector, select(dataset, wall), exact or limit is None)
    most = stored if limit is None else min(limit, stored)
    if not stored or memory_ids is None:
        return search.among_all(most)
    rows = read_rows(dataset, ("chunk_id",), wall, with_row_id=True)
    chosen = rows.filter(_among(rows, memory_ids))["_rowid"]
    if len(chosen) <= _FEW:
        return search.among_rows(chosen.to_pylist(), most)
    return search.among_memories(memory_ids, most, chosen=len(chosen), stored=rows.num_rows)


def best_of(hits: pa.Table, memory_ids: pa.Array, own: NDArray[np.floating[Any]]) -> Best:
    """Return for each memory the smallest distance that it has.

    Args:
        hits: Rows of ``nearest_passages``, in any order; those of other memories are ignored.
        memory_ids: The memories, n of them, each once.
        own: The distances of their own vectors, (n,); infinite where there is none.
    """
    order = [("_distance", "ascending"), ("part", "ascending")]
    found = (
        hits.sort_by(order)
        # One thread: otherwise the first of a group is any.
        .group_by("chunk_id", use_threads=False)
        .aggregate([(name, "first") for name in ("_distance", *COLUMNS[1:])])
    )
    places = pc.index_in(memory_ids, value_set=found["chunk_id"].combine_chunks())
    distance = np.asarray(own, np.float64)
    passage = _at(found["_distance_first"], places, missing=np.inf).astype(np.float64)
    nearer = passage < distance
    part, start, end = (
        np.where(nearer, _at(found[f"{name}_first"], places, missing=0).astype(np.int64), -1)
        for name in COLUMNS[1:]
    )
    return Best(np.where(nearer, passage, distance), part, start, end)


def with_passages(
    view: ReadView,
    vector: NDArray[np.float32],
    where: Predicate,
    found: Nearest,
    *,
    wall: Predicate,
    limit: int,
    exact: bool,
) -> Nearest:
    """Add the memories with the nearest passages; a memory is as far as its nearest vector.

    Args:
        view: The memories.
        vector: The query, float32 (dim,).
        where: What the memories satisfy.
        found: The memories nearest by their own vectors.
        wall: The scopes, as in ``nearest_passages``.
        limit: Length of the list of passages.
        exact: Leave the approximate index alone, where there is one.

    Returns:
        As ``found``, with the columns ``start`` and ``end`` of the nearest passage, -1 for none.
    """
    if not view.passages.count_rows():
        return replace(found, columns=_with_spans(found.columns, -1, -1))
    # A filter on memories comes before the search for passages, not after it.
    ids = read_rows(view.dataset, ("chunk_id",), where)["chunk_id"].combine_chunks()
    hits = nearest_passages(view.passages, vector, wall, limit=limit, memory_ids=ids, exact=exact)
    listed = set(found.columns["chunk_id"].to_pylist())
    missing = [one for one in pc.unique(hits.columns["chunk_id"]).to_pylist() if one not in listed]
    more = _with_distance(view.stored("chunk_id", missing, _LISTED), vector)
    rows = pa.concat_tables([found.columns, more.select(found.columns.column_names)])
    own = rows["_distance"].to_numpy()
    best = best_of(hits.columns, rows["chunk_id"].combine_chunks(), own)
    place = rows.schema.get_field_index("_distance")
    rows = rows.set_column(place, "_distance", pa.array(best.distance))
    return Nearest(
        _with_spans(rows, best.start, best.end),
        complete=found.complete and hits.complete,
        true_distances=found.true_distances and hits.true_distances,
    )


def _with_spans(
    rows: pa.Table, start: NDArray[np.int64] | int, end: NDArray[np.int64] | int
) -> pa.Table:
    for name, value in (("start", start), ("end", end)):
        rows = rows.append_column(name, pa.array(np.broadcast_to(value, rows.num_rows)))
    return rows


def _with_distance(rows: pa.Table, vector: NDArray[np.float32]) -> pa.Table:
    flat = rows["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    distance = pa.array(cosine_distances(flat, vector), pa.float32())
    return rows.append_column("_distance", distance)


@dataclass(frozen=True, slots=True)
class _Search:
    dataset: lance.LanceDataset
    vector: NDArray[np.float32]
    wall: str
    exact: bool

    def among_all(self, limit: int) -> Nearest:
        return nearest_rows(
            self.dataset, self.vector, self.wall, columns=COLUMNS, limit=limit, exact=self.exact
        )

    def among_rows(self, row_ids: Sequence[int], limit: int) -> Nearest:
        return nearest_rows(
            self.dataset,
            self.vector,
            row_ids_in(row_ids),
            columns=COLUMNS,
            limit=min(limit, len(row_ids)),
            exact=True,
        )

    def among_memories(
        self, memory_ids: pa.Array, limit: int, *, chosen: int, stored: int
    ) -> Nearest:
        """Rank more than are wanted, until enough of them are of these memories.

        Args:
            memory_ids: The memories.
            limit: How many of their passages are enough.
            chosen: How many they have.
            stored: How many there are behind the same wall.
        """
        enough = min(limit, chosen)
        asked = int(_SPARE * enough * stored / chosen)
        while True:
            found = self.among_all(asked)
            kept = found.columns.filter(_among(found.columns, memory_ids))
            if found.complete or kept.num_rows >= enough:
                return replace(found, columns=kept, complete=kept.num_rows == chosen)
            asked *= 2


def _among(rows: pa.Table, memory_ids: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(rows["chunk_id"], value_set=memory_ids)


def _at(column: pa.ChunkedArray, places: pa.Array, *, missing: float) -> NDArray[Any]:
    taken = column.combine_chunks().take(places)
    return np.asarray(pc.fill_null(taken, missing).to_numpy(zero_copy_only=False))
