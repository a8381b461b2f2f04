"""What the ledger says of what was said of facts: one entry for each row of ``assertions``. Pure.

docs/ledger.md describes every byte that is hashed.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from ailake.core.assertions import AssertionKind
from ailake.core.chain import LedgerEvent, LedgerRecord
from ailake.core.ledger_rows import payload_hashes, scopes_of
from ailake.core.recording import Latest, Records
from ailake.core.records import Scope
from ailake.core.rows import to_pylist
from ailake.core.schema import SCOPE_COLUMNS

FACT_TAG = b"ailake-fact"

# All of what was said: a row is never changed.
FACT_COLUMNS = (
    "assertion_id", "kind", "fact_id", *SCOPE_COLUMNS, "key_id", "subject", "subject_type",
    "subject_id", "predicate", "object", "object_type", "object_id", "valid_from", "valid_to",
    "recorded_at", "ordinal", "version_id", "verifier", "winner_fact_id", "source_memory_id",
)  # fmt: skip

FACT_EVENTS: Mapping[str, LedgerEvent] = MappingProxyType(
    {
        AssertionKind.ASSERT: LedgerEvent.FACT_ASSERT,
        AssertionKind.RETRACT: LedgerEvent.FACT_RETRACT,
        AssertionKind.SUPERSEDE: LedgerEvent.FACT_SUPERSEDE,
        AssertionKind.REJECT_NEW: LedgerEvent.FACT_REJECT,
        AssertionKind.KEEP_BOTH: LedgerEvent.FACT_KEEP_BOTH,
        AssertionKind.DEFER: LedgerEvent.FACT_DEFER,
    }
)

Subjects = set[tuple[Scope, str]]


def subjects_of(rows: pa.Table) -> tuple[Subjects, Subjects]:
    """Return the assertions of rows of ``assertions``, and the memories that they were taken from.

    Args:
        rows: Rows with the scope's columns, ``assertion_id`` and ``source_memory_id``.
    """
    scopes, codes = _scopes(rows)
    named = [scopes[code] for code in codes]
    said = set(zip(named, rows["assertion_id"].to_pylist(), strict=True))
    sources = zip(named, rows["source_memory_id"].to_pylist(), strict=True)
    return said, {(scope, memory_id) for scope, memory_id in sources if memory_id}


def fact_records(
    rows: pa.Table, said: Latest, memories: Latest, ids: Iterator[str], *, source_version: int
) -> Records:
    """Return what is to be recorded of rows of ``assertions``, by scope.

    What was written down twice, because its writer tried again, is one event.

    Args:
        rows: Rows with ``FACT_COLUMNS`` and ``_rowid``, in the order of their writing.
        said: What the ledger has said of these assertions.
        memories: What it has said of the memories that they were taken from.
        ids: Ids for the entries.
        source_version: The version of ``episodic`` that is told up to.
    """
    scopes, codes = _scopes(rows)
    hashes = payload_hashes(rows, columns=FACT_COLUMNS, tag=FACT_TAG)
    known = {key: told.payload_hash for key, told in said.items()}
    records: Records = {}
    for row, code, own in zip(to_pylist(rows), codes, hashes, strict=True):
        key = scopes[code], row["assertion_id"]
        if known.get(key) == own.hex():
            continue
        known[key] = own.hex()
        source = memories.get((scopes[code], row["source_memory_id"]))
        record = LedgerRecord(
            id=next(ids),
            event=FACT_EVENTS[row["kind"]],
            subject_id=row["assertion_id"],
            payload_hash=own.hex(),
            timestamp=row["recorded_at"],
            parents=(source.id,) if source else (),
            source_version=source_version,
            source_row=row["_rowid"],
        )
        records.setdefault(scopes[code], []).append(record)
    return records


def _scopes(rows: pa.Table) -> tuple[list[Scope], list[int]]:
    if not rows.num_rows:
        return [], []
    scopes, codes = scopes_of(rows)
    return scopes, codes.tolist()
