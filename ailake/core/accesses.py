"""Pending accesses: journal entries that no decay run has folded into their rows yet. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ailake.core.records import MemoryRecord
from ailake.core.rows import as_given, instant_of


class AccessEvent(StrEnum):
    """Why a memory was met."""

    RECALL = "recall"
    TOUCH = "touch"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Access:
    """One journal entry.

    Attributes:
        version: Version of the accesses table that brought the entry.
        accessed_at: Nanoseconds since 1970.
        hits: What ``access_count`` grows by.
        confidence: Confidence of a repetition, None for a recall.
    """

    version: int
    accessed_at: int
    hits: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """What the journal adds to one row.

    Attributes:
        hits: Recall hits not yet in ``access_count``.
        last_accessed_at: Newest access, nanoseconds since 1970.
        repeated_at: Newest repetition, nanoseconds since 1970, None without one.
        confidence: Highest confidence of a repetition, None without one.
    """

    hits: int
    last_accessed_at: int
    repeated_at: int | None
    confidence: float | None


def pending_of(accesses: Sequence[Access], *, folded_through: int) -> Pending | None:
    """Sum up the entries newer than a row's watermark; None where there is none.

    Args:
        accesses: The row's journal entries, in any order.
        folded_through: The row's watermark: entries up to this version are counted in it.
    """
    fresh = [access for access in accesses if access.version > folded_through]
    if not fresh:
        return None
    repeats = [access for access in fresh if access.confidence is not None]
    return Pending(
        hits=sum(access.hits for access in fresh),
        last_accessed_at=max(access.accessed_at for access in fresh),
        repeated_at=max((access.accessed_at for access in repeats), default=None),
        confidence=max(
            (access.confidence for access in repeats if access.confidence is not None),
            default=None,
        ),
    )


def with_pending(record: MemoryRecord, pending: Pending | None) -> MemoryRecord:
    """Return the record as if the entries had been folded in."""
    if pending is None:
        return record
    return replace(
        record,
        access_count=record.access_count + pending.hits,
        last_accessed_at=_later(record.last_accessed_at, pending.last_accessed_at),
        updated_at=_later(record.updated_at, pending.repeated_at),
        confidence=as_given(max(record.confidence, pending.confidence or 0.0)),
    )


def _later(instant: datetime, nanos: int | None) -> datetime:
    return instant if nanos is None else max(instant, instant_of(nanos))
