"""The table ``mentions``: read scope by scope, added to and taken from in single commits."""

import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.filters import parse_where
from ailake.core.graph import IndexEntry
from ailake.core.graph_walk import ScopeGraph, scope_graph
from ailake.core.mention_rows import fresh_mentions, mention_rows
from ailake.core.merged_mentions import heirs, inherited
from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.storage.merged import NOT_MERGED, Merged, MergedIds
from ailake.storage.retries import reading_again
from ailake.storage.table import IN_LIST, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store
    from ailake.storage.table import Table

logger = logging.getLogger(__name__)

NAME = "mentions"

# Some 300 bytes each are held.
HELD_MENTIONS = 2_000_000

_READ = ("fact_id", "entity_id", "entity_name", "entity_type", "text", "valid_from", "recorded_at")
_COLUMNS = tuple(column.name for column in table_spec(NAME).columns)


@dataclass(frozen=True, slots=True)
class HeldGraph:
    """The mentions of a scope as of a version of the table.

    Attributes:
        incarnation: Of the table.
        version: Of the table.
        parts: Its fragments, by what tells apart those whose rows differ.
        rows: The mentions as they are stored, in the order of their writing.
        noted: The same as a graph.
        merged: Which of the scope's memories were merged into which.
        graph: The mentions to be walked: those of merged memories are their heirs'.
    """

    incarnation: int
    version: int
    parts: frozenset[Hashable]
    rows: pa.Table
    noted: ScopeGraph
    merged: Merged
    graph: ScopeGraph

    def heirs(self) -> dict[str, str]:
        """Return which memory lives on for those that were merged."""
        if not self.merged:
            return {}
        return heirs(self.merged.keys() & self.noted.fact_places.keys(), self.merged)

    def merged_anew(self, merged: Merged) -> "HeldGraph":
        """Return the same mentions after merges and restores."""
        before, made = self.heirs(), replace(self, merged=merged)
        heir_of = made.heirs()
        if heir_of == before:
            return made
        graph = scope_graph(inherited(self.rows, heir_of)) if heir_of else self.noted
        return replace(made, graph=graph)


class HeldGraphs:
    """The graphs of the scopes that were asked for last, as of the table's latest version.

    Args:
        tables: The tables of the lake.
        most: Mentions to hold at most, over all scopes; the scope asked for last stays.
    """

    def __init__(self, tables: Mapping[str, "Table"], *, most: int = HELD_MENTIONS) -> None:
        self._tables = tables
        self._merged = MergedIds(tables["episodic"])
        self._most = most
        self._lock = Lock()
        self._held: OrderedDict[Scope, HeldGraph] = OrderedDict()

    def of(self, scope: Scope) -> ScopeGraph:
        """Return the mentions of a scope, whoever wrote them, as those of what lives on."""
        return self._current(scope).graph

    def noted(self, scope: Scope) -> ScopeGraph:
        """Return the same as they are stored: each under the id that it was written for."""
        return self._read(scope).noted

    def standing_for(self, scope: Scope, fact_id: str) -> set[str]:
        """Return a fact's id with those of the memories whose mentions are its by now."""
        found = self._current(scope).heirs()
        return {fact_id, *(one for one, heir in found.items() if heir == fact_id)}

    def _current(self, scope: Scope) -> HeldGraph:
        # The mentions first: a merge in between is one that has been looked for.
        known = self._read(scope)
        if not len(known.noted):
            return known
        merged = self._merged.of(scope)
        if merged is known.merged:
            return known
        known = known.merged_anew(merged)
        self._hold(scope, known)
        return known

    def _read(self, scope: Scope) -> HeldGraph:
        table = self._tables[NAME]
        # In this order: another table's version is never taken for one of the table before it.
        dataset = table.snapshot()
        incarnation = table.incarnation
        with self._lock:
            known = self._held.get(scope)
        if known is not None and known.incarnation != incarnation:
            known = None
        if known is None or known.version != dataset.version:
            known = reading_again(lambda: _read(table, scope, known, incarnation))
        self._hold(scope, known)
        return known

    def _hold(self, scope: Scope, held: HeldGraph) -> None:
        with self._lock:
            self._held[scope] = held
            self._held.move_to_end(scope)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        held = sum(len(one.noted) for one in self._held.values())
        while held > self._most and len(self._held) > 1:
            _, dropped = self._held.popitem(last=False)
            held -= len(dropped.noted)


