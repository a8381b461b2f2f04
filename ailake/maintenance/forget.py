"""ForgetJob: remove what has expired, what weighs too little, and what is too much of a scope."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake import clock
from ailake.core.episodic import ScoringPolicy
from ailake.core.filters import TRUE, Predicate, conjunction
from ailake.core.records import Scope
from ailake.core.retention import (
    COLUMNS,
    Prunable,
    Removal,
    Retention,
    candidates,
    prunable,
    with_merged_removal,
)
from ailake.core.rows import last_access, nanoseconds
from ailake.core.schema import SCOPE_COLUMNS
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import Advance, progress_bar
from ailake.storage import memories
from ailake.storage.locks import JOBS, exclusive
from ailake.storage.removal import remove_rows, sweep_left_behind
from ailake.storage.retries import reading_again
from ailake.storage.store import Store
from ailake.storage.table import select
from ailake.storage.view import ReadView

if TYPE_CHECKING:
    import lance

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class PruneCounts:
    """How many memories are removed, by the first reason that holds.

    Attributes:
        expired: Their ``expires_at`` has passed.
        below_weight: They weigh less than ``min_weight``.
        over_cap: They are not among the best ``keep`` of their scope.
        merged: They were merged into one of the others.
    """

    expired: int = 0
    below_weight: int = 0
    over_cap: int = 0
    merged: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.expired + self.below_weight + self.over_cap + self.merged


@dataclass(frozen=True, slots=True)
class ScopePruned:
    """What is removed of one scope."""

    scope: Scope
    counts: PruneCounts


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a pruning run removed, or with ``dry_run`` would remove.

    Attributes:
        now: The instant that ages and expiry were compared with.
        ids: The memories, sorted.
        counts: How many, by reason.
        scopes: The same for each scope that loses some, sorted by scope.
        looked_at: Rows that were looked at.
        pinned: Memories that stay only because their importance is 1.0.
        spared: Memories that were to go, and stayed because they were accessed or changed before
            they could.
        left_behind: Passages and journal entries that went with them, or that a killed run left.
        version_before: Version that was read.
        version_after: Version that was made; equal where nothing was removed.
        seconds: Wall time.
        dry_run: True where nothing was removed.
    """

    now: datetime
    ids: tuple[str, ...]
    counts: PruneCounts
    scopes: tuple[ScopePruned, ...]
    looked_at: int
    pinned: int
    spared: int
    left_behind: int
    version_before: int
    version_after: int
    seconds: float
    dry_run: bool


