"""Recall's candidates from scopes held in memory: every row is scored, and the best are listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats, ScoringPolicy, days_between, score
from ailake.core.filters import TRUE, Predicate
from ailake.core.records import Scope, SearchReport
from ailake.core.reranking import Reranker
from ailake.core.schema import INSTANT
from ailake.storage.held import HeldRows
from ailake.storage.lexical import Lexical, best_by_words, bm25_of
from ailake.storage.search import Found, logged_rows
from ailake.storage.table import read_rows
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


class Mode(StrEnum):
    """What counts as evidence of what a memory is about.

    ``hybrid``: vectors, words, neighbours and speakers; ``vector``: vectors alone; ``text``: words
    alone.
    """

    HYBRID = "hybrid"
    VECTOR = "vector"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, and how rows are scored.

    Attributes:
        vector: The query, float32 (dim,); empty in mode text.
        text: The query as text, None where it is a vector or only that counts.
        mode: What counts.
        scopes: Where to look.
        asked: The caller's own filter.
        visible: That filter within the scopes, over what recall sees.
        wall: The scopes alone, as a filter.
        scoring: The policy that weighs age and importance.
        max_distance: Leave out what is farther, None for no bound.
        now: The instant from which ages are counted, nanoseconds since 1970.
        reranker: Reads the best of stage one, None for no reranker.
    """

    vector: NDArray[np.float32]
    text: str | None
    mode: Mode
    scopes: Sequence[Scope]
    asked: Predicate
    visible: Predicate
    wall: Predicate
    scoring: ScoringPolicy
    max_distance: float | None
    now: int
    reranker: Reranker | None = None

    @property
    def words(self) -> str | None:
        """The text, where shared words are evidence."""
        return self.text if self.scoring.lexical_weight > 0 else None

    @property
    def looks_around(self) -> bool:
        """Whether what stands around a memory counts, and not only its own content."""
        return self.mode is Mode.HYBRID and self.text is not None and self.scoring.has_stage_two

    @property
    def has_stage_two(self) -> bool:
        """Whether the best of stage one are looked at again."""
        return self.looks_around or self.reranker is not None


def scan_held(view: ReadView, question: Question, *, limit: int) -> Found | None:
    """Score every row of the scopes; None where one of them is too large to be held.

    At least the best ``limit`` rows by score are listed, all that tie with the last of them, and
    all that is only logged.
    """
    held = view.held.rows(question.scopes, view.dataset, view.passages, view.entries)
    if held is None:
        return None
    allowed = None
    if question.asked != TRUE:
        found = read_rows(view.dataset, (), question.visible, with_row_id=True)
        allowed = found["_rowid"].to_numpy()
    scored = [_scored(rows, question, allowed) for rows in held]
    words = _words(view, question, scored, limit=limit)
    logged = _logged(view, question)
    for name in ("start", "end"):
        logged = logged.append_column(name, pa.repeat(-1, len(logged)))
    tables = [one.table(one.best(words, question, limit=limit), words) for one in scored]
    counts = [one.count for one in scored] + [len(logged)]
    # Nobody knows yet how well the words of what is only logged match.
    known = question.words is None or not view.logged_places(question.visible)
    report = SearchReport(
        exact=known,
        bound_held=known,
        scored=sum(counts),
        listed={"nearest": sum(counts), "words": 0 if words is None else len(words.row_ids)},
    )
    logged = logged.append_column("_bm25", pa.array(np.zeros(len(logged))))
    return Found(pa.concat_tables([*tables, logged]), report)


def _logged(view: ReadView, question: Question) -> pa.Table:
    if question.mode is Mode.TEXT:
        return _SCHEMA.empty_table()
    return logged_rows(view, question.vector, question.visible, _SCHEMA)


def _words(
    view: ReadView, question: Question, scored: Sequence["_Scored"], *, limit: int
) -> Lexical | None:
    """Return the matches of the query's words that decide which rows are the best."""
    if question.words is None:
        return None
    size = None if sum(one.count for one in scored) <= _FEW else max(_FEW, limit)
    found = best_by_words(view.dataset, question.words, question.visible, limit=size)
    if found.complete:
        return found
    doubtful = np.concatenate([one.doubtful(found, question, limit=limit) for one in scored])
    if len(doubtful) > _FEW:
        return best_by_words(view.dataset, question.words, question.visible, limit=None)
    more = bm25_of(view.dataset, question.words, question.visible, doubtful)
    return found.joined(more)


