"""The scores of recall: stage one over each memory by itself, stage two over the best of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ailake.core.accesses import Pending
from ailake.core.dates import date_evidence
from ailake.core.episodic import Floats, ScoringPolicy, days_between, decay, rank, score
from ailake.core.evidence import (
    Places,
    Turns,
    brevity,
    final_scores,
    neighbour_evidence,
    speaker_evidence,
)
from ailake.core.rows import born_at, last_access
from ailake.storage.scan import Question


@dataclass(frozen=True, slots=True)
class Scored:
    """Every part of the scores of n memories, (n,) each; see ``Hits.explain``."""

    distance: Floats
    lexical: Floats
    neighbour: Floats
    speaker: Floats
    date: Floats
    brevity: Floats
    relevance: Floats
    near: Floats
    recency: Floats
    recency_part: Floats
    importance: Floats
    importance_part: Floats
    weight: Floats
    proven_score: Floats
    score: Floats

    def part_of(self, name: str, place: int) -> float:
        """Return one part of one memory's score."""
        return float(getattr(self, name)[place])

    def changed(self, places: Places, **parts: Floats) -> "Scored":
        """Return these with some parts of some memories replaced."""
        new = {}
        for name, part in parts.items():
            new[name] = getattr(self, name).copy()
            new[name][places] = part
        return replace(self, **new)

    def order(self, rows: pa.Table, places: Places) -> Places:
        """Return some memories best first, see ``rank``.

        Args:
            rows: All n memories, with ``chunk_id``, ``event_time`` and ``created_at``.
            places: Those to be ordered.
        """
        ids = rows["chunk_id"].to_numpy()[places]
        best = rank(self.score[places], self.weight[places], born_at(rows)[places], ids)
        return places[best]


def stage_one(
    rows: pa.Table, pending: Mapping[str, Pending], policy: ScoringPolicy, now: int
) -> Scored:
    """Score each memory by itself.

    Args:
        rows: The columns of ``Found``.
        pending: The accesses that wait, by memory id.
        policy: How age, importance and words weigh.
        now: The instant from which ages are counted, nanoseconds since 1970.
    """
    accessed = last_access(rows).copy()
    if pending:
        for place, memory_id in enumerate(rows["chunk_id"].to_pylist()):
            if memory_id in pending:
                accessed[place] = max(accessed[place], pending[memory_id].last_accessed_at)
    days = days_between(accessed, now)
    distance = np.maximum(rows["_distance"].to_numpy().astype(np.float64), 0.0)
    lexical = policy.lexical_part(rows["_bm25"].to_numpy())
    importance = rows["importance_score"].to_numpy().astype(np.float64)
    part, importance_part = policy.recency_part(days), policy.importance_part(importance)
    near = np.maximum(distance - lexical, 0.0)
    proven = score(near, part * importance_part)
    none = np.zeros(len(distance))
    return Scored(
        distance=distance,
        lexical=lexical,
        neighbour=none,
        speaker=none,
        date=none,
        brevity=none,
        relevance=np.full(len(distance), np.nan),
        near=near,
        recency=decay(days, policy.recency),
        recency_part=part,
        importance=importance,
        importance_part=importance_part,
        weight=part * importance_part,
        proven_score=proven,
        score=proven,
    )


def stage_two(scored: Scored, pool: Places, turns: Turns, question: Question) -> Scored:
    """Return the scores with what stands around some memories counted in.

    Args:
        scored: Of stage one.
        pool: The memories that are the best of stage one.
        turns: What is known of them.
        question: What is looked for.
    """
    policy, text = question.scoring, question.text or ""
    near = scored.distance[pool] - scored.lexical[pool]
    neighbour = policy.neighbour_weight * neighbour_evidence(near, turns)
    speaker = policy.speaker_weight * speaker_evidence(text, turns.speakers)
    dated = policy.date_weight * date_evidence(text, turns.days)
    brief = policy.brevity_weight * brevity(turns.lengths)
    near = near - neighbour - speaker - dated + brief
    return scored.changed(
        pool,
        neighbour=neighbour,
        speaker=speaker,
        date=dated,
        brevity=brief,
        near=near,
        score=final_scores(near, scored.weight[pool]),
    )


def reranked(scored: Scored, pool: Places, relevance: Floats) -> Scored:
    """Return the scores of some memories with ``1 - relevance`` in place of all other evidence."""
    near = 1.0 - relevance
    return scored.changed(
        pool, relevance=relevance, near=near, score=final_scores(near, scored.weight[pool])
    )
