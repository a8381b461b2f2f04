"""Drafts column by column: a batch is checked as a whole, not as a hundred thousand objects.

What is checked here is what ``Draft.of`` checks, but it is only ever found right. A batch with
anything wrong or unusual in it is left to ``drafts_of``, which reads it row by row and either
takes it or names the first bad item.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.drafts import (
    FIELD_NAMES,
    MAX_TEXT_LENGTH,
    Draft,
    check_field,
    check_id,
    check_metadata,
    check_text,
    matrix_of,
)
from ailake.core.instants import EARLIEST, LATEST
from ailake.core.judge import dedupe_digests
from ailake.core.prompts import MARKER
from ailake.core.records import SourceClass

MICROSECONDS = pa.timestamp("us", "UTC")

_TYPES = {
    "importance": pa.float64(),
    "confidence": pa.float64(),
    "event_time": MICROSECONDS,
    "expires_at": MICROSECONDS,
}
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Draft)}
# What is mentioned is hashed entity by entity all the same.
_ROW_BY_ROW = frozenset({"entities"})
_NAMES = tuple(name for name in _DEFAULTS if name not in {"vector", *_ROW_BY_ROW})


class _UnusualError(ValueError):
    """A column that is wrong, or of a type that few have; nobody outside gets to see it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of n drafts, their vectors aside.

    Attributes:
        table: The fields that differ, by their names in ``Draft``; nulls only where it has None.
        constants: Those that are the same in every draft.
    """

    table: pa.Table
    constants: Mapping[str, Any]

    def __len__(self) -> int:
        """Return the number of drafts."""
        return int(self.table.num_rows)

    def slice(self, start: int, count: int) -> Self:
        """Return consecutive drafts."""
        return type(self)(self.table.slice(start, count), self.constants)

    def take(self, places: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return the drafts at some places."""
        return type(self)(self.table.take(pa.array(places, pa.int64())), self.constants)

    def column(self, name: str) -> Any:
        """Return a field as an Arrow column, or as the one value that all drafts have."""
        return self.constants[name] if name in self.constants else self.table[name]

    def drafts(self) -> list[Draft]:
        """Return them one by one."""
        return [Draft(**self.constants, **row) for row in self.table.to_pylist()]

    def ids(self) -> list[str | None]:
        """Return the ids that were given, None where none was."""
        if "id" in self.constants:
            return [self.constants["id"]] * len(self)
        ids: list[str | None] = self.table["id"].to_pylist()
        return ids

    def digests(self) -> list[str]:
        """Return what the rows' ``dedupe_key`` will be, as ``duplicate_keys`` does."""
        digests = dedupe_digests(self.table["text"])
        source = self.column("source")
        if isinstance(source, str):
            return [""] * len(self) if source == SourceClass.GROUP_CHAT else digests
        group = pc.equal(source, SourceClass.GROUP_CHAT.value).to_pylist()
        return ["" if there else digest for digest, there in zip(digests, group, strict=True)]


@dataclass(frozen=True, slots=True)
class WithVectors:
    """Drafts that bring a vector each.

    Attributes:
        vectors: One per draft, in an array or a list, not checked: only who knows the embedder can.
    """

    columns: Columns
    vectors: NDArray[np.generic] | Sequence[object]


def read_columns(items: object, *, default_session: str) -> WithVectors | None:
    """Return the drafts of a table, or of a list of dicts, where all are right and bring a vector.

    Everything else gives None, and is for ``drafts_of``.
    """
    constants = {**_DEFAULTS, "session_id": default_session}
    try:
        if isinstance(items, pa.Table):
            return _of_table(items, constants)
        if isinstance(items, list | tuple) and all(type(item) is dict for item in items):
            return _of_dicts(items, constants)
    # What Arrow can't convert or a check refuses: all of it is refused again row by row.
    except (ValueError, TypeError, OverflowError, NotImplementedError):
        pass
    return None


def _are_usual(names: Collection[object]) -> bool:
    return {"text", "vector"} <= set(names) <= {"text", *FIELD_NAMES} - _ROW_BY_ROW


def _of_table(table: pa.Table, constants: Mapping[str, Any]) -> WithVectors | None:
    names = table.column_names
    if not table.num_rows or len(set(names)) < len(names) or not _are_usual(names):
        return None
    vectors = matrix_of(table["vector"])
    if vectors is None:
        return None
    given = {name: _READERS[name](table[name], name) for name in _NAMES if name in names}
    return WithVectors(_completed(given, constants), vectors)


