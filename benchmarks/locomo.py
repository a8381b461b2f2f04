"""Evidence recall on LoCoMo: real multi-session conversations, asked at their end.

    python benchmarks/locomo.py --data ../shared/data/locomo [--embedder local] [--sweep | --graph]

Each turn is one memory, aged from its session's date. One JSON line per ranking and category:
evidence recall@5/10/20 (share of a question's evidence turns among the first k), MRR (of the
first evidence turn), NDCG@10, the share of recalls that were proven, and milliseconds per recall
with the query's vector at hand. "all" is categories 1 to 4; 5 is adversarial, its answer is not
there. With ``--graph`` the graph of what the turns mention, names and plain words, is made, and
recall is measured with and without it as evidence. The corrected evidence key is used (see the
data's README).
"""

import json
import re
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

from evidence import Conversation, Question, arguments, figures, linked, rankings, report

import ailake
from ailake.embed import Embedder, embed_query, resolve_embedder

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
COUNTED = ("multi-hop", "temporal", "open-domain", "single-hop")


def main() -> None:
    options = arguments(__doc__, file="locomo.json")
    embedder = resolve_embedder(options.embedder)
    samples = json.loads((options.data / "locomo.json").read_text(encoding="utf-8"))
    with (
        tempfile.TemporaryDirectory() as folder,
        ailake.connect(folder, embedder=embedder) as lake,
    ):
        started = perf_counter()
        conversations = [ingest(lake, embedder, sample) for sample in samples]
        lake.flush()
        turns = sum(conversation.memory.count() for conversation in conversations)
        report(figure="ingest", turns=turns, seconds=round(perf_counter() - started, 1))
        if options.graph:
            conversations = linked(lake, conversations)
        for name, ranking in rankings(options).items():
            for line in figures(conversations, ranking, counted=COUNTED):
                if not options.sweep or line["category"] == "all":
                    report(figure="recall", ranking=name, embedder=embedder.id, **line)


def ingest(lake: ailake.Lake, embedder: Embedder, sample: dict[str, Any]) -> Conversation:
    memory = lake.memory(agent_id="locomo", project_id=sample["sample_id"])
    items = list(turns_of(sample))
    outcomes = memory.remember_many(items)
    stored = {item["id"]: outcome.id for item, outcome in zip(items, outcomes, strict=True)}
    questions = [
        Question(
            str(asked["question"]),
            embed_query(embedder, str(asked["question"])),
            evidence,
            CATEGORIES[asked["category"]],
        )
        for asked in sample["qa"]
        if asked["category"] in CATEGORIES
        and (evidence := evidence_of(asked, sample["sample_id"], stored))
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


if __name__ == "__main__":
    main()
