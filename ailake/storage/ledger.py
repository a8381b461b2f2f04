"""The ``ledger`` table: reading the chains of scopes, and linking new entries to their heads.

Two writers must never link to the same head: entries are committed so that whoever was second gets
a conflict, reads the heads anew and links again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from itertools import groupby

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.chain import (
    BrokenEntry,
    LedgerEntry,
    LedgerEvent,
    LedgerHead,
    append,
    head_of,
    refuse_unknown,
    verify,
)
from ailake.core.erasure import Target
from ailake.core.filters import Predicate, conjunction, disjunction, parse_where
from ailake.core.graph_provenance import NO_ROW
from ailake.core.ledger_rows import (
    apart,
    chain_scope,
    chain_scopes_of,
    entry_rows,
    read_entries,
)
from ailake.core.recording import Latest, Records, Told
from ailake.core.recording_facts import FACT_EVENTS
from ailake.core.recording_runs import RUN_COLUMNS, broken_run, run_hashes
from ailake.core.records import ChainScope, Scope
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds, table_spec
from ailake.storage.retries import with_retries
from ailake.storage.table import IN_LIST, Table, payload, read_rows

LEDGER = "ledger"

# More scopes than these are looked up by reading where all of them end.
_FEW_SCOPES = 16

_LOOKED_TO = "ailake.ledger.looked_to"

_ADDED = "_row_created_at_version"

_KINDS = filter_kinds("ledger")
_FACT_EVENTS = frozenset(map(str, FACT_EVENTS.values()))
_TOLD = ("entry_id", "subject_id", "sequence", "event", "payload_hash", "source_row")


# A run of a job may have the id of a memory; it is none.
_OF_SCOPES = parse_where({"agent_id": {"ne": ""}}, _KINDS)


def predicate(where: Mapping[str, object] | None) -> Predicate:
    """Compile a ``where`` over the columns of ``ledger``."""
    return parse_where(where, _KINDS)


def in_scope(scope: ChainScope) -> Predicate:
    """Return the wall around a scope's chain."""
    return predicate(asdict(scope))


def read_chain(dataset: lance.LanceDataset, where: Predicate) -> pa.Table:
    """Return the entries that satisfy ``where``, scope by scope in the order of their chain."""
    rows = read_rows(dataset, dataset.schema.names, where)
    order = [(name, "ascending") for name in (*SCOPE_COLUMNS, "sequence")]
    return rows.take(pc.sort_indices(rows, sort_keys=order))


def heads_of(
    dataset: lance.LanceDataset, scopes: Collection[ChainScope]
) -> dict[ChainScope, LedgerHead]:
    """Return the last entry of each of the scopes that has one.

    Raises:
        SchemaMismatchError: One is of a chain version that this release does not know.
    """
    few = len(scopes) <= _FEW_SCOPES
    where = disjunction(*map(in_scope, scopes)) if few and scopes else predicate(None)
    # Without ids, which are most of an entry: a row is named by its number.
    rows = read_rows(dataset, (*SCOPE_COLUMNS, "sequence"), where, with_row_id=True)
    if not rows.num_rows:
        return {}
    found, codes = chain_scopes_of(rows.select(["_rowid", *SCOPE_COLUMNS]))
    sequences = rows["sequence"].to_numpy()
    highest = np.zeros(len(found), np.uint64)
    np.maximum.at(highest, codes, sequences)
    places = np.flatnonzero(sequences == highest[codes])
    last = np.zeros(len(found), np.int64)
    last[codes[places]] = places  # Of those with the same code the last one stays.
    wanted = [n for n, scope in enumerate(found) if scope in set(scopes)]
    row_ids = rows["_rowid"].to_numpy()[last[wanted]]
    ends = payload(dataset, row_ids, ("sequence", "hash", "chain_version")).to_pylist()
    for end in ends:
        refuse_unknown(end["chain_version"])
    return {
        found[n]: LedgerHead(found[n], end["sequence"], end["hash"].hex())
        for n, end in zip(wanted, ends, strict=True)
    }


def latest_of(
    dataset: lance.LanceDataset,
    subjects: Collection[tuple[ChainScope, str]],
    *,
    of_facts: bool = False,
) -> Latest:
    """Return the latest entry about each of some memories, by scope and id, in one reading.

    Args:
        dataset: A version of the ledger.
        subjects: Scope and id of each.
        of_facts: They are assertions, and no memories.
    """
    wanted = set(subjects)
    if not wanted:
        return {}
    scopes, ids = {scope for scope, _ in wanted}, sorted({one for _, one in wanted})
    walls = map(in_scope, scopes) if len(scopes) <= _FEW_SCOPES else [predicate(None)]
    named = {"subject_id": {"in": ids}} if len(ids) <= IN_LIST else None
    where = conjunction(disjunction(*walls), predicate(named))
    rows = read_rows(dataset, (*_TOLD, *SCOPE_COLUMNS), where)
    rows = rows.filter(pc.is_in(rows["subject_id"], value_set=pa.array(ids, pa.string())))
    found: dict[tuple[ChainScope, str], Told] = {}
    for row in rows.sort_by("sequence").to_pylist():
        # What a graph was told of a memory is nothing that happened to the memory.
        if (row["event"] in _FACT_EVENTS) != of_facts or row["source_row"] == NO_ROW:
            continue
        parts = [row[name] for name in SCOPE_COLUMNS]
        key = chain_scope(parts, row["entry_id"]), row["subject_id"]
        if key in wanted:
            found[key] = Told(row["entry_id"], row["event"], row["payload_hash"].hex())
    return found


