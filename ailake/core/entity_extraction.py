"""Who reads entities out of a text, and how what the caller knows already counts beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ailake.core.entities import EntityRef
from ailake.core.graph import entity_refs
from ailake.errors import InvalidInputError


@runtime_checkable
class EntityExtractor(Protocol):
    """Reads entities out of a text."""

    def extract(self, text: str, hints: Sequence[str | EntityRef] = ()) -> list[EntityRef]:
        """Return the entities of a text: the hints first, then what was found.

        Args:
            text: The text.
            hints: What it is known to mention. Each is returned, as the caller spelt it; what is
                found again, by type and normalised name, is not.

        Raises:
            InvalidInputError: A hint is no entity.
        """
        ...


def check_extractor(extractor: object, *, name: str = "extractor") -> EntityExtractor:
    """Return who reads entities.

    Raises:
        InvalidInputError: It is something else, such as its class.
    """
    if isinstance(extractor, type) or not isinstance(extractor, EntityExtractor):
        raise InvalidInputError.of(name, got=extractor, wanted="an EntityExtractor")
    return extractor


@dataclass(frozen=True, slots=True)
class FallbackExtractor:
    """Asks a second extractor where the first finds nothing beyond the hints.

    Args:
        primary: Asked first; its error is not caught, so that nobody takes a failure for a text
            without entities.
        secondary: Asked where the first one answers with the hints alone.

    Raises:
        InvalidInputError: One of the two is no extractor.
    """

    primary: EntityExtractor
    secondary: EntityExtractor

    def __post_init__(self) -> None:
        check_extractor(self.primary, name="primary")
        check_extractor(self.secondary, name="secondary")

    def extract(self, text: str, hints: Sequence[str | EntityRef] = ()) -> list[EntityRef]:
        """As of ``EntityExtractor``."""
        given = entity_refs(hints)
        found = with_hints(given, self.primary.extract(text, given))
        if len(found) > len(given):
            return found
        return with_hints(given, self.secondary.extract(text, given))


def with_hints(hints: Sequence[EntityRef], found: Iterable[EntityRef]) -> list[EntityRef]:
    """Return the hints, and what else was found: each entity once, spelt as it came first."""
    first: dict[EntityRef, EntityRef] = {}
    for ref in (*hints, *found):
        first.setdefault(ref, ref)
    return list(first.values())
