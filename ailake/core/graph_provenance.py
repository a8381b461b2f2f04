"""What the ledger says of a graph: an entry for each fact whose mentions changed. Pure.

docs/ledger.md describes every byte that is hashed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import datetime
from hashlib import sha256
from struct import pack

from ailake.core.chain import LedgerEvent, LedgerRecord, prefixed
from ailake.core.recording import Told
from ailake.core.records import Scope

GRAPH_TAG = b"ailake-graph"

# The row of an entry that is about no row; so the ledger's own recording passes it over.
NO_ROW = 2**64 - 1

# What may end, and what begins, that a fact is known to mention something.
GRAPH_EVENTS = (LedgerEvent.GRAPH_INDEX, LedgerEvent.FORGET)


@dataclass(frozen=True, slots=True)
class Mentioning:
    """Facts of a scope as the ledger and the graph know them.

    Attributes:
        scope: The scope.
        present: Ids of the entities that each fact mentions now, none where it is gone.
        told: The latest entry about what each mentions, or that it was forgotten.
    """

    scope: Scope
    present: Mapping[str, Collection[str]]
    told: Mapping[str, Told]

    def records(
        self, ids: Iterator[str], *, now: datetime, source_version: int
    ) -> list[LedgerRecord]:
        """Return what is to be recorded so that the ledger says what the graph has.

        What it says already is no event, whoever has recorded it.

        Args:
            ids: Ids for the entries.
            now: When.
            source_version: The version of ``episodic`` that is told up to.
        """
        found = []
        for fact_id, entities in self.present.items():
            told = self.told.get(fact_id)
            known = told.payload_hash if told and told.event == LedgerEvent.GRAPH_INDEX else ""
            own = mentions_hash(self.scope, fact_id, entities) if entities else ""
            if own == known:
                continue
            record = LedgerRecord(
                id=next(ids),
                event=LedgerEvent.GRAPH_INDEX if own else LedgerEvent.FORGET,
                subject_id=fact_id,
                payload_hash=own or known,
                timestamp=now,
                parents=(told.id,) if told else (),
                source_version=source_version,
                source_row=NO_ROW,
            )
            found.append(record)
        return found


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
