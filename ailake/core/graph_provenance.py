"""What the ledger says of a graph: an entry for each fact whose mentions changed. Pure.

docs/ledger.md describes every byte that is hashed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from struct import pack

from ailake.core.chain import LedgerEvent, LedgerRecord, prefixed
from ailake.core.recording import Told
from ailake.core.records import Scope

GRAPH_TAG = b"ailake-graph"

# The row of an entry that is about no row; so the ledger's own recording passes it over.
NO_ROW = 2**64 - 1

# What begins, and what may end, that a fact is known to mention something.
MENTIONED = (LedgerEvent.GRAPH_INDEX, LedgerEvent.FORGET)
GRAPH_EVENTS = (*MENTIONED, LedgerEvent.FORGET_INTENT, LedgerEvent.FORGET_VOID)


@dataclass(frozen=True, slots=True)
class Mentioning:
    """Facts of a scope as the ledger and the graph know them.

    Attributes:
        scope: The scope.
        present: Ids of the entities that each fact mentions now, none where it is gone.
        told: The latest entry about what each mentions, or that it was or was to be forgotten.
    """

    scope: Scope
    present: Mapping[str, Collection[str]]
    told: Mapping[str, Told]

    def records(
        self, ids: Iterator[str], *, now: datetime, source_version: int
    ) -> list[LedgerRecord]:
        """Return what is to be recorded so that the ledger says what the graph has.

        What it says already is no event, whoever has recorded it, but that a removal was announced:
        what is there all the same is not going to be removed.

        Args:
            ids: Ids for the entries.
            now: When.
            source_version: The version of ``episodic`` that is told up to.
        """
        record = partial(_record, ids=ids, now=now, source_version=source_version)
        found = []
        for fact_id, entities in self.present.items():
            told = self.told.get(fact_id)
            known = _known(told)
            own = mentions_hash(self.scope, fact_id, entities) if entities else ""
            if own and told and told.event == LedgerEvent.FORGET_INTENT:
                void = record(LedgerEvent.FORGET_VOID, fact_id, known, told)
                found.append(void)
                told = Told(void.id, LedgerEvent.FORGET_VOID, known)
            if own != known:
                event = LedgerEvent.GRAPH_INDEX if own else LedgerEvent.FORGET
                found.append(record(event, fact_id, own or known, told))
        return found

    def intents(
        self, ids: Iterator[str], *, now: datetime, source_version: int
    ) -> list[LedgerRecord]:
        """Return what is to be recorded before all that is known of the facts is removed.

        Args:
            ids: Ids for the entries.
            now: When.
            source_version: The version of ``episodic`` that is told up to.
        """
        record = partial(_record, ids=ids, now=now, source_version=source_version)
        return [
            record(LedgerEvent.FORGET_INTENT, fact_id, known, told)
            for fact_id, told in self.told.items()
            if (known := _known(told)) and told.event != LedgerEvent.FORGET_INTENT
        ]


def _known(told: Told | None) -> str:
    """Return the hash of what a fact is known to mention, empty where it is nothing."""
    return told.payload_hash if told and told.event != LedgerEvent.FORGET else ""


def _record(
    event: LedgerEvent,
    fact_id: str,
    payload_hash: str,
    told: Told | None,
    *,
    ids: Iterator[str],
    now: datetime,
    source_version: int,
) -> LedgerRecord:
    return LedgerRecord(
        id=next(ids),
        event=event,
        subject_id=fact_id,
        payload_hash=payload_hash,
        timestamp=now,
        parents=(told.id,) if told else (),
        source_version=source_version,
        source_row=NO_ROW,
    )


def mentions_hash(scope: Scope, fact_id: str, entities: Collection[str]) -> str:
    """Return the SHA-256 of what a fact mentions, 64 hexadecimal digits.

    Args:
        scope: The fact's.
        fact_id: The fact.
        entities: Ids of the entities.
    """
    fields = (*astuple(scope), fact_id, *sorted(entities))
    parts = b"".join(prefixed(field.encode()) for field in fields)
    return sha256(GRAPH_TAG + pack("<I", 1) + parts).hexdigest()
