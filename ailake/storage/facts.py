"""The tables ``facts`` and ``verifications``: read by key, changed in one commit."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.fact_rows import stored_version, verification_rows, version_rows
from ailake.core.fact_versions import FactKey, StoredVersion
from ailake.core.filters import TRUE, Predicate, conjunction, parse_where
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.core.superseding import KeyPlan
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.retries import reading_again, with_retries
from ailake.storage.table import IN_LIST, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store
    from ailake.storage.table import Table

T = TypeVar("T")

# In the metadata of ``facts``: a JSON list of predicates of which a subject may have several
# objects at once.
MULTI_VALUED_KEY = "ailake.multi_valued"

FACTS = tuple(column.name for column in table_spec("facts").columns)
# No more than the first version of the table had: the past is read with it, too.
DECIDED = (
    "verification_id", "verdict", "loser_fact_id", "loser_version_id", "winner_fact_id",
    "winner_version_id", "reason", "decided_at",
)  # fmt: skip
_NULLABLE = ("valid_to", "retired_at")


@dataclass(frozen=True, slots=True)
class FactsView:
    """One version of ``facts``, to plan changes upon."""

    dataset: lance.LanceDataset

    @property
    def multi_valued(self) -> frozenset[str]:
        """The predicates of which a subject may have several objects at once."""
        return multi_valued(self.dataset)

    def rows(self, scope: Scope, where: Predicate) -> list[dict[str, Any]]:
        """Return the rows of a scope's versions, by subject, predicate, beginning and order."""
        rows = to_pylist(read_rows(self.dataset, FACTS, conjunction(_wall(scope), where)))
        order = ("subject_id", "predicate", "valid_from", "ordinal")
        return sorted(rows, key=lambda row: tuple(row[name] for name in order))

    def versions(self, scope: Scope, keys: Sequence[FactKey]) -> dict[FactKey, list[StoredVersion]]:
        """Return all versions of some keys of a scope, retired ones too, in one read."""
        ids = {key.id: key for key in keys}
        few = len(ids) <= IN_LIST
        named = where_facts({"key_id": {"in": list(ids)}}) if few else TRUE
        rows = read_rows(self.dataset, FACTS, conjunction(_wall(scope), named))
        if not few:
            # A filter that names as many would have to be cut into as many reads.
            rows = rows.filter(pc.is_in(rows["key_id"], value_set=pa.array(ids)))
        found: dict[FactKey, list[StoredVersion]] = {}
        for row in to_pylist(rows):
            found.setdefault(ids[row["key_id"]], []).append(stored_version(row))
        return found


def where_facts(where: Mapping[str, object]) -> Predicate:
    """Compile a ``where`` over the columns of ``facts``."""
    return parse_where(where, filter_kinds("facts"), nullable=_NULLABLE)


def _wall(scope: Scope) -> Predicate:
    return where_facts(asdict(scope))


def held_at(as_of: datetime, known_at: datetime | None) -> Predicate:
    """Return the versions that hold at one instant, as was believed at another; None: as is."""
    if known_at is None:
        believed = where_facts({"retired_at": None})
    else:
        believed = _within("recorded_at", "retired_at", known_at)
    return conjunction(_within("valid_from", "valid_to", as_of), believed)


def _within(begin: str, end: str, at: datetime) -> Predicate:
    return where_facts({begin: {"lte": at}, "OR": [{end: None}, {end: {"gt": at}}]})


def versions(store: "Store", scope: Scope, where: Predicate) -> list[dict[str, Any]]:
    """Return the rows of versions of a scope, by subject, predicate, beginning and order."""
    return reading_again(lambda: FactsView(store.tables["facts"].snapshot()).rows(scope, where))


def decisions(store: "Store", key: FactKey) -> list[dict[str, Any]]:
    """Return what rows tell of all decisions about a key, in the order they were written."""
    where = parse_where({**asdict(key.scope), "key_id": key.id}, filter_kinds("verifications"))
    return to_pylist(store.tables["verifications"].read(DECIDED, where))


