"""The scores of recall: stage one over each memory by itself, stage two over the best of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ailake.core.dates import date_evidence
from ailake.core.episodic import Floats, ScoringPolicy, days_between, decay, rank, score
from ailake.core.evidence import (
    Places,
    Turns,
    brevity,
    final_scores,
    graph_evidence,
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
    graph: Floats
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


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The n memories that stage two looks at.

    Attributes:
        places: Where they are in the pool, the best of stage one first.
        listed: How many of them are the best of stage one; the graph leads to the others.
        ranks: Their places in the graph's list of their scope, -1 where it does not lead, (n,).
    """

    places: Places
    listed: int
    ranks: Places

    @classmethod
    def of(
        cls, pool: Pool, order: Places, led: Sequence[Sequence[str]], *, size: int
    ) -> "LookedAt":
        """Return the best of stage one, and what the graph leads to.

        Args:
            pool: All memories that were found.
            order: Their places, best first; without those that are too far.
            led: Ids that the graph leads to, a list per scope, the first first.
            size: How many of the best.
        """
        if not led:
            best = order[:size]
            return cls(best, len(best), np.full(len(best), -1, np.intp))
        meant = {one for ids in led for one in ids}
        more = [place for place in order[size:].tolist() if pool.ids[place] in meant]
        places = np.concatenate([order[:size], np.array(more, np.intp)])
        at = {pool.ids[place]: number for number, place in enumerate(places.tolist())}
        ranks = np.full(len(places), -1, np.intp)
        for ids in led:
            known = [at[one] for one in ids if one in at]
            ranks[known] = np.arange(len(known))
        return cls(places, len(places) - len(more), ranks)


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
        graph=none,
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


def stage_two(scored: Scored, looked_at: LookedAt, turns: Turns, question: Question) -> Scored:
    """Return the scores with what stands around some memories counted in.

    Args:
        scored: Of stage one.
        looked_at: The memories.
        turns: What is known of them.
        question: What is looked for.
    """
    policy, text, best = question.scoring, question.text or "", looked_at.places
    near = scored.distance[best] - scored.lexical[best]
    # What the graph brings may be far: it must not make all others, and so their turns, nearer.
    within = np.minimum(near, near[: looked_at.listed].max(initial=-np.inf))
    neighbour = policy.neighbour_weight * neighbour_evidence(within, turns)
    speaker = policy.speaker_weight * speaker_evidence(text, turns.speakers)
    dated = policy.date_weight * date_evidence(text, turns.days)
    weight = 0.0 if question.graph is None else question.graph.weight
    led = weight * graph_evidence(looked_at.ranks)
    brief = policy.brevity_weight * brevity(turns.lengths)
    near = near - neighbour - speaker - dated - led + brief
    return scored.changed(
        best,
        neighbour=neighbour,
        speaker=speaker,
        date=dated,
        graph=led,
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
