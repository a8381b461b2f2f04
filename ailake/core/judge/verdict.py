"""What the judge is given and what it answers: frozen values, checked where they are made."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from ailake.core.records import Decision, Scope, SourceClass
from ailake.errors import InvalidInputError

_MODES = ("embedding", "lexical")
_SOURCES = frozenset(SourceClass)


class Veto(StrEnum):
    """The rule that kept a candidate apart from the new memory."""

    NONE = ""
    HARD_GATE = "hard_gate"
    TEMPORAL = "temporal"
    NUMERIC = "numeric"
    LOW_CONFIDENCE = "low_confidence"
    CONFLICT = "conflict"


class Containment(StrEnum):
    """Which of two texts says all that the other says."""

    NONE = "none"
    NEW_IN_EXISTING = "new_in_existing"
    EXISTING_IN_NEW = "existing_in_new"
    EQUAL = "equal"


class Reason(StrEnum):
    """Why the judge decided so; with a veto that was kept, ``create`` has ``veto:<name>``."""

    EXACT_DUPLICATE = "exact_duplicate"
    T0_LOW_VALUE = "t0_low_value"
    FACT_SUPERSET = "fact_superset"
    FACT_SUBSET = "fact_subset"
    NO_CONTAINED_MATCH = "no_contained_match"


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """A memory as the judge sees it.

    Attributes:
        id: Not empty.
        text: The memory's own text, without speaker and date.
        scope: The wall that no merge crosses.
        role: Who said it in the conversation, such as ``user`` or ``assistant``.
        speaker: The person's name, where there is one.
        source: A value of ``SourceClass``.
        confidence: In [0, 1].
        active: False where the stored memory is merged or deferred.

    Raises:
        InvalidInputError: A field has another type or is out of range.
    """

    id: str
    text: str
    scope: Scope
    role: str = "user"
    speaker: str = ""
    source: str = SourceClass.DIRECT
    confidence: float = 1.0
    active: bool = True

    def __post_init__(self) -> None:
        for name in ("id", "text", "role", "speaker", "source"):
            _require(name, getattr(self, name), str, wanted="a string")
        if not self.id:
            raise InvalidInputError.of("id", got=self.id, wanted="a non-empty string")
        _require("scope", self.scope, Scope, wanted="a Scope")
        _require("active", self.active, bool, wanted="True or False")
        if self.source not in _SOURCES:
            raise InvalidInputError.of(
                "source", got=self.source, wanted=f"one of {', '.join(SourceClass)}"
            )
        require_share("confidence", self.confidence)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stored memory that was recalled for the new one.

    Attributes:
        item: The stored memory.
        score: Its similarity, finite, higher is nearer. It orders and is reported; it decides
            nothing.
        mode: Where the similarity came from, ``embedding`` or ``lexical``.

    Raises:
        InvalidInputError: A field has another type or is out of range.
    """

    item: MemoryItem
    score: float
    mode: str

    def __post_init__(self) -> None:
        _require("item", self.item, MemoryItem, wanted="a MemoryItem")
        if not (is_number(self.score) and isfinite(self.score)):
            raise InvalidInputError.of("score", got=self.score, wanted="a finite number")
        if self.mode not in _MODES:
            raise InvalidInputError.of("mode", got=self.mode, wanted=f"one of {', '.join(_MODES)}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the new memory, and why.

    Attributes:
        decision: What to do.
        existing_id: The stored memory that says the same, more or less; empty on create and defer.
        absorbed_id: The row that is folded into the other: the new one on skip and merge, the
            stored one on modify; empty on create and defer.
        score: The decisive candidate's; 0 on create and defer.
        mode: The decisive candidate's; on create and defer that of the first candidate, empty where
            nothing was recalled.
        reason: A value of ``Reason``, or ``veto:<name>``.
        veto: On create the veto of the highest-scoring vetoed candidate, else empty.
        grey: On create the ids of the candidates that no rule could tell apart or contain, in
            candidate order; else empty.
    """

    decision: Decision
    existing_id: str
    absorbed_id: str
    score: float
    mode: str
    reason: str
    veto: Veto
    grey: tuple[str, ...]


def is_number(value: object) -> bool:
    """Tell whether a value is an int or a float and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def require_share(name: str, value: float) -> None:
    """Refuse what is not a number in [0, 1].

    Raises:
        InvalidInputError: It is not.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidInputError.of(name, got=value, wanted="a number from 0 to 1")


def _require(name: str, value: object, kind: type, *, wanted: str) -> None:
    if not isinstance(value, kind):
        raise InvalidInputError.of(name, got=value, wanted=wanted)