@dataclass(frozen=True, slots=True)
class _Scored:
    """All rows of a scope: whether each may be a hit, how far it is and what it weighs."""

    rows: HeldRows
    count: int
    seen: NDArray[np.bool_]
    distance: Floats
    weight: Floats
    passages: "_Passages"

    def scores(self, bm25: Floats | float, question: Question) -> Floats:
        """Return the scores with so much lexical evidence, infinite for what is not seen."""
        lexical = question.scoring.lexical_part(np.asarray(bm25, np.float64))
        seen = self.seen
        if question.mode is Mode.TEXT:
            seen = seen & (lexical > 0)
        return np.where(seen, score(self.distance - lexical, self.weight), np.inf)

    def bm25(self, words: Lexical | None) -> Floats:
        row_ids = self.rows.memories.column("row_id")
        return np.zeros(len(row_ids)) if words is None else words.of(row_ids)

    def best(self, words: Lexical | None, question: Question, *, limit: int) -> NDArray[np.intp]:
        """Return the places of the best."""
        return _lowest(self.scores(self.bm25(words), question), limit)

    def doubtful(self, words: Lexical, question: Question, *, limit: int) -> NDArray[np.uint64]:
        """Return the rows that would be among the best with as many words as an unlisted may have.

        Without them, no unlisted row can be: the last of the best is strictly better than what it
        could score at most.
        """
        bm25 = self.bm25(words)
        known = self.scores(bm25, question)
        last = np.partition(known, limit - 1)[limit - 1] if len(known) > limit else np.inf
        possible = self.scores(words.bound, question)
        doubt = self.seen & (bm25 == 0) & (possible <= last)
        return np.asarray(self.rows.memories.column("row_id")[doubt])

    def table(self, best: NDArray[np.intp], words: Lexical | None) -> pa.Table:
        found = _table(self.rows, self.passages, self.distance, best)
        bm25 = self.bm25(words)[best]
        return found.append_column("_bm25", pa.array(bm25))


def _scored(rows: HeldRows, question: Question, allowed: NDArray[np.uint64] | None) -> _Scored:
    memories = rows.memories
    seen = memories.alive & (memories.column("expires") > question.now)
    if allowed is not None:
        seen &= np.isin(memories.column("row_id"), allowed)
    distance, passages = _distances(rows, question)
    count = int(seen.sum())
    if question.max_distance is not None:
        seen = seen & (distance <= question.max_distance)
    days = days_between(memories.column("last"), question.now)
    weight = question.scoring.recency_part(days) * question.scoring.importance_part(
        memories.column("importance")
    )
    return _Scored(rows, count, seen, distance, weight, passages)


def _lowest(scores: Floats, limit: int) -> NDArray[np.intp]:
    """Return the places of the lowest finite scores, all that tie with the last included."""
    if len(scores) > limit:
        bound = np.partition(scores, limit - 1)[limit - 1]
        places = np.flatnonzero(scores <= bound)
        return places[np.isfinite(scores[places])]
    return np.flatnonzero(np.isfinite(scores))


@dataclass(frozen=True, slots=True)
class _Passages:
    places: NDArray[np.intp]
    distance: Floats


def _distances(rows: HeldRows, question: Question) -> tuple[Floats, _Passages]:
    """Return how far each memory is, and each passage; 1 and none where no vector counts."""
    if question.mode is Mode.TEXT:
        return np.ones(rows.memories.count), _Passages(np.empty(0, np.intp), np.empty(0))
    distance = rows.memories.distances(question.vector)
    passages = _passage_distances(rows, question.vector)
    np.minimum.at(distance, rows.owners[passages.places], passages.distance)
    return distance, passages


def _passage_distances(rows: HeldRows, vector: NDArray[np.float32]) -> _Passages:
    if not rows.passages.count:
        return _Passages(np.empty(0, np.intp), np.empty(0, np.float64))
    places = np.flatnonzero(rows.passages.alive & (rows.owners >= 0))
    return _Passages(places, rows.passages.distances(vector)[places])


def _table(
    rows: HeldRows, passages: _Passages, distance: Floats, best: NDArray[np.intp]
) -> pa.Table:
    memories = rows.memories
    born = pa.array(memories.column("born")[best]).cast(INSTANT)
    columns = {
        "chunk_id": pa.array([memories.ids[place] for place in best], pa.string()),
        "created_at": born,
        "event_time": born,
        "last_accessed_at": pa.array(memories.column("last")[best]).cast(INSTANT),
        "importance_score": pa.array(memories.column("importance")[best], pa.float32()),
        "folded_through": pa.array(memories.column("folded")[best]).cast(pa.uint64()),
        "_distance": pa.array(distance[best]),
        "_rowid": pa.array(memories.column("row_id")[best]),
    }
    spans = np.full((2, len(best)), -1, np.int64)
    at = {int(place): index for index, place in enumerate(best)}
    among = np.flatnonzero(np.isin(rows.owners[passages.places], best))
    for one in among[np.argsort(-passages.distance[among], kind="stable")]:
        passage = passages.places[one]
        index = at[int(rows.owners[passage])]
        if passages.distance[one] <= distance[best[index]]:
            spans[:, index] = [rows.passages.columns[name][passage] for name in ("start", "end")]
    return (
        pa.table(columns, schema=_SCHEMA)
        .append_column("start", pa.array(spans[0]))
        .append_column("end", pa.array(spans[1]))
    )
