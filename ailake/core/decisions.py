"""What was decided of memories, as rows of ``decisions`` and back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from ailake.core.records import Scope
from ailake.core.rows import as_given
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema

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


_SAME_NAMES = (
    "decided_by", "about", "decision", "memory_id", "existing_id", "absorbed_id", "score", "mode",
    "reason", "veto", "rules_version", "seconds", "tokens", "note",
)  # fmt: skip


def verdict_id(memory_id: str, kind: str = "verdict") -> str:
    """Return the id of a decision about a memory: the same whoever records it, and how often."""
    return blake2b(f"{kind}\0{memory_id}".encode(), digest_size=16).hexdigest()


def decision_rows(records: Sequence[DecisionRecord], *, dim: int, embedder_id: str) -> pa.Table:
    """Return decisions as rows, ready to be appended to ``decisions``."""
    instants = pa.array([one.decided_at for one in records], pa.timestamp("us", "UTC"))
    columns: dict[str, Any] = {
        "decision_id": [one.id for one in records],
        **{name: [getattr(one.scope, name) for one in records] for name in SCOPE_COLUMNS},
        "decided_at": instants.cast(INSTANT),
        "candidate_ids": [[seen.id for seen in one.candidates] for one in records],
        "candidate_scores": [[seen.score for seen in one.candidates] for one in records],
        "candidate_modes": [[seen.mode for seen in one.candidates] for one in records],
        "grey_ids": [list(one.grey) for one in records],
        **{name: [getattr(one, name) for one in records] for name in _SAME_NAMES},
    }
    schema = arrow_schema("decisions", dim=dim, embedder_id=embedder_id)
    return pa.table({field.name: columns[field.name] for field in schema}, schema=schema)


def decision_of(row: Mapping[str, Any]) -> DecisionRecord:
    """Return a row of ``decisions`` as a record."""
    seen = zip(row["candidate_ids"], row["candidate_scores"], row["candidate_modes"], strict=True)
    return DecisionRecord(
        id=row["decision_id"],
        scope=Scope(*(row[name] for name in SCOPE_COLUMNS)),
        decided_at=row["decided_at"],
        decision=row["decision"],
        memory_id=row["memory_id"],
        existing_id=row["existing_id"],
        absorbed_id=row["absorbed_id"],
        score=as_given(row["score"]),
        mode=row["mode"],
        reason=row["reason"],
        veto=row["veto"],
        candidates=tuple(SeenCandidate(one, as_given(score), mode) for one, score, mode in seen),
        grey=tuple(row["grey_ids"]),
        rules_version=row["rules_version"],
        seconds=as_given(row["seconds"]),
        decided_by=row["decided_by"],
        about=row["about"],
        tokens=row["tokens"],
        note=row["note"],
    )