def _of_dicts(
    items: Sequence[Mapping[str, Any]], constants: Mapping[str, Any]
) -> WithVectors | None:
    names = set().union(*items)
    if not _are_usual(names):
        return None
    vectors = [item.get("vector") for item in items]
    if any(vector is None for vector in vectors):
        return None
    given = {"text": pa.array([check_text(item.get("text")) for item in items], pa.string())}
    for name in _NAMES:
        if name in names and name != "text":
            listed = (item.get(name) for item in items)
            values = [None if value is None else check_field(name, value) for value in listed]
            given[name] = pa.array(values, _TYPES.get(name, pa.string()))
    return WithVectors(_completed(given, constants), vectors)


def _completed(given: Mapping[str, Any], constants: Mapping[str, Any]) -> Columns:
    """Fill in what was not given, as ``Draft.of`` does."""
    known = dict(given)
    recalled = pc.match_substring_regex(known["text"], MARKER)
    if pc.any(recalled).as_py():
        sources = pc.if_else(recalled, SourceClass.RECALLED.value, constants["source"])
        known["source"] = pc.coalesce(known.get("source", pa.scalar(None, pa.string())), sources)
    columns = {name: _filled(column, constants[name]) for name, column in known.items()}
    same = {name: constants[name] for name in _NAMES if name not in columns}
    return Columns(pa.table(columns), same)


def _filled(column: Any, default: Any) -> Any:
    return column.fill_null(default) if column.null_count and default is not None else column


def _strings(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        # Arrow has no cast of one whose values are string views, as those of polars are.
        values = [_strings(chunk.dictionary, name).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(values, pa.string())
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_kind(column.type) for is_kind in (*known, pa.types.is_null)):
        raise _UnusualError(name)
    strings = column.cast(pa.string())
    strings.validate(full=True)
    return strings


def _texts(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    texts = _strings(column, name)
    unclear = texts.filter(pc.invert(pc.match_substring_regex(texts, "[!-~]"))).to_pylist()
    if texts.null_count or not all(map(str.strip, unclear)):
        raise _UnusualError(name)
    if pc.max(pc.utf8_length(texts)).as_py() > MAX_TEXT_LENGTH:
        raise _UnusualError(name)
    return texts


def _ids(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    ids = _strings(column, name)
    for value in ids.drop_null().to_pylist():
        check_id(value)
    return ids


def _labels(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    labels = _strings(column, name)
    for value in pc.unique(labels).drop_null().to_pylist():
        check_field(name, value)
    return labels


def _metadata(column: pa.ChunkedArray, name: str) -> pa.Array:
    if pa.types.is_struct(column.type):
        values = [None if v is None else check_metadata(v) for v in column.to_pylist()]
        return pa.array(values, pa.string())
    given = _strings(column, name)
    different = pc.unique(given).drop_null()
    canonical = [check_metadata(json.loads(text)) for text in different.to_pylist()]
    places = pc.index_in(given, value_set=different)
    return pa.array(canonical, pa.string()).take(places.combine_chunks())


def _unit_intervals(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if column.type not in {pa.float32(), pa.float64(), pa.null()}:
        raise _UnusualError(name)
    numbers = column.cast(pa.float64())
    values = numbers.drop_null().to_numpy()
    if not ((values >= 0) & (values <= 1)).all():
        raise _UnusualError(name)
    return numbers


def _instants(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_null(kind) and not (pa.types.is_timestamp(kind) and kind.tz):
        raise _UnusualError(name)
    instants = column.cast(MICROSECONDS, safe=False)
    first, last = (pa.scalar(bound, MICROSECONDS) for bound in (EARLIEST, LATEST))
    if pc.any(pc.or_(pc.less(instants, first), pc.greater_equal(instants, last))).as_py():
        raise _UnusualError(name)
    return instants


_READERS: Mapping[str, Callable[[pa.ChunkedArray, str], pa.ChunkedArray]] = {
    "text": _texts,
    "importance": _unit_intervals,
    "confidence": _unit_intervals,
    **dict.fromkeys(("role", "speaker", "source", "kind", "session_id"), _labels),
    "id": _ids,
    "event_time": _instants,
    "expires_at": _instants,
    "metadata": _metadata,
}
