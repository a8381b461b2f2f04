"""Entries of the graph as rows of the table ``mentions``."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from ailake.core.entities import EntityRef
from ailake.core.graph import IndexEntry
from ailake.core.graph_walk import ScopeGraph
from ailake.core.records import Scope
from ailake.core.rows import nanoseconds
from ailake.core.schema import INSTANT, SCOPE_COLUMNS


@dataclass(frozen=True, slots=True)
class FreshMentions:
    """What an entry adds to what is known of its fact.

    Attributes:
        entities: By their ids.
        text: Empty where the fact has one already.
    """

    fact_id: str
    entities: Mapping[str, EntityRef]
    text: str
    valid_from: datetime | None


def fresh_mentions(entries: Sequence[IndexEntry], known: ScopeGraph | None) -> list[FreshMentions]:
    """Return what a batch adds, in its order; entries that add no mention are left out.

    Args:
        entries: The batch, which sees itself.
        known: The mentions of their scope, None where it has none of these facts.
    """
    present: dict[str, set[str]] = {}
    told: set[str] = set()
    texts = {} if known is None else known.texts
    fresh: list[FreshMentions] = []
    # Most of a batch's mentions are of few entities, and an id is a hash.
    ids: dict[EntityRef, str] = {}
    for entry in entries:
        had = present.get(entry.fact_id)
        if had is None:
            had = set() if known is None else set(known.entities_of(entry.fact_id))
            present[entry.fact_id] = had
        named = {ids.get(ref) or ids.setdefault(ref, ref.id): ref for ref in entry.refs}
        news = {one: ref for one, ref in named.items() if one not in had}
        if news:
            is_told = entry.fact_id in told or entry.fact_id in texts
            text = "" if is_told else entry.text
            fresh.append(FreshMentions(entry.fact_id, news, text, entry.valid_from))
            had.update(news)
            if text:
                told.add(entry.fact_id)
    return fresh


def mention_rows(
    scope: Scope, fresh: Sequence[FreshMentions], *, recorded_at: datetime
) -> pa.Table:
    """Return a row per mention; a fact's text stands in the first of an entry's."""
    counts = np.array([len(one.entities) for one in fresh], np.int64)
    first = np.cumsum(counts) - counts
    of_entry = pa.array(np.repeat(np.arange(len(fresh)), counts))
    rows = len(of_entry)
    refs = [ref for one in fresh for ref in one.entities.values()]
    since = [one.valid_from and nanoseconds(one.valid_from) for one in fresh]
    texts = np.full(rows, "", object)
    texts[first] = [one.text for one in fresh]
    scoped = zip(SCOPE_COLUMNS, astuple(scope), strict=True)
    columns: dict[str, pa.Array] = {
        "fact_id": pa.array([one.fact_id for one in fresh], pa.string()).take(of_entry),
        **{name: pa.repeat(value, rows) for name, value in scoped},
        "entity_id": pa.array([one for entry in fresh for one in entry.entities], pa.string()),
        "entity_name": pa.array([ref.name for ref in refs], pa.string()),
        "entity_type": pa.array([ref.key[1] for ref in refs], pa.string()),
        "text": pa.array(texts, pa.string()),
        "valid_from": pa.array(since, pa.int64()).cast(INSTANT).take(of_entry),
        "recorded_at": pa.repeat(pa.scalar(nanoseconds(recorded_at), INSTANT), rows),
    }
    return pa.table(columns)
