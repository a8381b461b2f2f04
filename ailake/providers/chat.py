"""A chat model behind an OpenAI-compatible server, asked for JSON of a given shape."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ailake.asking import check_count
from ailake.core.prompts import estimate_tokens
from ailake.core.usage import NO_USAGE, Usage
from ailake.errors import InvalidInputError, MissingExtraError, ProviderError, shorten
from ailake.providers.shapes import Completion, MalformedError, Shape, parsed

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

S = TypeVar("S", bound=Shape)

# The question itself is at fault, or the server is for now: another one may be answered.
_OF_THE_QUESTION = frozenset({400, 408, 409, 413, 422, 429})


@dataclass(frozen=True, slots=True)
class Answered(Generic[S]):
    """An answer that has the shape that was asked for.

    Attributes:
        value: The answer.
        usage: Tokens of all attempts that it took. Where the server does not tell, they are
            estimated from the texts.
    """

    value: S
    usage: Usage


class ChatModel:
    """A model that is asked over HTTP, by the package ``openai``, for JSON of a given shape.

    Nothing is sent before ``ask``. It is safe to use from several threads.

    Args:
        model: Its name, as the server knows it.
        base_url: Such as ``http://127.0.0.1:8000/v1``; default: what ``OPENAI_BASE_URL`` says,
            else OpenAI's.
        api_key: The key; default: the environment variable ``api_key_env``. A server that needs
            none takes any.
        api_key_env: That variable's name.
        timeout: Seconds that one attempt may take.
        retries: How often a request is sent again after a timeout, a cut connection, 408, 409,
            429 or 5xx: after as long as the server says, else after growing pauses.
        attempts: How often the model is asked until its answer has the shape.
        concurrency: Requests that are under way at once.
        max_output_tokens: What one answer may take at most.

    Raises:
        MissingExtraError: The ``openai`` extra is not installed.
        InvalidInputError: No key, or an argument is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        retries: int = 4,
        attempts: int = 2,
        concurrency: int = 4,
        max_output_tokens: int = 2_000,
    ) -> None:
        if not model or not isinstance(model, str):
            raise InvalidInputError.of("model", got=model, wanted="the name of a model")
        _check_seconds(timeout)
        for name, value, least in (
            ("retries", retries, 0), ("attempts", attempts, 1), ("concurrency", concurrency, 1),
            ("max_output_tokens", max_output_tokens, 1),
        ):  # fmt: skip
            check_count(value, name=name, least=least)
        if find_spec("openai") is None:
            raise MissingExtraError.of("A model behind an OpenAI-compatible server", extra="openai")
        self.model = model
        self._key = _key(api_key, api_key_env)
        self._client = _client(self._key, base_url, timeout=float(timeout), retries=retries)
        self._attempts = attempts
        self._places = BoundedSemaphore(concurrency)
        self._max_output_tokens = max_output_tokens

    @property
    def id(self) -> str:
        """``openai:`` and the name of the model."""
        return f"openai:{self.model}"

    def ask(self, instructions: str, content: str, shape: type[S]) -> Answered[S]:
        """Ask once, and again while the answer is malformed.

        Args:
            instructions: What to do, as the system's message.
            content: What to do it with, as the user's.
            shape: What the answer must be.

        Raises:
            ProviderError: No usable answer; with the tokens that it took.
        """
        messages = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": content},
        ]
        usage = NO_USAGE
        problem = ""
        for _ in range(self._attempts):
            body = self._sent(messages, shape, usage)
            try:
                completion = Completion.of(body)
                usage += _usage(completion, instructions + content)
                return Answered(parsed(completion.text, shape), usage)
            except MalformedError as error:
                problem = str(error)
        raise ProviderError(
            f"{self.id}: no answer of the wanted shape in {self._attempts} attempts; the last",
            told=problem,
            usage=(usage.input_tokens, usage.output_tokens),
        )

    def _sent(self, messages: list[dict[str, str]], shape: type[Shape], usage: Usage) -> str:
        """Send one request, and return the body of the answer."""
        from openai import APIConnectionError, APIStatusError  # noqa: PLC0415 (slow, and optional)

        wanted = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
        create: Any = self._client.chat.completions.with_raw_response.create
        used = (usage.input_tokens, usage.output_tokens)
        try:
            with self._places:
                response = create(
                    model=self.model,
                    messages=messages,
                    response_format={"type": "json_schema", "json_schema": wanted},
                    max_completion_tokens=self._max_output_tokens,
                )
        except APIStatusError as error:
            raise self._refusal(error, used) from error
        except APIConnectionError as error:
            raise ProviderError(self.id, told=str(error), usage=used) from error
        return str(response.http_response.text)

    def _refusal(self, error: "APIStatusError", used: tuple[int, int]) -> ProviderError:
        status = error.status_code
        # Some servers repeat the key that they refuse.
        told = shorten(error.message, limit=300).replace(self._key, "…")
        is_final = status not in _OF_THE_QUESTION and status < 500
        message = f"{self.id}: status {status}"
        return ProviderError(message, told=told, usage=used, ends_run=is_final)


def _check_seconds(timeout: object) -> None:
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
        raise InvalidInputError.of("timeout", got=timeout, wanted="a positive number of seconds")


def _key(given: str | None, variable: str) -> str:
    key = os.environ.get(variable, "") if given is None else given
    if not key or not isinstance(key, str):
        # Neither is shown: it may be a key after all.
        raise InvalidInputError(
            f"api_key: got none, wanted a key, or one in the environment variable {variable}; a "
            "server that needs none takes any"
        )
    return key


def _client(key: str, base_url: str | None, *, timeout: float, retries: int) -> "OpenAI":
    from openai import OpenAI  # noqa: PLC0415 (slow, and optional)

    return OpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=retries)


def _usage(completion: Completion, question: str) -> Usage:
    told = completion.usage
    if told is None:
        written = estimate_tokens(completion.choices[0].message.content or "")
        return Usage(estimate_tokens(question), written)
    return Usage(told.prompt_tokens, told.completion_tokens)
