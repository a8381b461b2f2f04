"""A person as the reviewer of grey pairs: written to a file, answered there, and read back."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ailake.core.entities import check_short_text
from ailake.core.reviewing import GreyCase, ReviewAnswer, ReviewVerdict
from ailake.errors import InvalidInputError

_FIELDS = frozenset(
    {
        "pair_id", "agent_id", "user_id", "project_id", "speaker", "existing", "existing_at", "new",
        "new_at", "score", "answer", "reason",
    }
)  # fmt: skip


def export_pairs(cases: Iterable[GreyCase], file: Path) -> int:
    """Write grey pairs to a new file, a JSON object per line, and return how many.

    ``answer`` and ``reason`` are empty: for a person to fill in.

    Raises:
        InvalidInputError: The file exists; it may hold answers.
    """
    lines = [json.dumps(_line(case), ensure_ascii=False) + "\n" for case in cases]
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.writelines(lines)
    except FileExistsError as error:
        raise InvalidInputError.of("file", got=str(file), wanted="a file that is new") from error
    return len(lines)


class FileReviewer:
    """Answers from a file that ``export_pairs`` wrote and a person filled in.

    Lines without an answer leave their pair waiting; so does a pair without a line. The texts in
    the file are there to be read, and are not looked at: a memory's text never changes.

    Args:
        file: The file. Every line is checked at once.
        name: Who answered; kept with each answer.

    Raises:
        InvalidInputError: A line is wrong; the message names it.
    """

    def __init__(self, file: Path, *, name: str = "person") -> None:
        check_short_text(name, name="name")
        if not name.strip():
            raise InvalidInputError.of("name", got=name, wanted="who answered")
        self._name = name
        self._answers = _read(file)
        self._asked: set[str] = set()

    @property
    def id(self) -> str:
        """``person:`` and the name."""
        return f"person:{self._name}"

    @property
    def pair_ids(self) -> frozenset[str]:
        """The pairs that the file has an answer for."""
        return frozenset(self._answers)

    @property
    def unasked(self) -> frozenset[str]:
        """Those of them that no run has asked about: they don't wait, or are of another lake."""
        return self.pair_ids - self._asked

    def review(self, case: GreyCase) -> ReviewAnswer | None:
        """Return the file's answer for a pair, None where it has none."""
        self._asked.add(case.pair_id)
        return self._answers.get(case.pair_id)


def _line(case: GreyCase) -> dict[str, Any]:
    new, old = case.new, case.existing
    scope = case.scope
    return {
        "pair_id": case.pair_id,
        "agent_id": scope.agent_id,
        "user_id": scope.user_id,
        "project_id": scope.project_id,
        "speaker": new.speaker,
        "existing": old.text,
        "existing_at": (old.event_time or old.created_at).isoformat(),
        "new": new.text,
        "new_at": (new.event_time or new.created_at).isoformat(),
        "score": case.score,
        "answer": "",
        "reason": "",
    }


def _read(file: Path) -> dict[str, ReviewAnswer]:
    answers: dict[str, ReviewAnswer] = {}
    seen: dict[str, int] = {}
    for number, raw in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            fields = _fields(raw)
            pair = fields["pair_id"]
            if pair in seen:
                raise InvalidInputError.of(
                    "pair_id", got=pair, wanted=f"one that line {seen[pair]} does not have"
                )
            seen[pair] = number
            if fields["answer"]:
                answers[pair] = ReviewAnswer(ReviewVerdict(fields["answer"]), fields["reason"])
        except ValueError as error:
            raise InvalidInputError(f"{file}, line {number}: {error}") from error
    return answers


def _fields(raw: bytes) -> Mapping[str, str]:
    read = json.loads(raw.decode("utf-8"))
    if not isinstance(read, dict) or set(read) - _FIELDS:
        raise InvalidInputError.of(
            "the line", got=read, wanted=f"a JSON object of {', '.join(sorted(_FIELDS))}"
        )
    for name in ("pair_id", "answer", "reason"):
        if not isinstance(read.get(name), str):
            raise InvalidInputError.of(name, got=read.get(name), wanted="text")
    wanted = ["", *ReviewVerdict]
    if read["answer"] not in wanted:
        told = f"one of {', '.join(ReviewVerdict)}, or empty text"
        raise InvalidInputError.of("answer", got=read["answer"], wanted=told)
    return read
