"""Recording in the ledger what an entity graph was told: by comparing what it has with the ledger.

Both are read anew where another has recorded first, so that each change is recorded once.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.chain import LedgerEvent
from ailake.core.filters import conjunction
from ailake.core.graph_provenance import GRAPH_EVENTS, MENTIONED, NO_ROW, Mentioning
from ailake.core.recording import Records, Told
from ailake.core.records import Scope
from ailake.storage.ledger import LEDGER, in_scope, predicate
from ailake.storage.recording_rows import new_ids
from ailake.storage.retries import reading_again
from ailake.storage.table import IN_LIST, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

_COLUMNS = ("entry_id", "subject_id", "sequence", "event", "payload_hash", "source_row")

Present = Callable[[], Mapping[str, Collection[str]]]


def record(
    store: "Store",
    scope: Scope,
    present: Present,
    fact_ids: Collection[str] | None,
    *,
    now: datetime,
) -> None:
    """Record what the graph has and the ledger does not say, or the other way round.

    Args:
        store: The lake of the ledger.
        scope: Whose graph.
        present: Reads what the facts mention now.
        fact_ids: The facts, None for all that either of the two knows.
        now: When it is recorded.

    Raises:
        ConflictError: Other writers won every retry; nothing was recorded.
    """

    def made(ledger: lance.LanceDataset, told_to: int) -> Records:
        told = _told(ledger, scope, fact_ids)
        # After the ledger: what it says was there.
        there = dict(present())
        if fact_ids is None:
            there = {**dict.fromkeys(told, ()), **there}
        found = Mentioning(scope, there, told)
        records = found.records(new_ids(), now=now, source_version=told_to)
        return {scope: records} if records else {}

    store.recorder.note(store, made, what="record of the graph in the ledger")


def announce(store: "Store", scope: Scope, fact_ids: Collection[str], *, now: datetime) -> bool:
    """Record that all that the ledger knows of some facts is going to be removed from the graph.

    Args:
        store: The lake of the ledger.
        scope: Whose graph.
        fact_ids: The facts.
        now: When it is recorded.

    Returns:
        Whether it knows anything.

    Raises:
        ConflictError: Other writers won every retry; nothing was recorded.
    """
    known = False

    def made(ledger: lance.LanceDataset, told_to: int) -> Records:
        nonlocal known
        told = _told(ledger, scope, fact_ids)
        records = Mentioning(scope, {}, told).intents(new_ids(), now=now, source_version=told_to)
        known = bool(records)
        return {scope: records} if records else {}

    store.recorder.note(store, made, what="announcement of the graph in the ledger")
    return known


def told_of(store: "Store", scope: Scope, fact_ids: Collection[str]) -> dict[str, Told]:
    """Return the latest entry about what each of some facts mentions, where one says so."""
    table = store.tables[LEDGER]
    told = reading_again(lambda: _told(table.snapshot(), scope, fact_ids, MENTIONED))
    return {one: it for one, it in told.items() if it.event == LedgerEvent.GRAPH_INDEX}


def _told(
    ledger: lance.LanceDataset,
    scope: Scope,
    fact_ids: Iterable[str] | None,
    wanted: Iterable[LedgerEvent] = GRAPH_EVENTS,
) -> dict[str, Told]:
    """Return the latest entry about each fact that says what it mentions, or that it goes."""
    events = predicate({"event": {"in": list(map(str, wanted))}})
    ids = None if fact_ids is None else sorted(fact_ids)
    few = ids is not None and len(ids) <= IN_LIST
    named = predicate({"subject_id": {"in": ids}} if few else None)
    rows = read_rows(ledger, _COLUMNS, conjunction(in_scope(scope), events, named))
    if ids is not None and not few:
        rows = rows.filter(pc.is_in(rows["subject_id"], value_set=pa.array(ids, pa.string())))
    return {
        row["subject_id"]: Told(row["entry_id"], row["event"], row["payload_hash"].hex())
        for row in rows.sort_by("sequence").to_pylist()
        # A memory's own removal is a graph's once it is over.
        if row["source_row"] == NO_ROW or row["event"] == LedgerEvent.FORGET
    }
