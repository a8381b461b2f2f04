"""What a new fact means for those that are known: the same, a successor, or one more.

A fact is a triple with a validity window. Nothing here reads a table, a clock or a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from ailake.core.entities import EntityRef, check_short_text, entity_of
from ailake.core.windows import Window, checked_window, windows_overlap
from ailake.errors import InvalidInputError, shorten


class FactKind(StrEnum):
    """What a new fact is, compared with the known ones of its subject and predicate."""

    NOOP = "noop"
    APPEND = "append"
    SUPERSEDE = "supersede"


@dataclass(frozen=True, slots=True)
class FactTriple:
    """Something that holds of something from one instant on, and perhaps until another.

    Attributes:
        subject: What it is about; a plain string is an entity of the type ``concept``.
        predicate: What it says of it, such as ``lives_in``; compared exactly.
        object: The value, a string or an entity.
        valid_from: First instant at which it holds, timezone-aware; kept in UTC.
        valid_to: First instant at which it no longer does; None: it still holds.
        source_memory_id: The memory that it was taken from, empty where there is none.

    Raises:
        InvalidInputError: A field is missing or wrong, a datetime is naive, or the window is
            empty or inverted; the message names the fact.
    """

    subject: str | EntityRef
    predicate: str
    object: str | EntityRef
    valid_from: datetime
    valid_to: datetime | None = None
    source_memory_id: str = ""

    def __post_init__(self) -> None:
        # Said only where something is wrong.
        try:
            self._check()
        except InvalidInputError as error:
            raise InvalidInputError(f"fact {self._told()}: {error}") from error

    def _check(self) -> None:
        entity_of(self.subject, name="subject")
        check_predicate(self.predicate)
        entity_of(self.object, name="object")
        check_short_text(self.source_memory_id, name="source_memory_id")
        window = checked_window(self.valid_from, self.valid_to, name="window")
        object.__setattr__(self, "valid_from", window.start)
        object.__setattr__(self, "valid_to", window.end)

    def _told(self) -> str:
        parts = (self.subject, self.predicate, self.object)
        return f"({', '.join(shorten(part, limit=40) for part in parts)})"


@dataclass(frozen=True, slots=True)
class SpoEntry:
    """A known fact of the subject and predicate that a new one is compared with.

    Attributes:
        object: Compared with ``==``; the store passes entity ids.
        fact_id: What the decision names it by.
        valid_from: First instant at which it holds, timezone-aware.
        valid_to: First instant at which it no longer does, None where it is open.

    Raises:
        InvalidInputError: No ``object`` or ``fact_id``, a naive datetime, or an empty or inverted
            window.
    """

    object: str | EntityRef
    fact_id: str
    valid_from: datetime
    valid_to: datetime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.object, EntityRef):
            _check_given(self.object, name="object")
        _check_given(self.fact_id, name="fact_id")
        window = checked_window(self.valid_from, self.valid_to, name=f"fact {self.fact_id!r}")
        object.__setattr__(self, "valid_from", window.start)
        object.__setattr__(self, "valid_to", window.end)

    @property
    def object_id(self) -> str | EntityRef:
        """What it is compared by."""
        return self.object

    @property
    def window(self) -> Window:
        """When it holds."""
        return Window(self.valid_from, self.valid_to)


@dataclass(frozen=True, slots=True)
class FactDecision:
    """What became, or would become, of a new fact.

    Attributes:
        kind: noop, append or supersede.
        loser_fact_id: With supersede the fact that loses; with noop, where a fact that is known
            comes back for an interval that another had, that other one; else None.
        fact_id: The new fact's own id where it was stored, else empty; not compared.
    """

    kind: FactKind
    loser_fact_id: str | None = None
    fact_id: str = field(default="", compare=False)


def classify_fact(new: FactTriple, prior: Sequence[SpoEntry]) -> FactDecision:
    """Decide what a new fact means for the known ones of its scope, subject and predicate.

    In this order: *noop* where any known one has the same object, whatever the windows;
    *supersede* where one overlaps, the first of the list being the loser; else *append*.

    Args:
        new: The fact.
        prior: Known ones; their order decides which of several is the loser.

    Raises:
        InvalidInputError: ``new`` is no ``FactTriple``, or ``prior`` no list of ``SpoEntry``.
    """
    _check_compared(new, prior)
    kind, loser = decide(new.object, Window(new.valid_from, new.valid_to), prior)
    return FactDecision(kind, None if loser is None else loser.fact_id)


K = TypeVar("K", bound="Known")


class Known(Protocol):
    """What a new fact is compared with: an object that holds within a window."""

    @property
    def object_id(self) -> object:
        """Compared with ``==``."""

    @property
    def window(self) -> Window:
        """When it holds."""


def decide(object_id: object, window: Window, prior: Sequence[K]) -> tuple[FactKind, K | None]:
    """Return the kind of a new fact, and with supersede the one that loses."""
    if any(one.object_id == object_id for one in prior):
        return FactKind.NOOP, None
    for one in prior:
        if windows_overlap(window, one.window):
            return FactKind.SUPERSEDE, one
    return FactKind.APPEND, None


def _check_compared(new: object, prior: object) -> None:
    if not isinstance(new, FactTriple):
        raise InvalidInputError.of("new", got=new, wanted="a FactTriple")
    if not isinstance(prior, Sequence) or not all(isinstance(one, SpoEntry) for one in prior):
        raise InvalidInputError.of("prior", got=prior, wanted="a list of SpoEntry")


def _check_given(text: object, *, name: str) -> None:
    check_short_text(text, name=name)
    if not text:
        raise InvalidInputError.of(name, got=text, wanted="a non-empty string")


def check_predicate(predicate: str) -> str:
    """Return the name of a predicate, which is compared exactly.

    Raises:
        InvalidInputError: Not text, empty, too long, or with space around it.
    """
    check_short_text(predicate, name="predicate")
    if not predicate or predicate != predicate.strip():
        raise InvalidInputError.of(
            "predicate", got=predicate, wanted="a name without space around it, such as 'lives_in'"
        )
    return predicate
