"""What a batch of drafts becomes: a plan of rows to add and repetitions to note. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ailake.core.drafts import Draft
from ailake.core.judge import dedupe_digest, dedupe_key
from ailake.core.records import Decision, Remembered

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
    """

    outcomes: tuple[Remembered, ...]
    additions: tuple[Addition, ...]
    refreshes: tuple[Refresh, ...]


def duplicate_keys(drafts: Sequence[Draft]) -> list[DuplicateKey]:
    """Return each draft's key; an empty digest equals nothing."""
    return [
        DuplicateKey(d.role, d.speaker, d.source, dedupe_digest(dedupe_key(d.text))) for d in drafts
    ]


def plan_batch(
    drafts: Sequence[Draft],
    keys: Sequence[DuplicateKey],
    *,
    fresh_ids: Sequence[str],
    known_ids: Mapping[str, Remembered],
    known_keys: Mapping[DuplicateKey, str],
    judge: bool,
    now: datetime,
) -> Plan:
    """Decide for each draft, in order, so that the batch sees itself.

    Args:
        drafts: The batch.
        keys: Their duplicate keys, in the same order.
        fresh_ids: A new id per draft, used where the draft brings none.
        known_ids: First outcomes of those of the drafts' ids that are stored already.
        known_keys: Ids of the stored active memories with one of the keys.
        judge: False stores every draft without looking for duplicates.
        now: The instant of the write.
    """
    ids = dict(known_ids)
    live = dict(known_keys) if judge else {}
    outcomes: list[Remembered] = []
    additions: list[Addition] = []
    refreshes: list[Refresh] = []
    for position, (draft, key, fresh) in enumerate(zip(drafts, keys, fresh_ids, strict=True)):
        memory_id = draft.id or fresh
        if memory_id in ids:
            outcome = ids[memory_id]
        elif judge and key.digest and key in live:
            survivor = live[key]
            outcome = Remembered(survivor, Decision.SKIP, EXACT_DUPLICATE, survivor)
            refreshes.append(Refresh(survivor, draft.event_time or now, draft.confidence))
        else:
            reason = NO_CONTAINED_MATCH if judge else UNJUDGED
            outcome = Remembered(memory_id, Decision.CREATE, reason)
            additions.append(Addition(position, draft, outcome, key.digest))
            live[key] = memory_id
            ids[memory_id] = outcome
        outcomes.append(outcome)
    return Plan(tuple(outcomes), tuple(additions), tuple(refreshes))
