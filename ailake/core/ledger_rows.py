"""Rows of ``ledger``: from entries and back, and for many new memories at once. Pure.

What is hashed here is described in docs/ledger.md. Entries of new memories, which follow from
nothing, are hashed column by column; ``chain.encode`` is what their bytes have to equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from struct import pack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.chain import (
    CHAIN_VERSION,
    GENESIS,
    TAG,
    BrokenEntry,
    LedgerEntry,
    LedgerEvent,
    LedgerHead,
    prefixed,
)
from ailake.core.records import ChainScope, LakeScope, Scope
from ailake.core.rows import as_nanoseconds, instant_of, nanoseconds
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema
from ailake.errors import InvalidInputError, LakeCorruptError

PAYLOAD_TAG = b"ailake-memory"

# All of a memory but what moves without an event: accesses, recency, what repetitions confirm,
# and what is computed from the rest.
PAYLOAD_COLUMNS = (
    "chunk_id", "chunk_text", *SCOPE_COLUMNS, "session_id", "role", "speaker", "kind", "source",
    "importance_score", "created_at", "event_time", "expires_at", "state", "merged_into",
    "decision", "reason", "veto", "rules_version", "metadata",
)  # fmt: skip

SCHEMA = arrow_schema("ledger", dim=1, embedder_id="").remove_metadata()

_BYTES = pa.large_binary()
_NUMBERS = {pa.float32(): "<f4", pa.uint32(): "<u4"}
_HASHES = ("payload_hash", "previous_hash", "hash")
_PLAIN = ("sequence", "event", "subject_id", "source_version", "source_row", "chain_version")

_SLICE = 8_192


def payload_hashes(
    rows: pa.Table, *, columns: Sequence[str] = PAYLOAD_COLUMNS, tag: bytes = PAYLOAD_TAG
) -> list[bytes]:
    """Return the SHA-256 of each memory, or of rows of another table.

    Args:
        rows: Rows with ``columns``.
        columns: All that is hashed, in this order.
        tag: What the bytes begin with, so that no two tables' rows have the same.
    """
    if not rows.num_rows:
        return []
    fields = [part for name in columns for part in _field(_payload_bytes(rows[name]))]
    return [sha256(one).digest() for one in _joined([tag + pack("<I", 1), *fields])]


def created_rows(
    rows: pa.Table,
    entry_ids: Sequence[str],
    heads: Mapping[ChainScope, LedgerHead],
    *,
    source_version: int,
) -> tuple[pa.Table, dict[ChainScope, LedgerHead]]:
    """Return the entries of new memories, linked to their scopes' heads, and the heads then.

    Args:
        rows: Rows of ``episodic`` with ``PAYLOAD_COLUMNS`` and ``_rowid``.
        entry_ids: An id for each entry.
        heads: The present heads of those of their scopes that have one.
        source_version: The version of ``episodic`` that is told up to.
    """
    scopes, codes = scopes_of(rows)
    before = [heads.get(scope) for scope in scopes]
    columns: dict[str, Any] = {
        "entry_id": pa.array(entry_ids, pa.string()),
        **{name: rows[name].combine_chunks() for name in SCOPE_COLUMNS},
        "sequence": _sequences(codes, [head.sequence + 1 if head else 0 for head in before]),
        "subject_id": rows["chunk_id"].combine_chunks(),
        "payload_hash": payload_hashes(rows),
        "timestamp": as_nanoseconds(rows["created_at"]) // 1_000,
        "source_row": rows["_rowid"].to_numpy(),
    }
    messages = _messages(columns, source_version)
    last = [bytes.fromhex(head.hash if head else GENESIS) for head in before]
    columns["previous_hash"], columns["hash"] = _links(codes, messages, last)
    known = {
        "event": LedgerEvent.CREATE.value,
        "source_version": source_version,
        "chain_version": CHAIN_VERSION,
    }
    ends = dict(zip(codes.tolist(), columns["sequence"].tolist(), strict=True))
    after = dict(heads)
    after |= {scopes[n]: LedgerHead(scopes[n], end, last[n].hex()) for n, end in ends.items()}
    return _table(columns | known, len(codes)), after


def entry_rows(entries: Sequence[LedgerEntry]) -> pa.Table:
    """Return entries as rows."""
    columns: dict[str, Any] = {
        "entry_id": [entry.id for entry in entries],
        **{name: [getattr(entry.scope, name) for entry in entries] for name in SCOPE_COLUMNS},
        **{name: [bytes.fromhex(getattr(e, name)) for e in entries] for name in _HASHES},
        "event": [str(entry.event) for entry in entries],
        "parents": [list(entry.parents) for entry in entries],
        "timestamp": [nanoseconds(entry.timestamp) // 1_000 for entry in entries],
    }
    for name in ("sequence", "subject_id", "source_version", "source_row", "chain_version"):
        columns[name] = [getattr(entry, name) for entry in entries]
    return _table(columns, len(entries))


def entries_of(rows: pa.Table) -> Iterator[LedgerEntry]:
    """Yield rows as entries, in their order.

    Raises:
        LakeCorruptError: A value is none that ailake writes; the entry is named.
    """
    for entry in read_entries(rows):
        if isinstance(entry, BrokenEntry):
            raise LakeCorruptError(f"ledger: entry {entry.id!r} {entry.reason}")
        yield entry


def read_entries(rows: pa.Table) -> Iterator[LedgerEntry | BrokenEntry]:
    """Yield rows as entries, in their order, and one that can't be read as broken.

    Raises:
        LakeCorruptError: A scope is none that ailake writes; see ``apart``.
    """
    for start in range(0, rows.num_rows, _SLICE):
        part = rows.slice(start, _SLICE)
        scopes, codes = chain_scopes_of(part)
        hashes = {name: [one.hex() for one in part[name].to_pylist()] for name in _HASHES}
        columns: dict[str, Sequence[Any]] = {
            **{name: part[name].to_pylist() for name in _PLAIN},
            **hashes,
            "id": part["entry_id"].to_pylist(),
            "scope": [scopes[code] for code in codes.tolist()],
            "timestamp": part["timestamp"].cast(pa.int64()).to_pylist(),
            "parents": list(map(tuple, part["parents"].to_pylist())),
        }
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            yield _entry(dict(zip(names, values, strict=True)))


def apart(rows: pa.Table) -> tuple[list[BrokenEntry], pa.Table]:
    """Return the first entry of each scope that none can be, as broken, and all other rows."""
    named, codes = _parts_of(rows)
    broken, lost = [], []
    for code, (entry_id, parts) in enumerate(named):
        try:
            chain_scope(parts, entry_id)
        except LakeCorruptError:
            lost.append(code)
            place = rows["sequence"][int(np.argmax(codes == code))].as_py()
            reason = f"can't be read: its scope is {tuple(parts)}"
            broken.append(BrokenEntry(LakeScope(), place, entry_id, reason))
    return broken, rows.filter(pa.array(~np.isin(codes, lost))) if lost else rows


def _entry(fields: Mapping[str, Any]) -> LedgerEntry | BrokenEntry:
    try:
        if None in fields["parents"]:
            raise InvalidInputError.of("parents", got=fields["parents"], wanted="ids of entries")
        instant = instant_of(fields["timestamp"] * 1_000)
        return LedgerEntry(**{**fields, "timestamp": instant})
    except (InvalidInputError, OverflowError) as error:
        told = fields["scope"], fields["sequence"], fields["id"]
        return BrokenEntry(*told, f"can't be read: {error}")


def _scope(parts: Sequence[str], entry_id: str) -> Scope:
    try:
        return Scope(*parts)
    except InvalidInputError as error:
        raise LakeCorruptError(f"ledger: entry {entry_id!r} can't be read: {error}") from error


def scopes_of(rows: pa.Table) -> tuple[list[Scope], NDArray[np.int64]]:
    """Return the scopes of rows, and which of them each row is of.

    Args:
        rows: Scopes, and a first column that names the row.

    Raises:
        LakeCorruptError: One is none that ailake writes.
    """
    named, codes = _parts_of(rows)
    return [_scope(parts, row) for row, parts in named], codes


def chain_scopes_of(rows: pa.Table) -> tuple[list[ChainScope], NDArray[np.int64]]:
    """Return the same of entries, of which some are the lake's own."""
    named, codes = _parts_of(rows)
    return [chain_scope(parts, row) for row, parts in named], codes


