"""The tables ``facts`` and ``verifications``: read by key, changed in one commit."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import lance

from ailake.core.assertions import untold
from ailake.core.fact_rows import (
    fact_key,
    history_entries,
    stored_version,
    verification_rows,
    version_rows,
)
from ailake.core.fact_versions import FactHistoryEntry, FactKey, StoredVersion
from ailake.core.filters import Predicate, conjunction, parse_where
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.core.schema import filter_kinds, table_spec
from ailake.core.superseding import KeyPlan
from ailake.storage.assertions import ASSERTIONS, rows_of_keys, write_down, written
from ailake.storage.exchange import exchange
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.retries import reading_again, with_retries
from ailake.storage.table import read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

T = TypeVar("T")

# In the metadata of ``facts``: a JSON list of predicates of which a subject may have several
# objects at once.
MULTI_VALUED_KEY = "ailake.multi_valued"

FACTS = tuple(column.name for column in table_spec("facts").columns)
# No more than the first version of the table had: the past is read with it, too.
DECIDED = (
    "verification_id", "key_id", "verdict", "verifier", "loser_fact_id", "loser_version_id",
    "winner_fact_id", "winner_version_id", "reason", "decided_at", "source_memory_id",
)  # fmt: skip
# In its configuration: every ordinal that a version had which is gone is smaller.
FIRST_ORDINAL_KEY = "ailake.facts.first_ordinal"

_NULLABLE = ("valid_to", "retired_at")


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all keys.

    Attributes:
        multi_valued: The predicates of which a subject may have several objects at once.
        first_ordinal: The first that no version which was removed has had, whatever its key.
    """

    multi_valued: frozenset[str]
    first_ordinal: int


@dataclass(frozen=True, slots=True)
class FactsView:
    """One version of ``facts``, to plan changes upon."""

    dataset: lance.LanceDataset
    _addresses: dict[str, int] = field(default_factory=dict)

    def rules(self) -> Rules:
        """Return what the table says about all keys."""
        ordinal = int(self.dataset.config().get(FIRST_ORDINAL_KEY, 0))
        return Rules(multi_valued(self.dataset), ordinal)

    def rows(self, scope: Scope, where: Predicate) -> list[dict[str, Any]]:
        """Return the rows of a scope's versions, by subject, predicate, beginning and order."""
        rows = to_pylist(read_rows(self.dataset, FACTS, conjunction(_wall(scope), where)))
        order = ("subject_id", "predicate", "valid_from", "ordinal")
        return sorted(rows, key=lambda row: tuple(row[name] for name in order))

    def versions(self, key_ids: Collection[str]) -> dict[FactKey, list[StoredVersion]]:
        """Return all versions of some keys, retired ones too, in one read."""
        found: dict[str, tuple[FactKey, list[StoredVersion]]] = {}
        for row in to_pylist(rows_of_keys(self.dataset, "facts", FACTS, key_ids)):
            if row["key_id"] not in found:
                found[row["key_id"]] = fact_key(row), []
            found[row["key_id"]][1].append(stored_version(row))
            self._addresses[row["version_id"]] = row["_rowaddr"]
        return dict(found.values())

    def places(self, versions: Iterable[StoredVersion]) -> list[int]:
        """Return the addresses of versions that were read here."""
        return [self._addresses[version.version_id] for version in versions]


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


def history(store: "Store", key: FactKey) -> list[FactHistoryEntry]:
    """Return every version of a key in the order of belief, with what became of it."""
    return reading_again(lambda: _history(store, key))


def _history(store: "Store", key: FactKey) -> list[FactHistoryEntry]:
    # What was said before the versions and those before decisions, which are written the other
    # way round: none is missing then.
    said = [one for _, one in written(store.tables[ASSERTIONS].snapshot(), [key.id])]
    view = FactsView(store.tables["facts"].snapshot())
    rows = view.rows(key.scope, where_facts({"key_id": key.id}))
    rows.sort(key=lambda row: (row["recorded_at"], row["ordinal"]))
    decided = decisions(store, [key.id])
    many = key.predicate in view.rules().multi_valued
    said += untold(said, [stored_version(row) for row in rows], decided, is_multi_valued=many)
    return history_entries(rows, said, decided)


def decisions(store: "Store", key_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return the rows of all decisions about some keys, in the order in which they were written."""
    dataset = store.tables["verifications"].snapshot()
    return to_pylist(rows_of_keys(dataset, "verifications", DECIDED, key_ids))


def change(
    store: "Store",
    plan: Callable[[FactsView], tuple[T, Sequence[KeyPlan]]],
    *,
    sources: Collection[str] = (),
    what: str,
) -> T:
    """Change facts in one commit.

    On a local disk nobody else does meanwhile. On an object store, where nobody can lock out
    another, the one who is second plans anew.

    Args:
        store: The lake.
        plan: From the present version of ``facts`` to a result and what to change.
        sources: Ids of memories that are named as sources anew.
        what: What it does, for the message.

    Returns:
        The result.
    """
    with exclusive(store.location.root, WRITE):
        # A source may have the id of a memory that was forgotten a moment ago.
        store.recorder.end_removals(store, again=sources)
        result, plans = with_retries(partial(_attempt, store, plan), what=what)
        # Last, because what was said follows from the versions, where its writer dies before.
        write_down(store, [(one.key, said) for one in plans for said in one.assertions])
    for name in ("facts", "verifications", ASSERTIONS):
        store.tables[name].tidy()
    store.upkeep_soon()
    return result


def _attempt(
    store: "Store", plan: Callable[[FactsView], tuple[T, Sequence[KeyPlan]]]
) -> tuple[T, Sequence[KeyPlan]]:
    view = FactsView(store.tables["facts"].fresh())
    result, plans = plan(view)
    identity: dict[str, Any] = {"dim": store.embedder.dim, "embedder_id": store.embedder.id}
    # First, because a decision without its versions was never taken, but versions without it
    # would not say why.
    decided = verification_rows(plans, **identity)
    if decided.num_rows:
        table = store.tables["verifications"]
        table.sync(table.append(decided))
    pairs = [(one.key, version) for one in plans for version in (*one.retired, *one.inserted)]
    if pairs:
        # With its end each that is retired is written anew.
        removed = view.places(version for one in plans for version in one.retired)
        rows = version_rows(pairs, **identity)
        exchange(store.tables["facts"], view.dataset, rows, removed=removed)
    return result, plans


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
