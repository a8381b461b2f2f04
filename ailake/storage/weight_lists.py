"""Which scopes' weights are held in memory, kept current by table version and journal.

Some 70 bytes a memory. Who is meant by an access or a passage is found by a 64-bit hash of the id.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from threading import Lock

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import AccessLog, Entries
from ailake.core.filters import Predicate, conjunction, disjunction, parse_where
from ailake.core.records import Scope, State
from ailake.core.rows import last_access
from ailake.core.schema import filter_kinds
from ailake.core.topk import Places
from ailake.storage.filters import to_sql
from ailake.storage.held import NEVER
from ailake.storage.keys import hashes_of
from ailake.storage.retries import StaleSnapshotError
from ailake.storage.row_vectors import VectorCache
from ailake.storage.scope_columns import ColumnRows, Columns, Index, ScopeColumns, loose_rows
from ailake.storage.weights import Orders, Passages, WeightedRows

# In bytes, of all lists together with the vectors that they keep: 3,000,000 memories. A larger list
# is made anew for each recall.
BUDGET = 256 * 1024**2

# In bytes, for the vectors that a list keeps of its memories, and for those of their passages.
VECTOR_BYTES = 32 * 1024**2

_MEMORY_COLUMNS = (
    "chunk_id", "created_at", "event_time", "last_accessed_at", "expires_at", "importance_score",
    "folded_through",
)  # fmt: skip
_PASSAGE_COLUMNS = ("chunk_id", "start", "end", "part")


class WeightLists:
    """The lists that are held, the least recently used of them dropped for others.

    Args:
        dim: Length of the vectors.
        budget: Bytes that they may take, None for ``BUDGET``.
    """

    def __init__(self, *, dim: int, budget: int | None = None) -> None:
        self._dim = dim
        self._given = budget
        self._lock = Lock()
        self._held: OrderedDict[tuple[Scope, ...], _WeightList] = OrderedDict()

    def rows(
        self,
        scopes: Sequence[Scope],
        dataset: lance.LanceDataset,
        passages: lance.LanceDataset,
        entries: Entries,
    ) -> WeightedRows:
        """Return the memories of some scopes together at these versions.

        Args:
            scopes: The scopes.
            dataset: A version of ``episodic``.
            passages: The version of ``passages`` that goes with it.
            entries: The accesses that wait.

        Raises:
            StaleSnapshotError: Another thread is ahead; take a newer version.
        """
        key = tuple(sorted(set(scopes)))
        with self._lock:
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = _WeightList(key, dim=self._dim)
            self._held.move_to_end(key)
        try:
            rows = held.rows_at(dataset, passages, entries)
        except StaleSnapshotError:
            raise
        except BaseException:
            # It may have been left between two versions: it is read anew.
            self._drop(key, held)
            raise
        self._make_room()
        return rows

    def _drop(self, key: tuple[Scope, ...], held: "_WeightList") -> None:
        with self._lock:
            if self._held.get(key) is held:
                del self._held[key]

    def _make_room(self) -> None:
        budget = BUDGET if self._given is None else self._given
        with self._lock:
            while self._held and sum(held.bytes for held in self._held.values()) > budget:
                self._held.popitem(last=False)


class _WeightList:
    def __init__(self, scopes: Sequence[Scope], *, dim: int) -> None:
        active = parse_where({"state": State.ACTIVE.value}, filter_kinds("episodic"))
        chosen = to_sql(conjunction(_wall(scopes, "episodic"), active))
        self._memories = ScopeColumns(
            chosen, _MEMORY_COLUMNS, _memories, on_numbering=self._renumber
        )
        self._passages = ScopeColumns(
            to_sql(_wall(scopes, "passages")),
            _PASSAGE_COLUMNS,
            _passages,
            on_numbering=self._renumber_passages,
        )
        room = max(VECTOR_BYTES // (4 * dim), 1)
        self._vectors = VectorCache(room=room, dim=dim)
        self._passage_vectors = VectorCache(room=room, dim=dim)
        self._orders = Orders()
        self._lock = Lock()
        self._keys: Index | None = None
        self._owned: Passages | None = None
        # When rows were met after their column was read, by place; the same sorted.
        self._met: dict[int, int] = {}
        self._met_sorted: tuple[Places, NDArray[np.int64]] | None = None
        # The accesses that are counted in.
        self._counted: tuple[tuple[AccessLog, int], ...] = ()
        self._rows: WeightedRows | None = None

    @property
    def bytes(self) -> int:
        """What it takes."""
        keys = 0 if self._keys is None else self._keys.bytes
        return keys + (0 if self._rows is None else self._rows.bytes)

    def rows_at(
        self, dataset: lance.LanceDataset, passages: lance.LanceDataset, entries: Entries
    ) -> WeightedRows:
        """Return its rows at these versions."""
        with self._lock:
            ahead = self._memories.version > dataset.version
            if ahead or self._passages.version > passages.version:
                raise StaleSnapshotError("a newer version of the lake is held already")
            before = self._memories.rows
            memories = self._memories.update(dataset)
            keys = self._keys_of(memories)
            # Who was only logged before may have been met already.
            self._count_in(memories, keys, entries, everybody=memories is not before)
            if len(self._met) > loose_rows(memories.living):
                memories = self._with_met(memories)
                keys = self._keys_of(memories)
            owned = self._passages_at(passages, memories, keys)
            self._rows = WeightedRows(
                memories,
                owned,
                *self._all_met(),
                self._vectors,
                self._passage_vectors,
                self._orders,
            )
            return self._rows

    def _keys_of(self, rows: ColumnRows) -> Index:
        keys = rows.column("key")
        self._keys = Index.of(keys) if self._keys is None else self._keys.extended(keys)
        return self._keys

    def _count_in(
        self, rows: ColumnRows, keys: Index, entries: Entries, *, everybody: bool
    ) -> None:
        """Take in the accesses that wait; one that is counted already changes nothing."""
        new = list(entries.after(() if everybody else self._counted))
        ids = pa.array([memory_id for memory_id, _ in new], pa.string())
        places = keys.find(hashes_of(ids), rows.alive)
        for place, (_, access) in zip(places.tolist(), new, strict=True):
            if place >= 0 and access.version > rows.columns["folded"][place]:
                self._meet(rows, place, access.accessed_at)
        self._counted = entries.parts

    def _meet(self, rows: ColumnRows, place: int, instant: int) -> None:
        if instant > self._met.get(place, rows.columns["last"][place]):
            self._met[place] = instant
            self._met_sorted = None

    def _all_met(self) -> tuple[Places, NDArray[np.int64]]:
        if self._met_sorted is None:
            places = np.fromiter(self._met, np.int64, len(self._met))
            instants = np.fromiter(self._met.values(), np.int64, len(self._met))
            order = np.argsort(places)
            self._met_sorted = places[order], instants[order]
        return self._met_sorted

    def _with_met(self, rows: ColumnRows) -> ColumnRows:
        """Return the rows with all accesses in their column, in an order of their own."""
        places, instants = self._all_met()
        last = rows.columns["last"].copy()
        last[places] = instants
        self._met, self._met_sorted = {}, None
        return self._memories.numbered_anew(rows, last=last)

    def _renumber(self, kept: Places) -> None:
        """Follow rows to their new places."""
        places, instants = self._all_met()
        at = np.minimum(np.searchsorted(kept, places), max(len(kept) - 1, 0))
        still = kept[at] == places if len(kept) else np.zeros(len(places), np.bool_)
        self._met = dict(zip(at[still].tolist(), instants[still].tolist(), strict=True))
        self._met_sorted = None
        self._vectors = self._vectors.numbered_anew(kept)
        self._keys, self._owned, self._orders = None, None, Orders()

    def _renumber_passages(self, kept: Places) -> None:
        self._passage_vectors = self._passage_vectors.numbered_anew(kept)
        self._owned = None

    def _passages_at(
        self, dataset: lance.LanceDataset, memories: ColumnRows, keys: Index
    ) -> Passages:
        rows = self._passages.update(dataset)
        owners = np.full(rows.count, -1, np.int64)
        if self._owned is not None:
            owners[: len(self._owned.owners)] = self._owned.owners
        # A memory that was changed stands elsewhere.
        lost = np.flatnonzero((owners < 0) | ~_alive(memories, owners))
        owners[lost] = keys.find(rows.column("key")[lost], memories.alive)
        if self._owned is None or rows is not self._owned.rows or len(lost):
            self._owned = Passages.of(rows, owners)
        return self._owned


def _alive(rows: ColumnRows, places: Places) -> NDArray[np.bool_]:
    return rows.alive[places] if rows.count else np.zeros(len(places), np.bool_)


def _wall(scopes: Sequence[Scope], table: str) -> Predicate:
    kinds = filter_kinds(table)
    return disjunction(*(parse_where(asdict(scope), kinds) for scope in scopes))


def _memories(found: pa.Table) -> Columns:
    expires = found["expires_at"].cast(pa.int64())
    return {
        "key": hashes_of(found["chunk_id"]),
        "last": last_access(found),
        "expires": expires.fill_null(NEVER).to_numpy(),
        "importance": found["importance_score"].to_numpy(),
        "folded": found["folded_through"].to_numpy().astype(np.int64),
    }


def _passages(found: pa.Table) -> Columns:
    names = ("start", "end", "part")
    spans = {name: found[name].to_numpy().astype(np.int32) for name in names}
    return {"key": hashes_of(found["chunk_id"]), **spans}
