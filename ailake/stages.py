"""The scores of recall: stage one over each memory by itself, stage two over the best of them."""

from dataclasses import dataclass, replace

import numpy as np

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
from ailake.storage.pool import Pool
from ailake.storage.question import Question


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

    def changed(self, places: Places, **parts: Floats) -> "Scored":
        """Return these with some parts of some memories replaced."""
        new = {}
        for name, part in parts.items():
            new[name] = getattr(self, name).copy()
            new[name][places] = part
        return replace(self, **new)

    def order(self, pool: Pool, places: Places) -> Places:
        """Return some memories best first, see ``rank``.

        Args:
            pool: All n memories.
            places: Those to be ordered.
        """
        ids = [pool.ids[place] for place in places.tolist()]
        return places[rank(self.score[places], self.weight[places], pool.born[places], ids)]


def stage_one(pool: Pool, policy: ScoringPolicy, now: int) -> Scored:
    """Score each memory by itself.

    Args:
        pool: The memories.
        policy: How age, importance and words weigh.
        now: The instant from which ages are counted, nanoseconds since 1970.
    """
    days = days_between(pool.last, now)
    distance = np.maximum(pool.distance, 0.0)
    lexical = policy.lexical_part(pool.bm25)
    recency = decay(days, policy.recency)
    part, importance_part = policy.recency_part_of(recency), policy.importance_part(pool.importance)
    near = np.maximum(distance - lexical, 0.0)
    weight = part * importance_part
    proven = score(near, weight)
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
        recency=recency,
        recency_part=part,
        importance=pool.importance,
        importance_part=importance_part,
        weight=weight,
        proven_score=proven,
        score=proven,
    )


def stage_two(scored: Scored, best: Places, turns: Turns, question: Question) -> Scored:
    """Return the scores with what stands around some memories counted in.

    Args:
        scored: Of stage one.
        best: The memories that are the best of stage one.
        turns: What is known of them.
        question: What is looked for.
    """
    policy, text = question.scoring, question.text or ""
    near = scored.distance[best] - scored.lexical[best]
    neighbour = policy.neighbour_weight * neighbour_evidence(near, turns)
    speaker = policy.speaker_weight * speaker_evidence(text, turns.speakers)
    dated = policy.date_weight * date_evidence(text, turns.days)
    brief = policy.brevity_weight * brevity(turns.lengths)
    near = near - neighbour - speaker - dated + brief
    return scored.changed(
        best,
        neighbour=neighbour,
        speaker=speaker,
        date=dated,
        brevity=brief,
        near=near,
        score=final_scores(near, scored.weight[best]),
    )


def reranked(scored: Scored, best: Places, relevance: Floats) -> Scored:
    """Return the scores of some memories with ``1 - relevance`` in place of all other evidence."""
    near = 1.0 - relevance
    return scored.changed(
        best, relevance=relevance, near=near, score=final_scores(near, scored.weight[best])
    )
