"""Which stored memories say the same, and what becomes of them: a plan. Pure.

Where no lock orders the writers, two that remember one text at the same moment store it twice.
The rules are those by which a drain decides for what was only logged.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ailake.core.accesses import MAX_UINT32
from ailake.core.records import State
from ailake.core.remembering import EXACT_DUPLICATE, UNJUDGED, lasts, outlasts
from ailake.core.schema import SCOPE_COLUMNS

PARTITION = (*SCOPE_COLUMNS, "role", "speaker", "source", "dedupe_key")

# What a merge changes.
CHANGED = (
    "state", "merged_into", "reason", "updated_at", "expires_at", "confidence", "access_count",
    "last_accessed_at",
)  # fmt: skip

# What the plan looks at.
COLUMNS = ("chunk_id", *PARTITION, "created_at", "event_time", *CHANGED)

Row = Mapping[str, Any]


def plan_merges(rows: Iterable[Row], *, now: datetime) -> list[dict[str, Any]]:
    """Merge each memory into the earliest one that says the same and was live when it was made.

    The earliest lives as long as any of them, is as sure as the surest, and counts all accesses.
    What was stored unjudged stays as it is.

    Args:
        rows: ``COLUMNS`` of memories, accesses that wait counted in.
        now: Becomes ``updated_at`` of those that are merged into others.

    Returns:
        The rows that change, as they are then.
    """
    partitions: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["state"] == State.ACTIVE.value and row["dedupe_key"]:
            partitions.setdefault(tuple(row[name] for name in PARTITION), []).append(row)
    return [
        changed
        for twins in partitions.values()
        if len(twins) > 1
        for changed in _merged(twins, now)
    ]


def _merged(twins: Sequence[Row], now: datetime) -> Iterable[dict[str, Any]]:
    survivors: list[dict[str, Any]] = []
    changed: dict[str, dict[str, Any]] = {}
    for row in sorted(twins, key=lambda row: (row["created_at"], row["chunk_id"])):
        survivor = next(
            (one for one in survivors if lasts(one["expires_at"], row["created_at"])), None
        )
        if survivor is None or row["reason"] == UNJUDGED:
            survivors.append(dict(row))
            continue
        _take_in(survivor, row)
        changed[survivor["chunk_id"]] = survivor
        changed[row["chunk_id"]] = {
            **row,
            "state": State.MERGED.value,
            "merged_into": survivor["chunk_id"],
            "reason": EXACT_DUPLICATE,
            "updated_at": max(now, row["updated_at"]),
        }
    return changed.values()


def _take_in(survivor: dict[str, Any], row: Row) -> None:
    """Have a memory be what it would be had the other been met as a repetition of it."""
    if outlasts(row["expires_at"], survivor["expires_at"]):
        survivor["expires_at"] = row["expires_at"]
    hits = survivor["access_count"] + row["access_count"]
    survivor["access_count"] = min(hits, MAX_UINT32)
    survivor["confidence"] = max(survivor["confidence"], row["confidence"])
    last = [one["last_accessed_at"] for one in (survivor, row)]
    survivor["last_accessed_at"] = max((one for one in last if one is not None), default=None)
    met_at = row["event_time"] or row["created_at"]
    survivor["updated_at"] = max(survivor["updated_at"], met_at)
