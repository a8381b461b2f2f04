"""Recall's candidates from scopes held in memory: every row is scored, and the best are listed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.episodic import Floats, ScoringPolicy, days_between, score
from ailake.core.filters import TRUE, Predicate
from ailake.core.records import Scope
from ailake.core.schema import INSTANT
from ailake.storage.held import HeldRows
from ailake.storage.search import Nearest, logged_rows
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


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, and how rows are scored.

    Attributes:
        vector: The query, float32 (dim,).
        scopes: Where to look.
        asked: The caller's own filter.
        visible: That filter within the scopes, over what recall sees.
        wall: The scopes alone, as a filter.
        scoring: The policy that weighs age and importance.
        max_distance: Leave out what is farther, None for no bound.
        now: The instant from which ages are counted, nanoseconds since 1970.
    """

    vector: NDArray[np.float32]
    scopes: Sequence[Scope]
    asked: Predicate
    visible: Predicate
    wall: Predicate
    scoring: ScoringPolicy
    max_distance: float | None
    now: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a full scan found.

    Attributes:
        nearest: At least the best ``limit`` rows by score, with ``start`` and ``end`` of their
            passages, and all that is only logged.
        scored: Rows that were scored.
    """

    nearest: Nearest
    scored: int


def scan_held(view: ReadView, question: Question, *, limit: int) -> Scanned | None:
    """Score every row of the scopes; None where one of them is too large to be held."""
    held = view.held.rows(question.scopes, view.dataset, view.passages, view.entries)
    if held is None:
        return None
    allowed = None
    if question.asked != TRUE:
        found = read_rows(view.dataset, (), question.visible, with_row_id=True)
        allowed = found["_rowid"].to_numpy()
    parts = [_best(rows, question, allowed, limit=limit) for rows in held]
    logged = logged_rows(view, question.vector, question.visible, _SCHEMA)
    logged = logged.append_column("start", pa.repeat(-1, len(logged)))
    tables = [found for found, _ in parts] + [
        logged.append_column("end", pa.repeat(-1, len(logged)))
    ]
    scored = sum(count for _, count in parts) + len(logged)
    return Scanned(Nearest(pa.concat_tables(tables), complete=True, true_distances=True), scored)


def _best(
    rows: HeldRows, question: Question, allowed: NDArray[np.uint64] | None, *, limit: int
) -> tuple[pa.Table, int]:
    memories = rows.memories
    seen = memories.alive & (memories.column("expires") > question.now)
    if allowed is not None:
        seen &= np.isin(memories.column("row_id"), allowed)
    distance = memories.distances(question.vector)
    passages = _passage_distances(rows, question.vector)
    np.minimum.at(distance, rows.owners[passages.places], passages.distance)
    days = days_between(memories.column("last"), question.now)
    weight = question.scoring.recency_part(days) * question.scoring.importance_part(
        memories.column("importance")
    )
    scores = np.where(seen, score(distance, weight), np.inf)
    if question.max_distance is not None:
        scores[distance > question.max_distance] = np.inf
    best = _lowest(scores, limit)
    return _table(rows, passages, distance, best), int(seen.sum())


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
