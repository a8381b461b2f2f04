"""The rules as one value: small predicates that the kernel asks, each replaceable."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from ailake.core.judge.features import features
from ailake.core.judge.gates import hard_gate
from ailake.core.judge.predicates import (
    containment,
    has_absolute_timestamp,
    has_temporal_state,
    same_negations,
    same_numbers,
)
from ailake.core.judge.retention import retention
from ailake.core.judge.verdict import Containment, MemoryItem, require_share
from ailake.errors import InvalidInputError

RULES_VERSION = "3"


def kept_key(text: str) -> str:
    """Return ``dedupe_key(text)``, found once per text."""
    return features(text).key


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRules:
    """What the judge asks of memories; every predicate is a pure function.

    Attributes:
        dedupe_key: The key under which texts are the same memory; an empty one equals nothing.
        hard_gate: ``(new, existing)``: True where they may never become one.
        retention: ``(new)``: True where it is worth keeping; None switches the gate off.
        has_absolute_timestamp: True where a text names a date or a time of day.
        has_temporal_state: True where a text says how things are at a moment: now, last week.
        same_numbers: True where two texts name the same quantities, as multisets.
        same_negations: True where two texts deny alike.
        containment: ``(new, existing)``: which of them says all that the other says.
        confidence_threshold: In [0, 1]; a memory strictly below it takes part in no merge.
        version: Kept with every verdict. Give your own where you replace a rule.

    Raises:
        InvalidInputError: A rule can't be called, the threshold is no number in [0, 1], or the
            version is not a non-empty string.
    """

    dedupe_key: Callable[[str], str] = kept_key
    hard_gate: Callable[[MemoryItem, MemoryItem], bool] = hard_gate
    retention: Callable[[MemoryItem], bool] | None = retention
    has_absolute_timestamp: Callable[[str], bool] = has_absolute_timestamp
    has_temporal_state: Callable[[str], bool] = has_temporal_state
    same_numbers: Callable[[str, str], bool] = same_numbers
    same_negations: Callable[[str, str], bool] = same_negations
    containment: Callable[[str, str], Containment | str] = containment
    confidence_threshold: float = 0.5
    version: str = RULES_VERSION

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name == "confidence_threshold":
                require_share(name, value)
            elif name == "version":
                if not isinstance(value, str) or not value:
                    raise InvalidInputError.of(name, got=value, wanted="a non-empty string")
            elif not callable(value) and not (name == "retention" and value is None):
                raise InvalidInputError.of(name, got=value, wanted="a function")
