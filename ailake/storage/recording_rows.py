"""What the ledger says so far, and what is to be recorded of memories that change or go."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake import clock
from ailake.core.chain import LedgerEvent, LedgerHead
from ailake.core.graph_provenance import NO_ROW
from ailake.core.ledger_rows import entries_of, payload_hashes, scopes_of
from ailake.core.recording import Change, Intent, Records, Told, ends_of, records_of
from ailake.core.recording_facts import FACT_EVENTS
from ailake.core.records import ChainScope, Scope
from ailake.core.rows import to_pylist
from ailake.storage import belongings
from ailake.storage.ledger import latest_of, predicate
from ailake.storage.recording_appended import Reached
from ailake.storage.recording_summary import Summary, summary_of
from ailake.storage.table import payload, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

_REMOVALS = (LedgerEvent.FORGET_INTENT, LedgerEvent.FORGET, LedgerEvent.FORGET_VOID)
_ADDED = (LedgerEvent.CREATE, LedgerEvent.MODIFY, LedgerEvent.MERGED)
_RUNS = (LedgerEvent.JOB_RUN,)
_APPENDED = (*FACT_EVENTS.values(), *_RUNS)


@dataclass(slots=True)
class Known:
    """What one version of the ledger says.

    Attributes:
        version: Which version.
        told_to: The version of ``episodic`` up to which it tells all.
        reached: How far it tells of rows that are numbered as they come.
        intents: Removals that no entry says the end of, by the intent's id.
        heads: Where chains end, as far as looked up.
    """

    version: int
    told_to: int = 0
    reached: Reached = field(default_factory=Reached)
    intents: dict[str, Intent] = field(default_factory=dict)
    heads: dict[ChainScope, LedgerHead] = field(default_factory=dict)

    def take_in(self, rows: pa.Table) -> None:
        """Learn what further rows say."""
        self.take_in_memories(rows)
        self.take_in_appended(rows)
        for entry in entries_of(rows.filter(_is_one(rows["event"], _REMOVALS))):
            # What a graph announces only a graph can tell the end of.
            is_graph = entry.source_row == NO_ROW
            is_intent = entry.event == LedgerEvent.FORGET_INTENT and not is_graph
            if is_intent and isinstance(entry.scope, Scope):
                self.intents[entry.id] = Intent(
                    entry.id, entry.scope, entry.subject_id, entry.payload_hash,
                    entry.timestamp, entry.source_row,
                )  # fmt: skip
            for parent in entry.parents:
                self.intents.pop(parent, None)

    def properties(self, added: pa.Table) -> dict[str, str]:
        """Return what to record with the commit that adds entries which are taken in already."""
        if self.intents:
            return {}
        reached = self.reached
        return Summary(self.told_to, reached, self.heads).properties(added)

    def take_in_memories(self, rows: pa.Table) -> None:
        """Learn how far entries tell of ``episodic``."""
        if rows.num_rows:
            told_to = pc.max(rows["source_version"]).as_py()
            if told_to > self.told_to:
                self.told_to, self.reached = told_to, replace(self.reached, memory=-1)
            last = _last_row(rows.filter(pc.equal(rows["source_version"], self.told_to)), _ADDED)
            self.reached = replace(self.reached, memory=max(self.reached.memory, last))

    def take_in_appended(self, rows: pa.Table) -> None:
        """Learn how far entries tell of the tables that only grow."""
        facts = _last_row(rows, FACT_EVENTS.values())
        runs = _last_row(rows, _RUNS)
        self.reached = replace(
            self.reached,
            assertion=max(self.reached.assertion, facts),
            run=max(self.reached.run, runs),
        )


def known_of(ledger: lance.LanceDataset) -> Known:
    """Return what a version of the ledger says.

    Few of its columns are read, and none where the commit that made it says as much.
    """
    known = Known(int(ledger.version))
    summary = summary_of(ledger)
    if summary is not None:
        known.told_to, known.reached = summary.told_to, summary.reached
        known.heads = dict(summary.heads)
        return known
    versions = read_rows(ledger, ("source_version",), predicate(None))["source_version"]
    last = predicate({"source_version": pc.max(versions).as_py() or 0})
    known.take_in_memories(read_rows(ledger, ("event", "source_version", "source_row"), last))
    rare = predicate({"event": {"in": [str(one) for one in (*_APPENDED, *_REMOVALS)]}})
    rows = read_rows(ledger, ("event", "source_row"), rare)
    known.take_in_appended(rows)
    if pc.any(_is_one(rows["event"], _REMOVALS)).as_py():
        removals = predicate({"event": {"in": [str(one) for one in _REMOVALS]}})
        known.take_in(read_rows(ledger, ledger.schema.names, removals).sort_by("sequence"))
    return known


def _last_row(rows: pa.Table, events: Collection[LedgerEvent]) -> int:
    found = pc.max(rows["source_row"].filter(_is_one(rows["event"], events))).as_py()
    return -1 if found is None else int(found)


def _is_one(events: pa.ChunkedArray, wanted: Collection[LedgerEvent]) -> pa.ChunkedArray:
    return pc.is_in(events, value_set=pa.array([str(one) for one in wanted]))


def changed(
    ledger: lance.LanceDataset,
    rows: pa.Table,
    created: pa.Table,
    *,
    is_new: NDArray[np.bool_],
    source_version: int,
) -> Records:
    """Return what is to be recorded of rows that follow from others.

    Args:
        ledger: What was said so far.
        rows: The rows.
        created: Entries about new memories that the same commit adds before.
        is_new: Which of the rows the ledger has said nothing of.
        source_version: The version of ``episodic`` that is told up to then.
    """
    if not rows.num_rows:
        return {}
    scopes, codes = scopes_of(rows)
    hashes = payload_hashes(rows)
    changes = [
        Change(row, scopes[code], payload_hash.hex(), is_new=new)
        for row, code, payload_hash, new in zip(
            to_pylist(rows), codes.tolist(), hashes, is_new.tolist(), strict=True
        )
    ]
    asked = {(change.scope, one) for change in changes for one in change.relatives}
    latest = dict(latest_of(ledger, asked))
    # One from before there was a ledger may have been changed since: it is new to the ledger.
    changes = [
        change if (change.scope, change.subject_id) in latest else replace(change, is_new=True)
        for change in changes
    ]
    latest |= told_in(created, [one for _, one in asked])
    return records_of(changes, latest, new_ids(), source_version=source_version)


def ends(
    store: "Store",
    episodic: lance.LanceDataset,
    intents: Sequence[Intent],
    told_to: int,
    *,
    alone: bool,
    again: Collection[str] = (),
) -> Records:
    """Return how announced removals ended; what a killed one left of its memories goes first.

    Where the graph fails they stay open, so that whoever comes next removes what the memories
    mention, but for those whose ids are given ``again``: what comes next under these is to stay.
    """
    if not intents:
        return {}
    row_ids = np.array([intent.source_row for intent in intents], np.uint64)
    left = set(payload(episodic, row_ids, ("chunk_id",))["_rowid"].to_pylist())
    over = [intent for intent in intents if alone or intent.source_row not in left]
    gone: dict[Scope, set[str]] = {}
    for intent in over:
        if intent.source_row not in left:
            gone.setdefault(intent.scope, set()).add(intent.subject_id)
    if gone:
        when = max(intent.timestamp for intent in over)
        if not belongings.remove(store, gone, now=when):
            over = [one for one in over if one.source_row in left or one.subject_id in again]
    return ends_of(over, left, new_ids(), source_version=told_to)


def told_in(entries: pa.Table, subject_ids: Sequence[str]) -> dict[tuple[ChainScope, str], Told]:
    """Return the latest of new entries about each of some memories, by scope and id."""
    named = pa.array(subject_ids, pa.string())
    return {
        (entry.scope, entry.subject_id): Told(entry.id, entry.event, entry.payload_hash)
        for entry in entries_of(entries.filter(pc.is_in(entries["subject_id"], value_set=named)))
    }


def new_ids() -> Iterator[str]:
    """Yield ids for entries."""
    while True:
        yield clock.new_id()
