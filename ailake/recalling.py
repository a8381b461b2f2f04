"""Recall: candidates from the store, exact scores over them, stage two, payload of the winners."""

from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa

from ailake.core.accesses import fields_with_pending, pending_of_rows
from ailake.core.evidence import Places, pool_size
from ailake.core.records import Hit, SearchReport
from ailake.core.reranking import relevance_of
from ailake.errors import InvalidInputError
from ailake.hits import PARTS, Hits
from ailake.stages import LookedAt, Scored, reranked, stage_one, stage_two
from ailake.storage.indexes import text_index
from ailake.storage.led import led_to, with_led
from ailake.storage.lexical import best_by_words
from ailake.storage.lists import search_lists
from ailake.storage.pool import Found, Pool
from ailake.storage.question import Mode, Question
from ailake.storage.scan import scan_held
from ailake.storage.search import SCORING_COLUMNS
from ailake.storage.turns import turns_of
from ailake.storage.view import ReadView
from ailake.telemetry import Told, Value

# A list of words begins at this length, and is made so much longer where it proves too short.
_FIRST = 1_000
_WIDENING = 4


def recall(view: ReadView, question: Question, *, limit: int, exact: bool) -> Hits:
    """Return the best memories.

    Args:
        view: The state of the memories to recall from.
        question: What is looked for.
        limit: Number of hits.
        exact: Leave the approximate index alone.
    """
    question = _without_index(view, question)
    size = pool_size(limit) if question.has_stage_two else limit
    found = _candidates(view, question, limit=size, exact=exact)
    led = led_to(view, question, limit=size)
    found = with_led(view, question, found, led)
    pool = found.pool
    scored = stage_one(pool, question.scoring, question.now)
    order = scored.order(pool, np.arange(len(pool.ids)))
    if question.max_distance is not None:
        order = order[scored.distance[order] <= question.max_distance]
    looked_at = LookedAt.of(pool, order, led, size=size)
    order = looked_at.places
    if question.looks_around:
        turns = turns_of(view, question.wall, pool, order)
        scored = stage_two(scored, looked_at, turns, question)
        order = scored.order(pool, order)[:size]
    if question.reranker is not None:
        texts = _texts(pool, order)
        relevance = relevance_of(question.reranker, question.text or "", texts)
        scored = reranked(scored, order, relevance)
        order = scored.order(pool, order)
    return Hits(tuple(_hits(view, pool, scored, order[:limit])), found.report)


def told(hits: Hits, given: Mapping[str, Any]) -> Told:
    """Return what telemetry is told of a recall.

    Args:
        hits: Its hits.
        given: The keyword arguments of ``recall``.
    """
    report = hits.report
    labels: dict[str, Value] = {
        "ailake.mode": str(given.get("mode", Mode.HYBRID)),
        "ailake.exact": report.exact,
        "ailake.index": report.index_kind,
    }
    attributes = {
        "ailake.hits": len(hits),
        "ailake.scored": report.scored,
        "ailake.bound_held": report.bound_held,
        "ailake.counted": hits.counted,
    }
    return Told(labels, attributes)


def _texts(pool: Pool, places: Places) -> list[str]:
    """Return what is read of some memories: the nearest passage of a long one, else the text."""
    found = zip(pool.fields(places.tolist()), pool.spans[:, places].T.tolist(), strict=True)
    return [_passage(fields["text"], start, end) for fields, (start, end) in found]


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
    return search_lists(view, question, limit=limit, exact=exact)


def _by_words(view: ReadView, question: Question, *, limit: int) -> Found:
    """Return the best of those that have any of the words, without a look at vectors."""
    text, where = question.text or "", question.visible(view)
    size, widened = max(_FIRST, limit), 0
    while True:
        words = best_by_words(view.dataset, text, where, limit=size, columns=SCORING_COLUMNS)
        rows = words.columns.append_column("_distance", pa.array(np.ones(len(words.row_ids))))
        rows = rows.append_column("_bm25", pa.array(words.bm25))
        for name in ("start", "end"):
            rows = rows.append_column(name, pa.repeat(-1, len(words.row_ids)))
        pool = Pool.of_table(view, rows)
        if words.complete or _is_proven(pool, words.bound, question, limit=limit):
            break
        size, widened = size * _WIDENING, widened + 1
    known = not view.logged_places(where)
    report = SearchReport(
        exact=known,
        bound_held=known,
        scored=len(pool.ids),
        listed={"words": len(pool.ids)},
        widened=("words",) * widened,
    )
    return Found(pool, report)


def _is_proven(pool: Pool, bound: float, question: Question, *, limit: int) -> bool:
    """Tell whether no memory with at most ``bound`` of BM25 can be among the best.

    It would score at least ``1 - lexical_part(bound)``: no weight is above 1.
    """
    scored = stage_one(pool, question.scoring, question.now)
    if len(scored.score) < limit:
        return False
    last = np.partition(scored.score, limit - 1)[limit - 1]
    return bool(last < 1.0 - question.scoring.lexical_part(np.array(bound)))


def _hits(view: ReadView, pool: Pool, scored: Scored, winners: Places) -> list[Hit]:
    places = winners.tolist()
    ids = [pool.ids[place] for place in places]
    pending = pending_of_rows(view.entries, ids, pool.folded[winners].tolist())
    values = zip(*(getattr(scored, name)[winners].tolist() for name in PARTS), strict=True)
    spans = pool.spans[:, winners].T.tolist()
    hits = []
    for fields, numbers, (start, end) in zip(pool.fields(places), values, spans, strict=True):
        live = fields_with_pending(fields, pending.get(fields["id"]))
        parts = dict(zip(PARTS, numbers, strict=True))
        if isnan(parts["relevance"]):
            del parts["relevance"]
        live["recency_weight"] = parts["recency"]
        hits.append(
            Hit(
                **live,
                passage=_passage(live["text"], start, end),
                score=parts["score"],
                distance=parts["distance"],
                parts=parts,
            )
        )
    return hits


def _passage(text: str, start: int, end: int) -> str:
    """Return a passage of a text; all of it where ``start`` is -1."""
    return text if start < 0 else text[start:end]
