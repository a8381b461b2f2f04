"""Saying plainly why an object store could not be reached, or refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from ailake.errors import AilakeError, ObjectStoreError

# One of these marks a message as the engine's; a model that was called may time out, too.
_ENGINE = ("lanceerror", "lance error", "error performing", "namespace")

# What the engine's messages hold, in lower case, and what that means; the first that fits.
_MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("nosuchbucket", "the specified bucket does not exist"), "there is no such bucket"),
    (
        ("failed to get aws credentials", "failedtoloadtoken", "nocredentials"),
        (
            "no keys were found: give aws_access_key_id and aws_secret_access_key as storage "
            "options, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        ),
    ),
    (
        ("invalidaccesskeyid", "signaturedoesnotmatch", "accessdenied", "403 forbidden"),
        "the store refused the keys, or they may not do this there",
    ),
    (("builder error",), "the endpoint is no https address: give allow_http=true to use it"),
    (
        (
            "error sending request",
            "connection refused",
            "connection reset",
            "connection closed",
            "timed out",
            "dns error",
        ),
        "the store could not be reached; what was committed before stands, try again when it can",
    ),
)


@contextmanager
def reaching(uri: str, *, remote: bool = True) -> Iterator[None]:
    """Raise what the engine makes of an object store's refusal as an error that says so.

    Args:
        uri: What was to be reached.
        remote: False lets all errors through, as of a folder.

    Raises:
        ObjectStoreError: It could not be reached, or refused. The store's own words are the
            error's cause; they may hold the id of a key.
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        meaning = None if isinstance(error, AilakeError) else meaning_of(str(error))
        if meaning is None or not remote:
            raise
        raise ObjectStoreError(f"{uri}: {meaning}") from error


def meaning_of(message: str) -> str | None:
    """Return what an error of the engine says of the object store, None where it is not of it."""
    lower = message.lower()
    if not any(mark in lower for mark in _ENGINE):
        return None
    found = (meaning for texts, meaning in _MEANINGS if any(text in lower for text in texts))
    return next(found, None)
