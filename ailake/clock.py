"""The only reader of the wall clock and the only source of random ids."""

from datetime import UTC, datetime
from uuid import uuid4

from ailake.core.instants import as_utc


def utc_now() -> datetime:
    """Return the present instant, timezone-aware, in UTC."""
    return datetime.now(UTC)


def resolve_now(now: datetime | None) -> datetime:
    """Return ``now`` in UTC, or the present instant where it is None.

    Raises:
        InvalidInputError: ``now`` is not a timezone-aware datetime.
    """
    return utc_now() if now is None else as_utc(now, name="now")


def new_id() -> str:
    """Return a fresh random id: 32 hexadecimal characters."""
    return uuid4().hex
