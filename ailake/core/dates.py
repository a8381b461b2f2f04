"""Dates that a query names, in English, Chinese or ISO form: "7 May", "May 2023", "2023年5月"."""

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

_MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
} | {"sept": 9}
_NUMERALS = ("一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二")
_CHINESE = {numeral: number for number, numeral in enumerate(_NUMERALS, start=1)}
_MOON = rf"(?P<month>{'|'.join(sorted(_CHINESE, key=len, reverse=True))}|1[0-2]|0?[1-9])\s*月"
# Other words, too: a month only beside a number or after a word of time.
_AMBIGUOUS = ("march", "mar", "may")
_PLAIN = "|".join(sorted(set(_MONTHS) - set(_AMBIGUOUS), key=len, reverse=True))
_NAME = "|".join([_PLAIN, *_AMBIGUOUS])
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_ORDINAL = rf"(?P<day>{_DAY})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_AFTER = r"(?:in|of|since|until|till|during|by|from|to|this|last|next|early|late|mid|every)"

# The first that fits a place in the text is taken there.
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b{_YEAR}-(?P<month>0?[1-9]|1[0-2])(?:-{_ORDINAL})?\b",
        rf"{_YEAR}\s*年(?:\s*{_MOON}(?:\s*(?P<day>{_DAY})\s*[日号號])?)?",
        rf"{_MOON}(?:\s*(?P<day>{_DAY})\s*[日号號])?",
        rf"\b(?P<month>{_NAME})\.?,?\s+{_ORDINAL}\b(?:,?\s+{_YEAR})?",
        rf"\b{_ORDINAL}\s+(?:of\s+)?(?P<month>{_NAME})\b\.?(?:,?\s+{_YEAR})?",
        rf"\b(?P<month>{_NAME})\.?,?\s+{_YEAR}\b",
        rf"\b{_AFTER}\s+(?P<month>{_NAME})\b",
        rf"\b(?P<month>{_PLAIN})\b",
        rf"\b{_YEAR}\b",
    )
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date as far as it is named; None where a part is not."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


def named_dates(text: str) -> list[NamedDate]:
    """Return the dates that a text names, each once, in the order of the forms above."""
    return list(dict.fromkeys(named for _, _, named in date_spans(text)))


def date_spans(text: str) -> list[tuple[int, int, NamedDate]]:
    """Return the same with where each begins and ends in the text, as often as it is there."""
    found: list[tuple[int, int, NamedDate]] = []
    for form in _FORMS:
        matches = list(form.finditer(text))
        found += [(match.start(), match.end(), _named(match.groupdict())) for match in matches]
        # What is read is not read again in another form.
        text = form.sub(lambda match: " " * len(match.group()), text)
    return found


def date_evidence(text: str, days: Sequence[date]) -> NDArray[np.float64]:
    """Return for each day how much of a date that the text names it has, in [0, 1].

    The share of the named parts (year, month, day) that are the same, for the best of the dates: 1
    for a day in May 2023 where "May 2023" is named, 0.5 for one in May 2022, 0 everywhere where
    none is named.
    """
    named = named_dates(text)
    return np.array([max((_share(one, day) for one in named), default=0.0) for day in days])


def _named(parts: dict[str, str | None]) -> NamedDate:
    month = parts.get("month")
    number = None
    if month is not None:
        number = _MONTHS.get(month.lower()) or _CHINESE.get(month) or int(month)
    year, day = parts.get("year"), parts.get("day")
    return NamedDate(None if year is None else int(year), number, None if day is None else int(day))


def _share(named: NamedDate, day: date) -> float:
    parts = [
        (named.year, day.year),
        (named.month, day.month),
        (named.day, day.day),
    ]
    asked = [(wanted, got) for wanted, got in parts if wanted is not None]
    return sum(wanted == got for wanted, got in asked) / len(asked)