def chain_scope(parts: Sequence[str], entry_id: str) -> ChainScope:
    """Return the scope of an entry.

    Raises:
        LakeCorruptError: It is none that ailake writes.
    """
    return _scope(parts, entry_id) if any(parts) else LakeScope()


def _parts_of(rows: pa.Table) -> tuple[list[tuple[str, list[str]]], NDArray[np.int64]]:
    codes = np.zeros(rows.num_rows, np.int64)
    for name in SCOPE_COLUMNS:
        column = rows[name].combine_chunks().dictionary_encode()
        both = codes * len(column.dictionary) + column.indices.to_numpy()
        # Hashed: to sort a million rows takes ten times as long.
        codes = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    places = np.arange(rows.num_rows)
    first = np.zeros(codes.max(initial=-1) + 1, np.int64)
    first[codes[::-1]] = places[::-1]  # Of those with the same code the last one stays.
    named = rows.select([*SCOPE_COLUMNS, rows.column_names[0]]).take(pa.array(first))
    rows_named = zip(*(column.to_pylist() for column in named.columns), strict=True)
    return [(row, parts) for *parts, row in rows_named], codes


def _sequences(codes: NDArray[np.int64], following: Sequence[int]) -> NDArray[np.uint64]:
    counts = np.bincount(codes, minlength=len(following))
    starts = np.cumsum(counts) - counts
    order = np.argsort(codes, kind="stable")
    ranks = np.arange(len(codes)) - np.repeat(starts, counts)
    sequences = np.zeros(len(codes), np.uint64)
    sequences[order] = np.repeat(np.array(following, np.uint64), counts) + ranks.astype(np.uint64)
    return sequences


