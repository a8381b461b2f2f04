"""The values of a ``where``, normalised to what a column or a JSON document stores."""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from functools import cached_property
from math import isfinite
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np

from ailake.core.records import is_encodable

Value: TypeAlias = str | int | float | bool | datetime | tuple["Value", ...] | None


class CheckedTexts(tuple[str, ...]):  # noqa: SLOT001 (it keeps its set)
    """Texts for ``in`` that UTF-8 can encode, each once: however many, they count as one value."""

    def __contains__(self, value: object) -> bool:
        """Tell whether a text is one of them; asked for every row that is only logged."""
        return value in self._set

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self)


def distinct(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return the values in order, each once."""
    # True equals 1 in Python and not in JSON, hence the first part of the key.
    return tuple({(isinstance(value, bool), value): value for value in values}.values())


def text(value: object) -> str | None:
    """Return a plain str, None for what UTF-8 can't encode or is no text."""
    plain = value.value if isinstance(value, Enum) else value
    return str(plain) if isinstance(plain, str) and is_encodable(plain) else None


def integer(value: object) -> int | None:
    """Return a plain int, None for bools and what is no integer."""
    if isinstance(value, bool):
        return None
    return int(value) if isinstance(value, Integral) else None


def real(value: object) -> float | None:
    """Return a finite float, None for bools and where there is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def real32(value: object) -> float | None:
    """Return the nearest float32 as a float, None for what it can't hold."""
    number = real(value)
    if number is None or abs(number) > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(number))


def json_scalar(value: object) -> str | float | bool | None:
    """Return a plain str, int, float or bool, None for anything else."""
    if isinstance(value, bool):
        return value
    for convert in (text, integer, real):
        plain = convert(value)
        if plain is not None:
            return plain
    return None
