"""What becomes of facts once memories that they were taken from are forgotten."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.assertions import Assertion, AssertionKind, in_order, untold
from ailake.core.fact_rows import version_rows
from ailake.core.fact_versions import FactKey, StoredVersion
from ailake.core.filters import parse_where
from ailake.core.forgetting import Forgotten, forgotten
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds
from ailake.storage import mentions
from ailake.storage.assertions import ASSERTIONS, rows_of_keys, write_down, written
from ailake.storage.exchange import exchange
from ailake.storage.facts import FIRST_ORDINAL_KEY, FactsView, decisions
from ailake.storage.retries import with_retries
from ailake.storage.table import IN_LIST

if TYPE_CHECKING:
    from ailake.storage.store import Store
    from ailake.storage.table import Table

Memories = Mapping[Scope, Collection[str]]

_TABLES = ("facts", "verifications", ASSERTIONS)


@dataclass(frozen=True, slots=True)
class _Key:
    """One key that a forgotten memory spoke of.

    Attributes:
        said: What others said of it, in order.
        missing: Of that, what was not written down.
    """

    key: FactKey
    versions: Sequence[StoredVersion]
    said: Sequence[Assertion]
    missing: Sequence[Assertion]


def remove(
    store: "Store", memories: Memories, *, now: datetime, unless_mentioned: bool = False
) -> None:
    """Take facts back to what others than some erased memories said of them.

    What they alone said is deleted, and of the past what nobody else would have had the lake
    believe; what had lost to them is believed again from now on. One that dies in between is done
    again.

    Args:
        store: The lake.
        memories: The ids of the memories, by their scope.
        now: When they are removed.
        unless_mentioned: Fail where the graph keeps what the facts mention; otherwise they go all
            the same.
    """
    ids = {one for some in memories.values() for one in some}
    if ids:
        touched = {name: _named(store.tables[name], memories, ids) for name in _TABLES}
        keys = {key for rows in touched.values() for key in rows["key_id"].to_pylist()}
        if keys:
            unmention = mentions.remove if unless_mentioned else mentions.remove_if_possible
            action = partial(_attempt, store, keys, memories, unmention, now=now)
            gone = with_retries(action, what="removal of facts")
            _forget_words(store, keys, memories, gone)


def _named(table: "Table", memories: Memories, ids: Collection[str]) -> pa.Table:
    """Return the keys, scopes and row ids of a table's rows that name one of the memories."""
    columns = ("key_id", *SCOPE_COLUMNS, "source_memory_id")
    few = len(ids) <= IN_LIST
    named: dict[str, object] = {"in": sorted(ids)} if few else {"ne": ""}
    where = parse_where({"source_memory_id": named}, filter_kinds(table.name))
    rows = table.read(columns, where, with_row_id=True)
    rows = rows.filter(pc.is_in(rows["source_memory_id"], value_set=pa.array(ids, pa.string())))
    own = [_is_one(row, memories) for row in rows.to_pylist()]
    return rows.filter(pa.array(own, pa.bool_()))


def _is_one(row: Mapping[str, Any], memories: Memories) -> bool:
    scope = Scope(*(row[name] for name in SCOPE_COLUMNS))
    return row["source_memory_id"] in memories.get(scope, ())


def _attempt(
    store: "Store",
    keys: Collection[str],
    memories: Memories,
    unmention: Callable[["Store", Memories], object],
    *,
    now: datetime,
) -> frozenset[str]:
    """Plan and commit; return the ids of the versions that are gone."""
    view = FactsView(store.tables["facts"].fresh())
    left = _left(store, view, keys, memories)
    write_down(store, [(one.key, missing) for one in left for missing in one.missing])
    first_ordinal = view.rules().first_ordinal
    plans = [
        forgotten(
            one.key, one.versions, one.said, memories.get(one.key.scope, ()), now=now,
            first_ordinal=first_ordinal,
        )
        for one in left
    ]  # fmt: skip
    # First, because nobody would find them without the facts.
    unmention(store, _lost(left, plans))
    _commit(store, view, plans)
    return frozenset(version_id for plan in plans for version_id in plan.gone)


def _lost(keys: Sequence[_Key], plans: Sequence[Forgotten]) -> dict[Scope, set[str]]:
    """Return the facts of which no version will be left, by their scope."""
    lost: dict[Scope, set[str]] = {}
    for one, plan in zip(keys, plans, strict=True):
        replaced = {version.version_id for version in plan.replaced}
        kept = [version for version in one.versions if version.version_id not in replaced]
        left = {version.fact_id for version in (*kept, *plan.stored)}
        gone = {version.fact_id for version in one.versions} - left
        lost.setdefault(one.key.scope, set()).update(gone)
    return lost


def _left(store: "Store", view: FactsView, keys: Collection[str], memories: Memories) -> list[_Key]:
    """Return what others than the memories said about each key."""
    said, decided = defaultdict(list), defaultdict(list)
    for key, one in written(store.tables[ASSERTIONS].fresh(), keys):
        said[key].append(one)
    for row in decisions(store, keys):
        decided[row["key_id"]].append(row)
    versions, many = view.versions(keys), view.rules().multi_valued
    left = []
    for key in dict.fromkeys([*versions, *said]):
        known, gone = versions.get(key, []), memories.get(key.scope, ())
        is_many = key.predicate in many
        missing = untold(said[key], known, decided[key.id], is_multi_valued=is_many)
        others = [
            [one for one in some if one.source_memory_id not in gone]
            for some in (said[key], missing)
        ]
        left.append(_Key(key, known, in_order(*others), others[1]))
    return left


def _commit(store: "Store", view: FactsView, plans: Sequence[Forgotten]) -> None:
    table = store.tables["facts"]
    replaced = [version for plan in plans for version in plan.replaced]
    stored = [(plan.key, version) for plan in plans for version in plan.stored]
    if not replaced and not stored:
        return
    ordinals = [
        one.ordinal for plan in plans for one in plan.replaced if one.version_id in plan.gone
    ]
    first = max(ordinals, default=-1) + 1
    if first > view.rules().first_ordinal:
        # Before they are gone: to have skipped some does no harm.
        table.fresh().update_config({FIRST_ORDINAL_KEY: str(first)})
    identity = store.embedder
    rows = version_rows(stored, dim=identity.dim, embedder_id=identity.id)
    exchange(table, view.dataset, rows, removed=view.places(replaced))


def _forget_words(
    store: "Store", keys: Collection[str], memories: Memories, gone: frozenset[str]
) -> None:
    """Delete what the memories said and decided, and what nothing is left of to say it about."""
    decided, said = store.tables["verifications"], store.tables[ASSERTIONS]
    columns = (*SCOPE_COLUMNS, "key_id", "source_memory_id")
    rows = rows_of_keys(
        decided.snapshot(), decided.name, (*columns, "loser_version_id", "winner_version_id"), keys
    )
    decided.delete_rows(
        [
            row["_rowid"]
            for row in to_pylist(rows)
            if _is_one(row, memories)
            or not gone.isdisjoint((row["loser_version_id"], row["winner_version_id"]))
        ]
    )
    found = to_pylist(
        rows_of_keys(
            said.snapshot(), said.name, (*columns, "fact_id", "kind", "winner_fact_id"), keys
        )
    )
    others = [row for row in found if not _is_one(row, memories)]
    left = {row["fact_id"] for row in others if row["kind"] == AssertionKind.ASSERT}
    kept = {
        row["_rowid"]
        for row in others
        if {row["fact_id"], row["winner_fact_id"] or row["fact_id"]} <= left
    }
    said.delete_rows([row["_rowid"] for row in found if row["_rowid"] not in kept])
