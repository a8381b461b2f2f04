"""The write-ahead log's records: batches of new memories as bytes, and back. Pure.

A record is a length and a CRC-32 of its payload, both unsigned 32-bit little-endian, and the
payload: a JSON array with one object per memory, a zero byte, and their vectors as little-endian
float16. A batch is one record, so that it is replayed whole or not at all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum
from functools import cached_property
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ailake.core.decisions import DecisionRecord, SeenCandidate
from ailake.core.drafts import Draft
from ailake.core.entities import EntityRef
from ailake.core.records import Decision, Remembered, Scope
from ailake.core.remembering import NewMemory
from ailake.core.rows import row_of
from ailake.errors import SchemaMismatchError

# 2: with the judge's verdict. 3: with what the memory mentions.
VERSION = 3

_HEAD = Struct("<II")
_SEPARATOR = b"\0"
# Of every payload; within its texts the quotes are escaped.
_START = b'[{"v":'
_FLOAT16 = np.dtype("<f2")
_APART = frozenset({"id", "vector", "entities"})
_DRAFT = tuple(field.name for field in fields(Draft) if field.name not in _APART)
_INSTANTS = frozenset({"event_time", "expires_at"})


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A row that a table will have.

    Attributes:
        row: Its columns as ``to_pylist`` would give them, the vector aside.
        vector: Its embedding, float16 (dim,).
    """

    row: Mapping[str, Any]
    vector: NDArray[np.float16]


@dataclass(frozen=True)
class LoggedMemory:
    """A memory that the log holds, and no table yet.

    Attributes:
        vector: Its embedding, float16 (dim,).
        logged_at: When it was logged, whatever its ``created_at`` says.
        embedder_id: Whose vector it is, empty where the record does not say.
    """

    memory: NewMemory
    vector: NDArray[np.float16]
    logged_at: datetime
    embedder_id: str

    @cached_property
    def waiting(self) -> WaitingRow:
        """The row that it will be."""
        return WaitingRow(row_of(self.memory), self.vector)


