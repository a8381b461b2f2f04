"""The hash chain of the provenance ledger: linking entries, and finding where a chain broke. Pure.

docs/ledger.md describes every byte that is hashed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from struct import pack

from ailake.core.instants import as_utc
from ailake.core.records import ChainScope
from ailake.core.rows import nanoseconds
from ailake.errors import InvalidInputError, SchemaMismatchError

CHAIN_VERSION = 1
TAG = b"ailake-ledger"

# What the first entry of a scope names as the hash before its own.
GENESIS = bytes(32).hex()

_MAX_UINT64 = 2**64 - 1
_HASH = re.compile("[0-9a-f]{64}")


class LedgerEvent(StrEnum):
    """What happened to a memory, was said of a fact, was run, or was told to a graph."""

    CREATE = "create"
    MODIFY = "modify"
    MERGED = "merged"
    UPDATE = "update"
    RESTORE = "restore"
    FORGET_INTENT = "forget_intent"
    FORGET = "memory_forget"
    FORGET_VOID = "forget_void"
    PURGE = "purge"
    FACT_ASSERT = "fact_assert"
    FACT_RETRACT = "fact_retract"
    FACT_SUPERSEDE = "fact_supersede"
    FACT_REJECT = "fact_reject"
    FACT_KEEP_BOTH = "fact_keep_both"
    FACT_DEFER = "fact_defer"
    JOB_RUN = "job_run"
    GRAPH_INDEX = "graph_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """An event that has no place in a chain yet.

    Attributes:
        id: Id of the entry to come, unique in the chain.
        event: What happened, a ``LedgerEvent`` or another word.
        subject_id: Id of the memory it happened to, of the assertion, of the run, or of what
            mentions entities; empty: the whole scope.
        payload_hash: SHA-256 of the memory as it was then, of the assertion, of the run, or of
            what is mentioned: 64 hexadecimal digits.
        timestamp: When it happened, timezone-aware.
        parents: Ids of the earlier entries that it follows from.
        source_version: Version of ``episodic`` up to which the ledger tells all, with this entry.
        source_row: Stable id of the memory's row in ``episodic``, or that in ``assertions`` or
            ``job_runs``.

    Raises:
        InvalidInputError: ``timestamp`` is naive, a number is out of its range, or the hash none.
    """

    id: str
    event: str
    subject_id: str
    payload_hash: str
    timestamp: datetime
    parents: tuple[str, ...] = ()
    source_version: int = 0
    source_row: int = 0

    def __post_init__(self) -> None:
        as_utc(self.timestamp, name="timestamp")
        _check_hash(self.payload_hash, name="payload_hash")
        for name in ("source_version", "source_row"):
            _check_number(getattr(self, name), name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(LedgerRecord):
    """One link of a scope's chain.

    Attributes:
        scope: Every scope has a chain of its own, and so has the lake itself.
        sequence: Place in it, from 0 without a gap.
        previous_hash: The hash of the entry before, 64 hexadecimal digits; zeros for the first.
        hash: SHA-256 of all of this entry but itself.
        chain_version: Version of the encoding that is hashed.
    """

    scope: ChainScope
    sequence: int
    previous_hash: str
    hash: str
    chain_version: int = CHAIN_VERSION


_TOLD = tuple(one.name for one in fields(LedgerRecord))


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The last entry of a chain, to be pinned elsewhere: it tells a chain that was cut off.

    Attributes:
        scope: Whose chain.
        sequence: The entry's place in it.
        hash: The entry's hash, 64 hexadecimal digits.

    Raises:
        InvalidInputError: Not a place in a chain, or not a hash.
    """

    scope: ChainScope
    sequence: int
    hash: str

    def __post_init__(self) -> None:
        _check_number(self.sequence, name="sequence")
        _check_hash(self.hash, name="hash")


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """The first entry of a chain that does not hold.

    Attributes:
        scope: Whose chain.
        sequence: The place where an entry does not hold, or is missing.
        id: Id of the entry that was found there, empty where there is none.
        reason: What is wrong with it.
    """

    scope: ChainScope
    sequence: int
    id: str
    reason: str


@dataclass(slots=True)
class _Chain:
    """What has been seen of a chain."""

    scope: ChainScope
    previous: str = GENESIS
    length: int = 0
    ids: set[str] = field(default_factory=set)

    def fault(self, entry: LedgerEntry) -> str:
        """Return what is wrong with the next entry, or nothing; take it in where it is right."""
        found = "".join(self._faults(entry))
        self.previous = entry.hash
        self.length += 1
        self.ids.add(entry.id)
        return found

    def _faults(self, entry: LedgerEntry) -> Iterator[str]:
        if entry.chain_version != CHAIN_VERSION:
            yield unknown_version(entry.chain_version)
        elif entry.scope != self.scope:
            yield f"it belongs to {entry.scope}"
        elif entry.sequence != self.length:
            yield f"its sequence is {entry.sequence}, wanted {self.length}"
        elif entry.previous_hash != self.previous:
            yield "its previous hash is not the hash of the entry before it"
        elif entry.hash != digest(entry):
            yield "its hash is not that of its content"
        elif entry.id in self.ids:
            yield "its id is that of an earlier entry"
        elif not self.ids.issuperset(entry.parents):
            yield "a parent is no earlier entry of the chain"


