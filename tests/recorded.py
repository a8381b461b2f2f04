"""What a ledger tells of a lake, and that it is just what has happened."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import ailake
from ailake.core.chain import LedgerEntry
from ailake.core.ledger_rows import PAYLOAD_COLUMNS, payload_hashes

DAY = timedelta(days=1)
OPEN = "forget_intent"


def told(memory: ailake.Memory, lake: ailake.Lake) -> list[tuple[str, str]]:
    return [(str(entry.event), entry.subject_id) for entry in lake.ledger().entries(memory.scope)]


def check(lake: ailake.Lake) -> list[LedgerEntry]:
    """Assert that the ledger tells just what the table has; return all entries of memories."""
    lake.flush()
    assert lake.ledger().verify() == ()
    rows = lake.table("episodic").to_lance().to_table(columns=list(PAYLOAD_COLUMNS))
    ids = rows["chunk_id"].to_pylist()
    stored = dict(zip(ids, [one.hex() for one in payload_hashes(rows)], strict=True))
    everything = [entry for scope in scopes_of(lake) for entry in lake.ledger().entries(scope)]
    entries = [entry for entry in everything if not entry.event.startswith("fact_")]
    last = {entry.subject_id: entry for entry in entries}
    for subject_id, entry in last.items():
        assert (entry.event == "memory_forget") == (subject_id not in stored)
        assert stored.get(subject_id, entry.payload_hash) == entry.payload_hash
    assert set(stored) <= set(last)
    assert len({entry.id for entry in entries}) == len(entries)
    ends = Counter(
        parent
        for e in entries
        if e.event in {"memory_forget", "forget_void"}
        for parent in e.parents
    )
    assert ends == Counter(entry.id for entry in entries if entry.event == OPEN)
    for one, other in pairwise(entries):
        assert (one.subject_id, one.event, one.payload_hash) != (
            other.subject_id,
            other.event,
            other.payload_hash,
        )
    return entries


def scopes_of(lake: ailake.Lake) -> set[ailake.Scope]:
    """Return the scopes that have a chain; runs of jobs have none."""
    rows = lake.scan("ledger").select("agent_id", "user_id", "project_id").unique().collect()
    return {ailake.Scope(*row) for row in rows.rows() if any(row)}
