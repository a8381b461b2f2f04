"""Evidence recall on LoCoMo: real multi-session conversations, asked at their end.

    python benchmarks/locomo.py --data ../shared/data/locomo [--embedder local] [--sweep]

Each turn is one memory, aged from its session's date. One JSON line per ranking and category:
evidence recall@5/10/20 (share of a question's evidence turns among the first k) and MRR (of the
first evidence turn). "all" is categories 1 to 4; 5 is adversarial, its answer is not there.
The corrected evidence key is used (see the data's README).
"""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ailake
from ailake.embed import Embedder, embed_documents, resolve_embedder

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
DEPTHS = (5, 10, 20)
RANKINGS = {
    "vector": ailake.ScoringPolicy(floor=1.0),
    "default": ailake.ScoringPolicy(),
    "seed": ailake.ScoringPolicy.SEED,
}
SWEEP = {
    f"{name} floor {floor}": ailake.ScoringPolicy(recency=recency, floor=floor)
    for name, recency in (
        ("weekly", ailake.RecencyConfig.WEEKLY_DECAY),
        ("monthly", ailake.RecencyConfig.MONTHLY_DECAY),
        ("quarterly", ailake.RecencyConfig.QUARTERLY_DECAY),
    )
    for floor in (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.985, 0.99, 0.995, 1.0)
}


@dataclass(frozen=True)
class Question:
    vector: NDArray[np.float32]
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True)
class Conversation:
    memory: ailake.Memory
    end: datetime
    questions: list[Question]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with locomo.json")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--sweep", action="store_true", help="recall@10 for many floors instead")
    options = parser.parse_args()
    embedder = resolve_embedder(options.embedder)
    samples = json.loads((options.data / "locomo.json").read_text(encoding="utf-8"))
    with (
        tempfile.TemporaryDirectory() as folder,
        ailake.connect(folder, embedder=embedder) as lake,
    ):
        started = perf_counter()
        conversations = [ingest(lake, embedder, sample) for sample in samples]
        turns = sum(conversation.memory.count() for conversation in conversations)
        report(figure="ingest", turns=turns, seconds=round(perf_counter() - started, 1))
        for name, policy in (SWEEP if options.sweep else RANKINGS).items():
            for line in figures(conversations, policy):
                if not options.sweep or line["category"] == "all":
                    report(figure="recall", ranking=name, embedder=embedder.id, **line)


def ingest(lake: ailake.Lake, embedder: Embedder, sample: dict[str, Any]) -> Conversation:
    memory = lake.memory(agent_id="locomo", project_id=sample["sample_id"])
    items = list(turns_of(sample))
    outcomes = memory.remember_many(items)
    stored = {item["id"]: outcome.id for item, outcome in zip(items, outcomes, strict=True)}
    asked = [q for q in sample["qa"] if q["evidence"] and q["category"] in CATEGORIES]
    vectors = embed_documents(embedder, [str(q["question"]) for q in asked])
    questions = [
        Question(vector, evidence, q["category"])
        for q, vector in zip(asked, vectors, strict=True)
        if (evidence := evidence_of(q, sample["sample_id"], stored))
    ]
    return Conversation(memory, items[-1]["event_time"], questions)


def turns_of(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    talk = sample["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        told = f"{talk[f'session_{number}_date_time']} +0000"
        start = datetime.strptime(told, "%I:%M %p on %d %B, %Y %z")
        for place, turn in enumerate(talk[f"session_{number}"]):
            photo = f" (shows {turn['blip_caption']})" if turn.get("blip_caption") else ""
            yield {
                "id": f"{sample['sample_id']}/{turn['dia_id']}",
                "text": f"{turn['text']}{photo}",
                "speaker": turn["speaker"],
                "session_id": str(number),
                "event_time": start + timedelta(seconds=30 * place),
            }


def evidence_of(question: dict[str, Any], sample: str, stored: dict[str, str]) -> frozenset[str]:
    names = (f"{sample}/{turn}" for turn in question["evidence"])
    return frozenset(stored[name] for name in names if name in stored)


def figures(
    conversations: list[Conversation], policy: ailake.ScoringPolicy
) -> Iterator[dict[str, Any]]:
    results = [
        (question.category, *measured(conversation, question, policy))
        for conversation in conversations
        for question in conversation.questions
    ]
    groups = {"all": {1, 2, 3, 4}, **{name: {number} for number, name in CATEGORIES.items()}}
    for name, numbers in groups.items():
        rows = np.array([row[1:] for row in results if row[0] in numbers])
        means = rows.mean(axis=0).round(4).tolist()
        at = {f"recall@{depth}": mean for depth, mean in zip(DEPTHS, means, strict=False)}
        yield {"category": name, "questions": len(rows), **at, "mrr": means[-1]}


def measured(
    conversation: Conversation, question: Question, policy: ailake.ScoringPolicy
) -> tuple[float, ...]:
    hits = conversation.memory.recall(
        question.vector, limit=max(DEPTHS), scoring=policy, touch=False, now=conversation.end
    )
    found = [hit.id in question.evidence for hit in hits]
    recalls = [sum(found[:depth]) / len(question.evidence) for depth in DEPTHS]
    first = found.index(True) + 1 if any(found) else 0
    return (*recalls, 1 / first if first else 0.0)


def report(**line: object) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
