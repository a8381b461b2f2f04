"""What becomes of logged memories that go into the table: a plan. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from ailake.core.decisions import DecisionRecord
from ailake.core.log import LoggedMemory
from ailake.core.records import Decision, Scope
from ailake.core.remembering import (
    EXACT_DUPLICATE,
    UNJUDGED,
    DuplicateKey,
    Refresh,
    Twin,
    lasts,
    outlasts,
)

Twins = Mapping[tuple[Scope, DuplicateKey], Sequence[Twin]]


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What a drain writes.

    Attributes:
        additions: Rows to add, losers of a race among them.
        refreshes: The losers, as repetitions of their survivors.
        extensions: New ``expires_at`` (None: never) of stored survivors that a loser outlasts.
        moved: New ids of memories whose id another scope had taken meanwhile.
    """

    additions: tuple[LoggedMemory, ...]
    refreshes: tuple[tuple[Scope, Refresh], ...]
    extensions: Mapping[str, datetime | None]
    moved: Mapping[str, str]


def plan_drain(
    logged: Sequence[LoggedMemory], *, stored: Mapping[str, Scope], twins: Twins
) -> DrainPlan:
    """Decide for each logged memory, in order.

    Its writer looked for its id and for memories that say the same, but could not see what other
    processes had logged: so both are looked for again. An id that is stored already was drained
    before, by someone who died before removing the log; it is left out.

    Args:
        logged: The memories, in the order of their writing.
        stored: The scope of each of their ids, and of their ``moved_id``, that the table has.
        twins: The table's active memories that say the same as one of them, earliest first.
    """
    drain = _Drain(dict(stored), {key: list(found) for key, found in twins.items()})
    for one in logged:
        drain.take(one)
    return DrainPlan(
        tuple(drain.additions.values()), tuple(drain.refreshes), drain.extensions, drain.moved
    )


@dataclass(slots=True)
class _Drain:
    stored: dict[str, Scope]
    twins: dict[tuple[Scope, DuplicateKey], list[Twin]]
    additions: dict[str, LoggedMemory] = field(default_factory=dict)
    refreshes: list[tuple[Scope, Refresh]] = field(default_factory=list)
    extensions: dict[str, datetime | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def take(self, logged: LoggedMemory) -> None:
        memory = logged.memory
        if self.stored.get(memory.id, memory.scope) != memory.scope:
            # Refused where it is seen in time; here its writer was told that it is kept.
            fresh = moved_id(memory.scope, memory.id)
            self.moved[memory.id] = fresh
            verdict = memory.verdict and replace(memory.verdict, memory_id=fresh)
            outcome = replace(memory.outcome, id=fresh)
            memory = replace(memory, outcome=outcome, verdict=verdict)
        if memory.id in self.stored:
            return
        self.stored[memory.id] = memory.scope
        logged = replace(logged, memory=memory)
        twins = self.twins.setdefault((memory.scope, memory.key), []) if memory.digest else []
        live = (twin for twin in twins if lasts(twin.expires_at, memory.created_at))
        twin = next(live, None)
        if twin is not None and memory.outcome.reason != UNJUDGED:
            self._lose(logged, twin)
            if outlasts(memory.draft.expires_at, twin.expires_at):
                # What lost must not vanish earlier than if it had been stored.
                twins[twins.index(twin)] = Twin(twin.id, memory.draft.expires_at)
                self._extend(twin.id, memory.draft.expires_at)
            return
        self.additions[memory.id] = logged
        if memory.outcome.decision is not Decision.DEFER:
            twins.append(Twin(memory.id, memory.draft.expires_at))

    def _lose(self, logged: LoggedMemory, twin: Twin) -> None:
        memory = logged.memory
        draft = memory.draft
        outcome = replace(memory.outcome, reason=EXACT_DUPLICATE, existing_id=twin.id)
        verdict = memory.verdict and _lost(memory.verdict, twin.id)
        lost = replace(memory, outcome=outcome, merged_into=twin.id, verdict=verdict)
        self.additions[memory.id] = replace(logged, memory=lost)
        met_at = draft.event_time or memory.created_at
        self.refreshes.append((memory.scope, Refresh(twin.id, met_at, draft.confidence)))

    def _extend(self, memory_id: str, expires_at: datetime | None) -> None:
        if memory_id not in self.additions:
            self.extensions[memory_id] = expires_at
            return
        made = self.additions[memory_id]
        longer = replace(made.memory.draft, expires_at=expires_at)
        self.additions[memory_id] = replace(made, memory=replace(made.memory, draft=longer))


def _lost(verdict: DecisionRecord, survivor: str) -> DecisionRecord:
    """Return the verdict on a memory whose survivor its writer could not see."""
    return replace(
        verdict,
        reason=EXACT_DUPLICATE,
        existing_id=survivor,
        absorbed_id=verdict.memory_id,
        grey=(),
    )


def moved_id(scope: Scope, memory_id: str) -> str:
    """Return the id of a scope's memory whose own another scope has, the same at every replay."""
    named = "\0".join([*astuple(scope), memory_id])
    return blake2b(named.encode(), digest_size=16).hexdigest()
