"""The demo's data: a made-up conversation of three people, and questions about it."""

import json
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the conversation.

    Attributes:
        answer: What a person would answer.
        evidence: Ids of the turns that say so.
        outdated: Ids of turns that said otherwise before.
        why: What the question shows.
        now: When it is asked.
    """

    question: str
    answer: str
    evidence: tuple[str, ...]
    outdated: tuple[str, ...]
    why: str
    now: datetime


def load_turns() -> list[dict[str, Any]]:
    """Return the turns as items for ``remember_many``, oldest first."""
    lines = (files("ailake.demo") / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
    turns = [json.loads(line) for line in lines]
    return [{**turn, "event_time": datetime.fromisoformat(turn["event_time"])} for turn in turns]


def load_questions() -> list[Question]:
    """Return the questions."""
    text = (files("ailake.demo") / "questions.json").read_text(encoding="utf-8")
    return [
        Question(
            question=item["question"],
            answer=item["answer"],
            evidence=tuple(item["evidence"]),
            outdated=tuple(item.get("outdated", ())),
            why=item["why"],
            now=datetime.fromisoformat(item["now"]),
        )
        for item in json.loads(text)
    ]
