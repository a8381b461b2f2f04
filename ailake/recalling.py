"""Recall, stage one: candidates from the store, exact scores over them, payload of the winners."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ailake.core.accesses import Pending, pending_of_rows, with_pending
from ailake.core.episodic import Floats, ScoringPolicy, days_between, decay, rank, score
from ailake.core.records import Hit, MemoryRecord
from ailake.core.rows import RECORD_COLUMNS, born_at, last_access, record_of
from ailake.hits import PARTS, Hits
from ailake.storage.passages import with_passages
from ailake.storage.scan import Question, scan_held
from ailake.storage.search import Nearest, nearest
from ailake.storage.view import ReadView

# Wide, because the nearest few are not the best under decay: of 100,000 memories aged over a
# year, the nearest 1,000 hold .60 of the true top 10 at the weekly rate without a floor.
MIN_POOL = 1_000
POOL_FACTOR = 20


@dataclass(frozen=True, slots=True)
class _Scored:
    distance: Floats
    recency: Floats
    recency_part: Floats
    importance: Floats
    importance_part: Floats
    weight: Floats
    score: Floats


def recall(view: ReadView, question: Question, *, limit: int, exact: bool) -> Hits:
    """Return the best memories.

    Args:
        view: The state of the memories to recall from.
        question: What is looked for.
        limit: Number of hits.
        exact: Leave the approximate index alone.
    """
    question = replace(question, visible=view.resolved(question.visible))
    found, scored_rows = _candidates(view, question, limit=limit, exact=exact)
    rows = found.columns
    ids = rows["chunk_id"].to_pylist()
    pending = pending_of_rows(view.entries, ids, rows["folded_through"].to_pylist())
    scored = _scores(rows, pending, question.scoring, question.now)
    order = rank(scored.score, scored.weight, born_at(rows), ids)
    if question.max_distance is not None:
        order = order[scored.distance[order] <= question.max_distance]
    winners = order[:limit]
    row_ids = rows["_rowid"].to_numpy()[winners]
    places = {ids[place]: int(place) for place in winners}
    starts, ends = rows["start"].to_pylist(), rows["end"].to_pylist()
    hits = []
    for row in view.rows_at(row_ids, RECORD_COLUMNS):
        record = with_pending(record_of(row), pending.get(row["chunk_id"]))
        place = places[record.id]
        start, end = starts[place], ends[place]
        passage = record.text if start < 0 else record.text[start:end]
        hits.append(_hit(record, scored, place, passage=passage))
    return Hits(tuple(hits), exact=found.complete and found.true_distances, scored=scored_rows)


def _candidates(
    view: ReadView, question: Question, *, limit: int, exact: bool
) -> tuple[Nearest, int]:
    scanned = scan_held(view, question, limit=limit)
    if scanned is not None:
        return scanned.nearest, scanned.scored
    pool = max(MIN_POOL, POOL_FACTOR * limit)
    found = nearest(view, question.vector, question.visible, limit=pool, exact=exact)
    best = with_passages(
        view,
        question.vector,
        question.visible,
        found,
        wall=question.wall,
        limit=pool,
        exact=exact,
    )
    return best, best.columns.num_rows


def _scores(
    rows: pa.Table, pending: Mapping[str, Pending], policy: ScoringPolicy, now: int
) -> _Scored:
    accessed = last_access(rows).copy()
    if pending:
        for place, memory_id in enumerate(rows["chunk_id"].to_pylist()):
            if memory_id in pending:
                accessed[place] = max(accessed[place], pending[memory_id].last_accessed_at)
    days = days_between(accessed, now)
    distance = np.maximum(rows["_distance"].to_numpy().astype(np.float64), 0.0)
    importance = rows["importance_score"].to_numpy().astype(np.float64)
    part = policy.recency_part(days)
    importance_part = policy.importance_part(importance)
    weight = part * importance_part
    return _Scored(
        distance=distance,
        recency=decay(days, policy.recency),
        recency_part=part,
        importance=importance,
        importance_part=importance_part,
        weight=weight,
        score=score(distance, weight),
    )


def _hit(record: MemoryRecord, scored: _Scored, place: int, *, passage: str) -> Hit:
    parts = {name: float(getattr(scored, name)[place]) for name in PARTS}
    fields = {name: getattr(record, name) for name in MemoryRecord.__dataclass_fields__}
    live = {**fields, "recency_weight": parts["recency"]}
    return Hit(
        **live, passage=passage, score=parts["score"], distance=parts["distance"], parts=parts
    )
