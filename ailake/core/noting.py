"""What a batch of drafts mentions, as entries of the entity graph. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ailake.core.drafts import Draft
from ailake.core.graph import IndexEntry, entity_refs
from ailake.core.records import Decision
from ailake.core.remembering import Addition, Plan


@dataclass(frozen=True, slots=True)
class Noting:
    """What memories mention because of a batch.

    Attributes:
        added: Entries of memories that the batch adds.
        stored: Entries of stored memories that stand for one of its drafts.
    """

    added: tuple[IndexEntry, ...] = ()
    stored: tuple[IndexEntry, ...] = ()


def noting(plan: Plan, drafts: Sequence[Draft], *, now: datetime) -> Noting:
    """Return what a batch mentions: what is merged under its own id, repetitions under another's.

    An id that was given before changes nothing. A memory holds since its event, else since
    ``now``.

    Args:
        plan: What becomes of the drafts.
        drafts: The batch.
        now: The instant of the write.
    """
    if not any(draft.entities for draft in drafts):
        return Noting()
    places = {one.position for one in plan.additions}
    new = {one.outcome.id for one in plan.additions}
    added: list[IndexEntry] = []
    stored: list[IndexEntry] = []
    for place, (draft, outcome) in enumerate(zip(drafts, plan.outcomes, strict=True)):
        if draft.entities and (place in places or outcome.decision is Decision.SKIP):
            entry = entry_of(outcome.id, draft, now=now)
            (added if outcome.id in new else stored).append(entry)
    return Noting(tuple(added), tuple(stored))


def entry_of(memory_id: str, draft: Draft, *, now: datetime) -> IndexEntry:
    """Return the entry of a memory that is written at an instant."""
    return IndexEntry(memory_id, draft.entities, "", draft.event_time or now)


def with_repeated(additions: Sequence[Addition], noted: Noting) -> tuple[Addition, ...]:
    """Let each addition mention, too, what drafts mention that it stands for."""
    told: dict[str, list[IndexEntry]] = {}
    for entry in noted.added:
        told.setdefault(entry.fact_id, []).append(entry)
    return tuple(_telling(one, told.get(one.outcome.id, ())) for one in additions)


def _telling(made: Addition, entries: Sequence[IndexEntry]) -> Addition:
    refs = entity_refs([ref for entry in entries for ref in entry.refs])
    if len(refs) == len(made.draft.entities):
        return made
    return replace(made, draft=replace(made.draft, entities=refs))
