"""Drafts: what a caller asks to be remembered, checked field by field before anything happens."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.entities import EntityRef
from ailake.core.episodic import unit_interval
from ailake.core.graph import entity_refs
from ailake.core.instants import as_utc
from ailake.core.prompts import is_recalled
from ailake.core.records import SourceClass, is_encodable
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TEXT_LENGTH = 200_000
MAX_LABEL_LENGTH = 1_024
MAX_METADATA_LENGTH = 65_536


@dataclass(frozen=True, slots=True)
class Draft:
    """One memory to be, every field checked.

    Attributes:
        text: 1 to 200,000 characters, not only whitespace.
        metadata: A JSON object as canonical text.
        vector: The embedding where the caller brings one, not checked yet.
        entities: What it mentions, each once.
    """

    text: str
    importance: float = 0.5
    confidence: float = 1.0
    role: str = "user"
    speaker: str = ""
    source: str = SourceClass.DIRECT.value
    kind: str = ""
    id: str | None = None
    event_time: datetime | None = None
    expires_at: datetime | None = None
    metadata: str = "{}"
    session_id: str = ""
    vector: object = None
    entities: tuple[EntityRef, ...] = ()

    @classmethod
    def of(cls, text: object, *, default_session: str = "", **values: object) -> Self:
        """Check the arguments of ``remember`` and return them as a draft.

        What is None counts as not given. Where no source is, a text that holds recalled memories
        has the source ``recalled``.

        Raises:
            InvalidInputError: The first argument found wrong: what was got and what is wanted.
        """
        unknown = values.keys() - FIELD_NAMES
        if unknown:
            raise InvalidInputError.of(
                "memory field", got=min(unknown), wanted=f"one of {', '.join(sorted(FIELD_NAMES))}"
            )
        checked = {
            name: _CHECKS[name](value, name=name)
            for name, value in values.items()
            if value is not None
        }
        checked.setdefault("session_id", default_session)
        sound = check_text(text)
        if is_recalled(sound):
            checked.setdefault("source", SourceClass.RECALLED.value)
        return cls(text=sound, **checked)

    @property
    def embedded_text(self) -> str:
        """The text that is embedded: the speaker and the event's date help recall."""
        date = "" if self.event_time is None else f" ({self.event_time:%d %B %Y})"
        speaker = f"{self.speaker}: " if self.speaker else ""
        return f"{speaker}{self.text}{date}"


def check_text(value: object) -> str:
    """Return the text of a memory or a query, or refuse it."""
    if not isinstance(value, str):
        raise InvalidInputError.of("text", got=value, wanted="a string")
    if not value.strip():
        raise InvalidInputError.of("text", got=value, wanted="at least one visible character")
    if len(value) > MAX_TEXT_LENGTH:
        raise InvalidInputError(
            f"text: got {len(value):,} characters, wanted at most {MAX_TEXT_LENGTH:,}; split it"
        )
    if not is_encodable(value):
        raise InvalidInputError.of("text", got=value, wanted="text that UTF-8 can encode")
    return value


def check_label(value: object, *, name: str) -> str:
    """Return a short string such as a speaker or a kind, or refuse it."""
    if not isinstance(value, str) or len(value) > MAX_LABEL_LENGTH or not is_encodable(value):
        raise InvalidInputError.of(
            name, got=value, wanted=f"a string of at most {MAX_LABEL_LENGTH:,} characters"
        )
    return str(value)


def check_id(value: object, *, name: str = "id") -> str:
    """Return a memory's id, or refuse it."""
    label = check_label(value, name=name)
    if not label.strip():
        raise InvalidInputError.of(name, got=value, wanted="a non-empty string")
    return label


