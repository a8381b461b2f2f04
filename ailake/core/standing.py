"""A live memory as far as a new one may change it, and what two become that are merged. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ailake.core.drafts import Draft
from ailake.core.judge import MemoryItem
from ailake.core.records import MemoryRecord, Scope, State


@dataclass(frozen=True, slots=True)
class Standing:
    """A memory that is there, or a draft that is about to be.

    Attributes:
        item: What the judge sees of it.
        metadata: The application's own fields, as an object or as its JSON.
        met_at: The last time that a memory was merged into it, None without one.
        merged_into: The memory that it is marked as merged into, or empty.
    """

    item: MemoryItem
    importance: float
    created_at: datetime
    event_time: datetime | None
    expires_at: datetime | None
    kind: str = ""
    metadata: str | Mapping[str, Any] = "{}"
    met_at: datetime | None = None
    merged_into: str = ""

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.item.id

    @property
    def born_at(self) -> datetime:
        """When what it tells happened."""
        return self.event_time or self.created_at


def standing_of(record: MemoryRecord) -> Standing:
    """Return a stored memory."""
    item = MemoryItem(
        id=record.id,
        text=record.text,
        scope=record.scope,
        role=record.role,
        speaker=record.speaker,
        source=record.source,
        confidence=record.confidence,
        active=record.state is State.ACTIVE,
    )
    return Standing(
        item,
        record.importance_score,
        record.created_at,
        record.event_time,
        record.expires_at,
        kind=record.kind,
        metadata=record.metadata,
    )


def standing_to_be(draft: Draft, memory_id: str, scope: Scope, now: datetime) -> Standing:
    """Return what a draft is about to be."""
    item = MemoryItem(
        id=memory_id,
        text=draft.text,
        scope=scope,
        role=draft.role,
        speaker=draft.speaker,
        source=draft.source,
        confidence=draft.confidence,
    )
    return Standing(
        item,
        draft.importance,
        now,
        draft.event_time,
        draft.expires_at,
        kind=draft.kind,
        metadata=draft.metadata,
    )


def merged(survivor: Standing, absorbed: Standing) -> Standing:
    """Return the one that lives on, with what it takes over from the other.

    The importance is the higher one, the creation the earlier, the event (without one: the
    creation) and the last meeting the later; it lasts as long as the longer one, and has the kind
    and the metadata of the other where it has none of its own. Neither text nor confidence changes.
    """
    created = min(survivor.created_at, absorbed.created_at)
    latest = max(survivor.born_at, absorbed.born_at)
    # What was said again just now must not count as old.
    is_told = {survivor.event_time, absorbed.event_time} != {None} or latest != created
    never = survivor.expires_at is None or absorbed.expires_at is None
    met = [one.met_at for one in (survivor, absorbed) if one.met_at is not None]
    return replace(
        survivor,
        importance=max(survivor.importance, absorbed.importance),
        created_at=created,
        event_time=latest if is_told else None,
        expires_at=None if never else _later(survivor.expires_at, absorbed.expires_at),
        kind=survivor.kind or absorbed.kind,
        metadata={**_fields(absorbed.metadata), **_fields(survivor.metadata)},
        met_at=max([*met, latest]),
    )


def metadata_text(standing: Standing) -> str:
    """Return the application's own fields as JSON."""
    own = standing.metadata
    if isinstance(own, str):
        return own
    return json.dumps(own, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _fields(metadata: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(metadata, str):
        decoded: Mapping[str, Any] = json.loads(metadata)
        return decoded
    return metadata


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    given = [instant for instant in (one, other) if instant is not None]
    return max(given, default=None)
