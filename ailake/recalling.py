"""Recall: candidates from the store, exact scores over them, stage two, payload of the winners."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isnan

import numpy as np
import pyarrow as pa

from ailake.core.accesses import Pending, pending_of_rows, with_pending
from ailake.core.evidence import Places, pool_size
from ailake.core.records import Hit, MemoryRecord, SearchReport
from ailake.core.reranking import relevance_of
from ailake.core.rows import RECORD_COLUMNS, record_of
from ailake.errors import InvalidInputError
from ailake.hits import PARTS, Hits
from ailake.stages import Scored, reranked, stage_one, stage_two
from ailake.storage.indexes import text_index
from ailake.storage.lexical import best_by_words, bm25_of
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
    scored = stage_one(rows, pending, question.scoring, question.now)
    order = scored.order(rows, np.arange(rows.num_rows))
    if question.max_distance is not None:
        order = order[scored.distance[order] <= question.max_distance]
    order = order[:size]
    if question.looks_around:
        turns = turns_of(view, question.wall, rows["_rowid"].to_numpy()[order])
        scored = stage_two(scored, order, turns, question)
        order = scored.order(rows, order)
    if question.reranker is not None:
        texts = _texts(view, rows, order)
        relevance = relevance_of(question.reranker, question.text or "", texts)
        scored = reranked(scored, order, relevance)
        order = scored.order(rows, order)
    hits = _hits(view, rows, scored, pending, winners=order[:limit])
    return Hits(tuple(hits), found.report)


def _texts(view: ReadView, rows: pa.Table, places: Places) -> list[str]:
    """Return what is read of some memories: the nearest passage of a long one, else the text."""
    chosen = rows.take(pa.array(places))
    found = view.rows_at(chosen["_rowid"].to_numpy(), ("chunk_text",))
    spans = zip(chosen["start"].to_pylist(), chosen["end"].to_pylist(), strict=True)
    return [
        _passage(row["chunk_text"], start, end)
        for row, (start, end) in zip(found, spans, strict=True)
    ]


def _without_index(view: ReadView, question: Question) -> Question:
    """Leave words out of a hybrid recall from a version that has no text index.

    Raises:
        InvalidInputError: Nothing but words was asked for.
    """
    if question.words is None or text_index(view.dataset):
        return question
    if question.mode is Mode.TEXT:
        raise InvalidInputError(
            "mode: this version of the lake has no text index; use mode='vector', or run ailake "
            "index for the versions to come"
        )
    return replace(question, scoring=replace(question.scoring, lexical_weight=0.0))


def _candidates(view: ReadView, question: Question, *, limit: int, exact: bool) -> Found:
    held = scan_held(view, question, limit=limit)
    if held is not None:
        return held
    if question.mode is Mode.TEXT:
        return _by_words(view, question, limit=limit)
    return _listed(view, question, limit=limit, exact=exact)


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
        stored = row_ids[row_ids < FIRST_LOGGED]
        found_words = bm25_of(view.dataset, question.words, question.visible, stored)
        bm25 = found_words.of(row_ids)
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
    scored = stage_one(rows, pending, question.scoring, question.now)
    if len(scored.score) < limit:
        return False
    last = np.partition(scored.score, limit - 1)[limit - 1]
    return bool(last < 1.0 - question.scoring.lexical_part(np.array(bound)))


def _hits(
    view: ReadView,
    rows: pa.Table,
    scored: Scored,
    pending: Mapping[str, Pending],
    *,
    winners: Places,
) -> Iterator[Hit]:
    best = rows.take(pa.array(winners))
    placed = zip(winners.tolist(), best["start"].to_pylist(), best["end"].to_pylist(), strict=True)
    spans = dict(zip(best["chunk_id"].to_pylist(), placed, strict=True))
    for row in view.rows_at(best["_rowid"].to_numpy(), RECORD_COLUMNS):
        record = with_pending(record_of(row), pending.get(row["chunk_id"]))
        place, start, end = spans[record.id]
        yield _hit(record, scored, place, passage=_passage(record.text, start, end))


def _hit(record: MemoryRecord, scored: Scored, place: int, *, passage: str) -> Hit:
    parts = {name: scored.part_of(name, place) for name in PARTS}
    if isnan(parts["relevance"]):
        del parts["relevance"]
    fields = {name: getattr(record, name) for name in MemoryRecord.__dataclass_fields__}
    live = {**fields, "recency_weight": parts["recency"]}
    return Hit(
        **live, passage=passage, score=parts["score"], distance=parts["distance"], parts=parts
    )


def _passage(text: str, start: int, end: int) -> str:
    """Return a passage of a text; all of it where ``start`` is -1."""
    return text if start < 0 else text[start:end]