def check_metadata(value: object, *, name: str = "metadata") -> str:
    """Return an application's own fields as canonical JSON text, or refuse them."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError.of(name, got=value, wanted="a mapping with string keys")
    try:
        text = json.dumps(
            dict(value), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name}: {error}; wanted values that JSON can hold") from error
    if len(text) > MAX_METADATA_LENGTH or not is_encodable(text):
        raise InvalidInputError(
            f"{name}: got {len(text):,} characters as JSON, wanted at most "
            f"{MAX_METADATA_LENGTH:,} of UTF-8 text"
        )
    return text


def _check_role(value: object, *, name: str) -> str:
    return check_id(value, name=name)


def _check_source(value: object, *, name: str) -> str:
    if not isinstance(value, str) or value not in set(SourceClass):
        wanted = f"one of {', '.join(SourceClass)}"
        raise InvalidInputError.of(name, got=value, wanted=wanted)
    return SourceClass(value).value


def _check_entities(value: object, *, name: str) -> tuple[EntityRef, ...]:  # noqa: ARG001 (the signature of a check)
    return entity_refs(value)


def _keep(value: object, *, name: str) -> object:  # noqa: ARG001 (the signature of a check)
    return value


_CHECKS: dict[str, Any] = {
    "importance": unit_interval,
    "confidence": unit_interval,
    "role": _check_role,
    "speaker": check_label,
    "source": _check_source,
    "kind": check_label,
    "id": check_id,
    "event_time": as_utc,
    "expires_at": as_utc,
    "metadata": check_metadata,
    "session_id": check_label,
    # Only who knows the embedder can check it.
    "vector": _keep,
    "entities": _check_entities,
}


def check_field(name: str, value: object) -> Any:
    """Return the value of an argument of ``remember`` other than the text, or refuse it."""
    return _CHECKS[name](value, name=name)


FIELD_NAMES = frozenset(field.name for field in fields(Draft)) - {"text"}


@runtime_checkable
class ArrowExportable(Protocol):
    """A frame that exports itself as an Arrow stream: polars, pandas 2.2+, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the PyCapsule of the Arrow C stream interface."""


Items = Iterable[Mapping[str, Any]] | ArrowExportable


def as_table(items: Items) -> pa.Table | None:
    """Return a frame as an Arrow table, and None for anything else; some can be read but once."""
    return pa.table(items) if isinstance(items, ArrowExportable) else None


def drafts_of(items: Items, *, default_session: str = "") -> list[Draft]:
    """Check a whole batch: dicts of ``remember``'s arguments, or a frame of such columns.

    Raises:
        InvalidInputError: The first bad item, named by its position.
    """
    return [
        _draft_at(position, item, default_session=default_session)
        for position, item in enumerate(_mappings(items))
    ]


def _draft_at(position: int, item: object, *, default_session: str) -> Draft:
    try:
        if not isinstance(item, Mapping):
            raise InvalidInputError.of("memory", got=item, wanted='a mapping such as {"text": "…"}')
        values = {str(key): value for key, value in item.items()}
        if "text" not in values:
            raise InvalidInputError.of("memory", got=sorted(values), wanted='a key "text"')
        return Draft.of(values.pop("text"), default_session=default_session, **values)
    except InvalidInputError as error:
        raise InvalidInputError(f"item {position}: {error}") from error


def _mappings(items: Items) -> Iterable[Mapping[str, Any]]:
    if isinstance(items, (str, bytes, Mapping)):
        raise InvalidInputError.of("items", got=items, wanted="a list of mappings, or a frame")
    table = as_table(items)
    if table is not None:
        return _rows(table)
    if not isinstance(items, Iterable):
        raise InvalidInputError.of("items", got=items, wanted="a list of mappings, or a frame")
    return items


def _rows(table: pa.Table) -> Iterable[Mapping[str, Any]]:
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            # Finer than what a datetime holds: pyarrow refuses to convert nanoseconds.
            microseconds = pa.timestamp("us", tz=field.type.tz)
            column = table.column(index).cast(microseconds, safe=False)
            table = table.set_column(index, field.name, column)
    vectors: NDArray[np.generic] | None = None
    if "vector" in table.column_names:
        # As lists of Python floats they would be a hundred times as slow and large.
        vectors = matrix_of(table["vector"])
        table = table if vectors is None else table.drop_columns("vector")
    position = 0
    for batch in table.to_batches(max_chunksize=8_192):
        for row in batch.to_pylist():
            if isinstance(row.get("metadata"), str):
                row["metadata"] = _parse_metadata(row["metadata"])
            yield row if vectors is None else {**row, "vector": vectors[position]}
            position += 1


def matrix_of(column: pa.ChunkedArray) -> "NDArray[np.generic] | None":
    """Return a column of lists as an array, (n, k); None where they differ in length."""
    if not _is_matrix(column):
        return None
    # Joining chunks copies even one.
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    flat: NDArray[np.generic] = lists.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def _is_matrix(column: pa.ChunkedArray) -> bool:
    if column.null_count or not len(column):
        return False
    if pa.types.is_fixed_size_list(column.type):
        return True
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return False
    return len(pc.unique(pc.list_value_length(column))) == 1


def _parse_metadata(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError.of("metadata", got=text, wanted="a JSON object") from error
