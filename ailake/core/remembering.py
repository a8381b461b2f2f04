"""What a batch of drafts becomes: a plan of rows to add and repetitions to note. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ailake.core.drafts import Draft
from ailake.core.judge import dedupe_digest, dedupe_key
from ailake.core.records import Decision, Remembered, Scope, SourceClass

EXACT_DUPLICATE = "exact_duplicate"
NO_CONTAINED_MATCH = "no_contained_match"
UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """The partition within a scope, and the key, in which two memories are the same."""

    role: str
    speaker: str
    source: str
    digest: str


@dataclass(frozen=True, slots=True)
class Twin:
    """A live memory with some duplicate key."""

    id: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Addition:
    """A row to add.

    Attributes:
        position: The draft's place in the batch.
        digest: The row's ``dedupe_key``.
    """

    position: int
    draft: Draft
    outcome: Remembered
    digest: str


@dataclass(frozen=True, slots=True)
class NewMemory:
    """All that the row of a new memory holds, its vector aside.

    Attributes:
        digest: The row's ``dedupe_key``.
        created_at: The instant of the write.
        folded_through: A version of the accesses table: what it says of this id up to there
            belongs to a memory that was forgotten.
        merged_into: The survivor, where this memory lost a race against one that says the same;
            else empty.
    """

    draft: Draft
    outcome: Remembered
    digest: str
    scope: Scope
    created_at: datetime
    folded_through: int
    rules_version: str = ""
    merged_into: str = ""

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.outcome.id

    @property
    def key(self) -> DuplicateKey:
        """The key in which it is the same as another."""
        return DuplicateKey(self.draft.role, self.draft.speaker, self.draft.source, self.digest)


@dataclass(frozen=True, slots=True)
class Refresh:
    """A repetition of a stored memory: it counts as met, but not as recalled."""

    memory_id: str
    met_at: datetime
    confidence: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch becomes.

    Attributes:
        outcomes: One per draft, in order.
        extensions: New ``expires_at`` (None: never) of stored memories whose repetition lasts
            longer.
    """

    outcomes: tuple[Remembered, ...]
    additions: tuple[Addition, ...]
    refreshes: tuple[Refresh, ...]
    extensions: Mapping[str, datetime | None]


def duplicate_keys(drafts: Sequence[Draft]) -> list[DuplicateKey]:
    """Return each draft's key; an empty digest, as of all group chat, equals nothing."""
    return [
        DuplicateKey(draft.role, draft.speaker, draft.source, _digest(draft)) for draft in drafts
    ]


def _digest(draft: Draft) -> str:
    if draft.source == SourceClass.GROUP_CHAT:
        return ""
    return dedupe_digest(dedupe_key(draft.text))


def plan_batch(
    drafts: Sequence[Draft],
    keys: Sequence[DuplicateKey],
    *,
    fresh_ids: Sequence[str],
    known_ids: Mapping[str, Remembered],
    known_keys: Mapping[DuplicateKey, Twin],
    judge: bool,
    now: datetime,
) -> Plan:
    """Decide for each draft, in order, so that the batch sees itself.

    Args:
        drafts: The batch.
        keys: Their duplicate keys, in the same order.
        fresh_ids: A new id per draft, used where the draft brings none.
        known_ids: First outcomes of those of the drafts' ids that are stored already.
        known_keys: The stored, visible memories with one of the keys.
        judge: False stores every draft without looking for duplicates.
        now: The instant of the write.
    """
    batch = _Batch(dict(known_ids), dict(known_keys) if judge else {}, judge=judge, now=now)
    for position, (draft, key, fresh) in enumerate(zip(drafts, keys, fresh_ids, strict=True)):
        batch.decide(position, draft, key, memory_id=draft.id or fresh)
    return Plan(
        tuple(batch.outcomes),
        tuple(batch.additions.values()),
        tuple(batch.refreshes),
        batch.extensions,
    )


@dataclass(slots=True)
class _Batch:
    ids: dict[str, Remembered]
    live: dict[DuplicateKey, Twin]
    judge: bool
    now: datetime
    outcomes: list[Remembered] = field(default_factory=list)
    additions: dict[str, Addition] = field(default_factory=dict)
    refreshes: list[Refresh] = field(default_factory=list)
    extensions: dict[str, datetime | None] = field(default_factory=dict)

    def decide(self, position: int, draft: Draft, key: DuplicateKey, *, memory_id: str) -> None:
        twin = self.live.get(key) if self.judge and key.digest else None
        if memory_id in self.ids:
            self.outcomes.append(self.ids[memory_id])
        elif twin is not None:
            self._skip(draft, key, twin)
        else:
            reason = NO_CONTAINED_MATCH if self.judge else UNJUDGED
            outcome = Remembered(memory_id, Decision.CREATE, reason)
            self.additions[memory_id] = Addition(position, draft, outcome, key.digest)
            self.ids[memory_id] = outcome
            self.outcomes.append(outcome)
            if draft.expires_at is None or draft.expires_at > self.now:
                self.live[key] = Twin(memory_id, draft.expires_at)

    def _skip(self, draft: Draft, key: DuplicateKey, twin: Twin) -> None:
        self.outcomes.append(Remembered(twin.id, Decision.SKIP, EXACT_DUPLICATE, twin.id))
        self.refreshes.append(Refresh(twin.id, draft.event_time or self.now, draft.confidence))
        if not outlasts(draft.expires_at, twin.expires_at):
            return
        # What is skipped must not vanish earlier than if it had been stored.
        self.live[key] = Twin(twin.id, draft.expires_at)
        if twin.id in self.additions:
            made = self.additions[twin.id]
            longer = replace(made.draft, expires_at=draft.expires_at)
            self.additions[twin.id] = replace(made, draft=longer)
        else:
            self.extensions[twin.id] = draft.expires_at


def outlasts(expires_at: datetime | None, other: datetime | None) -> bool:
    """Tell whether what expires at the first instant is there longer; None never expires."""
    return other is not None and (expires_at is None or expires_at > other)
