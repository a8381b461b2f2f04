"""Stored rows with what they take over from new memories that are merged with them. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from ailake.core.records import MemoryRecord, State
from ailake.core.schema import INSTANT
from ailake.core.standing import Standing, metadata_text


def merged_rows(
    rows: pa.Table,
    changes: Mapping[str, Standing],
    *,
    known: Mapping[str, MemoryRecord],
    through: int,
    now: datetime,
) -> pa.Table:
    """Return rows of ``episodic`` as they are after a merge.

    Args:
        rows: The rows as they are, every column.
        changes: What each becomes, by its id.
        known: The same memories, with the accesses that the journal has of them.
        through: The version of the journal that these are of.
        now: When they are changed.
    """
    ids = rows["chunk_id"].to_pylist()
    records, standings = [known[name] for name in ids], [changes[name] for name in ids]
    # What somebody else has merged meanwhile does not come back to life.
    into = [one.merged_into or changes[one.id].merged_into for one in records]
    columns: dict[str, Sequence[Any]] = {
        "importance_score": [one.importance for one in standings],
        "created_at": [one.created_at for one in standings],
        "event_time": [one.event_time for one in standings],
        "expires_at": [one.expires_at for one in standings],
        "last_accessed_at": [_last_met(*pair) for pair in zip(records, standings, strict=True)],
        "access_count": [one.access_count for one in records],
        "confidence": [one.confidence for one in records],
        "folded_through": [through] * len(ids),
        "updated_at": [now] * len(ids),
        "kind": [one.kind for one in standings],
        "metadata": [metadata_text(one) for one in standings],
        "merged_into": into,
        "state": [(State.MERGED if one else State.ACTIVE).value for one in into],
    }
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, _array(values, field.type))
    return rows


def _last_met(record: MemoryRecord, standing: Standing) -> datetime:
    stored = record.last_accessed_at
    return stored if standing.met_at is None else max(stored, standing.met_at)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("us", "UTC")).cast(INSTANT)
    return pa.array(values, kind)
