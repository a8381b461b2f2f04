"""Writing many memories that all bring their vectors, column by column."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from ailake import clock
from ailake.core.bulk import Batch, BulkPlan, BulkRows, plan_bulk
from ailake.core.columnar import Columns
from ailake.core.records import Remembered, Scope
from ailake.core.rows import expiry_rows
from ailake.embed import Vectors
from ailake.progress import Advance
from ailake.storage import claims
from ailake.storage.memories import known_outcomes, live_twins
from ailake.storage.store import Store
from ailake.storage.streams import Stream
from ailake.storage.view import ReadView
from ailake.writing import COMMIT_ROWS, changes_logged, with_taken


@dataclass(frozen=True, slots=True)
class BulkWriter:
    """Writes memories of one scope into a lake, with the same effect as ``Writer.write``."""

    store: Store
    scope: Scope
    judge: bool
    now: datetime

    def write(self, columns: Columns, vectors: Vectors, *, advance: Advance) -> list[Remembered]:
        """Store the drafts in commits of up to 131,072 rows, each as ``Writer.write`` says.

        Args:
            columns: The drafts.
            vectors: Their embeddings, checked, float32 (n, dim).
            advance: Told the number of drafts that are done.
        """
        if len(columns) > COMMIT_ROWS:
            # Refuse an id of another scope before the first commit, not between two.
            known_outcomes(self.store.rows_view(), self.scope, _given(columns.ids()))
        outcomes: list[Remembered] = []
        for start in range(0, len(columns), COMMIT_ROWS):
            share = columns.slice(start, COMMIT_ROWS)
            outcomes += self._write_share(share, vectors[start : start + COMMIT_ROWS])
            advance(len(share))
        return outcomes

    def _write_share(self, columns: Columns, vectors: Vectors) -> list[Remembered]:
        batch = self._batch(columns)
        view = self._look(batch)
        plan = self._plan(batch, view)
        while True:
            with self.store.committing():
                if view is not None and view.is_outdated(self.store.episodic.version):
                    view = self._look(batch)
                    plan = self._plan(batch, view)
                ready = not changes_logged(plan.decided, view)
                if ready:
                    outcomes = self._commit_synced(batch, plan, vectors)
            if ready:
                self.store.episodic.tidy()
                return outcomes

    def _commit_synced(self, batch: Batch, plan: BulkPlan, vectors: Vectors) -> list[Remembered]:
        if claims.are_needed(self.store, batch.given_ids):
            return self._claim(batch, plan, vectors)
        version = self._commit(batch, plan, vectors)
        # The outcomes are made while the disk is busy.
        with ThreadPoolExecutor(1) as pool:
            synced = pool.submit(self._sync, version)
            outcomes = plan.outcomes(batch)
            synced.result()
        return outcomes

    def _claim(self, batch: Batch, plan: BulkPlan, vectors: Vectors) -> list[Remembered]:
        self._commit_met(plan)
        taken: Mapping[str, Remembered] = {}
        if len(plan.places):
            ids = [batch.ids[place] for place in plan.places.tolist()]
            rows = self._rows(batch, plan, vectors)
            taken = claims.insert(self.store, rows, ids, scope=self.scope, passages_at=None)
        return with_taken(plan.outcomes(batch), taken)

    def _sync(self, version: int | None) -> None:
        if version is not None:
            self.store.episodic.sync(version)

    def _batch(self, columns: Columns) -> Batch:
        ids = columns.ids()
        given = _given(ids)
        fresh = clock.new_ids(len(columns))
        return Batch(
            columns,
            ids=[own or new for own, new in zip(ids, fresh, strict=True)] if given else fresh,
            given_ids=given,
            digests=columns.digests() if self.judge else (),
            judge=self.judge,
            now=self.now,
        )

    def _look(self, batch: Batch) -> ReadView | None:
        return self.store.rows_view() if self.judge or batch.given_ids else None

    def _plan(self, batch: Batch, view: ReadView | None) -> BulkPlan:
        if view is None:
            return plan_bulk(batch, known_ids={}, known_keys={})
        ids = known_outcomes(view, self.scope, batch.given_ids)
        twins = live_twins(view, self.scope, batch.digests, self.now)
        return plan_bulk(batch, known_ids=ids, known_keys=twins)

    def _commit(self, batch: Batch, plan: BulkPlan, vectors: Vectors) -> int | None:
        """Write the plan and return the version with its rows, where it has any, not synced yet.

        The rows come last, so that what failed before them has added nothing.
        """
        self._commit_met(plan)
        if not len(plan.places):
            return None
        return self.store.episodic.append(self._rows(batch, plan, vectors))

    def _commit_met(self, plan: BulkPlan) -> None:
        if plan.decided.extensions:
            self.store.change(expiry_rows(plan.decided.extensions))
        self.store.journal.record_refreshes(self.scope, plan.decided.refreshes)

    def _rows(self, batch: Batch, plan: BulkPlan, vectors: Vectors) -> Stream:
        # What the journal says of a given id so far belongs to a memory that was forgotten.
        through = self.store.journal.table.version if batch.given_ids else 0
        identity = self.store.embedder.id
        rows = BulkRows(batch, plan, vectors, self.scope, identity, through)
        return Stream(len(plan.places), rows.rows_of)


def _given(ids: Iterable[str | None]) -> list[str]:
    return [one for one in ids if one is not None]
