"""The only reader of the wall clock and the only source of random ids."""

import os
import time
from datetime import UTC, datetime

from ailake.core.instants import as_utc

ID_BYTES = 16
ID_DIGITS = 2 * ID_BYTES


def utc_now() -> datetime:
    """Return the present instant, timezone-aware, in UTC."""
    return datetime.now(UTC)


def wall_nanoseconds() -> int:
    """Return the present instant as nanoseconds since 1970, to compare with times of files."""
    return time.time_ns()


def resolve_now(now: datetime | None) -> datetime:
    """Return ``now`` in UTC, or the present instant where it is None.

    Raises:
        InvalidInputError: ``now`` is not a timezone-aware datetime.
    """
    return utc_now() if now is None else as_utc(now, name="now")


def new_id() -> str:
    """Return a fresh random id: 32 hexadecimal characters."""
    return os.urandom(ID_BYTES).hex()


def new_ids(count: int) -> list[str]:
    """Return so many of them; asking for randomness once is ten times as fast as each time."""
    digits = os.urandom(ID_BYTES * count).hex()
    return [digits[start : start + ID_DIGITS] for start in range(0, len(digits), ID_DIGITS)]