class Rest(Enum):
    """What a log file holds beside whole records.

    TORN is a record whose writing was interrupted, so that nobody was told that it is kept.
    DAMAGED is one that does not read, and that its writer may have been told is kept.
    """

    NOTHING = "nothing"
    TORN = "torn"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a log file holds.

    Attributes:
        damage: The bytes that were no record, where the rest is DAMAGED.
    """

    memories: tuple[LoggedMemory, ...]
    rest: Rest
    damage: bytes = b""


def encode(batch: Sequence[LoggedMemory]) -> bytes:
    """Return one record."""
    texts = json.dumps([_document(logged) for logged in batch], separators=(",", ":"))
    vectors = b"".join(logged.vector.astype(_FLOAT16).tobytes() for logged in batch)
    payload = texts.encode() + _SEPARATOR + vectors
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def replay(content: bytes) -> Replay:
    """Return the memories of all whole records, in the order of their writing.

    Raises:
        SchemaMismatchError: A newer release wrote the log.
    """
    memories: list[LoggedMemory] = []
    place, damage = 0, b""
    while place < len(content):
        payload = _payload(content, place)
        if payload is not None:
            memories += _decode(payload)
            place += _HEAD.size + len(payload)
            continue
        found = _next_record(content, place + 1)
        if found is None and not damage and _is_torn(content, place):
            return Replay(tuple(memories), Rest.TORN)
        damage += content[place:found]
        place = len(content) if found is None else found
    return Replay(tuple(memories), Rest.DAMAGED if damage else Rest.NOTHING, damage)


def _payload(content: bytes, place: int) -> bytes | None:
    """Return the payload of the record at a place, where there is a whole one."""
    if place + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, place)
    payload = content[place + _HEAD.size : place + _HEAD.size + length]
    return payload if length == len(payload) > 0 and crc32(payload) == checksum else None


def _next_record(content: bytes, place: int) -> int | None:
    """Return the place of the next whole record: what follows a damaged one was kept, too."""
    start = content.find(_START, place + _HEAD.size)
    while start >= 0:
        if _payload(content, start - _HEAD.size) is not None:
            return start - _HEAD.size
        start = content.find(_START, start + 1)
    return None


def _is_torn(content: bytes, place: int) -> bool:
    left = content[place:]
    # After a power cut a file may have grown by zeros that never became data.
    if len(left) < _HEAD.size or not any(left):
        return True
    (length, _) = _HEAD.unpack_from(left)
    return bool(_HEAD.size + length > len(left)) and left.count(_START) <= 1


def _document(logged: LoggedMemory) -> dict[str, Any]:
    memory, outcome = logged.memory, logged.memory.outcome
    draft = {name: _plain(getattr(memory.draft, name)) for name in _DRAFT}
    return {
        "v": VERSION,
        "logged_at": logged.logged_at.isoformat(),
        "embedder": logged.embedder_id,
        "id": outcome.id,
        "scope": [memory.scope.agent_id, memory.scope.user_id, memory.scope.project_id],
        "outcome": [outcome.decision.value, outcome.reason, outcome.existing_id, outcome.veto],
        "digest": memory.digest,
        "created_at": memory.created_at.isoformat(),
        "folded_through": memory.folded_through,
        "rules_version": memory.rules_version,
        "draft": draft,
        "entities": [[one.type, one.name] for one in memory.draft.entities],
        "verdict": None if memory.verdict is None else _verdict(memory.verdict),
    }


def _verdict(verdict: DecisionRecord) -> dict[str, Any]:
    """Return what the rest of the document does not say."""
    seen = [[one.id, one.score, one.mode] for one in verdict.candidates]
    return {
        "id": verdict.id,
        "mode": verdict.mode,
        "seen": seen,
        "grey": verdict.grey,
        "seconds": verdict.seconds,
    }


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _decode(payload: bytes) -> list[LoggedMemory]:
    # JSON escapes a zero byte: the first one is the separator.
    texts, _, vectors = payload.partition(_SEPARATOR)
    documents = json.loads(texts)
    if any(document["v"] > VERSION for document in documents):
        raise SchemaMismatchError(
            "the lake's log was written by a newer release of ailake: upgrade this one"
        )
    rows = np.frombuffer(vectors, _FLOAT16).reshape(len(documents), -1)
    return [
        LoggedMemory(
            _memory(document),
            row.astype(np.float16),
            datetime.fromisoformat(document["logged_at"]),
            document.get("embedder", ""),
        )
        for document, row in zip(documents, rows, strict=True)
    ]


def _memory(document: Mapping[str, Any]) -> NewMemory:
    decision, reason, existing_id, veto = document["outcome"]
    draft: dict[str, Any] = {
        name: datetime.fromisoformat(value) if name in _INSTANTS and value else value
        for name, value in document["draft"].items()
    }
    # Versions 1 and 2 had none.
    draft["entities"] = tuple(EntityRef(*one) for one in document.get("entities", ()))
    memory = NewMemory(
        draft=Draft(**draft),
        outcome=Remembered(document["id"], Decision(decision), reason, existing_id, veto),
        digest=document["digest"],
        scope=Scope(*document["scope"]),
        created_at=datetime.fromisoformat(document["created_at"]),
        folded_through=document["folded_through"],
        rules_version=document["rules_version"],
    )
    # Version 1 had none.
    verdict = document.get("verdict")
    return memory if verdict is None else replace(memory, verdict=_decided(memory, verdict))


def _decided(memory: NewMemory, verdict: Mapping[str, Any]) -> DecisionRecord:
    outcome = memory.outcome
    return DecisionRecord(
        id=verdict["id"],
        scope=memory.scope,
        decided_at=memory.created_at,
        decision=outcome.decision.value,
        memory_id=outcome.id,
        mode=verdict["mode"],
        reason=outcome.reason,
        veto=outcome.veto,
        candidates=tuple(SeenCandidate(*one) for one in verdict["seen"]),
        grey=tuple(verdict["grey"]),
        rules_version=memory.rules_version,
        seconds=verdict["seconds"],
    )
