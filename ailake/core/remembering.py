"""What a batch of drafts becomes: a plan of rows to add and repetitions to note. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ailake.core.decisions import DecisionRecord
from ailake.core.drafts import Draft
from ailake.core.judge import dedupe_digest, dedupe_key
from ailake.core.records import Decision, Remembered, Scope, SourceClass
from ailake.core.standing import Standing

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
        merged_into: The memory that says the same and lives on, or empty.
        standing: What the row holds of others that were merged into it, None where it has none.
        heir_of: The stored memory whose accesses it takes over, or empty.
    """

    position: int
    draft: Draft
    outcome: Remembered
    digest: str
    merged_into: str = ""
    standing: Standing | None = None
    heir_of: str = ""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """All that the row of a new memory holds, its vector aside.

    Attributes:
        digest: The row's ``dedupe_key``.
        created_at: The instant of the write.
        folded_through: A version of the accesses table: what it says of this id up to there
            belongs to a memory that was forgotten.
        merged_into: The survivor, where another memory says the same; else empty.
        verdict: What the judge decided of it, None where it was not asked.
        standing: What the row holds of others that were merged into it.
        access_count: Of the memory that it stands in the place of.
    """

    draft: Draft
    outcome: Remembered
    digest: str
    scope: Scope
    created_at: datetime
    folded_through: int
    rules_version: str = ""
    merged_into: str = ""
    verdict: DecisionRecord | None = None
    standing: Standing | None = None
    access_count: int = 0

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
        changes: What stored memories become that are merged with new ones.
        verdicts: What the judge decided, one per draft that it was asked about.
    """

    outcomes: tuple[Remembered, ...]
    additions: tuple[Addition, ...]
    refreshes: tuple[Refresh, ...]
    extensions: Mapping[str, datetime | None]
    changes: Mapping[str, Standing] = field(default_factory=dict)
    verdicts: tuple[DecisionRecord, ...] = ()

    @property
    def merges(self) -> bool:
        """Whether a memory is merged into another one, which no log can hold."""
        return bool(self.changes) or any(one.merged_into or one.heir_of for one in self.additions)

    @property
    def is_loggable(self) -> bool:
        """Whether it only adds memories that live on their own."""
        return not self.extensions and not self.merges


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
    batch = BatchPlanner(dict(known_ids), dict(known_keys) if judge else {}, judge=judge, now=now)
    for position, (draft, key, fresh) in enumerate(zip(drafts, keys, fresh_ids, strict=True)):
        batch.decide(position, draft, key, memory_id=draft.id or fresh)
    return batch.plan()


@dataclass(slots=True)
class BatchPlanner:
    """Decides for one draft after the other, by ids and duplicate keys alone."""

    ids: dict[str, Remembered]
    live: dict[DuplicateKey, Twin]
    judge: bool
    now: datetime
    outcomes: list[Remembered] = field(default_factory=list)
    additions: dict[str, Addition] = field(default_factory=dict)
    refreshes: list[Refresh] = field(default_factory=list)
    extensions: dict[str, datetime | None] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return what was decided so far."""
        return Plan(
            tuple(self.outcomes),
            tuple(self.additions.values()),
            tuple(self.refreshes),
            self.extensions,
        )

    def decide(self, position: int, draft: Draft, key: DuplicateKey, *, memory_id: str) -> None:
        """Decide for the next draft."""
        twin = self.live.get(key) if self.judge and key.digest else None
        if memory_id in self.ids:
            self.outcomes.append(self.ids[memory_id])
        elif twin is not None:
            self.skip(position, draft, key, twin)
        else:
            self.judged(position, draft, key, memory_id)

    def judged(self, position: int, draft: Draft, key: DuplicateKey, memory_id: str) -> None:
        """Decide for a draft that nothing is known of yet."""
        reason = NO_CONTAINED_MATCH if self.judge else UNJUDGED
        outcome = Remembered(memory_id, Decision.CREATE, reason)
        self.add(Addition(position, draft, outcome, key.digest))
        self.live_as(key, draft, memory_id)

    def add(self, addition: Addition) -> None:
        """Take a row in."""
        memory_id = addition.outcome.id
        self.additions[memory_id] = addition
        self.ids[memory_id] = addition.outcome
        self.outcomes.append(addition.outcome)

    def live_as(self, key: DuplicateKey, draft: Draft, memory_id: str) -> None:
        """Let the drafts to come see a memory by its key."""
        if lasts(draft.expires_at, self.now):
            self.live[key] = Twin(memory_id, draft.expires_at)

    def skip(self, position: int, draft: Draft, key: DuplicateKey, twin: Twin) -> None:  # noqa: ARG002 (for who audits)
        """Let a stored memory, or one of the batch, stand for a draft that says the same."""
        self.outcomes.append(Remembered(twin.id, Decision.SKIP, EXACT_DUPLICATE, twin.id))
        self.refreshes.append(Refresh(twin.id, draft.event_time or self.now, draft.confidence))
        if not outlasts(draft.expires_at, twin.expires_at):
            return
        # What is skipped must not vanish earlier than if it had been stored.
        self.live[key] = Twin(twin.id, draft.expires_at)
        self.extend(twin.id, draft.expires_at)

    def extend(self, memory_id: str, expires_at: datetime | None) -> None:
        """Let a memory last longer."""
        if memory_id in self.additions:
            made = self.additions[memory_id]
            longer = replace(made.draft, expires_at=expires_at)
            self.additions[memory_id] = replace(made, draft=longer)
        else:
            self.extensions[memory_id] = expires_at


def lasts(expires_at: datetime | None, now: datetime) -> bool:
    """Tell whether what expires at the first instant is there at the second; None never expires."""
    return expires_at is None or expires_at > now


def outlasts(expires_at: datetime | None, other: datetime | None) -> bool:
    """Tell whether what expires at the first instant is there longer; None never expires."""
    return other is not None and (expires_at is None or expires_at > other)
