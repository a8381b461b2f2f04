"""What was decided of memories, as values. Pure."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from ailake.core.records import Scope

BY_RULES = "rules"
BY_RESTORE = "restore"
RESTORED = "restore"
KEEP = "keep"


@dataclass(frozen=True, slots=True)
class SeenCandidate:
    """A stored memory that was recalled for a new one.

    Attributes:
        id: The memory.
        score: Its similarity; higher is nearer.
        mode: Where that came from, ``embedding`` or ``lexical``.
    """

    id: str
    score: float
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One decision about a memory: the judge's, a reviewer's, or that one was undone.

    Attributes:
        id: Of the row; for a verdict see ``verdict_id``.
        decision: A value of ``Decision``; ``keep`` of a reviewer, ``restore`` where a merge was
            undone.
        memory_id: The new memory; of a skip, which stores none, the one that stands for it.
        existing_id: The stored memory that it was decided about, or empty.
        absorbed_id: The one of the two that lives on in the other, or empty.
        candidates: What was recalled, best first.
        grey: The candidates that no rule could tell apart.
        seconds: What deciding took.
        decided_by: ``rules``, ``restore``, or the id of a reviewer.
        about: The decision that this one answers or undoes, empty for a verdict.
        tokens: What a reviewer's model was charged.
        note: A reviewer's own words.
    """

    id: str
    scope: Scope
    decided_at: datetime
    decision: str
    memory_id: str
    existing_id: str = ""
    absorbed_id: str = ""
    score: float = 0.0
    mode: str = ""
    reason: str = ""
    veto: str = ""
    candidates: tuple[SeenCandidate, ...] = ()
    grey: tuple[str, ...] = ()
    rules_version: str = ""
    seconds: float = 0.0
    decided_by: str = BY_RULES
    about: str = ""
    tokens: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class GreyPair:
    """Two memories that no rule could tell apart, which nobody has answered for yet.

    Attributes:
        about: The verdict that left them open.
        memory_id: The memory that was new then.
        existing_id: The one that was recalled for it.
        score: Their similarity.
    """

    about: str
    scope: Scope
    memory_id: str
    existing_id: str
    score: float
    decided_at: datetime


def verdict_id(memory_id: str, kind: str = "verdict") -> str:
    """Return the id of a decision about a memory: the same whoever records it, and how often."""
    return blake2b(f"{kind}\0{memory_id}".encode(), digest_size=16).hexdigest()
