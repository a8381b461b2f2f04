"""The table ``decisions``: what was decided of memories, and which pairs wait for a review."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.decision_rows import decision_of, decision_rows
from ailake.core.decisions import BY_RULES, DecisionRecord, GreyPair, verdict_id
from ailake.core.filters import Predicate, conjunction, parse_where
from ailake.core.records import Decision, Scope
from ailake.core.rows import in_microseconds, to_pylist
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.storage.filters import to_sql
from ailake.storage.retries import reading_again
from ailake.storage.table import in_lists, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store
    from ailake.storage.table import Table

DECISIONS = "decisions"

_COLUMNS = tuple(column.name for column in table_spec(DECISIONS).columns)
_NAMING = ("memory_id", "existing_id", "absorbed_id")
_PAIRS = (
    "decision_id", *SCOPE_COLUMNS, "memory_id", "grey_ids", "candidate_ids", "candidate_scores",
    "decided_at",
)  # fmt: skip

# Of so many ids each is looked for by the engine, of more all rows are looked at.
_FEW_IDS = 5_000


def where_decisions(where: Mapping[str, object] | None) -> Predicate:
    """Compile a ``where`` over the columns of ``decisions``."""
    return parse_where(where, filter_kinds(DECISIONS))


def append(store: "Store", records: Sequence[DecisionRecord], *, again: bool = False) -> None:
    """Record decisions, in one commit; none make none.

    Args:
        store: The lake, whose write lock the caller holds where there is one.
        records: The decisions.
        again: They may have been recorded before, by someone who died then: those are left out.
    """
    if not records:
        return
    # A memory may have the id of one that was forgotten a moment ago.
    named = [(one.memory_id, one.existing_id, one.absorbed_id) for one in records]
    store.recorder.end_removals(store, again={one for ids in named for one in ids})
    table = store.tables[DECISIONS]
    left = _unrecorded(table, records) if again else records
    append_to(table, left, dim=store.embedder.dim, embedder_id=store.embedder.id)


def append_to(
    table: "Table", records: Sequence[DecisionRecord], *, dim: int, embedder_id: str
) -> None:
    """Record decisions in the table itself, in one commit; none make none."""
    if records:
        rows = decision_rows(records, dim=dim, embedder_id=embedder_id)
        table.sync(table.append(rows))


def _unrecorded(table: "Table", records: Sequence[DecisionRecord]) -> list[DecisionRecord]:
    known: set[str] = set()
    for some in in_lists([one.id for one in records]):
        rows = table.read(("decision_id",), where_decisions({"decision_id": {"in": list(some)}}))
        known.update(rows["decision_id"].to_pylist())
    return [one for one in records if one.id not in known]


def find(
    store: "Store", scopes: Sequence[Scope], where: Predicate, *, limit: int | None = None
) -> list[DecisionRecord]:
    """Return the decisions of some scopes that satisfy ``where``, newest first.

    Args:
        store: The lake.
        scopes: Whose memories; none means all scopes.
        where: Over the columns of ``decisions``.
        limit: So many at most, None for all.
    """
    asked = conjunction(_wall(scopes), where)
    table = store.tables[DECISIONS]

    def newest() -> pa.Table:
        dataset = table.snapshot()
        listed = read_rows(dataset, ("decided_at", "decision_id"), asked, with_row_id=True)
        order = [("decided_at", "descending"), ("_rowid", "descending")]
        chosen = listed.sort_by(order).slice(0, limit)["_rowid"].to_pylist()
        return dataset._take_rows(  # noqa: SLF001 (the only take by row id)
            chosen, columns=[*_COLUMNS, "_rowid"]
        ).sort_by(order)

    rows = reading_again(newest)
    return [decision_of(row) for row in to_pylist(rows)]


def replaced_by(store: "Store", scope: Scope, ids: Sequence[str]) -> dict[str, str]:
    """Return for memories that stand in the place of others which these are, by their ids."""
    names = {verdict_id(one): one for one in ids}
    found: dict[str, str] = {}
    for some in in_lists(list(names)):
        asked = conjunction(_wall([scope]), where_decisions({"decision_id": {"in": list(some)}}))
        rows = store.tables[DECISIONS].read(("decision_id", "existing_id"), asked).to_pylist()
        found |= {names[row["decision_id"]]: row["existing_id"] for row in rows}
    return found


def pending_grey(store: "Store", scopes: Sequence[Scope] = ()) -> list[GreyPair]:
    """Return the grey pairs of ``create`` verdicts that nobody has answered, oldest first.

    An answer is a row whose ``about`` is the verdict and whose ``existing_id`` is the candidate.
    Whether both memories are still there, and active, is for the caller to look up.

    Args:
        store: The lake.
        scopes: Whose memories; none means all scopes.
    """
    table = store.tables[DECISIONS]

    def read() -> tuple[list[GreyPair], set[tuple[str, str]]]:
        dataset = table.snapshot()
        answers = conjunction(_wall(scopes), where_decisions({"about": {"ne": ""}}))
        rows = read_rows(dataset, ("about", "existing_id"), answers).to_pylist()
        return list(_grey(dataset, scopes)), {(row["about"], row["existing_id"]) for row in rows}

    pairs, answered = reading_again(read)
    left = [pair for pair in pairs if (pair.about, pair.existing_id) not in answered]
    return sorted(left, key=lambda pair: (pair.decided_at, pair.about, -pair.score))


def _grey(dataset: lance.LanceDataset, scopes: Sequence[Scope]) -> Iterator[GreyPair]:
    verdicts = where_decisions({"decision": Decision.CREATE.value, "decided_by": BY_RULES})
    chosen = to_sql(conjunction(_wall(scopes), verdicts))
    for batch in dataset.scanner(columns=list(_PAIRS), filter=chosen).to_batches():
        open_ones = batch.filter(pc.greater(pc.list_value_length(batch["grey_ids"]), 0))
        for row in in_microseconds(pa.Table.from_batches([open_ones])).to_pylist():
            scores = dict(zip(row["candidate_ids"], row["candidate_scores"], strict=True))
            scope = Scope(*(row[name] for name in SCOPE_COLUMNS))
            for existing in row["grey_ids"]:
                yield GreyPair(
                    row["decision_id"], scope, row["memory_id"], existing,
                    scores.get(existing, 0.0), row["decided_at"],
                )  # fmt: skip


def remove(store: "Store", memories: Mapping[Scope, Collection[str]]) -> None:
    """Delete what was decided of erased memories, and about them.

    Args:
        store: The lake.
        memories: The ids of the memories, by their scope.
    """
    table = store.tables[DECISIONS]
    ids = sorted({one for some in memories.values() for one in some})
    if not ids or not table.snapshot().count_rows():
        return
    few = len(ids) <= _FEW_IDS
    parts = [_naming(some) for some in in_lists(ids)] if few else [where_decisions(None)]
    gone: set[int] = set()
    for part in parts:
        rows = table.read((*SCOPE_COLUMNS, *_NAMING), part, with_row_id=True)
        if not few:
            rows = rows.filter(_among(rows, pa.array(ids, pa.string())))
        for row in rows.to_pylist():
            wanted = memories.get(Scope(*(row[name] for name in SCOPE_COLUMNS)), ())
            if any(row[name] in wanted for name in _NAMING):
                gone.add(row["_rowid"])
    table.delete_rows(sorted(gone))


def _naming(ids: Sequence[str]) -> Predicate:
    return where_decisions({"OR": [{name: {"in": list(ids)}} for name in _NAMING]})


def _among(rows: pa.Table, ids: pa.Array) -> pa.ChunkedArray:
    first, *others = (pc.is_in(rows[name], value_set=ids) for name in _NAMING)
    for other in others:
        first = pc.or_(first, other)
    return first


def _wall(scopes: Sequence[Scope]) -> Predicate:
    if not scopes:
        return where_decisions(None)
    return where_decisions({"OR": [asdict(scope) for scope in scopes]})
