"""Evidence recall on LongMemEval: chats with an assistant, whose turns are long.

    python benchmarks/longmemeval.py --data ../shared/data/longmemeval [--embedder local]
                                     [--sweep | --graph]

The evidence sessions of all questions together are one scope, each turn one memory (a long one in
passages), asked on the question's day; the evidence of a question are the turns that its key
names. Lines and measures as in locomo.py.
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


def main() -> None:
    options = arguments(__doc__, file="oracle.json")
    embedder = resolve_embedder(options.embedder)
    samples = json.loads((options.data / "oracle.json").read_text(encoding="utf-8"))
    with (
        tempfile.TemporaryDirectory() as folder,
        ailake.connect(folder, embedder=embedder) as lake,
    ):
        started = perf_counter()
        conversations = ingest(lake, embedder, samples)
        lake.flush()
        turns = conversations[0].memory.count()
        report(figure="ingest", turns=turns, seconds=round(perf_counter() - started, 1))
        categories = sorted({one.questions[0].category for one in conversations})
        if options.graph:
            conversations = linked(lake, conversations)
        for name, ranking in rankings(options).items():
            for line in figures(conversations, ranking, counted=categories):
                if not options.sweep or line["category"] == "all":
                    report(figure="recall", ranking=name, embedder=embedder.id, **line)


def ingest(
    lake: ailake.Lake, embedder: Embedder, samples: list[dict[str, Any]]
) -> list[Conversation]:
    """Remember all sessions once, and return a conversation per question: each has its day."""
    memory = lake.memory(agent_id="longmemeval")
    items = {item["id"]: item for sample in samples for item, _ in turns_of(sample)}
    outcomes = memory.remember_many(list(items.values()))
    stored = {name: outcome.id for name, outcome in zip(items, outcomes, strict=True)}
    conversations = []
    for sample in samples:
        named = frozenset(stored[item["id"]] for item, answers in turns_of(sample) if answers)
        if named:
            text, kind = str(sample["question"]), str(sample["question_type"])
            question = Question(text, embed_query(embedder, text), named, kind)
            conversations.append(Conversation(memory, day_of(sample["question_date"]), [question]))
    return conversations


def turns_of(sample: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each turn as a memory, and whether the question's key names it."""
    sessions = zip(
        sample["haystack_session_ids"],
        sample["haystack_dates"],
        sample["haystack_sessions"],
        strict=True,
    )
    for session, told, turns in sessions:
        start = day_of(told)
        for place, turn in enumerate(turns):
            item = {
                "id": f"{session}/{place}",
                "text": turn["content"],
                "role": turn["role"],
                "session_id": session,
                "event_time": start + timedelta(seconds=30 * place),
            }
            yield item, bool(turn.get("has_answer"))


def day_of(told: str) -> datetime:
    """Return the instant of a text such as "2023/03/14 (Tue) 22:35"."""
    return datetime.strptime(re.sub(r" \(\w+\)", "", told) + " +0000", "%Y/%m/%d %H:%M %z")


if __name__ == "__main__":
    main()
