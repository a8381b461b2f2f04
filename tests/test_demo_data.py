"""The shipped demo conversation is long, dated, bilingual and repetitive."""

import importlib.util
import json
import re
from collections import Counter
from datetime import datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
CJK = re.compile(r"[\u4e00-\u9fff]")
FIELDS = [
    "id",
    "session_id",
    "event_time",
    "speaker",
    "role",
    "text",
    "importance",
    "kind",
    "metadata",
]
KINDS = {"chat", "fact", "preference", "plan", "event"}
TOPICS = {"food", "health", "work", "home", "travel", "pets", "running", "art", "family", "noise"}


def _read(name: str) -> str:
    """Read a demo file as installed, or from the checkout when the package is not importable."""
    if importlib.util.find_spec("ailake") and importlib.util.find_spec("ailake.demo"):
        resource = files("ailake.demo").joinpath(name)
        if resource.is_file():
            return resource.read_text(encoding="utf-8")
    return (HERE.parent / "ailake" / "demo" / name).read_text(encoding="utf-8")


def _same(turn: dict[str, Any]) -> tuple[str, str]:
    """Key under which two turns say exactly the same thing."""
    text = " ".join(str(turn["text"]).casefold().split())
    return turn["speaker"], text.rstrip(".!。！ ")


@pytest.fixture(scope="module")
def turns() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _read("conversation.jsonl").splitlines()]


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(_read("questions.json"))
    return loaded


def test_turns_are_complete_and_numbered_in_order(turns: list[dict[str, Any]]) -> None:
    assert len(turns) >= 300
    assert [turn["id"] for turn in turns] == [f"d{n:03d}" for n in range(1, len(turns) + 1)]
    for turn in turns:
        assert list(turn) == FIELDS
        assert turn["role"] == "user"
        assert turn["text"] == turn["text"].strip() != ""
        assert 0 <= turn["importance"] <= 1
        assert turn["kind"] in KINDS
        assert set(turn["metadata"]) == {"topic"}
        assert turn["metadata"]["topic"] in TOPICS


def test_times_are_aware_and_strictly_increase_over_half_a_year(
    turns: list[dict[str, Any]],
) -> None:
    times = [datetime.fromisoformat(turn["event_time"]) for turn in turns]
    assert all(time.utcoffset() is not None for time in times)
    assert all(a < b for a, b in pairwise(times))
    assert times[-1] - times[0] >= timedelta(days=170)


def test_sessions_are_contiguous_and_of_chat_length(turns: list[dict[str, Any]]) -> None:
    sizes = Counter(turn["session_id"] for turn in turns)
    assert list(sizes) == [f"s{n:02d}" for n in range(1, len(sizes) + 1)]
    assert all(8 <= size <= 16 for size in sizes.values())
    order = [turn["session_id"] for turn in turns]
    assert order == sorted(order)


def test_three_people_speak_and_one_turn_in_ten_has_chinese(turns: list[dict[str, Any]]) -> None:
    assert {turn["speaker"] for turn in turns} == {"Ana", "Bo", "林薇"}
    chinese = [turn for turn in turns if CJK.search(turn["text"])]
    assert len(chinese) >= len(turns) / 10


def test_at_least_ten_turns_repeat_an_earlier_one(turns: list[dict[str, Any]]) -> None:
    said = Counter(_same(turn) for turn in turns if turn["metadata"]["topic"] != "noise")
    assert sum(said.values()) - len(said) >= 10


def test_questions_point_at_turns_and_have_answers(
    turns: list[dict[str, Any]], questions: list[dict[str, Any]]
) -> None:
    last = datetime.fromisoformat(turns[-1]["event_time"])
    when = {turn["id"]: turn["event_time"] for turn in turns}
    assert len(questions) == 14
    for question in questions:
        assert question["question"].strip()
        assert question["answer"].strip()
        assert question["why"].strip()
        assert question["evidence"]
        assert set(question["evidence"]) <= set(when)
        assert datetime.fromisoformat(question["now"]) > last
        outdated = question.get("outdated", [])
        assert set(outdated) <= set(when) - set(question["evidence"])
        # After a change of mind the newest statement is the evidence.
        newest = max(when[turn_id] for turn_id in question["evidence"])
        assert all(when[turn_id] < newest for turn_id in outdated)


def test_questions_cover_chinese_and_changes_of_mind(questions: list[dict[str, Any]]) -> None:
    assert sum(bool(CJK.search(question["question"])) for question in questions) >= 3
    assert sum("outdated" in question for question in questions) >= 3
    assert any("LX-48213" in question["question"] for question in questions)