class ForgetJob:
    """Removes what has expired, and by choice what weighs little or is more than a scope may have.

    What weighs less than ``min_weight`` is what recall ranks so: the same function of the policy,
    the importance and the last access, pending accesses counted in. Memories of importance 1.0
    are never removed. What was merged into a removed memory goes along, and only then. Deferred
    memories go by their expiry alone. Old versions of the tables keep what is removed until those
    versions are cleaned.

    The set is planned first; who was accessed or changed meanwhile is looked at again, under the
    lock of all writers, and nobody is removed who was not planned. A run that is killed half-way
    is completed by the next. Jobs of one lake exclude each other.

    Args:
        lake: The lake.
        min_weight: In [0, 1]. Under the default policy no weight is below 0.4975: give
            ``scoring=ScoringPolicy.SEED`` to prune by recency x importance.
        keep: How many active memories each scope keeps at most, pinned ones beyond them aside.
        scopes: Look at these alone; default: all.
        scoring: The policy that weighs; default: the one that recall uses.

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        min_weight: float | None = None,
        keep: int | None = None,
        scopes: Iterable[Scope] | None = None,
        scoring: ScoringPolicy | None = None,
    ) -> None:
        self._store = lake.store
        scoring = ScoringPolicy() if scoring is None else scoring
        self._retention = Retention(min_weight, keep, scoring)
        self._wall: Predicate = TRUE if scopes is None else _wall(scopes)
        self.options = {"retention": self._retention, "in_some_scopes": scopes is not None}

    @recorded("prune")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> PruneReport:
        """Run once.

        Args:
            now: The instant to count ages to, timezone-aware; default: the present.
            dry_run: Report what would go, and remove nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ConflictError: Other writers won every retry.
        """
        instant = clock.resolve_now(now)
        if not dry_run:
            self._store.ensure_writable()
        started = perf_counter()
        with exclusive(None if dry_run else self._store.place, JOBS):
            self._store.settle()
            view = self._store.view(committed=True)
            plan = self._plan(view, instant, progress=progress)
            goes, left_behind = plan.goes.rows, 0
            gone = _with_merged(self._store, goes) if dry_run else None
            if gone is None:
                goes, gone = self._remove(plan, view, instant)
                left_behind = sweep_left_behind(self._store)
        return PruneReport(
            now=instant,
            ids=tuple(sorted(gone["chunk_id"].to_pylist())),
            counts=_counts(gone["removal"].to_pylist()),
            scopes=_by_scope(gone),
            looked_at=plan.looked_at,
            pinned=plan.goes.pinned,
            spared=plan.goes.rows.num_rows - goes.num_rows,
            left_behind=left_behind,
            version_before=int(view.dataset.version),
            version_after=self._store.episodic.version,
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )

    def _remove(self, plan: "_Plan", view: ReadView, now: datetime) -> tuple[pa.Table, pa.Table]:
        """Remove what is still to go; return it, without and with what was merged into it."""
        goes = plan.goes.rows
        # Held to the end: nobody merges, restores or changes what is being removed.
        with self._store.committing():
            present = self._store.view(committed=True)
            if goes.num_rows and _has_changed(view, present):
                still = self._plan(present, now, progress=False).goes.rows
                goes = goes.filter(pc.is_in(goes["_rowid"], value_set=still["_rowid"]))
            gone = _with_merged(self._store, goes)
            remove_rows(self._store, gone, now=now)
        return goes, gone

    def _plan(self, view: ReadView, now: datetime, *, progress: bool) -> "_Plan":
        total = view.dataset.count_rows()
        with progress_bar("looking for what goes", total=total, shown=progress) as advance:
            looked = reading_again(lambda: self._look(view, now, advance))
        found = pa.concat_tables([table for _, table in looked])
        return _Plan(prunable(found, self._retention), sum(rows for rows, _ in looked))

    def _look(self, view: ReadView, now: datetime, advance: Advance) -> list[tuple[int, pa.Table]]:
        where = self._wall
        if not self._retention.weighs:
            where = conjunction(where, memories.predicate({"expires_at": {"lte": now}}))
        scan = view.dataset.scanner(
            columns=list(COLUMNS),
            filter=select(view.dataset, where),
            with_row_id=True,
            batch_size=_BATCH_ROWS,
        )
        met = pa.array(list(view.entries), pa.string())
        empty = scan.projected_schema.empty_table()
        looked = []
        for batch in chain([empty], _tables(scan)):
            accessed = _last_access(batch, view, met)
            chosen = candidates(batch, accessed, self._retention, nanoseconds(now))
            looked.append((batch.num_rows, chosen))
            advance(batch.num_rows)
        return looked


@dataclass(frozen=True, slots=True)
class _Plan:
    """What goes, and how many rows were looked at to find it."""

    goes: Prunable
    looked_at: int


def _with_merged(store: Store, goes: pa.Table) -> pa.Table:
    """Add to what goes the memories that were merged into it."""
    every = memories.with_merged(store, goes.drop_columns("removal"))
    return with_merged_removal(goes, every.slice(goes.num_rows))


def _wall(scopes: Iterable[Scope]) -> Predicate:
    wanted = () if isinstance(scopes, Scope) else tuple(dict.fromkeys(scopes))
    if not wanted or not all(isinstance(scope, Scope) for scope in wanted):
        raise InvalidInputError.of("scopes", got=scopes, wanted="at least one Scope")
    return memories.in_scopes(wanted)


def _has_changed(before: ReadView, after: ReadView) -> bool:
    versions = before.dataset.version != after.dataset.version
    return versions or before.entries.parts != after.entries.parts


def _tables(scan: "lance.LanceScanner") -> Iterator[pa.Table]:
    for batch in scan.to_batches():
        yield pa.Table.from_batches([batch])


def _last_access(rows: pa.Table, view: ReadView, met: pa.Array) -> NDArray[np.int64]:
    """Return when each memory was last accessed, pending accesses counted in."""
    accessed = last_access(rows).copy()
    if not len(met):
        return accessed
    is_met = pc.is_in(rows["chunk_id"], value_set=met).to_numpy()
    some = rows.filter(pa.array(is_met))
    ids, marks = (some[name].to_pylist() for name in ("chunk_id", "folded_through"))
    for place, memory_id, mark in zip(np.flatnonzero(is_met), ids, marks, strict=True):
        waiting = view.entries.pending(memory_id, folded_through=mark)
        if waiting is not None:
            accessed[place] = max(accessed[place], waiting.last_accessed_at)
    return accessed


def _counts(removals: Iterable[str]) -> PruneCounts:
    counted = Counter(removals)
    return PruneCounts(**{removal.value: counted[removal.value] for removal in Removal})


def _by_scope(gone: pa.Table) -> tuple[ScopePruned, ...]:
    keys = [*SCOPE_COLUMNS, "removal"]
    found: dict[Scope, dict[str, int]] = {}
    for row in gone.group_by(keys).aggregate([([], "count_all")]).to_pylist():
        counts = found.setdefault(memories.scope_of(row), {})
        counts[row["removal"]] = row["count_all"]
    return tuple(ScopePruned(scope, PruneCounts(**found[scope])) for scope in sorted(found))