def _read(table: "Table", scope: Scope, known: HeldGraph | None, incarnation: int) -> HeldGraph:
    """Return the mentions of a scope in the table's latest version.

    Where only fragments were added since, only those are read.
    """
    dataset = table.snapshot()
    where = parse_where(asdict(scope), filter_kinds(NAME))
    parts = {_signature(one): one for one in dataset.get_fragments()}
    if known is None or not known.parts <= parts.keys():
        rows = read_rows(dataset, _READ, where)
        return _held(incarnation, int(dataset.version), frozenset(parts), rows)
    made = replace(known, version=int(dataset.version), parts=frozenset(parts))
    added = [part for signature, part in parts.items() if signature not in known.parts]
    if not added:
        return made
    # No index knows what is as new.
    more = read_rows(dataset, _READ, where, fragments=added, use_scalar_index=False)
    if not more.num_rows:
        return made
    rows = pa.concat_tables([known.rows, more])
    return _held(incarnation, made.version, made.parts, rows)


def _held(incarnation: int, version: int, parts: frozenset[Hashable], rows: pa.Table) -> HeldGraph:
    graph = scope_graph(rows)
    return HeldGraph(incarnation, version, parts, rows, graph, NOT_MERGED, graph)


def _signature(fragment: lance.LanceFragment) -> Hashable:
    deleted = fragment.metadata.deletion_file
    files = tuple(one.path for one in fragment.metadata.files)
    # Each removal of rows writes a file of its own.
    return fragment.fragment_id, files, deleted and (deleted.read_version, deleted.id)


def append(store: "Store", rows: pa.Table) -> None:
    """Add mentions in one commit; they are on disk when this returns.

    Args:
        store: The lake, whose write lock the caller holds where there is one.
        rows: The mentions.
    """
    # An id may be given again that was forgotten a moment ago.
    store.recorder.end_removals(store, again=rows["fact_id"].unique().to_pylist())
    _add(store, rows)
    store.tables[NAME].tidy()
    store.upkeep_soon()


def _add(store: "Store", rows: pa.Table) -> None:
    table = store.tables[NAME]
    table.sync(table.append(rows.select(_COLUMNS)))


def note(
    store: "Store",
    entries: Mapping[Scope, Sequence[IndexEntry]],
    *,
    now: datetime,
    again: bool,
) -> None:
    """Add what memories mention, before their rows, in one commit; none makes none.

    Where the graph fails they are stored without; which, the log tells.

    Args:
        store: The lake, whose write lock the caller holds where there is one.
        entries: Of each scope.
        now: When they are recorded.
        again: Some may have been noted before: those are left out.
    """

    def noted() -> None:
        rows = []
        for scope, some in entries.items():
            fresh = fresh_mentions(some, store.graphs.noted(scope) if some and again else None)
            if fresh:
                rows.append(mention_rows(scope, fresh, recorded_at=now))
        if rows:
            _add(store, pa.concat_tables(rows))

    ids = {one.fact_id for some in entries.values() for one in some}
    if ids:
        # As for all that is appended; where the ledger fails, it is not the graph that does.
        store.recorder.end_removals(store, again=ids)
    store.graph_faults.tried(noted, what="the graph was not told what these mention", ids=ids)


def are_noted(store: "Store", scope: Scope, entries: Sequence[IndexEntry]) -> bool:
    """Tell whether the graph has all of the entries already, as far as it can be read."""
    try:
        return not entries or not fresh_mentions(entries, store.graphs.noted(scope))
    except Exception:
        # Who notes them then finds it failing, and counts that.
        logger.debug("the graph can not be read", exc_info=True)
        return False


def remove_if_possible(store: "Store", facts: Mapping[Scope, Collection[str]]) -> bool:
    """Delete all mentions of some facts; where the graph fails the log tells of which not.

    Returns:
        Whether they are gone.
    """
    ids = {one for some in facts.values() for one in some}
    what = "what these mention could not be removed"
    return store.graph_faults.tried(lambda: remove(store, facts), what=what, ids=ids)


def remove(store: "Store", facts: Mapping[Scope, Collection[str]]) -> int:
    """Delete all mentions of some facts, by their scope, in one commit.

    Returns:
        How many there were.
    """
    table = store.tables[NAME]
    ids = sorted({one for some in facts.values() for one in some})
    if not ids or not table.snapshot().count_rows():
        return 0
    named_ids: dict[str, object] = {"fact_id": {"in": ids}} if len(ids) <= IN_LIST else {}
    # One scope's rows are found by the indexes.
    scoped = asdict(next(iter(facts))) if len(facts) == 1 else {}
    where = parse_where({**scoped, **named_ids}, filter_kinds(NAME))
    rows = table.read((*SCOPE_COLUMNS, "fact_id"), where, with_row_id=True)
    named = rows.filter(pc.is_in(rows["fact_id"], value_set=pa.array(ids, pa.string())))
    gone = [
        row["_rowid"]
        for row in named.to_pylist()
        if row["fact_id"] in facts.get(Scope(*(row[name] for name in SCOPE_COLUMNS)), ())
    ]
    table.delete_rows(gone)
    return len(gone)
