"""A process of the write storm: writes into a lake and keeps a diary of it, until it is killed.

Two JSON lines per call: one before it, {"call", …}, and one after it, {"done", …}. What has its
second line was acknowledged; a last call without one may have happened or not.
"""

import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kept import KEEP

import ailake

AGENT = "storm"
MOST_CALLS = 3_000


class Diary:
    """Lines that are in the file, and so survive any kill, when a method returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def call(self, verb: str, **about: object) -> None:
        self._write({"call": verb, **about})

    def done(self, *outcomes: ailake.Remembered | ailake.MemoryRecord) -> None:
        ids = [outcome.id for outcome in outcomes]
        decisions = [getattr(outcome, "decision", "modify") for outcome in outcomes]
        self._write({"done": ids, "decisions": decisions})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, f"{json.dumps(line)}\n".encode())


class Storm:
    """Random calls on memories of one's own, now and then on a text that all processes have.

    Without ``changes`` nothing is forgotten or updated, so that new memories pile up undrained.
    """

    def __init__(self, memory: ailake.Memory, diary: Diary, name: str, *, changes: bool) -> None:
        self.memory = memory
        self.diary = diary
        self.name = name
        self.changes = changes
        self.random = random.Random(name)  # noqa: S311 (no secret)
        self.own: dict[str, str] = {}
        self.count = 0

    def text(self) -> str:
        self.count += 1
        return f"{self.name} says number {self.count}"

    def step(self) -> None:
        verbs = [self.remember, self.with_id, self.say, self.shared]
        if self.own:
            verbs += [self.again, self.forget, self.update] if self.changes else [self.again]
        self.random.choice(verbs)()

    def remember(self) -> None:
        text, judge = self.text(), self.random.random() < 0.5
        self.diary.call("remember", texts=[text])
        outcome = self.memory.remember(text, judge=judge)
        self.diary.done(outcome)
        self.noted(outcome, text)

    def with_id(self) -> None:
        text = self.text()
        memory_id = text.replace(" ", "-")
        for _ in range(self.random.choice([1, 1, 2])):  # The second time, nothing happens.
            self.diary.call("remember", texts=[text])
            outcome = self.memory.remember(text, id=memory_id)
            self.diary.done(outcome)
            assert outcome.id == memory_id
        self.noted(outcome, text)

    def say(self) -> None:
        texts = [self.text() for _ in range(self.random.randint(1, 3))]
        self.diary.call("remember", texts=texts)
        outcomes = self.memory.add_messages([{"role": "user", "content": text} for text in texts])
        self.diary.done(*outcomes)
        for outcome, text in zip(outcomes, texts, strict=True):
            self.noted(outcome, text)

    def shared(self) -> None:
        text = f"everybody says number {self.random.randrange(1_000)}"
        self.diary.call("shared", texts=[text])
        self.diary.done(self.memory.remember(text))

    def again(self) -> None:
        memory_id = self.random.choice(list(self.own))
        self.diary.call("again", id=memory_id)
        outcome = self.memory.remember(self.own[memory_id])
        self.diary.done(outcome)
        assert (outcome.id, outcome.decision) == (memory_id, ailake.Decision.SKIP)

    def forget(self) -> None:
        memory_id = self.random.choice(list(self.own))
        self.diary.call("forget", id=memory_id)
        report = self.memory.forget(memory_id)
        self.diary.done()
        assert memory_id in report.ids
        del self.own[memory_id]

    def update(self) -> None:
        memory_id, text = self.random.choice(list(self.own)), self.text()
        self.diary.call("update", id=memory_id, texts=[text])
        record = self.memory.update(memory_id, text=text)
        self.diary.done(record)
        del self.own[memory_id]
        self.own[record.id] = text

    def noted(self, outcome: ailake.Remembered, text: str) -> None:
        assert outcome.decision is ailake.Decision.CREATE
        self.own[outcome.id] = text
        # One's own writes are there at once.
        assert self.memory.get(outcome.id).text == text


def storm(memory: ailake.Memory, diary: Diary, name: str, *, changes: bool = True) -> None:
    calls = Storm(memory, diary, name, changes=changes)
    for _ in range(MOST_CALLS):
        calls.step()
        time.sleep(calls.random.random() * 0.02)


def race(memory: ailake.Memory, diary: Diary, name: str) -> None:
    """Write 250 texts, a quarter of which every other process writes too."""
    for n in range(250):
        text = f"everybody says number {n}" if n % 4 == 0 else f"{name} says number {n}"
        diary.call("shared" if n % 4 == 0 else "remember", texts=[text])
        diary.done(memory.remember(text))


WAYS: dict[str, Callable[[ailake.Memory, Diary, str], None]] = {
    "storm": storm,
    "creations": partial(storm, changes=False),
    "race": race,
}


def main(lake: str, folder: str, name: str, what: str) -> None:
    errors = os.open(Path(folder) / f"{name}.err", os.O_WRONLY | os.O_CREAT)
    os.dup2(errors, 2)
    diary = Diary(str(Path(folder) / f"{name}.jsonl"))
    diary.call("open")
    with ailake.connect(lake, embedder="hashing:16", judge_rules=KEEP) as opened:
        diary.done()
        WAYS[what](opened.memory(AGENT), diary, name)


if __name__ == "__main__":
    main(**globals()["ORDER"])
