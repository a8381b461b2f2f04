"""What must hold in every lake, looked at row by row."""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ailake.core.records import State
from ailake.core.remembering import UNJUDGED
from ailake.storage.store import Store
from ailake.storage.table import Table

if TYPE_CHECKING:
    import polars as pl

logger = logging.getLogger(__name__)

# Examples named per problem.
_SHOWN = 3

# Recall, remember and the checks of facts do without them.
_READ_HERE_ALONE = ("mentions", "decisions", "job_runs", "ledger")
_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Problem:
    """An invariant that does not hold.

    Attributes:
        what: Which one.
        count: How many memories, versions of facts or tables break it.
        examples: Ids of some of them, or the tables' names.
    """

    what: str
    count: int
    examples: tuple[str, ...]


def verify(store: Store, now: datetime) -> tuple[Problem, ...]:
    """Check the lake's invariants; an empty result says that all hold.

    Ids are unique; at most one judged, active memory has a text in its partition (scope, role,
    speaker, source); what was merged points at a memory of its scope; no row counts journal
    entries that are not there yet; no passage is left of a memory that is gone. Reads pass such a
    passage over, but it holds what its memory's erasure should have taken. Of facts see
    ``broken_facts``. Tables that no recall needs, such as the graph's, can be read.

    Args:
        store: The lake.
        now: What has expired by then does not count as live.
    """
    import polars as pl  # noqa: PLC0415 (half a second that opening a lake need not pay)

    from ailake.storage.fact_checks import broken_facts  # noqa: PLC0415 (polars again)
    from ailake.storage.frames import lazy_frame  # noqa: PLC0415 (polars again)

    scope = ["agent_id", "user_id", "project_id"]
    partition = [*scope, "role", "speaker", "source", "dedupe_key"]
    columns = [
        *partition,
        "chunk_id",
        "state",
        "merged_into",
        "reason",
        "folded_through",
        "expires_at",
    ]
    # Nobody is between writing or removing a memory and its passages.
    with nullcontext() if store.read_only else store.committing():
        passages = lazy_frame(store.tables["passages"], store.journal)
        memories = lazy_frame(store.episodic, store.journal)
    parts = passages.select(*scope, "chunk_id").unique().collect()
    rows = memories.select(columns).collect()
    judged = rows.filter(
        pl.col("state") == State.ACTIVE.value,
        pl.col("reason") != UNJUDGED,
        pl.col("dedupe_key") != "",
        pl.col("expires_at").is_null() | (pl.col("expires_at") > now),
    )
    merged = rows.filter(pl.col("state") == State.MERGED.value)
    targets = rows.select(*scope, merged_into="chunk_id")
    version = store.tables["accesses"].version
    found = {
        "two memories have the same id": rows.filter(pl.col("chunk_id").is_duplicated()),
        "two live memories of one author say the same": judged.filter(
            pl.struct(partition).is_duplicated()
        ),
        "a merged memory points at none of its scope": merged.join(
            targets, on=[*scope, "merged_into"], how="anti"
        ),
        "a memory counts accesses that the journal does not have": rows.filter(
            pl.col("folded_through") > version
        ),
        "a passage belongs to no memory": parts.join(rows, on=[*scope, "chunk_id"], how="anti"),
    }
    problems = [_problem(what, broken) for what, broken in found.items() if broken.height]
    problems += [Problem(*broken) for broken in broken_facts(store)]
    unread = tuple(name for name in _READ_HERE_ALONE if not _is_readable(store.tables[name]))
    return (
        *problems,
        *([Problem("a table can not be read", len(unread), unread)] if unread else ()),
    )


def _is_readable(table: Table) -> bool:
    try:
        for _ in table.snapshot().scanner(batch_size=_BATCH_ROWS).to_batches():
            pass
    except (OSError, RuntimeError, ValueError):  # What pyarrow and the engine raise.
        logger.warning("the table %s can not be read", table.name, exc_info=True)
        return False
    return True


def _problem(what: str, broken: "pl.DataFrame") -> Problem:
    ids = broken["chunk_id"].sort()
    return Problem(what, ids.len(), tuple(ids.head(_SHOWN)))
