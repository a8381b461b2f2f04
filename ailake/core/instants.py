"""Instants: timezone-aware datetimes in UTC, and nothing else."""

from datetime import UTC, datetime

from ailake.errors import InvalidInputError

# Lance stores timestamps as int64 nanoseconds since 1970: nothing outside these years fits.
EARLIEST = datetime(1678, 1, 1, tzinfo=UTC)
LATEST = datetime(2262, 1, 1, tzinfo=UTC)


def as_utc(value: object, *, name: str) -> datetime:
    """Return ``value`` as the same instant in UTC.

    Args:
        value: A timezone-aware datetime between the years 1678 and 2261.
        name: What the value is, for the message.

    Raises:
        InvalidInputError: Not a datetime, a naive one, or outside the storable range.
    """
    if not isinstance(value, datetime):
        raise InvalidInputError.of(name, got=value, wanted="a timezone-aware datetime")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInputError.of(
            name,
            got=value.isoformat(),
            wanted="a timezone-aware datetime, such as datetime.now(UTC); naive ones are ambiguous",
        )
    try:
        instant = value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInputError.of(name, got=value, wanted="a year from 1678 to 2261") from error
    if not EARLIEST <= instant < LATEST:
        raise InvalidInputError.of(name, got=value.isoformat(), wanted="a year from 1678 to 2261")
    return instant
