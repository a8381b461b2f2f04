"""A chat model behind a real server: strict answers, bounded retries, counted tokens."""

import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from threading import Barrier
from time import sleep
from typing import Any

import pytest
from chat_server import Ask, ChatServer, Reply, said, told

from ailake import providers
from ailake.asking import NO_ANSWERS, OUT_OF_TOKENS, Asking
from ailake.core.usage import Usage
from ailake.errors import InvalidInputError, MissingExtraError, ProviderError
from ailake.providers import Answered, ChatModel
from ailake.providers.shapes import Shape

SOON = {"retry-after-ms": "5"}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Paint(Shape):
    colour: Colour
    coats: int


GOOD = said(colour="red", coats=2)
RED = Paint(colour=Colour.RED, coats=2)
JSON = '{"colour": "red", "coats": 2}'


def model(chat: ChatServer, **options: Any) -> ChatModel:
    return _model(**{"base_url": chat.url, "api_key": "sk-of-ana", "retries": 1, **options})


@cache
def _model(**settings: Any) -> ChatModel:
    # A client reads certificates as it is made, which takes longer than a question.
    return ChatModel("m", **settings)


def test_a_good_answer_with_its_tokens(chat: ChatServer) -> None:
    chat.script = [GOOD]
    answered = model(chat, max_output_tokens=99).ask("Paint.", "the fence", Paint)
    assert (answered.value, answered.usage) == (RED, Usage(70, 30))
    (ask,) = chat.asked
    assert ask["model"] == "m"
    assert ask["max_completion_tokens"] == 99
    assert [message["content"] for message in ask["messages"]] == ["Paint.", "the fence"]
    wanted = ask["response_format"]["json_schema"]
    assert (wanted["strict"], wanted["name"]) == (True, "Paint")
    assert wanted["schema"]["required"] == ["colour", "coats"]
    assert wanted["schema"]["additionalProperties"] is False
    assert chat.keys == {"Bearer sk-of-ana"}


def test_nothing_is_sent_before_it_is_asked(chat: ChatServer) -> None:
    assert model(chat).id == "openai:m"
    assert chat.asked == []


MALFORMED = {
    "no JSON": told("red, I think"),
    "half of it": told(JSON[:-4]),
    "amid prose": told(f"Here it is: {JSON}"),
    "a fence amid prose": told(f"Here:\n```json\n{JSON}\n```"),
    "two fences": told(f"```json\n{JSON}\n```\n```json\n{JSON}\n```"),
    "a wrong enum": said(colour="green", coats=2),
    "a wrong type": said(colour="red", coats="2"),
    "a field too many": said(colour="red", coats=2, why="so"),
    "a field too few": said(colour="red"),
    "a field twice": told('{"colour": "blue", "colour": "red", "coats": 2}'),
    "a list": told(f"[{JSON}]"),
    "nested": told("[" * 100_000),
    "nothing": told(""),
    "null": told(None),
    "a refusal": told(JSON, refusal="I'd rather not"),
    "cut off": told(JSON, finish_reason="length"),
    "no choice": Reply('{"choices": []}'),
    "no completion": Reply('{"error": "odd"}'),
    "an empty body": Reply(""),
    "a page": Reply("<html>", headers={"Content-Type": "text/html"}),
    "tokens below zero": told(JSON, tokens=(-1, 5)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_answer_is_asked_for_again_and_then_refused(
    chat: ChatServer, name: str
) -> None:
    chat.script = [MALFORMED[name], GOOD]
    assert model(chat).ask("", "", Paint).value == RED
    chat.script = [MALFORMED[name]] * 3
    with pytest.raises(ProviderError, match="in 3 attempts") as caught:
        model(chat, attempts=3).ask("", "", Paint)
    assert (chat.script, caught.value.ends_run) == ([], False)
    if MALFORMED[name].body.endswith('"completion_tokens": 30}}'):
        assert caught.value.usage == (210, 90)


@pytest.mark.parametrize("text", [f"```json\n{JSON}\n```", f"\n```\n{JSON}\n```\n", f" {JSON}\n"])
def test_one_fence_around_the_whole_is_taken_off(chat: ChatServer, text: str) -> None:
    chat.script = [told(text)]
    assert model(chat).ask("", "", Paint).value == RED


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=429, headers=SOON), Reply(status=500, headers=SOON),
        Reply(status=503, headers=SOON), Reply(GOOD.body, cut=True), Reply(held=True),
    ],
)  # fmt: skip
def test_what_may_pass_is_tried_again_and_not_for_ever(chat: ChatServer, reply: Reply) -> None:
    timeout = 0.2 if reply.held else 60.0
    # A good answer may take longer than that, too.
    chat.script, chat.answer = [reply], lambda _: GOOD
    again = model(chat, timeout=timeout, retries=20 if reply.held else 1)
    assert again.ask("", "", Paint).value == RED
    asked = len(chat.asked)
    chat.script = [reply, reply, GOOD]
    with pytest.raises(ProviderError) as caught:
        model(chat, timeout=timeout).ask("", "", Paint)
    # The server may hear of a request after its sender has given up.
    chat.wait_for(asked + 2)
    assert (chat.script, caught.value.ends_run) == ([GOOD], False)


