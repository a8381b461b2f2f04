"""Entries of the graph as rows of the table ``mentions``."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

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


def fresh_mentions(entries: Sequence[IndexEntry], known: ScopeGraph) -> list[FreshMentions]:
    """Return what a batch adds, in its order; entries that add no mention are left out.

    Args:
        entries: The batch, which sees itself.
        known: The mentions of their scope.
    """
    present: dict[str, set[str]] = {}
    told: set[str] = set()
    fresh: list[FreshMentions] = []
    for entry in entries:
        had = present.get(entry.fact_id)
        if had is None:
            had = present[entry.fact_id] = set(known.entities_of(entry.fact_id))
        named = {ref.id: ref for ref in entry.refs}
        news = {one: ref for one, ref in named.items() if one not in had}
        if news:
            is_told = entry.fact_id in told or entry.fact_id in known.texts
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
    refs = [(one, *pair, not place) for one in fresh for place, pair in enumerate(_pairs(one))]
    rows = len(refs)
    columns: dict[str, pa.Array] = {
        "fact_id": pa.array([one.fact_id for one, _, _, _ in refs], pa.string()),
        **{
            name: pa.repeat(value, rows)
            for name, value in zip(SCOPE_COLUMNS, astuple(scope), strict=True)
        },
        "entity_id": pa.array([entity_id for _, entity_id, _, _ in refs], pa.string()),
        "entity_name": pa.array([ref.name for _, _, ref, _ in refs], pa.string()),
        "entity_type": pa.array([ref.key[1] for _, _, ref, _ in refs], pa.string()),
        "text": pa.array([one.text if first else "" for one, _, _, first in refs], pa.string()),
        "valid_from": pa.array(
            [one.valid_from and nanoseconds(one.valid_from) for one, _, _, _ in refs], pa.int64()
        ).cast(INSTANT),
        "recorded_at": pa.repeat(pa.scalar(nanoseconds(recorded_at), INSTANT), rows),
    }
    return pa.table(columns)


def _pairs(one: FreshMentions) -> list[tuple[str, EntityRef]]:
    return list(one.entities.items())
