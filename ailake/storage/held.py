"""Which scopes are held in memory, and recall over all that one holds."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain
from threading import Lock
from typing import Self

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.accesses import AccessLog, Entries
from ailake.core.filters import Predicate, conjunction, parse_where
from ailake.core.records import Scope, State
from ailake.core.rows import born_at, last_access
from ailake.core.schema import filter_kinds
from ailake.core.vectors import RESIDENT_BYTES, resident_bytes
from ailake.storage.filters import to_sql
from ailake.storage.payloads import Fields, Payloads
from ailake.storage.resident import Columns, Resident, Rows
from ailake.storage.retries import StaleSnapshotError
from ailake.storage.screening import Weights

# In bytes of vectors, 230,000 of 384 numbers, and of what hits show beside their scores.
BUDGET = RESIDENT_BYTES

# Each is read by itself: so many at once are found sooner on disk.
MANY_SCOPES = 32

# A scope that did not fit is counted again after so many versions.
_RETRY_AFTER = 1_000

NEVER = int(np.iinfo(np.int64).max)

_MEMORY_COLUMNS = (
    "created_at", "event_time", "last_accessed_at", "expires_at", "importance_score",
    "folded_through", "session_id", "role", "speaker", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldRows:
    """All that recall needs of one scope.

    Attributes:
        memories: With the columns ``row_id``, ``born``, ``last`` (pending accesses counted in),
            ``expires``, ``importance``, ``folded``, ``session`` (a hash of its id, 0 for none) and
            ``author`` (see ``author_of``).
        passages: With the columns ``start``, ``end`` and ``part``.
        owners: Each passage's place in ``memories``, -1 where there is none.
        fields: Returns the arguments of a ``MemoryRecord`` for each of some places in
            ``memories``, without the accesses that wait. What it returns is the caller's own.
        weights: What the distances of the memories are divided by.
        whole: No memory is gone.
        expiry: When the first memory expires, ``NEVER`` where none does.
    """

    memories: Rows
    passages: Rows
    owners: NDArray[np.int64]
    fields: Callable[[Sequence[int]], list[Fields]]
    weights: Weights
    whole: bool
    expiry: int

    def seen(self, now: int) -> NDArray[np.bool_] | None:
        """Return which memories are there and have not expired; None where all are seen.

        Args:
            now: The instant, nanoseconds since 1970.
        """
        if self.expiry > now:
            return None if self.whole else self.memories.alive
        return self.memories.alive & (self.memories.column("expires") > now)


class HeldScopes:
    """The scopes that are held, the least recently used of them dropped for others.

    Args:
        dim: Length of the vectors.
        budget: Bytes that they may take, None for ``BUDGET``.
    """

    def __init__(self, *, dim: int, budget: int | None = None) -> None:
        self._dim = dim
        self._given = budget
        self._lock = Lock()
        self._held: OrderedDict[Scope, _HeldScope] = OrderedDict()
        self._sizes: dict[Scope, int] = {}
        self._total = 0
        self._refused: dict[Scope, int] = {}

    def rows(
        self,
        scopes: Sequence[Scope],
        dataset: lance.LanceDataset,
        passages: lance.LanceDataset,
        entries: Entries,
    ) -> list[HeldRows] | None:
        """Return all rows of some scopes at these versions; None where they don't fit together.

        Args:
            scopes: The scopes.
            dataset: A version of ``episodic``.
            passages: The version of ``passages`` that goes with it.
            entries: The accesses that wait.

        Raises:
            StaleSnapshotError: Another thread is ahead; take a newer version.
        """
        held = self._admitted(scopes, dataset, passages)
        if held is None:
            return None
        found = []
        for scope, one in zip(scopes, held, strict=True):
            try:
                found.append(one.rows(dataset, passages, entries))
            except StaleSnapshotError:
                raise
            except BaseException:
                # It may have been left between two versions: it is read anew.
                self._drop(scope, one)
                raise
        self._make_room(scopes, dataset)
        return found

    def _admitted(
        self, scopes: Sequence[Scope], dataset: lance.LanceDataset, passages: lance.LanceDataset
    ) -> "list[_HeldScope] | None":
        if len(scopes) > MANY_SCOPES:
            return None
        with self._lock:
            held = [self._held.get(scope) for scope in scopes]
            refused = (self._refused.get(scope, -_RETRY_AFTER) for scope in scopes)
            if self._refused and dataset.version < max(refused) + _RETRY_AFTER:
                return None
        # Counted without the lock: recalls of other scopes need not wait for it.
        admitted = [
            one or _HeldScope.of(scope, dataset, passages, dim=self._dim, has_room=self._has_room)
            for scope, one in zip(scopes, held, strict=True)
        ]
        fits = sum(one.vector_bytes for one in admitted) <= self._budget
        with self._lock:
            for scope, one in zip(scopes, admitted, strict=True):
                if fits:
                    self._refused.pop(scope, None)
                    self._held.setdefault(scope, one)
                    self._held.move_to_end(scope)
                elif len(scopes) == 1:
                    self._refused[scope] = int(dataset.version)
            return [self._held[scope] for scope in scopes] if fits else None

    def _drop(self, scope: Scope, held: "_HeldScope") -> None:
        with self._lock:
            if self._held.get(scope) is held:
                self._remove(scope)

    @property
    def _budget(self) -> int:
        return BUDGET if self._given is None else self._given

    def _has_room(self, more: int) -> bool:
        return self._total + more <= self._budget

    def _make_room(self, scopes: Sequence[Scope], dataset: lance.LanceDataset) -> None:
        """Count what has just been used, and drop what has not been for longest.

        First what hits show, which can be read anew in no time, then whole scopes.
        """
        held = self._held
        with self._lock:
            for scope in scopes:
                self._count(scope)
            while self._total > self._budget:
                filled = next((name for name, one in held.items() if one.payloads.bytes), None)
                if filled is not None:
                    held[filled].payloads.clear()
                    self._count(filled)
                    continue
                oldest = next(iter(held))
                self._remove(oldest)
                if oldest in scopes:
                    # It has outgrown the room.
                    self._refused[oldest] = int(dataset.version)

    def _count(self, scope: Scope) -> None:
        size = self._held[scope].bytes if scope in self._held else 0
        self._total += size - self._sizes.get(scope, 0)
        self._sizes[scope] = size

    def _remove(self, scope: Scope) -> None:
        del self._held[scope]
        self._total -= self._sizes.pop(scope, 0)


class _HeldScope:
    def __init__(self, scope: Scope, *, dim: int, has_room: Callable[[int], bool]) -> None:
        active = {"state": State.ACTIVE.value}
        self.memories_chosen = to_sql(
            conjunction(_wall(scope, "episodic"), parse_where(active, filter_kinds("episodic")))
        )
        self.passages_chosen = to_sql(_wall(scope, "passages"))
        self._memories = Resident(self.memories_chosen, _MEMORY_COLUMNS, _memories, dim=dim)
        self._passages = Resident(
            self.passages_chosen, ("start", "end", "part"), _passages, dim=dim
        )
        self.payloads = Payloads(has_room)
        self._weights = Weights()
        self._lock = Lock()
        self._expected = 0
        self._rows: HeldRows | None = None
        self._versions = (0, 0)
        # The accesses that are counted in.
        self._counted: tuple[tuple[AccessLog, int], ...] = ()

    @classmethod
    def of(
        cls,
        scope: Scope,
        dataset: lance.LanceDataset,
        passages: lance.LanceDataset,
        *,
        dim: int,
        has_room: Callable[[int], bool],
    ) -> Self:
        """Return a scope that nothing has been read of yet, and how much that will be."""
        held = cls(scope, dim=dim, has_room=has_room)
        count = dataset.count_rows(filter=held.memories_chosen)
        if passages.count_rows():
            count += passages.count_rows(filter=held.passages_chosen)
        held._expected = resident_bytes(dim) * count
        return held

    @property
    def vector_bytes(self) -> int:
        """What its vectors take, or will take."""
        return max(self._expected, self._memories.bytes + self._passages.bytes)

    @property
    def bytes(self) -> int:
        """The same with what its hits show."""
        return self.vector_bytes + self.payloads.bytes

    def rows(
        self, dataset: lance.LanceDataset, passages: lance.LanceDataset, entries: Entries
    ) -> HeldRows:
        """Return its rows at these versions."""
        with self._lock:
            # Asked for once: it takes the engine a microsecond to say.
            versions = int(dataset.version), int(passages.version)
            if self._memories.version > versions[0] or self._passages.version > versions[1]:
                raise StaleSnapshotError("a newer version of the lake is held already")
            known = self._memories.rows
            if self._rows is None or self._versions != versions:
                self._rows, self._versions = self._updated(dataset, passages), versions
            self._count_in(self._rows.memories, entries, known=known)
            self._expected = 0
            return self._rows

    def _updated(self, dataset: lance.LanceDataset, passages: lance.LanceDataset) -> HeldRows:
        memories, parts = self._memories.update(dataset), self._passages.update(passages)
        places = (memories.places.get(memory_id, -1) for memory_id in parts.ids)
        return HeldRows(
            memories,
            parts,
            owners=np.fromiter(places, np.int64, len(parts.ids)),
            fields=partial(self.payloads.fields, dataset, memories),
            weights=self._weights,
            whole=bool(memories.alive.all()),
            expiry=int(memories.column("expires").min(initial=NEVER)),
        )

    def _count_in(self, rows: Rows, entries: Entries, *, known: Rows) -> None:
        """Raise ``last`` to the accesses that wait; one that is counted already changes nothing.

        Args:
            rows: The rows.
            entries: The accesses.
            known: The rows that they were counted in before.
        """
        if not entries:
            return
        first = known.count if known.ids is rows.ids else 0
        new = (memory_id for memory_id in rows.ids[first : rows.count] if memory_id in entries)
        waiting = ((memory_id, access) for memory_id in new for access in entries[memory_id])
        last, folded = rows.columns["last"], rows.columns["folded"]
        raised = set()
        for memory_id, access in chain(waiting, entries.after(self._counted)):
            place = rows.places.get(memory_id)
            if place is None or access.version <= folded[place]:
                continue
            if access.accessed_at > last[place]:
                last[place] = access.accessed_at
                raised.add(place)
        self._counted = entries.parts
        if raised:
            self._weights.change(rows, sorted(raised))


def _wall(scope: Scope, table: str) -> Predicate:
    return parse_where(asdict(scope), filter_kinds(table))


def _memories(found: pa.Table) -> Columns:
    expires = found["expires_at"].cast(pa.int64())
    return {
        "born": born_at(found),
        "last": last_access(found).copy(),
        "expires": expires.fill_null(NEVER).to_numpy(),
        "importance": found["importance_score"].to_numpy().astype(np.float64),
        "folded": found["folded_through"].to_numpy().astype(np.int64),
        "session": _sessions(found["session_id"]),
        "author": _authors(found),
    }


def author_of(role: str, speaker: str, source: str) -> int:
    """Return 64 bits for a partition of a scope, within which memories may be merged."""
    return _hash(f"{role}\0{speaker}\0{source}")


def _authors(found: pa.Table) -> NDArray[np.int64]:
    named = pc.binary_join_element_wise(
        *(found[name].combine_chunks() for name in ("role", "speaker", "source")), "\0"
    )
    coded = pc.dictionary_encode(named)
    hashes = np.array([_hash(name) for name in coded.dictionary.to_pylist()], np.int64)
    return np.asarray(hashes[coded.indices.to_numpy()])


def _sessions(names: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return 64 bits for each session, 0 for none."""
    coded = pc.dictionary_encode(names.combine_chunks())
    hashes = [_hash(name) if name else 0 for name in coded.dictionary.to_pylist()]
    return np.asarray(np.array(hashes, np.int64)[coded.indices.to_numpy()])


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


def _passages(found: pa.Table) -> Columns:
    return {name: found[name].to_numpy().astype(np.int64) for name in ("start", "end", "part")}