@pytest.mark.parametrize(("status", "ends_run"), [(401, True), (404, True), (400, False)])
def test_a_refused_request_is_not_sent_again(
    chat: ChatServer, status: int, *, ends_run: bool
) -> None:
    body = '{"error": {"message": "not with sk-of-ana"}}'
    chat.script = [Reply(body, status=status), GOOD]
    with pytest.raises(ProviderError, match=f"status {status}") as caught:
        model(chat).ask("", "", Paint)
    assert (chat.script, caught.value.ends_run) == ([GOOD], ends_run)
    assert "sk-of-ana" not in str(caught.value)


def test_tokens_are_estimated_where_the_server_does_not_tell(chat: ChatServer) -> None:
    chat.script = [told(JSON, tokens=None)]
    usage = model(chat).ask("Paint it.", "the long fence", Paint).usage
    assert usage.input_tokens >= 3
    assert usage.output_tokens >= 5


def test_no_more_are_under_way_than_allowed(chat: ChatServer) -> None:
    both, first_two = Barrier(2), iter(range(2))

    def answer(_: Ask) -> Reply:
        if next(first_two, None) is not None:
            both.wait()
            sleep(0.1)  # In which a third would come.
        return GOOD

    chat.answer = answer
    asked = model(chat, concurrency=2)
    run: Asking[str, Answered[Paint]] = Asking(
        lambda text: asked.ask("", text, Paint), concurrency=8
    )
    texts = [str(place) for place in range(20)]
    assert [question for question, _ in run.answers(texts)] == texts
    assert chat.most_at_once == 2
    assert run.usage == Usage(1_400, 600)


def test_the_key_can_come_from_the_environment(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_ANA", "sk-env")
    chat.script = [GOOD]
    ChatModel("m", base_url=chat.url, api_key_env="KEY_OF_ANA").ask("", "", Paint)
    assert chat.keys == {"Bearer sk-env"}
    monkeypatch.delenv("KEY_OF_ANA")
    with pytest.raises(InvalidInputError, match="KEY_OF_ANA"):
        ChatModel("m", base_url=chat.url, api_key_env="KEY_OF_ANA")


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": ""}, {"timeout": 0}, {"timeout": True}, {"retries": -1}, {"attempts": 0},
        {"concurrency": 0}, {"max_output_tokens": 1.5},
    ],
)  # fmt: skip
def test_wrong_arguments(chat: ChatServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        model(chat, **wrong)
    with pytest.raises(InvalidInputError, match="model"):
        ChatModel("", api_key="x")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ailake.providers.chat.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"ailake-memory\[openai\]"):
        ChatModel("m", api_key="x")


def test_the_package_is_imported_late() -> None:
    code = "import ailake.facts, sys; assert not {'openai', 'ailake.providers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_names_of_the_package_exist() -> None:
    assert providers.__all__ == sorted(providers.__all__)
    assert all(getattr(providers, name) is not None for name in providers.__all__)
    assert set(providers.__all__) <= set(dir(providers))


@dataclass(frozen=True)
class Spent:
    usage: Usage


def run_of(*costs: int, **options: Any) -> tuple["Asking[int, Spent]", list[int]]:
    """Ask questions that are their own cost; one below zero fails."""
    asked: list[int] = []

    def ask(cost: int) -> Spent:
        asked.append(cost)
        if cost < 0:
            raise ProviderError("no", usage=(-cost, 0))
        return Spent(Usage(cost))

    run = Asking(ask, **options)
    list(run.answers(costs))
    return run, asked


def test_a_cap_ends_the_run_before_the_next_question() -> None:
    run, asked = run_of(60, -40, 10, 10, max_tokens=100)
    assert (asked, run.stopped, run.usage.total) == ([60, -40], OUT_OF_TOKENS, 100)
    run, asked = run_of(60, 40, max_tokens=100)
    assert (asked, run.stopped) == ([60, 40], "")


def test_a_server_that_is_down_is_not_asked_for_ever() -> None:
    run, asked = run_of(*[-1] * 9)
    assert (len(asked), run.stopped) == (5, NO_ANSWERS)
    run, asked = run_of(*([-1] * 4 + [1]) * 3)
    assert (len(asked), run.stopped) == (15, "")


def test_what_ends_the_run_is_raised() -> None:
    def ask(_: int) -> Spent:
        raise ProviderError("key", ends_run=True)

    with pytest.raises(ProviderError, match="key"):
        list(Asking(ask).answers([1, 2]))


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"max_tokens": 0}])
def test_wrong_bounds(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        run_of(1, **options)
