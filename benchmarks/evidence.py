"""What both conversation benchmarks share: rankings, sweeps, and how found evidence is counted."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ailake

DEPTHS = (5, 10, 20)

_DEFAULT = ailake.ScoringPolicy()
# Nothing ages, and all that is remembered is as important as the rest.
_FLAT = replace(_DEFAULT, floor=1.0)
_ALONE = replace(
    _FLAT, neighbour_weight=0.0, speaker_weight=0.0, date_weight=0.0, brevity_weight=0.0
)


@dataclass(frozen=True)
class Ranking:
    mode: str
    scoring: ailake.ScoringPolicy
    graph: bool = False


RANKINGS = {
    "bm25": Ranking("text", _ALONE),
    "vector": Ranking("vector", _FLAT),
    "hybrid, stage one": Ranking("hybrid", _ALONE),
    "hybrid": Ranking("hybrid", _FLAT),
    "hybrid + default policy": Ranking("hybrid", _DEFAULT),
    "pure formula (SEED)": Ranking("hybrid", ailake.ScoringPolicy.SEED),
}

WITH_GRAPH = {
    "hybrid": RANKINGS["hybrid"],
    "hybrid + graph": replace(RANKINGS["hybrid"], graph=True),
}

# One at a time around the default: what is chosen lies on a plateau of both corpora.
_FIELDS: Mapping[str, Sequence[float]] = {
    "lexical_weight": (0.0, 0.5, 0.75, 1.0, 1.25, 1.5),
    "lexical_half": (8.0, 12.0, 16.0, 20.0, 24.0, 32.0),
    "neighbour_weight": (0.0, 0.3, 0.4, 0.5, 0.6, 0.7),
    "speaker_weight": (0.0, 0.1, 0.2, 0.3, 0.4),
    "date_weight": (0.0, 0.1, 0.2, 0.3, 0.4),
    "brevity_weight": (0.0, 0.05, 0.1, 0.15, 0.2),
}
_RATES = {
    "weekly": ailake.RecencyConfig.WEEKLY_DECAY,
    "monthly": ailake.RecencyConfig.MONTHLY_DECAY,
    "quarterly": ailake.RecencyConfig.QUARTERLY_DECAY,
}
_FLOORS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)


def varied(name: str, value: float) -> ailake.ScoringPolicy:
    """Return the default policy with one of its numbers changed."""
    changes: dict[str, Any] = {name: value}
    return replace(_DEFAULT, **changes)


SWEEP = {
    **{
        f"{name} {value}": Ranking("hybrid", varied(name, value))
        for name, values in _FIELDS.items()
        for value in values
    },
    **{
        f"{rate} decay, floor {floor}": Ranking(
            "hybrid", replace(_DEFAULT, recency=config, floor=floor)
        )
        for (rate, config), floor in product(_RATES.items(), _FLOORS)
    },
}


@dataclass(frozen=True)
class Question:
    text: str
    vector: NDArray[np.float32]
    evidence: frozenset[str]
    category: str


@dataclass(frozen=True)
class Conversation:
    memory: ailake.Memory
    now: datetime
    questions: Sequence[Question]
    graph: ailake.GraphEvidence | None = None


def linked(lake: ailake.Lake, conversations: Sequence[Conversation]) -> list[Conversation]:
    """Return conversations with the graph of what their turns mention, names and words."""
    started, extractor = perf_counter(), ailake.RulesExtractor(words=True)
    for memory in {one.memory.scope: one.memory for one in conversations}.values():
        ids = [turn.id for turn in memory.list(limit=10_000)]
        lake.graph().extract(memory.scope, ids, extractor=extractor)
    mentions = lake.table("mentions").count_rows()
    report(figure="graph", mentions=mentions, seconds=round(perf_counter() - started, 1))
    evidence = ailake.GraphEvidence(lake.graph(), extractor)
    return [replace(one, graph=evidence) for one in conversations]


def arguments(description: str | None, *, file: str) -> argparse.Namespace:
    """Read a benchmark's command line.

    Args:
        description: Shown as its help.
        file: What is looked for in the folder of data.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {file}")
    parser.add_argument("--embedder", default="local")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--sweep", action="store_true", help="vary one part of the policy a time")
    chosen.add_argument("--graph", action="store_true", help="with and without the entity graph")
    return parser.parse_args()


def figures(
    conversations: Sequence[Conversation], ranking: Ranking, *, counted: Sequence[str]
) -> Iterator[dict[str, object]]:
    """Yield a line for all questions and one for each category.

    Args:
        conversations: What was remembered, and what is asked about it.
        ranking: How it is recalled.
        counted: The categories that "all" means.
    """
    started = perf_counter()
    results = [
        (question.category, _measured(conversation, question, ranking))
        for conversation in conversations
        for question in conversation.questions
    ]
    seconds = (perf_counter() - started) / len(results)
    groups = {"all": set(counted), **{name: {name} for name, _ in results}}
    for name, members in groups.items():
        rows = np.array([measures for category, measures in results if category in members])
        means = rows.mean(axis=0).round(4).tolist()
        names = (*(f"recall@{depth}" for depth in DEPTHS), "mrr", "ndcg@10", "exact")
        yield {
            "category": name,
            "questions": len(rows),
            **dict(zip(names, means, strict=True)),
            "ms": round(1e3 * seconds, 1),
        }


def _measured(
    conversation: Conversation, question: Question, ranking: Ranking
) -> tuple[float, ...]:
    hits = conversation.memory.recall(
        question.text,
        vector=None if ranking.mode == "text" else question.vector,
        limit=max(DEPTHS),
        mode=ranking.mode,
        scoring=ranking.scoring,
        graph=conversation.graph if ranking.graph else None,
        touch=False,
        now=conversation.now,
    )
    found = [hit.id in question.evidence for hit in hits]
    recalls = [sum(found[:depth]) / len(question.evidence) for depth in DEPTHS]
    first = 1 / (found.index(True) + 1) if any(found) else 0.0
    return (*recalls, first, _ndcg(found[:10], len(question.evidence)), float(hits.exact))


def _ndcg(found: Sequence[bool], wanted: int) -> float:
    discounts = 1 / np.log2(np.arange(2, len(found) + 2))
    best = (1 / np.log2(np.arange(2, min(wanted, 10) + 2))).sum()
    return float((np.array(found) * discounts).sum() / best)


def rankings(options: argparse.Namespace) -> Mapping[str, Ranking]:
    """Return what a command line asks for."""
    if options.graph:
        return WITH_GRAPH
    return SWEEP if options.sweep else RANKINGS


def report(**line: object) -> None:
    """Print one figure."""
    print(json.dumps(line), flush=True)
