"""Recall's candidates from scopes held in memory: of all rows those that can be among the best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats
from ailake.core.filters import TRUE, Predicate
from ailake.core.records import SearchReport
from ailake.core.schema import INSTANT
from ailake.storage.coded import Bounds
from ailake.storage.held import HeldRows
from ailake.storage.lexical import Lexical, best_by_words, bm25_of
from ailake.storage.payloads import Fields
from ailake.storage.pool import Found, Pool, Whole
from ailake.storage.question import Mode, Question
from ailake.storage.screening import Divisors, promising
from ailake.storage.search import logged_rows
from ailake.storage.table import read_rows
from ailake.storage.turns import neighbours_in_memory
from ailake.storage.view import ReadView

_SCHEMA = pa.schema(
    [
        ("chunk_id", pa.string()),
        *((name, INSTANT) for name in ("created_at", "event_time", "last_accessed_at")),
        ("importance_score", pa.float32()),
        ("folded_through", pa.uint64()),
        ("_distance", pa.float64()),
        ("_rowid", pa.uint64()),
    ]
)

# So many rows are matched with a query's words one by one as soon as the best of them are.
_FEW = 2_000


def scan_held(view: ReadView, question: Question, *, limit: int) -> Found | None:
    """Compare every row of the scopes; None where one of them is too large to be held.

    At least the best ``limit`` rows by score are found, all that tie with the last of them, and
    all that is only logged.
    """
    held = view.held.rows(question.scopes, view.dataset, view.passages, view.entries)
    if held is None:
        return None
    is_filtered, words, allowed = question.asked != TRUE, None, None
    where: Predicate = TRUE
    if is_filtered or view.logged or question.words is not None:
        where = question.visible(view)
    if is_filtered:
        allowed = read_rows(view.dataset, (), where, with_row_id=True)["_rowid"].to_numpy()
    parts = [_compared(rows, question, allowed) for rows in held]
    if question.words is not None:
        words = _words(view, question.words, where, parts, limit=limit)
    pools = [part.pool(words, limit=limit) for part in parts]
    count, known = sum(part.count for part in parts), True
    if view.logged:
        # Nobody knows yet how well the words of what is only logged match.
        known = question.words is None or not view.logged_places(where)
        pools.append(_logged(view, question, where))
        count += len(pools[-1].ids)
    report = SearchReport(
        exact=known,
        bound_held=known,
        scored=count,
        listed={"nearest": count, "words": 0 if words is None else len(words.row_ids)},
    )
    return Found(Pool.joined(pools), report)


def _logged(view: ReadView, question: Question, where: Predicate) -> Pool:
    if question.mode is Mode.TEXT:
        logged = _SCHEMA.empty_table()
    else:
        logged = logged_rows(view, question.vector, where, _SCHEMA)
    for name in ("start", "end"):
        logged = logged.append_column(name, pa.repeat(-1, len(logged)))
    return Pool.of_table(view, logged.append_column("_bm25", pa.array(np.zeros(len(logged)))))


def _words(
    view: ReadView, text: str, where: Predicate, parts: Sequence["_Compared"], *, limit: int
) -> Lexical:
    """Return the matches of the query's words that decide which rows are the best."""
    size = None if sum(part.count for part in parts) <= _FEW else max(_FEW, limit)
    found = best_by_words(view.dataset, text, where, limit=size)
    if found.complete:
        return found
    doubtful = np.concatenate([part.doubtful(found, limit=limit) for part in parts])
    if len(doubtful) > _FEW:
        return best_by_words(view.dataset, text, where, limit=None)
    return found.joined(bm25_of(view.dataset, text, where, doubtful))


