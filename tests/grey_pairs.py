"""Pairs of memories that no rule could tell apart, as the judge leaves them behind."""

from datetime import UTC, datetime
from typing import Any

import ailake
from ailake.core.decisions import DecisionRecord, SeenCandidate, verdict_id
from ailake.storage import decisions

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
OLD, NEW = "Ana enjoys long walks", "Ana likes hiking in the hills"


def grey(memory: ailake.Memory, old: str, new: str, **options: dict[str, Any]) -> tuple[str, str]:
    """Store two memories, and the verdict that left them open; return the ids, new first."""
    ids = [
        memory.remember(text, judge=False, now=NOW, **options.get(side, {})).id
        for side, text in (("of_old", old), ("of_new", new))
    ]
    verdict = DecisionRecord(
        id=verdict_id(ids[1]),
        scope=memory.scope,
        decided_at=NOW,
        decision="create",
        memory_id=ids[1],
        candidates=(SeenCandidate(ids[0], 0.75, "embedding"),),
        grey=(ids[0],),
    )
    decisions.append(memory.store, [verdict])
    return ids[1], ids[0]
