"""Retrying what lost a race against another writer, and nothing else."""

from collections.abc import Callable
from typing import TypeVar

from lance.commit import CommitConflictError
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from ailake.errors import ConflictError
from ailake.storage.fences import check_fences

T = TypeVar("T")

ATTEMPTS = 20
READ_ATTEMPTS = 5

# The engine raises plain OSError and RuntimeError for some lost races: only the text tells.
_CONFLICTS = ("commit conflict", "concurrent transaction", "too many concurrent writers")

# Where a file that is not found would have been.
_FOLDERS = ("/_versions/", "/data/", "/_deletions/", "/_indices/", "/_transactions/", "/_refs/")


class StaleSnapshotError(Exception):
    """What was read no longer stands; read again and rebuild."""


# What a lost race may be raised as; ``is_lost_race`` tells.
_LOST = (CommitConflictError, StaleSnapshotError, OSError, RuntimeError, ValueError)


def is_conflict(error: BaseException) -> bool:
    """Tell whether another writer was first, so that nothing was applied and a retry can win."""
    if isinstance(error, (CommitConflictError, StaleSnapshotError)):
        return True
    message = str(error).lower()
    return isinstance(error, (OSError, RuntimeError)) and any(t in message for t in _CONFLICTS)


def is_lost_race(error: BaseException) -> bool:
    """Tell whether it is a conflict, or the version that was worked on was cleaned up.

    After the latter a write may have been applied: only what can be done twice is tried again.
    """
    # ArrowInvalid, a ValueError, is what a scan makes of a file that was cleaned up under it.
    if is_conflict(error) or not isinstance(error, (OSError, RuntimeError, ValueError)):
        return is_conflict(error)
    message = str(error).lower()
    gone = "not found" in message and any(folder in message for folder in _FOLDERS)
    return gone or "manifest was not found" in message


def with_retries(
    action: Callable[[], T],
    *,
    what: str,
    attempts: int = ATTEMPTS,
    retry_on: Callable[[BaseException], bool] = is_lost_race,
) -> T:
    """Run ``action`` until it wins, with growing random pauses of at most one second.

    Not without the lease that this thread may hold.

    Args:
        action: Reads anew whatever it builds on each time it is called.
        what: What it does, for the message.
        attempts: How often it is tried.
        retry_on: Which errors are worth another attempt.

    Raises:
        ConflictError: Every attempt lost.
    """
    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.01, max=1),
        retry=retry_if_exception(retry_on),
    )

    def attempt() -> T:
        check_fences()
        return action()

    try:
        return retrying(attempt)
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
    try:
        # Nearly always enough, and done before the machinery of retries is set up.
        return action()
    except _LOST as error:
        if not is_lost_race(error):
            raise
    return Retrying(
        stop=stop_after_attempt(READ_ATTEMPTS - 1),
        wait=wait_random_exponential(multiplier=0.01, max=0.1),
        retry=retry_if_exception(is_lost_race),
        reraise=True,
    )(action)
