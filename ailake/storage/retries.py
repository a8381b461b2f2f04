"""Retrying what lost a race against another writer, and nothing else."""

from collections.abc import Callable
from typing import TypeVar

from lance.commit import CommitConflictError
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from ailake.errors import ConflictError

T = TypeVar("T")

ATTEMPTS = 20
READ_ATTEMPTS = 5

# The engine raises plain OSError and RuntimeError for some lost races: only the text tells.
_CLEANED_UP = ("/_versions/", "/data/", "/_deletions/", "/_indices/", "/_transactions/")
_LOST_RACE = (
    "commit conflict",
    "concurrent transaction",
    "too many concurrent writers",
    "manifest was not found",
)


class StaleSnapshotError(Exception):
    """What was read no longer stands; read again and rebuild."""


def is_lost_race(error: BaseException) -> bool:
    """Tell whether the error says that another writer was first, so that a retry can win."""
    if isinstance(error, (CommitConflictError, StaleSnapshotError)):
        return True
    # ArrowInvalid, a ValueError, is what a scan makes of a file that was cleaned up under it.
    if not isinstance(error, (OSError, RuntimeError, ValueError)):
        return False
    message = str(error).lower()
    gone = "not found" in message and any(folder in message for folder in _CLEANED_UP)
    return gone or any(text in message for text in _LOST_RACE)


def with_retries(action: Callable[[], T], *, what: str, attempts: int = ATTEMPTS) -> T:
    """Run ``action`` until it wins, with growing random pauses of at most one second.

    ``action`` must read anew whatever it builds on each time it is called.

    Raises:
        ConflictError: Every attempt lost.
    """
    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.01, max=1),
        retry=retry_if_exception(is_lost_race),
    )
    try:
        return retrying(action)
    except RetryError as error:
        last = error.last_attempt.exception()
        raise ConflictError(
            f"{what}: other writers won {attempts} times in a row; nothing was applied, try again"
        ) from last


def reading_again(action: Callable[[], T]) -> T:
    """Run a read, and run it anew where its version was cleaned up under it.

    Raises:
        Whatever the last attempt raised, where that goes on: then a file is really missing.
    """
    return Retrying(
        stop=stop_after_attempt(READ_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.01, max=0.1),
        retry=retry_if_exception(is_lost_race),
        reraise=True,
    )(action)
