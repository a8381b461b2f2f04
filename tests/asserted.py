"""Facts about where Ana works, as tests assert and find them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import ailake
from ailake import FactTriple

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def works(value: Any, start: int, end: int | None = None, **about: Any) -> FactTriple:
    given = {"subject": "Ana", "predicate": "works_at", **about}
    return FactTriple(
        object=value, valid_from=year(start), valid_to=None if end is None else year(end), **given
    )


def at(facts: ailake.Facts, *years: int, known_at: datetime | None = None) -> list[list[str]]:
    """Return what holds on 1 June of each year."""
    return [
        sorted(
            str(v.object)
            for v in facts.find("Ana", as_of=year(y) + timedelta(150), known_at=known_at)
        )
        for y in years
    ]
