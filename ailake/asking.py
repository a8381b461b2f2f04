"""Asking many questions: a few at once, within a number of tokens, not longer than it helps."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar

from ailake.core.entities import check_short_text
from ailake.core.usage import NO_USAGE, Usage
from ailake.errors import InvalidInputError, ProviderError

# A server that is down answers nobody, each time after all retries.
MAX_FAILURES_IN_ROW = 5

OUT_OF_TOKENS = "the run's tokens are used up"
NO_ANSWERS = f"{MAX_FAILURES_IN_ROW} failed in a row"


class HasUsage(Protocol):
    """An answer that tells what it took."""

    @property
    def usage(self) -> Usage:
        """Tokens."""


Q = TypeVar("Q")
A = TypeVar("A", bound=HasUsage)


@dataclass(slots=True)
class Asking(Generic[Q, A]):
    """One run of questions, each asked once.

    Args:
        ask: Answers one, from any thread; a ``ProviderError`` fails that one alone.
        concurrency: How many are under way at once.
        max_tokens: When so many are used, no more is asked; those under way are still answered.
            None: no bound.

    Attributes:
        usage: Tokens so far, those of failed ones too.
        stopped: Why not all were asked, empty where they were.

    Raises:
        InvalidInputError: A number is wrong.
    """

    ask: Callable[[Q], A]
    concurrency: int = 1
    max_tokens: int | None = None
    usage: Usage = field(default=NO_USAGE, init=False)
    stopped: str = field(default="", init=False)
    _failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_bounds(self.concurrency, self.max_tokens)

    def answers(self, questions: Iterable[Q]) -> Iterator[tuple[Q, A | ProviderError]]:
        """Ask, and yield answers and failures in the questions' order, as they come.

        Raises:
            ProviderError: One that would meet every question, such as a refused key.
        """
        waiting = iter(questions)
        under_way: deque[tuple[Q, Future[A]]] = deque()
        with ThreadPoolExecutor(self.concurrency) as pool:
            while True:
                for question in self._next(waiting, self.concurrency - len(under_way)):
                    under_way.append((question, pool.submit(self.ask, question)))
                if not under_way:
                    return
                question, asked = under_way.popleft()
                yield question, self._outcome(asked)

    def _next(self, waiting: Iterator[Q], count: int) -> Iterator[Q]:
        for question in islice(waiting, count):
            if self.max_tokens is not None and self.usage.total >= self.max_tokens:
                self.stopped = OUT_OF_TOKENS
            elif self._failures >= MAX_FAILURES_IN_ROW:
                self.stopped = NO_ANSWERS
            if self.stopped:
                return
            yield question

    def _outcome(self, asked: "Future[A]") -> A | ProviderError:
        try:
            answer = asked.result()
        except ProviderError as error:
            self.usage += Usage(*error.usage)
            self._failures += 1
            if error.ends_run:
                raise
            return error
        self.usage += answer.usage
        self._failures = 0
        return answer


def check_asked(value: object, *, name: str, verb: str, wanted: str) -> None:
    """Refuse who can't be asked, or whose answers can't be kept, before anybody is.

    Args:
        value: None, or an object with an ``id`` and a method ``verb``.
        name: What it is, for the message.
        verb: How it is asked.
        wanted: What it should be, for the message.

    Raises:
        InvalidInputError: It is neither.
    """
    if value is None:
        return
    if not callable(getattr(value, verb, None)):
        raise InvalidInputError.of(name, got=value, wanted=wanted)
    own = getattr(value, "id", None)
    check_short_text(own, name=f"{name}: id")
    if not own:
        raise InvalidInputError.of(f"{name}: id", got=own, wanted="a non-empty string")


def check_bounds(concurrency: object, max_tokens: object) -> None:
    """Refuse bounds that are no whole numbers from 1 on; ``max_tokens`` may be None.

    Raises:
        InvalidInputError: One is not.
    """
    check_count(concurrency, name="concurrency", least=1)
    if max_tokens is not None:
        check_count(max_tokens, name="max_tokens", least=1)


def check_count(value: object, *, name: str, least: int) -> None:
    """Refuse what is not a whole number from ``least`` on.

    Raises:
        InvalidInputError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError.of(name, got=value, wanted=f"a whole number from {least} on")
