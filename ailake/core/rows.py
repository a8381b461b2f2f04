"""Rows of the tables, from values and back: the one place that knows every episodic column."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.passages import Passage
from ailake.core.records import Decision, MemoryRecord, Scope, State
from ailake.core.remembering import NewMemory
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema
from ailake.errors import LakeCorruptError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

RECORD_COLUMNS = (
    "chunk_id", "chunk_text", "agent_id", "user_id", "project_id", "session_id", "role",
    "speaker", "kind", "source", "importance_score", "confidence", "created_at", "updated_at",
    "event_time", "expires_at", "last_accessed_at", "recency_weight", "access_count",
    "folded_through", "state", "merged_into", "decision", "reason", "veto", "metadata",
)  # fmt: skip


def nanoseconds(instant: datetime) -> int:
    """Return nanoseconds since 1970 of a timezone-aware datetime, exactly."""
    return (instant - EPOCH) // MICROSECOND * 1_000


def instant_of(nanos: int) -> datetime:
    """Return the UTC datetime of nanoseconds since 1970, cut to microseconds."""
    return EPOCH + timedelta(microseconds=nanos // 1_000)


def as_nanoseconds(column: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
    """Return a timestamp column without nulls as nanoseconds since 1970."""
    values = column.cast(pa.int64()).to_numpy()
    return np.asarray(values, dtype=np.int64)


def born_at(columns: pa.Table) -> NDArray[np.int64]:
    """Return when each memory's event happened: event_time where given, else created_at."""
    return as_nanoseconds(pc.coalesce(columns["event_time"], columns["created_at"]))


def last_access(columns: pa.Table) -> NDArray[np.int64]:
    """Return each row's stored last access; a null counts from the event, then the creation."""
    return as_nanoseconds(
        pc.coalesce(columns["last_accessed_at"], columns["event_time"], columns["created_at"])
    )


def episodic_rows(
    memories: Sequence[NewMemory], vectors: NDArray[np.floating[Any]], *, embedder_id: str
) -> pa.Table:
    """Return the rows of new memories, ready to be appended to ``episodic``.

    Args:
        memories: n memories.
        vectors: Their embeddings, (n, dim), stored as float16.
        embedder_id: Id of the embedder that the lake was made with.
    """
    drafts = [memory.draft for memory in memories]
    scopes = [memory.scope for memory in memories]
    outcomes = [memory.outcome for memory in memories]
    events = _instants([draft.event_time for draft in drafts])
    created = _instants([_created(memory) for memory in memories])
    columns: dict[str, Any] = {
        "chunk_id": [outcome.id for outcome in outcomes],
        "chunk_text": [draft.text for draft in drafts],
        "agent_id": [scope.agent_id for scope in scopes],
        "user_id": [scope.user_id for scope in scopes],
        "project_id": [scope.project_id for scope in scopes],
        "session_id": [draft.session_id for draft in drafts],
        "role": [draft.role for draft in drafts],
        "speaker": [draft.speaker for draft in drafts],
        "kind": [draft.kind for draft in drafts],
        "source": [draft.source for draft in drafts],
        "importance_score": [draft.importance for draft in drafts],
        "confidence": [draft.confidence for draft in drafts],
        "created_at": created,
        "updated_at": _instants([memory.created_at for memory in memories]),
        "event_time": events,
        "expires_at": _instants([draft.expires_at for draft in drafts]),
        "last_accessed_at": _instants([_met(memory) for memory in memories]),
        "folded_through": [memory.folded_through for memory in memories],
        "state": [_state(memory).value for memory in memories],
        "merged_into": [memory.merged_into for memory in memories],
        "dedupe_key": [memory.digest for memory in memories],
        "decision": [outcome.decision.value for outcome in outcomes],
        "reason": [outcome.reason for outcome in outcomes],
        "veto": [outcome.veto for outcome in outcomes],
        "rules_version": [memory.rules_version for memory in memories],
        "metadata": [draft.metadata for draft in drafts],
        "access_count": [memory.access_count for memory in memories],
    }
    return complete_rows(columns, vectors, embedder_id=embedder_id)


def complete_rows(
    columns: Mapping[str, Any], vectors: NDArray[np.floating[Any]], *, embedder_id: str
) -> pa.Table:
    """Return rows of ``episodic`` that nobody has met yet.

    Args:
        columns: The columns that are not the same in all such rows: n values, or one for all.
        vectors: The embeddings, (n, dim), stored as float16.
        embedder_id: Id of the embedder that the lake was made with.
    """
    _, dim = vectors.shape
    schema = arrow_schema("episodic", dim=dim, embedder_id=embedder_id)
    flat = pa.array(vectors.ravel()).cast(pa.float16(), safe=False)
    whole = {
        "embedding": pa.FixedSizeListArray.from_arrays(flat, dim),
        "recency_weight": 1.0,
        "access_count": 0,
        **columns,
    }
    arrays = [_array(whole[field.name], field.type, len(vectors)) for field in schema]
    return pa.table(arrays, schema=schema)