@dataclass(frozen=True, slots=True)
class _Compared:
    """All rows of a scope: which may be hits, between what their distances are, and their weights.

    Attributes:
        count: How many may be hits.
        seen: Which these are, None for all.
    """

    rows: HeldRows
    question: Question
    count: int
    seen: NDArray[np.bool_] | None
    bounds: Bounds
    divisors: Divisors

    def pool(self, words: Lexical | None, *, limit: int) -> Pool:
        """Return the memories that can be among the best."""
        if words is None:
            return _pool(self.rows, self._promising(self.seen, None, limit=limit), self.question)
        bm25 = words.of(self.rows.memories.column("row_id"))
        seen, taken = self.seen, self._taken_off(bm25)
        if self.question.mode is Mode.TEXT:
            seen = bm25 > 0 if seen is None else seen & (bm25 > 0)
        places = self._promising(seen, Bounds(taken, taken), limit=limit)
        return _pool(self.rows, places, self.question, bm25=bm25[places])

    def doubtful(self, words: Lexical, *, limit: int) -> NDArray[np.uint64]:
        """Return the rows that would be among the best with as many words as an unlisted may have.

        Without them, no unlisted row can be: the last of the best is strictly better than what it
        could score at most.
        """
        row_ids = self.rows.memories.column("row_id")
        bm25 = words.of(row_ids)
        is_listed = bm25 > 0
        least = self._taken_off(bm25)
        if self.question.mode is Mode.TEXT:
            # It is no hit at all if it has none of the words.
            least[~is_listed] = -np.inf
        most = self._taken_off(np.where(is_listed, bm25, words.bound))
        places = self._promising(self.seen, Bounds(least, most), limit=limit)
        return np.asarray(row_ids[places[~is_listed[places]]])

    def _promising(
        self, seen: NDArray[np.bool_] | None, words: Bounds | None, *, limit: int
    ) -> NDArray[np.intp]:
        return promising(
            self.bounds,
            self.divisors,
            limit=limit,
            seen=seen,
            max_distance=self.question.max_distance,
            words=words,
        )

    def _taken_off(self, bm25: Floats) -> NDArray[np.float32]:
        return self.question.scoring.lexical_part(bm25).astype(np.float32)


def _compared(rows: HeldRows, question: Question, allowed: NDArray[np.uint64] | None) -> _Compared:
    memories = rows.memories
    seen = rows.seen(question.now)
    if allowed is not None:
        chosen = np.isin(memories.column("row_id"), allowed)
        seen = chosen if seen is None else seen & chosen
    return _Compared(
        rows,
        question,
        count=memories.count if seen is None else int(np.count_nonzero(seen)),
        seen=seen,
        bounds=_bounds(rows, question),
        divisors=rows.weights.divisors(memories, question.scoring, question.now),
    )


def _bounds(rows: HeldRows, question: Question) -> Bounds:
    if question.mode is Mode.TEXT:
        one = np.ones(rows.memories.count, np.float32)
        return Bounds(one, one)
    bounds = rows.memories.vectors.bounds(question.aim)
    if rows.passages.count:
        parts, at = rows.passages.vectors.bounds(question.aim), _live_passages(rows)
        np.minimum.at(bounds.low, rows.owners[at], parts.low[at])
        np.minimum.at(bounds.high, rows.owners[at], parts.high[at])
    return bounds


def _pool(
    rows: HeldRows, places: NDArray[np.intp], question: Question, *, bm25: Floats | None = None
) -> Pool:
    columns = rows.memories.columns
    listed = places.tolist()
    spans = np.full((2, len(places)), -1, np.int64)
    if question.mode is Mode.TEXT:
        distance = np.ones(len(places))
    else:
        distance = rows.memories.vectors.distances_at(places, question.aim)
        if rows.passages.count and listed:
            _take_passages_in(rows, places, question, distance=distance, spans=spans)

    def fields(chosen: Sequence[int]) -> list[Fields]:
        return rows.fields([listed[one] for one in chosen])

    return Pool(
        ids=[rows.memories.ids[place] for place in listed],
        born=columns["born"][places],
        last=columns["last"][places],
        importance=columns["importance"][places],
        folded=columns["folded"][places],
        row_ids=columns["row_id"][places],
        distance=distance,
        bm25=np.zeros(len(places)) if bm25 is None else bm25,
        spans=spans,
        fields=fields,
        neighbours=lambda chosen: neighbours_in_memory(rows.memories, places[chosen]),
    )


def _take_passages_in(
    rows: HeldRows,
    places: NDArray[np.intp],
    question: Question,
    *,
    distance: Floats,
    spans: Whole,
) -> None:
    """Lower the distances of the memories at some places to those of their passages."""
    passages = _live_passages(rows)
    owners = rows.owners[passages]
    slots = np.minimum(np.searchsorted(places, owners), len(places) - 1)
    mine = places[slots] == owners
    passages, slots = passages[mine], slots[mine]
    far = rows.passages.vectors.distances_at(passages, question.aim)
    columns = rows.passages.columns
    for one in np.argsort(-far, kind="stable").tolist():
        if far[one] <= distance[slots[one]]:
            distance[slots[one]] = far[one]
            spans[:, slots[one]] = [columns[name][passages[one]] for name in ("start", "end")]


def _live_passages(rows: HeldRows) -> NDArray[np.intp]:
    return np.flatnonzero(rows.passages.alive & (rows.owners >= 0))
