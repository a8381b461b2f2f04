"""Runs a job on a lake and dies by SIGKILL at one of the boundaries between its steps.

Run with ``ORDER`` among its globals: the lake, the job, the instant, and at which boundary to die,
by its number or by the name of the step of which it shall be the first; at none, it says how many
there are.
"""

import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kept import KEEP

import ailake
from ailake import IndexPolicy, ScoringPolicy
from ailake.maintenance import (
    CompactionJob,
    CompactionPolicy,
    ForgetJob,
    IndexJob,
    MemoryDecayJob,
    PurgeJob,
    ReembedJob,
    compact,
    indexing,
    purge,
    reembed,
)
from ailake.storage import (
    columns,
    compaction,
    erasing,
    leases,
    locks,
    reembedding,
    removal,
    switching,
)
from ailake.storage.column_files import ColumnWork
from ailake.storage.journal import Journal
from ailake.storage.leases import Lease
from ailake.storage.recording import Recorder
from ailake.storage.staging import Staging
from ailake.storage.table import Table

# Each is a step that writes: the boundary lies before it. Of the guard it lies after it, where
# all files are written and nothing is committed.
STEPS: dict[str, list[tuple[Any, str, bool]]] = {
    "forget": [(Table, "delete_rows", False)],
    "compact": [
        (compaction, "_tasks", False),
        (compaction, "guard", True),
        (compact, "keep_current", False),
        (compact, "remove_versions", False),
        (compact, "sweep", False),
    ],
    "purge": [
        (purge, "drop_tags", False),
        (Table, "delete_rows", False),
        (erasing, "rewrite_fragments", False),
        (purge, "erase_deleted", False),
        (erasing, "_remove", False),
        (Recorder, "note_purge", False),
    ],
    "decay": [
        (Table, "upsert", False),
        (ColumnWork, "_written", False),
        (columns, "guard", True),
        (Journal, "mark_folded", False),
    ],
    "index": [(indexing, "build", False), (indexing, "measure_and_keep", False)],
    "reembed": [
        (Staging, "add", False),
        (reembedding, "switch_vectors", False),
        (switching, "rewrite_columns", False),
        (switching, "rewrite_columns", True),
        (reembedding, "finish_switch", False),
        (switching, "_put_passages", True),
        (switching, "_name_embedder", False),
        (switching, "drop_columns", False),
        (switching, "remove_staged", False),
        (reembed, "mend", False),
    ],
}

# On an object store, of every job.
LEASED: list[tuple[Any, str, bool]] = [(Lease, "take", True), (Lease, "give_back", False)]


def forget(lake: ailake.Lake, now: datetime) -> object:
    return ForgetJob(lake, min_weight=0.1, scoring=ScoringPolicy.SEED).run(now)


def compacted(lake: ailake.Lake, now: datetime) -> object:
    policy = CompactionPolicy(target_rows=6, keep_versions=timedelta(minutes=1))
    return CompactionJob(lake, policy=policy).run(now)


def purged(lake: ailake.Lake, now: datetime) -> object:
    return PurgeJob(lake, ids=["gone"], confirm_tags=True).run(now)


def reembedded(lake: ailake.Lake, now: datetime) -> object:
    return ReembedJob(lake, embedder="hashing:24", batch_size=2).run(now)


def decayed(lake: ailake.Lake, now: datetime) -> object:
    return MemoryDecayJob(lake).run(now)


def indexed(lake: ailake.Lake, now: datetime) -> object:
    return IndexJob(lake, policy=IndexPolicy(min_bytes=0, limit=50, sample=4)).run(now)


JOBS = {
    "forget": forget, "compact": compacted, "purge": purged, "decay": decayed, "index": indexed,
    "reembed": reembedded,
}  # fmt: skip


class Boundaries:
    """Counts the boundaries that are passed, and dies at one of them."""

    def __init__(self, deadly: int | str | None) -> None:
        self.deadly = deadly
        self.passed = 0

    def reach(self, name: str) -> None:
        if self.deadly in {self.passed, name}:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1

    def around(self, step: Callable[..., Any], name: str, *, after: bool) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            if after:
                result = step(*arguments, **options)
                self.reach(name)
                return result
            self.reach(name)
            return step(*arguments, **options)

        return stepped


def main(order: dict[str, Any]) -> None:
    boundaries = Boundaries(order["deadly"])
    # Who waits for the lease of a killed run shall not wait long.
    leases.SECONDS, leases.SKEW, locks._POLL_LEASE_SECONDS = 1.0, 0.0, 0.1
    removal._AT_ONCE = 2
    options = order.get("options", {})
    for owner, name, after in [*STEPS[order["job"]], *(LEASED if options else [])]:
        setattr(owner, name, boundaries.around(getattr(owner, name), name, after=after))
    with ailake.connect(order["lake"], storage_options=options, judge_rules=KEEP) as lake:
        lake.store.drainer.stop()
        JOBS[order["job"]](lake, order["now"])
        # The last one: all is done, and the lake is not closed.
        boundaries.reach("done")
    Path(order["count"]).write_text(str(boundaries.passed))


if __name__ == "__main__":
    main(globals()["ORDER"])
