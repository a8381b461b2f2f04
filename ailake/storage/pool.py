"""Memories that can be among the best of a recall, with what scoring them needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import pending_of_rows
from ailake.core.episodic import Floats
from ailake.core.evidence import Places
from ailake.core.records import SearchReport
from ailake.core.rows import RECORD_COLUMNS, born_at, fields_of, last_access
from ailake.storage.payloads import Fields
from ailake.storage.view import ReadView

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pool:
    """n memories in any order.

    Attributes:
        ids: Their ids.
        born: When the memory's event happened, nanoseconds since 1970 (n,).
        last: Last access, those that wait counted in, nanoseconds since 1970 (n,).
        importance: In [0, 1], float64 (n,).
        folded: Watermarks: up to which version of the journal accesses are in the row (n,).
        row_ids: Where they are, stored or logged, uint64 (n,).
        distance: Cosine distance of the nearest of the memory's vectors, float64 (n,).
        bm25: How well words of the query match, 0 where none is met, float64 (n,).
        spans: Where its nearest passage starts and ends, (2, n); -1 for the whole text.
        fields: Returns the arguments of a ``MemoryRecord`` for each of some places, accesses that
            wait not counted in. What it returns is the caller's own.
        neighbours: Returns which of some places stand before and after each in its session, by
            position among them, -1 for none; None where that has to be read.
    """

    ids: Sequence[str]
    born: Whole
    last: Whole
    importance: Floats
    folded: Whole
    row_ids: NDArray[np.uint64]
    distance: Floats
    bm25: Floats
    spans: Whole
    fields: Callable[[Sequence[int]], list[Fields]]
    neighbours: Callable[[Places], tuple[Places, Places]] | None = None

    @classmethod
    def of_table(cls, view: ReadView, rows: pa.Table) -> Self:
        """Return the memories of a list.

        Args:
            view: Where they were read.
            rows: ``SCORING_COLUMNS``, ``_distance``, ``_bm25``, ``_rowid``, ``start`` and ``end``.
        """
        ids, folded = rows["chunk_id"].to_pylist(), rows["folded_through"].to_pylist()
        last = last_access(rows).copy()
        waiting = pending_of_rows(view.entries, ids, folded)
        for place, memory_id in enumerate(ids if waiting else ()):
            if memory_id in waiting:
                last[place] = max(last[place], waiting[memory_id].last_accessed_at)
        row_ids = rows["_rowid"].to_numpy()

        def fields(places: Sequence[int]) -> list[Fields]:
            return [fields_of(row) for row in view.rows_at(row_ids[list(places)], RECORD_COLUMNS)]

        return cls(
            ids=ids,
            born=born_at(rows),
            last=last,
            importance=rows["importance_score"].to_numpy().astype(np.float64),
            folded=np.array(folded, np.int64),
            row_ids=row_ids,
            distance=rows["_distance"].to_numpy().astype(np.float64),
            bm25=rows["_bm25"].to_numpy().astype(np.float64),
            spans=np.array([rows["start"].to_numpy(), rows["end"].to_numpy()], np.int64),
            fields=fields,
        )

    @classmethod
    def joined(cls, parts: Sequence["Pool"]) -> "Pool":
        """Return all memories of several pools, in their order."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])

        def fields(places: Sequence[int]) -> list[Fields]:
            numbers = np.searchsorted(starts, places, side="right") - 1
            found: dict[int, Fields] = {}
            for number in set(numbers.tolist()):
                some = [places[at] for at in np.flatnonzero(numbers == number).tolist()]
                inside = [place - int(starts[number]) for place in some]
                found |= zip(some, parts[number].fields(inside), strict=True)
            return [found[place] for place in places]

        def neighbours(places: Places) -> tuple[Places, Places]:
            before = np.full(len(places), -1, np.intp)
            after = before.copy()
            numbers = np.searchsorted(starts, places, side="right") - 1
            for number, part in enumerate(parts):
                at = np.flatnonzero(numbers == number)
                if part.neighbours is not None and len(at):
                    inside = part.neighbours(places[at] - starts[number])
                    for found, whole in zip(inside, (before, after), strict=True):
                        whole[at] = np.where(found >= 0, at[found], -1)
            return before, after

        def column(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            ids=list(chain.from_iterable(part.ids for part in parts)),
            born=column("born"),
            last=column("last"),
            importance=column("importance"),
            folded=column("folded"),
            row_ids=column("row_ids"),
            distance=column("distance"),
            bm25=column("bm25"),
            spans=np.concatenate([part.spans for part in parts], axis=1),
            fields=fields,
            neighbours=neighbours if all(part.neighbours for part in parts) else None,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What a search for the best memories found.

    Attributes:
        pool: At least as many of the best by the score of stage one as were asked for, all that
            tie with the last of them, and perhaps others.
        report: How they were found.
    """

    pool: Pool
    report: SearchReport
