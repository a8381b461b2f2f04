"""Entities and their identity: normalised names, and ids that are hashes of them.

Facts and the entity graph name the same things, so they share this.
"""

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from unicodedata import normalize

from ailake.core.records import is_encodable
from ailake.errors import InvalidInputError

PLAIN_TYPE = "concept"
ENTITY_TYPES = frozenset(
    {
        "ticket", "policy", "agent", "member", PLAIN_TYPE, "article", "obligation", "deadline",
        "person", "organisation", "place", "product", "event",
    }
)  # fmt: skip
MAX_LENGTH = 1_024

# NFKC has made full-width forms ASCII by then, all but the ideographic full stop.
_TRAILING = " .,;:!?。"
_OTHER = re.compile(r"other\((?P<label>.*)\)", re.DOTALL)
_DIGEST_BYTES = 16
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class EntityRef:
    """A thing that facts and memories are about: equal where type and normalised name are.

    Attributes:
        type: One of ``ENTITY_TYPES``, or ``other(<label>)``.
        name: As it was given; it may differ between equal entities.

    Raises:
        InvalidInputError: No such type, a label that shadows one, or a name of which nothing is
            left when it is normalised.
    """

    type: str = field(compare=False)
    name: str = field(compare=False)
    key: tuple[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_short_text(self.type, name="entity type")
        check_short_text(self.name, name="entity name")
        normalised = normalise_name(self.name)
        if not normalised:
            raise InvalidInputError.of(
                "entity name", got=self.name, wanted="a name with more to it than punctuation"
            )
        object.__setattr__(self, "key", (normalised, _normalised_type(self.type)))

    @property
    def id(self) -> str:
        """The entity's id: BLAKE2b-128 of normalised name and type, 32 hex digits."""
        return digest(*self.key)


def other(label: str) -> str:
    """Return the entity type of an application's own label.

    Raises:
        InvalidInputError: It is empty, or would shadow a built-in type.
    """
    check_short_text(label, name="entity type label")
    made = f"other({label})"
    _normalised_type(made)
    return made


def entity_of(value: object, *, name: str) -> EntityRef:
    """Return a string as a ``concept``, and an ``EntityRef`` as it is.

    Args:
        value: A string or an ``EntityRef``.
        name: What it is, for the message.

    Raises:
        InvalidInputError: Neither, or no name.
    """
    if isinstance(value, EntityRef):
        return value
    if not isinstance(value, str):
        raise InvalidInputError.of(name, got=value, wanted="a string or an EntityRef")
    try:
        return EntityRef(PLAIN_TYPE, value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error


def normalise_name(name: str) -> str:
    """Return what two spellings of a name have in common.

    NFKC, casefold, whitespace collapsed and trimmed, trailing ``.,;:!?`` (and their full-width
    forms) stripped.
    """
    if name.isascii():
        folded = name.lower()
    else:
        folded = name
        # Folding may bring forth what NFKC changes again, such as a final iota.
        while (again := normalize("NFKC", folded).casefold()) != folded:
            folded = again
    return " ".join(folded.split()).rstrip(_TRAILING)


def digest(*fields: str) -> str:
    """Return BLAKE2b-128 of text fields as 32 hex digits.

    Each is preceded by the length of its UTF-8, 8 bytes little-endian, so that no two ways to
    split the same text into fields collide.
    """
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for text in fields:
        encoded = text.encode()
        hashed.update(len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded)
    return hashed.hexdigest()


def _normalised_type(entity_type: str) -> str:
    if entity_type in ENTITY_TYPES:
        return entity_type
    found = _OTHER.fullmatch(entity_type)
    if found is None:
        known = ", ".join(sorted(ENTITY_TYPES))
        raise InvalidInputError.of(
            "entity type", got=entity_type, wanted=f"one of {known}, or other(<label>)"
        )
    label = normalise_name(found["label"])
    if not label or label in ENTITY_TYPES:
        raise InvalidInputError.of(
            "entity type label", got=found["label"], wanted="a label that is no built-in type"
        )
    return f"other({label})"


def check_short_text(value: Any, *, name: str) -> None:
    """Refuse what is no text of a name's length.

    Raises:
        InvalidInputError: It is not; nothing is said of empty text.
    """
    if not isinstance(value, str) or len(value) > MAX_LENGTH or not is_encodable(value):
        raise InvalidInputError.of(
            name, got=value, wanted=f"text of at most {MAX_LENGTH:,} characters"
        )
