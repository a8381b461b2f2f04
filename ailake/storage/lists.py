"""Recall from scopes too large to be held: the true best, out of three sorted lists and a bound.

See ``ailake.core.topk`` for the proof. What is listed and settled here is read from one version.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats
from ailake.core.filters import TRUE, Predicate
from ailake.core.records import SearchReport
from ailake.core.schema import INSTANT
from ailake.core.topk import (
    HEAVIEST,
    NEAREST,
    WORDS,
    Limits,
    Listed,
    Places,
    Settled,
    TopK,
    exact_top_k,
)
from ailake.storage.distances import MEMORIES, Admitted, Distances
from ailake.storage.lexical import best_by_words, bm25_of, unindexed
from ailake.storage.pool import Found, Pool
from ailake.storage.question import Question
from ailake.storage.scope_columns import ROW_ID
from ailake.storage.search import SCORING_COLUMNS, logged_rows
from ailake.storage.table import payload, read_rows
from ailake.storage.view import ReadView
from ailake.storage.weights import WeightedRows

# Lengths at which the nearest list begins: for each row that is wanted, and at least. A flat search
# looks at all rows, however few it lists.
_FIRST, _LEAST = 4, 200
_FLAT_FIRST, _FLAT_LEAST = 10, 1_000

# Matches of words cost little: of 300,000 memories, 400 take 9 ms and 10,000 take 14. Where all are
# listed, nobody's words need to be looked up.
_MATCHES = 10_000

# The heaviest are the same from one recall to the next: a list of them costs little where their
# vectors stay in memory. It begins at this length, and is read on before others as long as it takes
# no more than this share of the room for vectors.
_HEAVIEST = 1_000
_HEAVIEST_SHARE = 0.75

# Up to this part of all rows is read one by one where another search would look at all of them.
_SEARCH_SHARE = 16


def search_lists(view: ReadView, question: Question, *, limit: int, exact: bool) -> Found:
    """Return the best memories by score, proven.

    At least the best ``limit`` are listed, all that tie with the last of them, and all that is only
    logged.

    Args:
        view: The memories.
        question: What is looked for; with a vector.
        limit: How many of the best.
        exact: Leave an approximate index alone. With one, the proof is over the memories that the
            index finds.
    """
    lists = _Lists(view, question, exact=exact)
    return lists.found(exact_top_k(lists, lists.limits(limit)))


class _Lists:
    """The lists of one question. Rows are places in the weight list."""

    def __init__(self, view: ReadView, question: Question, *, exact: bool) -> None:
        self._view, self._question, self._where = view, question, question.visible(view)
        self._rows = view.weights.rows(question.scopes, view.dataset, view.passages, view.entries)
        row_ids = None if question.asked == TRUE else _row_ids(view, self._where)
        admitted = Admitted.of(self._rows, question.now, row_ids)
        self.size = admitted.size
        self._distances = Distances(
            view, question, where=self._where, admitted=admitted, exact=exact
        )
        self._heaviest = _Heaviest(self._rows, question, admitted)
        self._words = _Words(view, question, where=self._where, admitted=admitted)

    def limits(self, limit: int) -> Limits:
        """Return where the lists of a search for so many of the best begin."""
        is_flat = MEMORIES not in self._distances.indexes
        first, least = (_FLAT_FIRST, _FLAT_LEAST) if is_flat else (_FIRST, _LEAST)
        patience = self.size // _SEARCH_SHARE if is_flat else 0
        distance = self._question.max_distance
        return Limits(
            limit,
            max_distance=np.inf if distance is None else distance,
            start={NEAREST: max(least, first * limit), HEAVIEST: _HEAVIEST, WORDS: _MATCHES},
            affordable=max(int(_HEAVIEST_SHARE * self._rows.vectors.room), patience),
            patience=patience,
        )

    def nearest(self, length: int) -> Listed:
        return self._distances.nearest(length)

    def heaviest(self, length: int) -> Listed:
        return self._heaviest.listed(length)

    def words(self, length: int) -> Listed:
        return self._words.listed(length)

    def heavier(self, weight: float) -> int:
        return self._heaviest.heavier(weight)

    def weights(self, rows: Places) -> Floats:
        return self._rows.weights(rows, self._question.scoring, self._question.now)

    def floors(self, rows: Places) -> Floats:
        return self._distances.floors(rows)

    def settle(self, rows: Places) -> Settled:
        lexical = self._question.scoring.lexical_part(self._words.bm25(rows))
        return Settled(self._distances.settle(rows), lexical)

    def found(self, best: TopK) -> Found:
        """Return the best, with all that is only logged."""
        stored = self._scoring_columns(best.rows)
        stored = stored.append_column("_distance", pa.array(best.settled.distance))
        vector = self._question.vector
        logged = logged_rows(self._view, vector, self._where, stored.schema)
        starts, ends = self._distances.spans(best.rows)
        nothing = np.full(len(logged), -1)
        rows = pa.concat_tables([stored, logged])
        for name, values in {
            "_bm25": np.concatenate([self._words.bm25(best.rows), np.zeros(len(logged))]),
            "start": np.concatenate([starts, nothing]),
            "end": np.concatenate([ends, nothing]),
        }.items():
            rows = rows.append_column(name, pa.array(values))
        return Found(Pool.of_table(self._view, rows), self._report(best, len(logged)))

    def _scoring_columns(self, rows: Places) -> pa.Table:
        memories = self._rows.memories
        born = ("chunk_id", "created_at", "event_time")
        read = payload(self._view.dataset, memories.columns[ROW_ID][rows], born)
        held = {
            "last_accessed_at": pa.array(self._rows.last_access(rows)).cast(INSTANT),
            "importance_score": pa.array(memories.columns["importance"][rows]),
            "folded_through": pa.array(memories.columns["folded"][rows]).cast(pa.uint64()),
        }
        for name, column in held.items():
            read = read.append_column(name, column)
        return read.select([*SCORING_COLUMNS, "_rowid"])

    def _report(self, best: TopK, logged: int) -> SearchReport:
        # Nobody knows yet how well the words of what is only logged match.
        known = self._question.words is None or not logged
        used = self._distances.indexes.values()
        recalls = [one.recall for one in used if one.recall is not None]
        return SearchReport(
            exact=known and not used,
            bound_held=known,
            scored=best.scored + logged,
            listed=best.lengths,
            widened=best.widened,
            index=", ".join(sorted({one.name for one in used})),
            index_kind=", ".join(sorted({one.kind for one in used})),
            index_recall=min(recalls) if recalls and len(recalls) == len(used) else None,
        )


class _Heaviest:
    """The heaviest of the rows that may be found, those before all that are in no order yet."""

    def __init__(self, rows: WeightedRows, question: Question, admitted: Admitted) -> None:
        order = rows.order(question.scoring, question.now)
        kept = admitted.are(order.places)
        self._places, self._bounds = order.places[kept], order.weights[kept]
        self._rest = order.rest
        unordered = rows.unordered(order)
        self._unordered = unordered[admitted.are(unordered)]
        self._too_many = rows.memories.count + 1

    def listed(self, length: int) -> Listed:
        """Return so many of the heaviest, as far as they are in order, and all that are not."""
        places = np.union1d(self._places[:length], self._unordered)
        behind = self._bounds[length : length + 1]
        reach = float(behind[0]) if len(behind) else self._rest
        return Listed(places, np.empty(0), reach)

    def heavier(self, weight: float) -> int:
        """Return how many rows in order may have at least a weight."""
        if weight <= self._rest:
            return self._too_many
        return int(np.searchsorted(-self._bounds, -weight, side="right"))


class _Words:
    """The rows that match the query's words best, and how well given ones do."""

    def __init__(
        self, view: ReadView, question: Question, *, where: Predicate, admitted: Admitted
    ) -> None:
        self._view, self._question = view, question
        self._rows, self._admitted = admitted.rows, admitted
        # Where the index lacks no rows, what they score does not depend on the filter.
        wide = admitted.is_wide(view.dataset) and not unindexed(view.dataset)
        self._where = TRUE if wide else where
        # What is known, by place, and whether nobody else has any of the words.
        self._places, self._bm25 = np.empty(0, np.int64), np.empty(0)
        self._is_complete = True

    def listed(self, length: int) -> Listed:
        """Return about so many of the best matches."""
        text, policy = self._question.words, self._question.scoring
        if text is None:
            return Listed(np.empty(0, np.int64), np.empty(0), 0.0)
        found = best_by_words(self._view.dataset, text, self._where, limit=length)
        places = self._rows.memories.places(found.row_ids)
        kept = self._admitted.are(places)
        self._places, self._bm25 = np.empty(0, np.int64), np.empty(0)
        self._note(places[kept], found.bm25[kept])
        self._is_complete = found.complete
        reach = policy.lexical_part(np.array(found.bound))
        return Listed(places[kept], policy.lexical_part(found.bm25[kept]), float(reach))

    def bm25(self, places: Places) -> Floats:
        """Return the BM25 of rows exactly, 0 for those that have none of the words."""
        if not self._is_complete:
            new = np.setdiff1d(places, self._places)
            row_ids = self._rows.memories.columns[ROW_ID][new]
            if len(new):
                text = self._question.words or ""
                found = bm25_of(self._view.dataset, text, self._where, row_ids)
                self._note(new, found.of(row_ids))
        if not len(self._places):
            return np.zeros(len(places))
        at = np.minimum(np.searchsorted(self._places, places), len(self._places) - 1)
        return np.where(self._places[at] == places, self._bm25[at], 0.0)

    def _note(self, places: Places, bm25: Floats) -> None:
        both = np.concatenate([self._places, places])
        order = np.argsort(both)
        self._places, self._bm25 = both[order], np.concatenate([self._bm25, bm25])[order]


def _row_ids(view: ReadView, where: Predicate) -> NDArray[np.uint64]:
    """Return the rows that pass a filter."""
    found = read_rows(view.dataset, (), where, with_row_id=True)
    row_ids: NDArray[np.uint64] = found["_rowid"].to_numpy()
    return row_ids