def row_of(memory: NewMemory) -> dict[str, Any]:
    """Return the row of one new memory as ``to_pylist`` would, the vector aside."""
    draft, outcome, scope = memory.draft, memory.outcome, memory.scope
    return {
        "chunk_id": outcome.id,
        "chunk_text": draft.text,
        **asdict(scope),
        "session_id": draft.session_id,
        "role": draft.role,
        "speaker": draft.speaker,
        "kind": draft.kind,
        "source": draft.source,
        "importance_score": float(np.float32(draft.importance)),
        "confidence": float(np.float32(draft.confidence)),
        "created_at": memory.created_at,
        "updated_at": memory.created_at,
        "event_time": draft.event_time,
        "expires_at": draft.expires_at,
        "last_accessed_at": draft.event_time or memory.created_at,
        "recency_weight": 1.0,
        "access_count": 0,
        "folded_through": memory.folded_through,
        "state": _state(memory).value,
        "merged_into": memory.merged_into,
        "dedupe_key": memory.digest,
        "decision": outcome.decision.value,
        "reason": outcome.reason,
        "veto": outcome.veto,
        "rules_version": memory.rules_version,
        "metadata": draft.metadata,
    }


def _state(memory: NewMemory) -> State:
    if memory.merged_into:
        return State.MERGED
    return State.DEFERRED if memory.outcome.decision is Decision.DEFER else State.ACTIVE


def _created(memory: NewMemory) -> datetime:
    return memory.created_at if memory.standing is None else memory.standing.created_at


def _met(memory: NewMemory) -> datetime:
    met = None if memory.standing is None else memory.standing.met_at
    return met or memory.draft.event_time or memory.created_at


def passage_rows(
    split_up: Mapping[str, Sequence[Passage]],
    vectors: NDArray[np.floating[Any]],
    *,
    scope: Scope,
    embedder_id: str,
) -> pa.Table:
    """Return the rows of memories' passages, ready to be appended to ``passages``.

    Args:
        split_up: The passages of each memory, by its id.
        vectors: One embedding per passage, in the same order, float32 (n, dim), stored as float16.
        scope: The scope that all of them belong to.
        embedder_id: Id of the embedder that the lake was made with.
    """
    _, dim = vectors.shape
    flat = [
        (memory_id, part, passage.start, passage.end)
        for memory_id, passages in split_up.items()
        for part, passage in enumerate(passages)
    ]
    ids, parts, starts, ends = zip(*flat, strict=True) if flat else ((), (), (), ())
    columns: dict[str, Any] = {
        "chunk_id": ids,
        **{name: getattr(scope, name) for name in SCOPE_COLUMNS},
        "part": parts,
        "start": starts,
        "end": ends,
    }
    schema = arrow_schema("passages", dim=dim, embedder_id=embedder_id)
    halves = pa.array(vectors.astype(np.float16).ravel())
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(halves, dim)
    arrays = [_array(columns[field.name], field.type, len(flat)) for field in schema]
    return pa.table(arrays, schema=schema)


def expiry_rows(expirations: Mapping[str, datetime | None]) -> pa.Table:
    """Return ``chunk_id`` and ``expires_at`` of memories whose expiry changes."""
    return pa.table(
        {"chunk_id": list(expirations), "expires_at": _instants(list(expirations.values()))}
    )


def _instants(values: Sequence[datetime | None]) -> pa.Array:
    return pa.array(values, pa.timestamp("us", "UTC")).cast(INSTANT)


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, str | int | float):
        return pa.repeat(pa.scalar(values, kind), count)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == kind else values.cast(kind)
    return pa.array(values, kind)


def to_pylist(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts; instants are cut to the microseconds that a datetime holds."""
    rows: list[dict[str, Any]] = in_microseconds(table).to_pylist()
    return rows


def in_microseconds(table: pa.Table) -> pa.Table:
    """Return a table with its instants cut to the microseconds that a datetime holds."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(index).cast(pa.timestamp("us", tz="UTC"), safe=False)
            table = table.set_column(index, field.name, column)
    return table


def as_given(value: float) -> float:
    """Return the shortest float that is stored as this float32: 0.95, not 0.949999988079071."""
    return float(str(np.float32(value)))


def fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a ``MemoryRecord`` from a row of ``RECORD_COLUMNS``.

    Raises:
        LakeCorruptError: A value is none that ailake writes; the row is named.
    """
    try:
        return _fields_of(row)
    except ValueError as error:
        raise LakeCorruptError(f"memory {row['chunk_id']!r} can't be read: {error}") from error


def _fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["chunk_id"],
        "text": row["chunk_text"],
        "scope": Scope(row["agent_id"], row["user_id"], row["project_id"]),
        "session_id": row["session_id"],
        "role": row["role"],
        "speaker": row["speaker"],
        "kind": row["kind"],
        "source": row["source"],
        "importance_score": as_given(row["importance_score"]),
        "confidence": as_given(row["confidence"]),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "event_time": row["event_time"],
        "expires_at": row["expires_at"],
        "last_accessed_at": row["last_accessed_at"] or row["event_time"] or row["created_at"],
        "recency_weight": as_given(row["recency_weight"]),
        "access_count": row["access_count"],
        "state": State(row["state"]),
        "merged_into": row["merged_into"],
        "decision": Decision(row["decision"]),
        "reason": row["reason"],
        "veto": row["veto"],
        "metadata": json.loads(row["metadata"]),
    }


def record_of(row: Mapping[str, Any]) -> MemoryRecord:
    """Return a stored row as a record.

    Raises:
        LakeCorruptError: A value is none that ailake writes; the row is named.
    """
    return MemoryRecord(**fields_of(row))
