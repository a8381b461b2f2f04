"""Validity windows: half-open ``[start, end)``, without an end where they are still open."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ailake.core.instants import as_utc
from ailake.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open interval of time.

    Attributes:
        start: Its first instant.
        end: The first instant after it, None where it is open.
    """

    start: datetime
    end: datetime | None = None

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant and (self.end is None or instant < self.end)


def checked_window(start: object, end: object, *, name: str) -> Window:
    """Return a window whose ends are in UTC.

    Args:
        start: A timezone-aware datetime.
        end: The same, or None.
        name: Whose window it is, for the message.

    Raises:
        InvalidInputError: A naive datetime or none at all, or an end that is not after the start.
    """
    first = as_utc(start, name=f"{name}: valid_from")
    if end is None:
        return Window(first)
    last = as_utc(end, name=f"{name}: valid_to")
    if last <= first:
        raise InvalidInputError.of(
            f"{name}: valid_to",
            got=last.isoformat(),
            wanted=f"an instant after valid_from, {first.isoformat()}, or None",
        )
    return Window(first, last)


def windows_overlap(one: Window, two: Window) -> bool:
    """Tell whether each starts strictly before the other ends; windows that touch don't."""
    return _begins_within(one.start, two.end) and _begins_within(two.start, one.end)


def windows_meet(one: Window, two: Window) -> bool:
    """Tell whether they overlap or touch, so that their union is one window."""
    return (two.end is None or one.start <= two.end) and (one.end is None or two.start <= one.end)


def union(windows: Iterable[Window]) -> Window:
    """Return the window from the first start to the last end; what is given has no gaps."""
    given = list(windows)
    start = min(window.start for window in given)
    ends = [window.end for window in given if window.end is not None]
    return Window(start, max(ends) if len(ends) == len(given) else None)


def common(one: Window, two: Window) -> tuple[Window, ...]:
    """Return what two windows share, which there may be none of."""
    if not windows_overlap(one, two):
        return ()
    ends = [window.end for window in (one, two) if window.end is not None]
    return (Window(max(one.start, two.start), min(ends, default=None)),)


def before(window: Window, instant: datetime) -> tuple[Window, ...]:
    """Return the part of a window before an instant, which there may be none of."""
    if instant <= window.start:
        return ()
    return (Window(window.start, instant if window.end is None else min(instant, window.end)),)


def minus(window: Window, taken: Window) -> tuple[Window, ...]:
    """Return the parts of a window before and after another one, at most two."""
    left = before(window, taken.start)
    if taken.end is None or not _begins_within(taken.end, window.end):
        return left
    return (*left, Window(max(window.start, taken.end), window.end))


def minus_all(window: Window, taken: Iterable[Window]) -> tuple[Window, ...]:
    """Return the parts of a window that none of some others covers, in order of time."""
    parts: tuple[Window, ...] = (window,)
    for other in taken:
        parts = tuple(part for whole in parts for part in minus(whole, other))
    return parts


def _begins_within(start: datetime, end: datetime | None) -> bool:
    return end is None or start < end
