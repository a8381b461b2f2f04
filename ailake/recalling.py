"""Recall: candidates from the store, exact scores over them, stage two, payload of the winners."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import Pending, pending_of_rows, with_pending
from ailake.core.dates import date_evidence
from ailake.core.episodic import Floats, ScoringPolicy, days_between, decay, rank, score
from ailake.core.evidence import (
    brevity,
    final_scores,
    neighbour_evidence,
    pool_size,
    speaker_evidence,
)
from ailake.core.records import Hit, MemoryRecord, SearchReport
from ailake.core.rows import RECORD_COLUMNS, born_at, last_access, record_of
from ailake.errors import InvalidInputError
from ailake.hits import PARTS, Hits
from ailake.storage.lexical import best_by_words, bm25_of, has_text_index
from ailake.storage.passages import with_passages
from ailake.storage.scan import Mode, Question, scan_held
from ailake.storage.search import SCORING_COLUMNS, Found, nearest
from ailake.storage.turns import turns_of
from ailake.storage.view import FIRST_LOGGED, ReadView

# Wide, because the nearest few are not the best under decay: of 100,000 memories aged over a
# year, the nearest 1,000 hold .60 of the true top 10 at the weekly rate without a floor.
MIN_POOL = 1_000
POOL_FACTOR = 20

# A list of words that proves too short is made so much longer.
_WIDENING = 4


@dataclass(frozen=True, slots=True)
class _Scored:
    distance: Floats
    lexical: Floats
    neighbour: Floats
    speaker: Floats
    date: Floats
    brevity: Floats
    near: Floats
    recency: Floats
    recency_part: Floats
    importance: Floats
    importance_part: Floats
    weight: Floats
    proven_score: Floats
    score: Floats


def recall(view: ReadView, question: Question, *, limit: int, exact: bool) -> Hits:
    """Return the best memories.

    Args:
        view: The state of the memories to recall from.
        question: What is looked for.
        limit: Number of hits.
        exact: Leave the approximate index alone.
    """
    question = replace(_without_index(view, question), visible=view.resolved(question.visible))
    size = pool_size(limit) if question.has_stage_two else limit
    found = _candidates(view, question, limit=size, exact=exact)
    rows = found.columns
    ids = rows["chunk_id"].to_pylist()
    pending = pending_of_rows(view.entries, ids, rows["folded_through"].to_pylist())
    scored = _stage_one(rows, pending, question.scoring, question.now)
    order = _ranked(scored, rows, question)[:size]
    if question.has_stage_two:
        row_ids = rows["_rowid"].to_numpy()
        scored = _stage_two(view, question, scored, row_ids=row_ids, pool=order)
        order = order[_order(scored, rows, order)]
    winners = order[:limit]
    return Hits(
        tuple(_hits(view, rows, scored, pending, winners=winners)),
        exact=found.report.exact,
        scored=found.report.scored,
        report=found.report,
    )


def _without_index(view: ReadView, question: Question) -> Question:
    """Leave words out of a hybrid recall from a version that has no text index.

    Raises:
        InvalidInputError: Nothing but words was asked for.
    """
    if question.words is None or has_text_index(view.dataset):
        return question
    if question.mode is Mode.TEXT:
        raise InvalidInputError(
            "mode: this version of the lake has no text index; use mode='vector', or run ailake "
            "index for the versions to come"
        )
    return replace(question, scoring=replace(question.scoring, lexical_weight=0.0))


def _candidates(view: ReadView, question: Question, *, limit: int, exact: bool) -> Found:
    if question.mode is Mode.TEXT:
        return _by_words(view, question, limit=limit)
    held = scan_held(view, question, limit=limit)
    return held or _listed(view, question, limit=limit, exact=exact)


def _listed(view: ReadView, question: Question, *, limit: int, exact: bool) -> Found:
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
    rows = best.columns
    row_ids = rows["_rowid"].to_numpy()
    bm25 = np.zeros(len(row_ids))
    if question.words is not None:
        bm25 = bm25_of(view.dataset, question.words, row_ids[row_ids < FIRST_LOGGED]).of(row_ids)
    proven = best.complete and (question.words is None or not view.logged)
    report = SearchReport(
        exact=proven and best.true_distances,
        bound_held=proven,
        scored=len(row_ids),
        listed={"nearest": len(row_ids)},
    )
    return Found(rows.append_column("_bm25", pa.array(bm25)), report)


def _by_words(view: ReadView, question: Question, *, limit: int) -> Found:
    """Return the best of those that have any of the words, without a look at vectors."""
    text = question.text or ""
    size, widened = max(MIN_POOL, limit), 0
    while True:
        words = best_by_words(
            view.dataset, text, question.visible, limit=size, columns=SCORING_COLUMNS
        )
        rows = words.columns.append_column("_distance", pa.array(np.ones(len(words.row_ids))))
        rows = rows.append_column("_bm25", pa.array(words.bm25))
        for name in ("start", "end"):
            rows = rows.append_column(name, pa.repeat(-1, len(words.row_ids)))
        if words.complete or _is_proven(view, rows, words.bound, question, limit=limit):
            break
        size, widened = size * _WIDENING, widened + 1
    known = not view.logged_places(question.visible)
    report = SearchReport(
        exact=known,
        bound_held=known,
        scored=rows.num_rows,
        listed={"words": rows.num_rows},
        widened=("words",) * widened,
    )
    return Found(rows, report)


def _is_proven(
    view: ReadView, rows: pa.Table, bound: float, question: Question, *, limit: int
) -> bool:
    """Tell whether no memory with at most ``bound`` of BM25 can be among the best.

    It would score at least ``1 - lexical_part(bound)``: no weight is above 1.
    """
    ids, folded = rows["chunk_id"].to_pylist(), rows["folded_through"].to_pylist()
    pending = pending_of_rows(view.entries, ids, folded)
    scored = _stage_one(rows, pending, question.scoring, question.now)
    if len(scored.score) < limit:
        return False
    last = np.partition(scored.score, limit - 1)[limit - 1]
    return bool(last < 1.0 - question.scoring.lexical_part(np.array(bound)))


def _ranked(scored: _Scored, rows: pa.Table, question: Question) -> NDArray[np.intp]:
    order = _order(scored, rows, np.arange(rows.num_rows))
    if question.max_distance is not None:
        order = order[scored.distance[order] <= question.max_distance]
    return order


def _order(scored: _Scored, rows: pa.Table, places: NDArray[np.intp]) -> NDArray[np.intp]:
    ids = rows["chunk_id"].to_numpy(zero_copy_only=False)
    return rank(scored.score[places], scored.weight[places], born_at(rows)[places], ids[places])


def _stage_one(
    rows: pa.Table, pending: Mapping[str, Pending], policy: ScoringPolicy, now: int
) -> _Scored:
    accessed = last_access(rows).copy()
    if pending:
        for place, memory_id in enumerate(rows["chunk_id"].to_pylist()):
            if memory_id in pending:
                accessed[place] = max(accessed[place], pending[memory_id].last_accessed_at)
    days = days_between(accessed, now)
    distance = np.maximum(rows["_distance"].to_numpy().astype(np.float64), 0.0)
    lexical = policy.lexical_part(rows["_bm25"].to_numpy())
    importance = rows["importance_score"].to_numpy().astype(np.float64)
    part = policy.recency_part(days)
    importance_part = policy.importance_part(importance)
    near = np.maximum(distance - lexical, 0.0)
    proven = score(near, part * importance_part)
    return _Scored(
        distance=distance,
        lexical=lexical,
        neighbour=np.zeros(len(distance)),
        speaker=np.zeros(len(distance)),
        date=np.zeros(len(distance)),
        brevity=np.zeros(len(distance)),
        near=near,
        recency=decay(days, policy.recency),
        recency_part=part,
        importance=importance,
        importance_part=importance_part,
        weight=part * importance_part,
        proven_score=proven,
        score=proven,
    )


def _stage_two(
    view: ReadView,
    question: Question,
    scored: _Scored,
    *,
    row_ids: NDArray[np.uint64],
    pool: NDArray[np.intp],
) -> _Scored:
    """Return the scores with the evidence of stage two for the best, ``pool``."""
    policy = question.scoring
    turns = turns_of(view, question.wall, row_ids[pool])
    near = scored.distance[pool] - scored.lexical[pool]
    neighbour = policy.neighbour_weight * neighbour_evidence(near, turns)
    text = question.text or ""
    speaker = policy.speaker_weight * speaker_evidence(text, turns.speakers)
    dated = policy.date_weight * date_evidence(text, turns.days)
    brief = policy.brevity_weight * brevity(turns.lengths)
    near = near - neighbour - speaker - dated + brief
    parts = {
        "neighbour": neighbour,
        "speaker": speaker,
        "date": dated,
        "brevity": brief,
        "near": near,
        "score": final_scores(near, scored.weight[pool]),
    }
    return replace(
        scored, **{name: _put(getattr(scored, name), pool, part) for name, part in parts.items()}
    )


def _put(values: Floats, places: NDArray[np.intp], new: Floats) -> Floats:
    changed = values.copy()
    changed[places] = new
    return changed


def _hits(
    view: ReadView,
    rows: pa.Table,
    scored: _Scored,
    pending: Mapping[str, Pending],
    *,
    winners: NDArray[np.intp],
) -> Iterator[Hit]:
    best = rows.take(pa.array(winners))
    placed = zip(winners.tolist(), best["start"].to_pylist(), best["end"].to_pylist(), strict=True)
    spans = dict(zip(best["chunk_id"].to_pylist(), placed, strict=True))
    for row in view.rows_at(best["_rowid"].to_numpy(), RECORD_COLUMNS):
        record = with_pending(record_of(row), pending.get(row["chunk_id"]))
        place, start, end = spans[record.id]
        passage = record.text if start < 0 else record.text[start:end]
        yield _hit(record, scored, place, passage=passage)


def _hit(record: MemoryRecord, scored: _Scored, place: int, *, passage: str) -> Hit:
    parts = {name: float(getattr(scored, name)[place]) for name in PARTS}
    fields = {name: getattr(record, name) for name in MemoryRecord.__dataclass_fields__}
    live = {**fields, "recency_weight": parts["recency"]}
    return Hit(
        **live, passage=passage, score=parts["score"], distance=parts["distance"], parts=parts
    )