def looked_to(dataset: lance.LanceDataset) -> int:
    """Return up to which version of ``episodic`` nothing is left to tell; see the entries, too."""
    return int(dataset.config().get(_LOOKED_TO, 0))


def told_before(dataset: lance.LanceDataset, target: Target) -> int | None:
    """Return a version of ``episodic`` that is older than all the ledger tells of a target.

    What was told of before the target's last purge does not count: nothing of it is left.

    Returns:
        None where the ledger tells nothing of it.
    """
    spec = table_spec(LEDGER)
    columns = [*SCOPE_COLUMNS, "subject_id", "event", "source_version", _ADDED]
    rows = read_rows(dataset, columns, _OF_SCOPES)
    about = rows.filter(target.mask(rows, spec))
    purged = about.filter(pc.equal(about["event"], LedgerEvent.PURGE.value))
    if target.ids is None:
        purged = purged.filter(pc.equal(purged["subject_id"], ""))
    ends = purged.group_by("subject_id").aggregate([(_ADDED, "max")])
    ended = {one["subject_id"]: one[f"{_ADDED}_max"] for one in ends.to_pylist()}
    added = about[_ADDED].to_pylist()
    subjects = about["subject_id"].to_pylist() if target.ids is not None else [""] * len(added)
    told = [
        one for one, subject in zip(added, subjects, strict=True) if one > ended.get(subject, 0)
    ]
    if not told:
        return None
    earlier = rows.filter(pc.less(rows[_ADDED], min(told)))
    return int(pc.max(earlier["source_version"]).as_py() or 0)


def told_of(dataset: lance.LanceDataset, target: Target) -> list[tuple[Scope, str]]:
    """Return scope and id of all memories of a target that the ledger tells of, sorted."""
    rows = read_rows(dataset, (*SCOPE_COLUMNS, "subject_id"), _OF_SCOPES)
    rows = rows.filter(target.mask(rows, table_spec(LEDGER)))
    named = rows.group_by([*SCOPE_COLUMNS, "subject_id"]).aggregate([])
    return sorted(
        (Scope(*(row[name] for name in SCOPE_COLUMNS)), row["subject_id"])
        for row in named.to_pylist()
    )


def keep_looked_to(table: Table, version: int) -> None:
    """Note that up to a version of ``episodic`` nothing is left to tell."""
    with_retries(
        lambda: table.fresh().update_config({_LOOKED_TO: str(version)}), what="mark of the ledger"
    )


def check_chain(
    dataset: lance.LanceDataset,
    runs: lance.LanceDataset,
    scope: ChainScope,
    *,
    head: LedgerHead | None,
) -> tuple[BrokenEntry, ...]:
    """Return the first entry of a scope's chain that does not hold, if any.

    Args:
        dataset: A version of the ledger.
        runs: A version of ``job_runs`` that is no older.
        scope: Whose chain.
        head: Its head, where it was pinned earlier.
    """
    entries = read_entries(read_chain(dataset, in_scope(scope)))
    broken = _checked(scope, entries, runs, head=head)
    return () if broken is None else (broken,)


def check_chains(dataset: lance.LanceDataset, runs: lance.LanceDataset) -> tuple[BrokenEntry, ...]:
    """Return the first entry that does not hold of each chain that has one, by scope.

    What belongs to no scope that there can be is told of the lake itself.

    Args:
        dataset: A version of the ledger.
        runs: A version of ``job_runs`` that is no older.
    """
    lost, rows = apart(read_chain(dataset, predicate(None)))
    chains = groupby(read_entries(rows), key=lambda one: one.scope)
    found = (_checked(scope, chain, runs, head=None) for scope, chain in chains)
    return (*lost, *(broken for broken in found if broken is not None))


def _checked(
    scope: ChainScope,
    chain: Iterable[LedgerEntry | BrokenEntry],
    runs: lance.LanceDataset,
    *,
    head: LedgerHead | None,
) -> BrokenEntry | None:
    if isinstance(scope, Scope):
        return verify(scope, chain, head=head)
    entries = list(chain)
    rows = runs.scanner(columns=list(RUN_COLUMNS), with_row_id=True).to_table()
    present = dict(zip(rows["_rowid"].to_pylist(), run_hashes(rows), strict=True))
    found = verify(scope, entries, head=head), broken_run(entries, present)
    broken = [one for one in found if one is not None]
    return min(broken, key=lambda one: one.sequence, default=None)


def linked(
    records: Records, heads: Mapping[ChainScope, LedgerHead]
) -> tuple[pa.Table, dict[ChainScope, LedgerHead]]:
    """Return records as rows that are linked to their scopes' heads, and the heads then."""
    after = dict(heads)
    entries = []
    for scope, told in records.items():
        chain = append(scope, heads.get(scope), told)
        entries += chain
        end = head_of(chain)
        if end is not None:
            after[scope] = end
    return entry_rows(entries), after
