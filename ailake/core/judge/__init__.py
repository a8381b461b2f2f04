"""The pre-insert judge: pure rules that decide what happens to a new memory."""

from ailake.core.judge.dedupe import dedupe_digest, dedupe_key
from ailake.core.judge.digests import dedupe_digests
from ailake.core.judge.gates import hard_gate
from ailake.core.judge.kernel import judge
from ailake.core.judge.predicates import (
    containment,
    has_absolute_timestamp,
    has_temporal_state,
    same_negations,
    same_numbers,
)
from ailake.core.judge.retention import low_value, retention
from ailake.core.judge.rules import JudgeRules
from ailake.core.judge.verdict import (
    Candidate,
    Containment,
    MemoryItem,
    Reason,
    Verdict,
    Veto,
)

__all__ = [
    "Candidate",
    "Containment",
    "JudgeRules",
    "MemoryItem",
    "Reason",
    "Verdict",
    "Veto",
    "containment",
    "dedupe_digest",
    "dedupe_digests",
    "dedupe_key",
    "hard_gate",
    "has_absolute_timestamp",
    "has_temporal_state",
    "judge",
    "low_value",
    "retention",
    "same_negations",
    "same_numbers",
]
