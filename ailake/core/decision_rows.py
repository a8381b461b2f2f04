"""Decisions as rows of ``decisions``, and back. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ailake.core.decisions import DecisionRecord, SeenCandidate
from ailake.core.records import Scope
from ailake.core.rows import as_given
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema

_SAME_NAMES = (
    "decided_by", "about", "decision", "memory_id", "existing_id", "absorbed_id", "score", "mode",
    "reason", "veto", "rules_version", "seconds", "tokens", "note",
)  # fmt: skip


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
