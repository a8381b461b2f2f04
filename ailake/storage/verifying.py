"""Cases of facts that wait for a verifier: read for the whole lake, answered one commit each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.fact_rows import stored_version
from ailake.core.fact_versions import FactKey, Verdict
from ailake.core.filters import TRUE, parse_where
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds
from ailake.core.superseding import KeyPlan
from ailake.core.verifying import CasePlanner, OpenCase, open_cases
from ailake.storage.facts import DECIDED, FACTS, FactsView, change, decisions
from ailake.storage.table import IN_LIST, Table

if TYPE_CHECKING:
    from ailake.storage.store import Store

T = TypeVar("T")
Rows = Sequence[Mapping[str, Any]]


def waiting_cases(store: "Store") -> list[OpenCase]:
    """Return the cases of all scopes that no decision has closed, each key's in their order."""
    facts, verifications = store.tables["facts"], store.tables["verifications"]
    queued = parse_where({"verdict": str(Verdict.PENDING)}, filter_kinds("verifications"))
    ids = list(dict.fromkeys(verifications.read(("key_id",), queued)["key_id"].to_pylist()))
    if not ids:
        return []
    # Versions before decisions, which are written the other way round: none is missing then.
    stored = _by_key(facts, FACTS, ids)
    decided = _by_key(verifications, DECIDED, ids)
    found: list[OpenCase] = []
    for key_id, rows in stored.items():
        key = FactKey(_scope(rows[0]), rows[0]["subject_id"], rows[0]["predicate"])
        found += open_cases(key, [stored_version(row) for row in rows], decided[key_id])
    return found


def _by_key(
    table: Table, columns: Sequence[str], ids: Collection[str]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of some keys, in the table's order."""
    few = len(ids) <= IN_LIST
    named = parse_where({"key_id": {"in": list(ids)}}, filter_kinds(table.name)) if few else TRUE
    rows = table.read(columns, named)
    if not few:
        # A filter that names as many would have to be cut into as many reads.
        rows = rows.filter(pc.is_in(rows["key_id"], value_set=pa.array(ids)))
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in to_pylist(rows):
        found.setdefault(row["key_id"], []).append(row)
    return found


def _scope(row: Mapping[str, Any]) -> Scope:
    return Scope(*(row[name] for name in SCOPE_COLUMNS))


def act_on(
    store: "Store",
    case: OpenCase,
    act: Callable[[CasePlanner, OpenCase, Rows], T],
    *,
    now: datetime,
) -> T | None:
    """Change facts as a case requires, in one commit, where it still waits.

    Args:
        store: The lake.
        case: The case as it was when it was read.
        act: Plans, given a planner, the case as it is now, and the decisions of its key.
        now: When it is recorded.

    Returns:
        What ``act`` does; None where the case was closed meanwhile, and nothing was changed.
    """
    key = case.key

    def plan(view: FactsView) -> tuple[T | None, list[KeyPlan]]:
        versions = view.versions([key.id]).get(key, [])
        rows = decisions(store, [key.id])
        present = [one for one in open_cases(key, versions, rows) if one.case_id == case.case_id]
        if not present:
            return None, []
        planner = CasePlanner(key, versions, now=now, first_ordinal=view.rules().first_ordinal)
        return act(planner, present[0], rows), [planner.plan()]

    return change(store, plan, what="verification of facts")
