"""What servers and models answer: checked strictly, and refused rather than repaired."""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError


class MalformedError(Exception):
    """An answer that does not have the shape that was asked for."""


class Shape(BaseModel):
    """The shape of an answer: every field is required, none is added, no type is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt


class Completion(BaseModel):
    """What a server answers to a question of the chat protocol, as far as it is looked at."""

    choices: tuple[_Choice, ...]
    usage: _Tokens | None = None

    @classmethod
    def of(cls, body: str) -> "Completion":
        """Read the body of an HTTP answer.

        Raises:
            MalformedError: It is none, or has no choice.
        """
        try:
            read = cls.model_validate_json(body)
        except ValidationError as error:
            raise MalformedError(
                f"the server's answer is no completion: {_first(error)}"
            ) from error
        if not read.choices:
            raise MalformedError("the server's answer has no choice")
        return read

    @property
    def text(self) -> str:
        """What the model wrote.

        Raises:
            MalformedError: It refused, or was cut off, or wrote nothing.
        """
        choice = self.choices[0]
        if choice.message.refusal:
            raise MalformedError(f"the model refused: {choice.message.refusal[:200]}")
        if choice.finish_reason not in {"stop", None}:
            raise MalformedError(f"the answer ended for the reason {choice.finish_reason!r}")
        if not choice.message.content:
            raise MalformedError("the answer is empty")
        return choice.message.content


S = TypeVar("S", bound=Shape)

_REASON = 500

# Some servers don't know of shapes, and their models like to wrap what they write.
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(?P<inside>(?:(?!```).)*)```\s*", re.DOTALL)


def parsed(text: str, shape: type[S]) -> S:
    """Return what a model wrote, as the shape that was asked for.

    One fence around the whole of it is taken off. JSON amid other text is refused: which part was
    meant would be a guess.

    Raises:
        MalformedError: It has another shape, or names a field twice.
    """
    fenced = _FENCED.fullmatch(text)
    inside = fenced["inside"] if fenced else text
    try:
        json.loads(inside, object_pairs_hook=_once)
        return shape.model_validate_json(inside)
    except ValidationError as error:
        raise MalformedError(_first(error)) from error
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise MalformedError("a field is named twice")
    return read


def _first(error: ValidationError) -> str:
    # Without what was got: it may be long, and it may be somebody's.
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def short_reason(reason: str) -> str:
    """Return a model's reason as it is kept: on one line, cut where it is too long."""
    line = " ".join(reason.split()) or "no reason given"
    return line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"
