"""Pending accesses: journal entries that no decay run has folded into their rows yet. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from ailake.core.records import MemoryRecord
from ailake.core.rows import as_given, instant_of

MAX_UINT32 = 2**32 - 1

T = TypeVar("T", int, float)


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


class AccessLog:
    """Accesses in the order in which they came.

    It only grows, so that its first so many accesses can be handed out without a copy.
    """

    def __init__(self, accesses: Iterable[tuple[str, Access]] = ()) -> None:
        self._ids: list[str] = []
        self._accesses: list[Access] = []
        self._sums: dict[str, list[_Sum]] = {}
        for memory_id, access in accesses:
            self.add(memory_id, access)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, memory_id: str, access: Access) -> None:
        """Append an access of a memory; one thread at a time."""
        self._accesses.append(access)
        sums = self._sums.setdefault(memory_id, [])
        sums.append(_Sum.after(sums[-1] if sums else None, access, place=len(self._ids)))
        # Last: who reads meanwhile goes by its length.
        self._ids.append(memory_id)

    def of(self, memory_id: str, count: int) -> list[Access]:
        """Return the accesses of a memory among the first ``count``."""
        sums = self._sums.get(memory_id, ())
        return [self._accesses[one.place] for one in sums if one.place < count]

    def has(self, memory_id: str, count: int) -> bool:
        """Tell whether any access of a memory is among the first ``count``."""
        sums = self._sums.get(memory_id, ())
        return len(sums) > 0 and sums[0].place < count

    def pending(self, memory_id: str, count: int, *, folded_through: int) -> Pending | None:
        """Return what ``pending_of`` does of the memory's accesses among the first ``count``.

        However many they are, it takes the same time unless some of them are folded already.
        """
        sums = self._sums.get(memory_id, ())
        known = bisect_left(sums, count, key=attrgetter("place"))
        if not known:
            return None
        last = sums[known - 1]
        if last.oldest > folded_through:
            return last.pending
        return pending_of(self.of(memory_id, count), folded_through=folded_through)

    def between(self, start: int, stop: int) -> Iterator[tuple[str, Access]]:
        """Return the accesses from one place to before another, in order."""
        return zip(self._ids[start:stop], self._accesses[start:stop], strict=True)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A memory's accesses up to one of them, summed up.

    Attributes:
        place: Of that one in the log.
        oldest: The lowest version of them.
        pending: What they all come to.
    """

    place: int
    oldest: int
    pending: Pending

    @classmethod
    def after(cls, sums: "_Sum | None", access: Access, *, place: int) -> "_Sum":
        """Return the sum with one more access."""
        repeated_at = None if access.confidence is None else access.accessed_at
        own = Pending(access.hits, access.accessed_at, repeated_at, access.confidence)
        if sums is None:
            return cls(place, access.version, own)
        return cls(place, min(sums.oldest, access.version), both(sums.pending, own))


def both(one: Pending, other: Pending) -> Pending:
    """Return what two add together."""
    return Pending(
        hits=one.hits + other.hits,
        last_accessed_at=max(one.last_accessed_at, other.last_accessed_at),
        repeated_at=_greatest(one.repeated_at, other.repeated_at),
        confidence=_greatest(one.confidence, other.confidence),
    )


def _greatest(one: T | None, other: T | None) -> T | None:
    return max((value for value in (one, other) if value is not None), default=None)


class Entries(Mapping[str, tuple[Access, ...]]):
    """Journal entries by memory, as they were at one moment.

    Args:
        parts: Logs, and how many accesses of each count.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: tuple[AccessLog, int]) -> None:
        self.parts = tuple(part for part in parts if part[1])

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __getitem__(self, memory_id: str) -> tuple[Access, ...]:
        found = tuple(access for log, count in self.parts for access in log.of(memory_id, count))
        if not found:
            raise KeyError(memory_id)
        return found

    def __contains__(self, memory_id: object) -> bool:
        return isinstance(memory_id, str) and any(log.has(memory_id, n) for log, n in self.parts)

    def pending(self, memory_id: str, *, folded_through: int) -> Pending | None:
        """Return what ``pending_of`` does of a memory's accesses, however many, in little time."""
        parts = (
            log.pending(memory_id, count, folded_through=folded_through)
            for log, count in self.parts
        )
        found = [part for part in parts if part is not None]
        return reduce(both, found) if found else None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(memory_id for memory_id, _ in self.after(())))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def after(self, known: Sequence[tuple[AccessLog, int]]) -> Iterator[tuple[str, Access]]:
        """Return the accesses that are not in the parts of earlier entries, in order.

        One that was noted, and is committed now, comes twice.
        """
        for log, count in self.parts:
            start = next((seen for other, seen in known if other is log), 0)
            yield from log.between(start, count)


NO_ENTRIES = Entries()


def pending_of_rows(
    entries: Entries, memory_ids: Iterable[str], folded_through: Iterable[int]
) -> dict[str, Pending]:
    """Return what waits for some rows, by memory id; rows without entries are absent.

    Args:
        entries: Journal entries by memory id.
        memory_ids: Ids of the rows.
        folded_through: Their watermarks, in the same order.
    """
    if not entries:
        return {}
    found = (
        (memory_id, entries.pending(memory_id, folded_through=watermark))
        for memory_id, watermark in zip(memory_ids, folded_through, strict=True)
    )
    return {memory_id: pending for memory_id, pending in found if pending is not None}


def with_pending(record: MemoryRecord, pending: Pending | None) -> MemoryRecord:
    """Return the record as if the entries had been folded in."""
    if pending is None:
        return record
    fields = {name: getattr(record, name) for name in PENDING_COLUMNS}
    return replace(record, **fields_with_pending(fields, pending))


def fields_with_pending(fields: dict[str, Any], pending: Pending | None) -> dict[str, Any]:
    """Return the fields of a record, ``PENDING_COLUMNS`` among them, in the same way."""
    if pending is None:
        return fields
    return {
        **fields,
        "access_count": min(fields["access_count"] + pending.hits, MAX_UINT32),
        "last_accessed_at": _later(fields["last_accessed_at"], pending.last_accessed_at),
        "updated_at": _later(fields["updated_at"], pending.repeated_at),
        "confidence": as_given(max(fields["confidence"], pending.confidence or 0.0)),
    }


# Columns that the journal adds to.
PENDING_COLUMNS = frozenset({"access_count", "last_accessed_at", "updated_at", "confidence"})


def counted_in(
    row: Mapping[str, Any], entries: Mapping[str, Sequence[Access]]
) -> Mapping[str, Any]:
    """Return a row's values as if its entries had been folded in.

    Args:
        row: ``chunk_id``, ``folded_through``, ``PENDING_COLUMNS`` and maybe others.
        entries: Journal entries by memory id.
    """
    met = entries.get(row["chunk_id"], ())
    pending = pending_of(met, folded_through=row["folded_through"])
    if pending is None:
        return row
    last = instant_of(pending.last_accessed_at)
    confidence = max(row["confidence"], float(np.float32(pending.confidence or 0.0)))
    return {
        **row,
        "access_count": min(row["access_count"] + pending.hits, MAX_UINT32),
        "last_accessed_at": max(row["last_accessed_at"] or last, last),
        "updated_at": _later(row["updated_at"], pending.repeated_at),
        "confidence": confidence,
    }


def _later(instant: datetime, nanos: int | None) -> datetime:
    return instant if nanos is None else max(instant, instant_of(nanos))
