"""Versions of facts, and the decisions that made them: frozen values exchanged by all layers."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ailake.core.entities import EntityRef, digest
from ailake.core.records import Scope
from ailake.core.usage import NO_USAGE, Usage
from ailake.core.windows import Window


class Verifier(StrEnum):
    """Who decides which of two facts that contradict each other stays.

    With ``latest_assertion`` the one that was asserted later stays. With ``latest_event`` the one
    that began later does, and the other keeps only the part before it. With ``queued`` both stay
    until a ``FactVerifyJob`` has asked a verifier.
    """

    LATEST_ASSERTION = "latest_assertion"
    LATEST_EVENT = "latest_event"
    QUEUED = "queued"


class Origin(StrEnum):
    """How a version came to be: asserted, asserted and joined to what was known, or left over."""

    ASSERTED = "asserted"
    EXTENDED = "extended"
    REMAINDER = "remainder"


class Verdict(StrEnum):
    """What was decided about versions, or with ``pending`` is to be; ``defer`` leaves it so."""

    NOOP = "noop"
    SUPERSEDE = "supersede"
    RETRACT = "retract"
    PENDING = "pending"
    KEEP_BOTH = "keep_both"
    REJECT_NEW = "reject_new"
    DEFER = "defer"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class FactKey:
    """What facts have in common that may contradict each other.

    Attributes:
        subject_id: Id of the entity.
        id: BLAKE2b-128 of scope, subject id and predicate.
    """

    scope: Scope
    subject_id: str
    predicate: str
    id: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        made = digest(*_parts(self.scope), self.subject_id, self.predicate)
        object.__setattr__(self, "id", made)

    def fact_id(self, object_id: str) -> str:
        """Return the id of the triple: the same of scope, subject id, predicate and object id."""
        return digest(*_parts(self.scope), self.subject_id, self.predicate, object_id)


@dataclass(frozen=True, slots=True)
class FactVersion:
    """What the lake believed about a fact within one system interval.

    Attributes:
        fact_id: The triple's id; all its versions have the same.
        subject: As it was given, a string or an entity.
        object: The same.
        valid_from: First instant at which the fact holds.
        valid_to: First instant at which it no longer does, None where it is open.
        recorded_at: From this instant on the lake believed so.
        retired_at: Until this one, None where it still does.
        source_memory_id: The memory that it was taken from, or empty.
        version_id: The version's own id.
    """

    fact_id: str
    subject: str | EntityRef
    predicate: str
    object: str | EntityRef
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    retired_at: datetime | None = None
    source_memory_id: str = ""
    version_id: str = ""


@dataclass(frozen=True, slots=True)
class FactHistoryEntry(FactVersion):
    """A version of a fact, and what became of it.

    Attributes:
        origin: asserted, extended (asserted and joined to what was known) or remainder (what was
            left of one that lost).
        assertions: How often the fact was asserted so far, all its versions together.
        verdict: Why it was retired: supersede, reject_new, retract, or empty.
        lost_to: The fact that it lost to, empty where there is none.
        reason: Why it lost or was retracted, empty where it was not.
    """

    origin: Origin = Origin.ASSERTED
    assertions: int = 0
    verdict: str = ""
    lost_to: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version as it is stored.

    Attributes:
        object_id: Id of the object's entity.
        window: When the fact holds.
        ordinal: Place among all versions of its key, from 0.
    """

    version_id: str
    fact_id: str
    subject: str | EntityRef
    object: str | EntityRef
    object_id: str
    window: Window
    recorded_at: datetime
    ordinal: int
    origin: Origin
    source_memory_id: str = ""
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """A decision: which version stays, which one goes, and why.

    Attributes:
        verification_id: The same for the same decision.
        verifier: Who decided, empty for what nobody contradicted.
        loser: The version that was retired, or waits to be; None for what was known already.
        winner: The version that stays; None for a retraction.
        source_memory_id: The memory that brought it about, or empty.
        model: The model that was asked, or empty.
        usage: What its answer took.
    """

    verification_id: str
    verdict: Verdict
    verifier: str
    loser: StoredVersion | None
    winner: StoredVersion | None
    reason: str
    decided_at: datetime
    source_memory_id: str = ""
    model: str = ""
    usage: Usage = NO_USAGE


def _parts(scope: Scope) -> tuple[str, str, str]:
    return scope.agent_id, scope.user_id, scope.project_id