def append(
    scope: ChainScope, head: LedgerHead | None, records: Sequence[LedgerRecord]
) -> list[LedgerEntry]:
    """Link records to the end of a scope's chain.

    Args:
        scope: Whose chain.
        head: The present last entry, None where there is none.
        records: What happened, in order.

    Raises:
        InvalidInputError: ``head`` is of another scope.
    """
    if head is not None and head.scope != scope:
        raise InvalidInputError.of("head", got=head.scope, wanted=f"a head of {scope}")
    sequence, previous = (0, GENESIS) if head is None else (head.sequence + 1, head.hash)
    entries: list[LedgerEntry] = []
    for place, record in enumerate(records, start=sequence):
        told = {name: getattr(record, name) for name in _TOLD}
        bare = LedgerEntry(scope=scope, sequence=place, previous_hash=previous, hash="", **told)
        entries.append(replace(bare, hash=digest(bare)))
        previous = entries[-1].hash
    return entries


def head_of(entries: Sequence[LedgerEntry]) -> LedgerHead | None:
    """Return the head of a chain that ends with these entries."""
    if not entries:
        return None
    last = entries[-1]
    return LedgerHead(last.scope, last.sequence, last.hash)


def verify(
    scope: ChainScope,
    entries: Iterable[LedgerEntry | BrokenEntry],
    *,
    head: LedgerHead | None = None,
) -> BrokenEntry | None:
    """Return the first entry of a whole chain that does not hold, or None where all do.

    Found is whatever was edited, reordered or left out. Entries cut off at the end leave a chain
    that holds by itself: only a head that was pinned before tells.

    Args:
        scope: Whose chain.
        entries: All of its entries, by their sequence; one that can't be read is broken already.
        head: A head that was pinned earlier, whose entry must still be there.
    """
    chain = _Chain(scope)
    for entry in entries:
        if isinstance(entry, BrokenEntry):
            return replace(entry, sequence=chain.length)
        fault = chain.fault(entry)
        place = chain.length - 1
        if not fault and head is not None and place == head.sequence and entry.hash != head.hash:
            fault = "its hash is not that of the pinned head"
        if fault:
            return BrokenEntry(scope, place, entry.id, fault)
    if head is not None and chain.length <= head.sequence:
        return BrokenEntry(scope, chain.length, "", _cut_off(head))
    return None


def _cut_off(head: LedgerHead) -> str:
    return f"it is missing, and so are all up to the pinned head {head.sequence}"


def digest(entry: LedgerEntry) -> str:
    """Return the SHA-256 of an entry's canonical encoding, 64 hexadecimal digits."""
    return sha256(encode(entry)).hexdigest()


def encode(entry: LedgerEntry) -> bytes:
    """Return the canonical encoding of an entry: all that its hash covers.

    Raises:
        SchemaMismatchError: Its chain version is none that this release knows.
    """
    refuse_unknown(entry.chain_version)
    scope = entry.scope
    parts = (
        entry.id.encode(),
        *(part.encode() for part in (scope.agent_id, scope.user_id, scope.project_id)),
        pack("<Q", entry.sequence),
        entry.event.encode(),
        entry.subject_id.encode(),
        bytes.fromhex(entry.payload_hash),
        b"".join(prefixed(parent.encode()) for parent in entry.parents),
        pack("<q", nanoseconds(entry.timestamp) // 1_000),
        pack("<QQ", entry.source_version, entry.source_row),
        bytes.fromhex(entry.previous_hash),
    )
    return TAG + pack("<I", entry.chain_version) + b"".join(map(prefixed, parts))


def prefixed(value: bytes) -> bytes:
    """Return bytes behind their number, an unsigned little-endian 32-bit one."""
    return pack("<I", len(value)) + value


def unknown_version(version: int) -> str:
    """Return what is wrong with an entry of a chain version that this release does not know."""
    return f"its chain version is {version}, this release knows {CHAIN_VERSION}"


def refuse_unknown(version: int) -> None:
    """Refuse what a newer release has written.

    Raises:
        SchemaMismatchError: The version is none that this release knows.
    """
    if version != CHAIN_VERSION:
        raise SchemaMismatchError(
            f"ledger: an entry can't be read, {unknown_version(version)}; upgrade with "
            "pip install -U ailake-memory"
        )


def _check_hash(value: object, *, name: str) -> None:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise InvalidInputError.of(name, got=value, wanted="64 hexadecimal digits")


def _check_number(value: object, *, name: str) -> None:
    if type(value) is not int or not 0 <= value <= _MAX_UINT64:
        raise InvalidInputError.of(name, got=value, wanted="an integer from 0 to 2^64 - 1")
