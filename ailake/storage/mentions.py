"""The table ``mentions``: read scope by scope, added to and taken from in single commits."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import asdict
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.filters import parse_where
from ailake.core.graph_walk import ScopeGraph, scope_graph
from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.storage.table import IN_LIST

if TYPE_CHECKING:
    from ailake.storage.store import Store

NAME = "mentions"

# Some 100 bytes each are held.
HELD_MENTIONS = 2_000_000

_READ = ("fact_id", "entity_id", "entity_name", "entity_type", "text", "valid_from", "recorded_at")
_COLUMNS = tuple(column.name for column in table_spec(NAME).columns)


class HeldGraphs:
    """The graphs of the scopes that were asked for last, as of the table's latest version.

    Args:
        store: The lake.
        most: Mentions to hold at most, over all scopes; the scope asked for last stays.
    """

    def __init__(self, store: "Store", *, most: int = HELD_MENTIONS) -> None:
        self._store = store
        self._most = most
        self._lock = Lock()
        self._held: OrderedDict[Scope, tuple[tuple[int, int], ScopeGraph]] = OrderedDict()

    def of(self, scope: Scope) -> ScopeGraph:
        """Return the mentions of a scope, whoever wrote them."""
        table = self._store.tables[NAME]
        # In this order: what is read later is never called older than it is.
        mark = (table.version, table.incarnation)
        with self._lock:
            held = self._held.get(scope)
            if held is not None and held[0] == mark:
                self._held.move_to_end(scope)
                return held[1]
        made = read_scope(self._store, scope)
        with self._lock:
            self._held[scope] = mark, made
            self._held.move_to_end(scope)
            self._drop_oldest()
        return made

    def _drop_oldest(self) -> None:
        held = sum(len(graph) for _, graph in self._held.values())
        while held > self._most and len(self._held) > 1:
            _, (_, dropped) = self._held.popitem(last=False)
            held -= len(dropped)


def read_scope(store: "Store", scope: Scope) -> ScopeGraph:
    """Return the mentions of a scope from the table."""
    where = parse_where(asdict(scope), filter_kinds(NAME))
    return scope_graph(store.tables[NAME].read(_READ, where))


def append(store: "Store", rows: pa.Table) -> None:
    """Add mentions in one commit; they are on disk when this returns."""
    table = store.tables[NAME]
    table.sync(table.append(rows.select(_COLUMNS)))
    table.tidy()


def remove(store: "Store", facts: Mapping[Scope, Collection[str]]) -> int:
    """Delete all mentions of some facts, by their scope, in one commit.

    Returns:
        How many there were.
    """
    table = store.tables[NAME]
    ids = sorted({one for some in facts.values() for one in some})
    if not ids or not table.snapshot().count_rows():
        return 0
    few = len(ids) <= IN_LIST
    where = parse_where({"fact_id": {"in": ids}} if few else {}, filter_kinds(NAME))
    rows = table.read((*SCOPE_COLUMNS, "fact_id"), where, with_row_id=True)
    named = rows.filter(pc.is_in(rows["fact_id"], value_set=pa.array(ids, pa.string())))
    gone = [
        row["_rowid"]
        for row in named.to_pylist()
        if row["fact_id"] in facts.get(Scope(*(row[name] for name in SCOPE_COLUMNS)), ())
    ]
    table.delete_rows(gone)
    return len(gone)