def change(
    store: "Store", plan: Callable[[FactsView], tuple[T, Sequence[KeyPlan]]], *, what: str
) -> T:
    """Change facts in one commit.

    On a local disk nobody else does meanwhile. On an object store, where nobody can lock out
    another, the one who is second plans anew.

    Args:
        store: The lake.
        plan: From the present version of ``facts`` to a result and what to change.
        what: What it does, for the message.

    Returns:
        The result.
    """
    facts = store.tables["facts"]
    with exclusive(store.location.root, WRITE):
        result = with_retries(partial(_attempt, store, plan), what=what)
    facts.tidy()
    store.tables["verifications"].tidy()
    return result


def _attempt(store: "Store", plan: Callable[[FactsView], tuple[T, Sequence[KeyPlan]]]) -> T:
    dataset = store.tables["facts"].fresh()
    result, plans = plan(FactsView(dataset))
    identity: dict[str, Any] = {"dim": store.embedder.dim, "embedder_id": store.embedder.id}
    # First, because a decision without its versions was never taken, but versions without it
    # would not say why.
    decided = verification_rows(plans, **identity)
    if decided.num_rows:
        table = store.tables["verifications"]
        table.sync(table.append(decided))
    rows = version_rows(plans, **identity)
    if rows.num_rows:
        _write(store, dataset, rows, changes_some=any(one.retired for one in plans))
    return result


def _write(
    store: "Store", dataset: lance.LanceDataset, rows: pa.Table, *, changes_some: bool
) -> None:
    table = store.tables["facts"]
    if store.location.root is not None and not changes_some:
        table.sync(table.append(rows))
        return
    # The ids are made of the key and the number of its versions: of two who found the same state,
    # the second inserts an id that is there by then, which the engine refuses. It must not try
    # again by itself, with a plan for a state that is gone.
    merge = dataset.merge_insert(table_spec("facts").key).conflict_retries(0)
    merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)
    table.sync(table.version)


def multi_valued(dataset: lance.LanceDataset) -> frozenset[str]:
    """Return the predicates that were declared to have several objects at once."""
    stored = (dataset.schema.metadata or {}).get(MULTI_VALUED_KEY.encode(), b"[]")
    return frozenset(json.loads(stored))


def declare_multi_valued(store: "Store", predicates: Iterable[str]) -> None:
    """Keep in the table's metadata that a subject may have several objects of some predicates."""
    wanted = frozenset(predicates)
    table = store.tables["facts"]
    if wanted <= multi_valued(table.snapshot()):
        return
    store.ensure_writable()

    def declare() -> None:
        dataset = table.fresh()
        both = sorted(wanted | multi_valued(dataset))
        stored = json.dumps(both, ensure_ascii=False)
        dataset.update_schema_metadata({MULTI_VALUED_KEY: stored})

    with exclusive(store.location.root, WRITE):
        with_retries(declare, what="declaration of predicates")
        table.sync(table.version)


def remove(store: "Store", memories: Mapping[Scope, Collection[str]]) -> None:
    """Delete the facts that were taken from erased memories, and what was decided.

    Args:
        store: The lake.
        memories: The ids of the memories, by their scope.
    """
    for name in ("facts", "verifications"):
        _remove(store.tables[name], memories)


def _remove(table: "Table", memories: Mapping[Scope, Collection[str]]) -> None:
    ids = {one for some in memories.values() for one in some}
    if not ids or not table.snapshot().count_rows():
        return
    sourced = parse_where({"source_memory_id": {"ne": ""}}, filter_kinds(table.name))
    rows = table.read((*SCOPE_COLUMNS, "source_memory_id"), sourced, with_row_id=True)
    wanted = pa.array(sorted(ids), pa.string())
    named = rows.filter(pc.is_in(rows["source_memory_id"], value_set=wanted)).to_pylist()
    gone = [
        row["_rowid"]
        for row in named
        if row["source_memory_id"] in memories.get(Scope(*(row[n] for n in SCOPE_COLUMNS)), ())
    ]
    table.delete_rows(gone)
