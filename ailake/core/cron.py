"""Cron expressions, as far as cron and the scheduler's library read them differently. Pure."""

import re

from ailake.errors import InvalidInputError

FIELDS = ("minute", "hour", "day", "month", "day_of_week")

_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY = rf"([0-7]|{'|'.join(_NAMES)})"
_PART = re.compile(rf"(?:\*|{_DAY}(?:-{_DAY})?)(?:/([1-7]))?", re.IGNORECASE)


def cron_fields(expression: object, *, name: str) -> dict[str, str]:
    """Return the five fields of a cron expression, with the days of the week by their names.

    The numbers of weekdays are those of cron: 0 and 7 are Sunday. The library counts from Monday.

    Args:
        expression: Such as ``"30 4 * * sun"``: minute, hour, day of the month, month, weekday.
        name: What it is, for the message.

    Raises:
        InvalidInputError: Not five fields, no such weekday, or days of the month and of the week
            at once: cron means either of them, which no one field can say.
    """
    parts = expression.split() if isinstance(expression, str) else []
    if len(parts) != len(FIELDS):
        wanted = "five fields such as '0 3 * * *': minute, hour, day, month, day of the week"
        raise InvalidInputError.of(name, got=expression, wanted=wanted)
    fields = dict(zip(FIELDS, parts, strict=True))
    if not fields["day"].startswith("*") and not fields["day_of_week"].startswith("*"):
        wanted = "days of the month or of the week, and a * for the other: cron would take either"
        raise InvalidInputError.of(name, got=expression, wanted=wanted)
    return fields | {"day_of_week": _weekdays(fields["day_of_week"], name=name)}


def _weekdays(field: str, *, name: str) -> str:
    if field == "*":
        return field
    days: set[int] = set()
    for part in field.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            wanted = "days of the week from 0 (Sunday) to 7 (Sunday again), or sun to sat"
            raise InvalidInputError.of(name, got=field, wanted=wanted)
        first, last, step = found.groups()
        days |= _days(first, last, int(step or 1), is_open=step is not None)
    return ",".join(_NAMES[day] for day in sorted(days))


def _days(first: str | None, last: str | None, step: int, *, is_open: bool) -> set[int]:
    begin = 0 if first is None else _number(first)
    alone = 6 if first is None or is_open else begin
    end = alone if last is None else _number(last)
    # From Friday to Sunday, which is 0 by its name, goes around the end of the week.
    return {day % 7 for day in range(begin, end + (0 if begin <= end else 7) + 1, step)}


def _number(day: str) -> int:
    return int(day) if day.isdigit() else _NAMES.index(day.lower())