def _messages(columns: Mapping[str, Any], source_version: int) -> list[bytes]:
    """Return what is hashed of each entry, without the previous hash at its end."""
    count = len(columns["sequence"])
    numbers = np.zeros(count, dtype=[("size", "<u4"), ("version", "<u8"), ("row", "<u8")])
    numbers["size"], numbers["version"], numbers["row"] = 16, source_version, columns["source_row"]
    hashes = pa.array(columns["payload_hash"], pa.binary(32)).cast(_BYTES)
    texts = [columns[name].cast(_BYTES) for name in ("entry_id", *SCOPE_COLUMNS, "subject_id")]
    return _joined(
        [
            TAG + pack("<I", CHAIN_VERSION),
            *(part for text in texts[:-1] for part in _field(text)),
            *_field(_fixed(columns["sequence"].astype("<u8"))),
            prefixed(LedgerEvent.CREATE.encode()),
            *_field(texts[-1]),
            *_field(hashes),
            prefixed(b""),  # No parents.
            *_field(_fixed(columns["timestamp"].astype("<i8"))),
            _fixed(numbers),
            pack("<I", len(GENESIS) // 2),
        ]
    )


def _links(
    codes: NDArray[np.int64], messages: Sequence[bytes], last: list[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Return each entry's previous hash and its own; ``last`` has each scope's, and moves on."""
    previous, hashes = [], []
    for code, message in zip(codes.tolist(), messages, strict=True):
        before = last[code]
        last[code] = own = sha256(message + before).digest()
        previous.append(before)
        hashes.append(own)
    return previous, hashes


def _payload_bytes(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if whole.type == INSTANT:
        filled = as_nanoseconds(whole.fill_null(0)).astype("<i8")
        return pc.if_else(whole.is_valid(), _fixed(filled), pa.scalar(b"", _BYTES))
    if whole.type in _NUMBERS:
        return _fixed(whole.to_numpy().astype(_NUMBERS[whole.type]))
    return whole.cast(_BYTES)


def _field(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the lengths of values as bytes, and the values."""
    return _fixed(pc.binary_length(values).to_numpy().astype("<u4")), values


def _fixed(values: NDArray[Any]) -> pa.Array:
    """Return the bytes of values of one size."""
    kind = pa.binary(values.dtype.itemsize)
    buffers = [None, pa.py_buffer(values.tobytes())]
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), buffers).cast(_BYTES)


def _joined(parts: Sequence[bytes | pa.Array]) -> list[bytes]:
    """Return the parts of each row one after another; bytes are the same in all rows."""
    columns = [pa.scalar(one, _BYTES) if isinstance(one, bytes) else one for one in parts]
    joined: list[bytes] = pc.binary_join_element_wise(*columns, pa.scalar(b"", _BYTES)).to_pylist()
    return joined


def _table(columns: Mapping[str, Any], count: int) -> pa.Table:
    whole = {"parents": [[]] * count, **columns}
    arrays = []
    for field in SCHEMA:
        values = whole[field.name]
        if isinstance(values, str | int):
            values = pa.repeat(pa.scalar(values, field.type), count)
        elif pa.types.is_timestamp(field.type):
            values = pa.array(values, pa.int64()).cast(field.type)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.table(arrays, schema=SCHEMA)
