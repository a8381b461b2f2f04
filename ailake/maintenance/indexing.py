"""IndexJob: build the indexes of vectors that the policy chooses, and measure their recall."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter
from typing import Any

from ailake import clock
from ailake.core.vectors import (
    VECTOR_INDEX,
    IndexAction,
    IndexPolicy,
    SearchParameters,
    VectorKind,
    action_for,
)
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import Advance, progress_bar
from ailake.storage.indexes import indexes_of
from ailake.storage.locks import JOBS, exclusive
from ailake.storage.table import Table
from ailake.storage.vectors import (
    VectorIndex,
    build,
    drop,
    largest_scope,
    measure_and_keep,
    vector_index,
)

TABLES = ("episodic", "passages")

# The engine's stages of a build that the bar counts, and the measuring after them.
_STAGES = ("train_ivf", "shuffle", "merge_partitions")
_STEPS = len(_STAGES) + 1


@dataclass(frozen=True, slots=True)
class Missed:
    """An index that was built and missed the goal.

    Attributes:
        kind: Its kind.
        recall: What it reached.
    """

    kind: str
    recall: float


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """What a run did with one table's index of vectors, or with ``dry_run`` would do.

    Attributes:
        table: The table.
        action: What was done.
        kind: The kind of the index; with ``dry_run`` of the one to build first; None for none.
        rows: Live rows of the table.
        scope_rows: Of them in the largest scope, which the policy looks at.
        recall: The measured share of the truly nearest rows that a search of that scope lists.
        parameters: How it is searched.
        bytes: Its size.
        seconds: Wall time.
        missed: Indexes that missed the goal and are gone.
    """

    table: str
    action: IndexAction
    kind: str | None
    rows: int
    scope_rows: int
    recall: float | None
    parameters: SearchParameters | None
    bytes: int
    seconds: float
    missed: tuple[Missed, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a run did, or with ``dry_run`` would do.

    Attributes:
        now: The instant of the run.
        tables: One entry per table with vectors.
        seconds: Wall time.
        dry_run: True where nothing was written.
    """

    now: datetime
    tables: tuple[IndexedTable, ...]
    seconds: float
    dry_run: bool


class IndexJob:
    """Builds what the policy chooses for each table with vectors, and measures it.

    After a build recall is measured on the table's own vectors, with growing effort until the goal
    is reached; then the next kind is tried, and where none reaches the goal the table is left
    without an index, so that searches look at all vectors. What was measured is kept with the
    table. The indexes that every lake has are brought up to date, too. Safe beside any other
    writer: small fragments are not merged meanwhile. Jobs of one lake exclude each other.

    Args:
        lake: The lake.
        policy: What to build, and when that is good enough.
        rebuild: Build anew what is there and good enough, too.

    Raises:
        InvalidInputError: ``policy`` is not an IndexPolicy.
    """

    def __init__(
        self, lake: Lake, *, policy: IndexPolicy | None = None, rebuild: bool = False
    ) -> None:
        chosen = _default(lake.store.recall_bytes) if policy is None else policy
        if not isinstance(chosen, IndexPolicy):
            raise InvalidInputError.of("policy", got=policy, wanted="an IndexPolicy")
        self._store = lake.store
        self._policy = chosen
        self._rebuild = rebuild
        self.options = {"indexes": chosen, "rebuild": rebuild}

    @recorded("index")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> IndexReport:
        """Run once.

        Args:
            now: The instant of the run, timezone-aware; default: the present.
            dry_run: Report what would be built, write nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ConflictError: Other writers won every retry.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        tables = [self._store.tables[name] for name in TABLES]
        if dry_run:
            plans = [self._plan(table) for table in tables]
        else:
            self._store.ensure_writable()
            with exclusive(self._store.place, JOBS):
                plans = self._run_all(tables, progress=progress)
        return IndexReport(instant, tuple(plans), perf_counter() - started, dry_run)

    def _run_all(self, tables: Sequence[Table], *, progress: bool) -> list[IndexedTable]:
        self._store.settle()
        self._store.keep_indexes_current()
        plans = [self._plan(table) for table in tables]
        total = _STEPS * sum(plan.action is IndexAction.BUILD for plan in plans)
        with progress_bar("indexing", total=total, shown=progress and total > 0) as advance:
            return [self._run(table, advance) for table in tables]

    def _plan(self, table: Table) -> IndexedTable:
        dataset = table.snapshot()
        present = vector_index(dataset)
        within = largest_scope(table.name, dataset)
        wanted = self._policy.choose(within.rows, self._store.embedder.dim)
        action = action_for(
            wanted,
            None if present is None else _kind(present),
            None if present is None else present.measured,
            goal=self._policy.recall,
        )
        if self._rebuild and wanted is not None:
            action = IndexAction.BUILD
        return _with_index(
            IndexedTable(
                table=table.name,
                action=action,
                kind=None if wanted is None else wanted.value,
                rows=int(dataset.count_rows()),
                scope_rows=within.rows,
                recall=None,
                parameters=None,
                bytes=0,
                seconds=0.0,
            ),
            table,
            None if action is IndexAction.BUILD else present,
        )

    def _run(self, table: Table, advance: Advance) -> IndexedTable:
        started = perf_counter()
        with table.alone():
            plan = self._plan(table)
            missed: list[Missed] = []
            if plan.action is IndexAction.MEASURE and not self._is_good(table, missed):
                plan = replace(plan, action=IndexAction.BUILD)
            if plan.action is IndexAction.BUILD:
                self._build(table, plan, missed, advance)
            done = _with_index(replace(plan, kind=None), table, vector_index(table.snapshot()))
        return replace(done, missed=tuple(missed), seconds=perf_counter() - started)

    def _build(
        self, table: Table, plan: IndexedTable, missed: list[Missed], advance: Advance
    ) -> None:
        kinds = self._policy.candidates(plan.scope_rows, self._store.embedder.dim)
        known = {one.kind for one in missed}
        for kind in (kind for kind in kinds if kind not in known):
            _build_alone(table, kind, _by_stage(advance))
            is_good = self._is_good(table, missed)
            advance(1)
            if is_good:
                return

    def _is_good(self, table: Table, missed: list[Missed]) -> bool:
        measured = measure_and_keep(table, self._policy)
        if measured.recall >= self._policy.recall:
            return True
        missed.append(Missed(measured.kind.value, measured.recall))
        return False


def _default(recall_bytes: int | None) -> IndexPolicy:
    """Return a policy by which what recall holds in memory needs no index."""
    return IndexPolicy() if recall_bytes is None else IndexPolicy(min_bytes=recall_bytes)


def _build_alone(table: Table, kind: VectorKind, on_progress: Callable[[Any], None]) -> None:
    """Build, in the place of whatever is there: a column has one index."""
    present = vector_index(table.snapshot())
    build(table, kind, on_progress=on_progress)
    if present is not None and present.name != VECTOR_INDEX:
        drop(table, present.name)


def _kind(index: VectorIndex) -> str:
    # What someone has given a name of their own is theirs.
    return index.kind if index.name == VECTOR_INDEX else index.name


def _by_stage(advance: Advance) -> Callable[[Any], None]:
    def on_progress(event: Any) -> None:
        if event.event == "complete" and event.stage in _STAGES:
            advance(1)

    return on_progress


def _with_index(done: IndexedTable, table: Table, index: VectorIndex | None) -> IndexedTable:
    if index is None:
        return done
    (size,) = (one.bytes for one in indexes_of(table.snapshot()) if one.name == index.name)
    return replace(
        done, kind=index.kind, recall=index.recall, parameters=index.parameters, bytes=size
    )
