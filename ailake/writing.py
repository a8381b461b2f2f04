"""Writing drafts: decide, embed what is new, decide again under a lock, then log or commit."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ailake import clock
from ailake.core.decisions import DecisionRecord
from ailake.core.drafts import Draft
from ailake.core.log import LoggedMemory
from ailake.core.merging import merged_rows
from ailake.core.noting import noting, with_repeated
from ailake.core.records import Decision, MemoryRecord, Remembered, Scope
from ailake.core.remembering import Addition, NewMemory, Plan
from ailake.core.rows import RECORD_COLUMNS, episodic_rows, expiry_rows, passage_rows, to_pylist
from ailake.deciding import Decider
from ailake.embed import EmbeddedPassages, Embedder, embed_documents, embed_passages, is_long
from ailake.parts import GivenVectors, Part, positions
from ailake.progress import Advance, ignore
from ailake.storage import claims, decisions, mentions, passages
from ailake.storage.locks import DECAY, exclusive
from ailake.storage.log import Log
from ailake.storage.memories import known_outcomes, records
from ailake.storage.retries import is_conflict, with_retries
from ailake.storage.store import Store
from ailake.storage.streams import Stream
from ailake.storage.view import ReadView
from ailake.telemetry import Told, Value

# One commit makes one fragment, and large fragments keep decay and search fast.
COMMIT_ROWS = 131_072

# Up to so many memories at once go to the log, where it is theirs to choose.
LOGGED_ROWS = 32


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes memories of one scope into a lake."""

    store: Store
    embedder: Embedder
    scope: Scope

    def write(
        self,
        drafts: Sequence[Draft],
        vectors: GivenVectors,
        *,
        judge: bool,
        now: datetime,
        advance: Advance,
    ) -> list[Remembered]:
        """Store the drafts in commits of up to 131,072 rows.

        Each commit is atomic and durable by itself: where a later one fails, the earlier ones
        stand, and giving the same items (with ids, or with ``judge``) again adds nothing twice.

        Args:
            drafts: The batch; every draft has been checked.
            vectors: The embeddings that the caller brought.
            judge: False stores repetitions too.
            now: The instant of the write.
            advance: Told the number of drafts that are done.
        """
        if len(drafts) > COMMIT_ROWS:
            # Refuse an id of another scope before the first commit, not between two.
            ids = [draft.id for draft in drafts if draft.id is not None]
            known_outcomes(self.store.rows_view(), self.scope, ids)
        outcomes: list[Remembered] = []
        for start in range(0, len(drafts), COMMIT_ROWS):
            share = drafts[start : start + COMMIT_ROWS]
            part = Part(share, vectors.share(start, len(share)), judge=judge, now=now)
            outcomes.extend(self._write_part(part, advance))
        return outcomes

    def write_few(
        self, drafts: Sequence[Draft], vectors: GivenVectors, *, judge: bool, now: datetime
    ) -> list[Remembered]:
        """Store a few drafts by way of the log, which is faster than a commit.

        They are on disk when this returns, all or none. Where there is no log, and for what
        changes stored memories, it is ``write``.
        """
        log = self.store.log
        part = Part(drafts, vectors, judge=judge, now=now)
        long = any(is_long(draft, self.embedder) for draft in drafts)
        if log is None or long or len(drafts) > LOGGED_ROWS:
            return self._commit_few(part)
        self.store.make_room()
        plan = self._roughly(part)
        while True:
            self._embed(part, plan, ignore)
            with log.lock:
                plan, _ = self._decider.decide(part)
                loggable = plan.is_loggable and self._notes_nothing_stored(part, plan)
                done = part.is_ready(plan) and loggable
                if done:
                    self._log(part, plan, log)
            if done:
                # Without the lock: whoever drains may be waiting for it.
                self.store.drain_soon()
                return list(plan.outcomes)
            if not loggable:
                return self._commit_few(part)

    @property
    def _decider(self) -> Decider:
        return Decider(self.store, self.scope)

    def _roughly(self, part: Part) -> Plan:
        return self._decider.roughly(part, self._decider.look(part))

    def _notes_nothing_stored(self, part: Part, plan: Plan) -> bool:
        """Tell whether no memory mentions more now that has no record of its own in this plan."""
        stored = noting(plan, part.drafts, now=part.now).stored
        return mentions.are_noted(self.store, self.scope, stored)

    def _commit_few(self, part: Part) -> list[Remembered]:
        outcomes = self._write_part(part, ignore)
        self.store.upkeep_soon()
        return list(outcomes)

    def _write_part(self, part: Part, advance: Advance) -> tuple[Remembered, ...]:
        plan = self._roughly(part)
        advance(len(part.drafts) - len(plan.additions))
        self._embed(part, plan, advance)
        while True:
            plan, view = self._decided(part)
            merges = plan.merges
            with self._committing(alone=merges):
                if view is not None and view.is_outdated(self.store.episodic.version):
                    plan, view = self._decider.decide(part)
                # What another thread has logged since the drain is no row yet that could change.
                ready = part.is_ready(plan) and not changes_logged(plan, view)
                ready = ready and (merges or not plan.merges)
                taken = self._commit(part, plan) if ready else {}
            if ready:
                self.store.episodic.tidy()
                return tuple(with_taken(plan.outcomes, taken))

    def _decided(self, part: Part) -> tuple[Plan, ReadView | None]:
        """Decide, with the vectors of all that is added."""
        while True:
            plan, view = self._decider.decide(part)
            if part.is_ready(plan):
                return plan, view
            # What looked like a repetition is none: it is embedded, and judged then.
            self._embed(part, plan, ignore)

    @contextmanager
    def _committing(self, *, alone: bool) -> Iterator[None]:
        """Hold the write lock; to write stored rows again, also the one of who folds accesses."""
        root = self.store.location.root
        with exclusive(root, DECAY) if alone else nullcontext(), self.store.committing():
            yield

    def _embed(self, part: Part, plan: Plan, advance: Advance) -> None:
        """Bring vectors for every addition that has none yet."""
        missing = part.missing(plan)
        advance(len(plan.additions) - len(missing))
        if not missing:
            return
        for one in missing:
            if is_long(one.draft, self.embedder):
                part.passages[one.position] = embed_passages(self.embedder, one.draft)
        texts = [one.draft.embedded_text for one in missing]
        vectors = embed_documents(self.embedder, texts, on_batch=advance)
        part.put(missing, vectors)

    def _log(self, part: Part, plan: Plan, log: Log) -> None:
        """Log the plan; the rows come last, so that what failed before them has added nothing."""
        self.store.journal.note_refreshes(self.scope, plan.refreshes, skipped(plan))
        noted = noting(plan, part.drafts, now=part.now)
        plan = replace(plan, additions=with_repeated(plan.additions, noted))
        if plan.additions:
            vectors = part.vectors[positions(plan)].astype(np.float16)
            instant = clock.utc_now()
            batch = []
            for memory, vector in zip(self._memories(part, plan), vectors, strict=True):
                # Kept in memory until it is a row: once is enough for a vector.
                draft = replace(memory.draft, vector=None)
                fresh = replace(memory, draft=draft)
                batch.append(LoggedMemory(fresh, vector, instant, self.embedder.id))
            log.append(batch)

    def _commit(self, part: Part, plan: Plan) -> Mapping[str, Remembered]:
        """Write the plan; the rows come last, so that what failed before them has added nothing.

        Returns:
            The first outcomes of ids that others had taken by then.
        """
        decisions.append(self.store, plan.verdicts, again=bool(part.given_ids))
        self._note(part, plan)
        if plan.extensions:
            self.store.change(expiry_rows(plan.extensions))
        self.store.journal.record_refreshes(self.scope, plan.refreshes)
        passages_at = self._commit_passages(part, plan) if plan.additions else None
        if plan.changes:
            self._commit_merged(part, plan)
            return {}
        if not plan.additions:
            return {}
        rows = self._rows(part, plan, self._memories(part, plan))
        if claims.are_needed(self.store, part.given_ids):
            ids = [one.outcome.id for one in plan.additions]
            return claims.insert(self.store, rows, ids, scope=self.scope, passages_at=passages_at)
        self.store.episodic.sync(self.store.episodic.append(rows))
        return {}

    def _note(self, part: Part, plan: Plan) -> None:
        noted = noting(plan, part.drafts, now=part.now)
        entries = {self.scope: (*noted.added, *noted.stored)}
        again = bool(noted.stored or part.given_ids)
        mentions.note(self.store, entries, now=part.now, again=again)

    def _commit_merged(self, part: Part, plan: Plan) -> None:
        """Write new rows and the stored ones that they are merged with, in one commit."""
        store = self.store

        def attempt() -> None:
            store.journal.flush()
            through, entries = store.journal.unfolded()
            view = store.rows_view(committed=True, entries=entries)
            names = tuple(store.episodic.handle.schema.names)
            rows = view.stored("chunk_id", list(plan.changes), names)
            known = records(view, to_pylist(rows.select(list(RECORD_COLUMNS))))
            heirs = Heirs(plan.changes.keys(), {one.id: one for one in known}, through)
            new = self._rows(part, plan, self._memories(part, plan, heirs)).rows_of(
                0, len(plan.additions)
            )
            changed = merged_rows(
                rows, plan.changes, known=heirs.known, through=through, now=part.now
            )
            # Columns that someone else has added are null in the new ones.
            both = pa.concat_tables([new, changed], promote_options="default")
            store.change(both.select(list(names)), at=store.unless_changed(view))

        with_retries(attempt, what="merge of memories", retry_on=is_conflict)
        store.episodic.sync(store.episodic.version)

    def _rows(self, part: Part, plan: Plan, memories: Sequence[NewMemory]) -> Stream:
        places = positions(plan)

        def rows_of(start: int, stop: int) -> pa.Table:
            vectors = part.vectors[places[start:stop]]
            return episodic_rows(memories[start:stop], vectors, embedder_id=self.embedder.id)

        return Stream(len(memories), rows_of)

    def _commit_passages(self, part: Part, plan: Plan) -> int | None:
        long = {
            one.outcome.id: part.passages[one.position]
            for one in plan.additions
            if one.position in part.passages
        }
        return add_passages(self.store, self.scope, long)

    def _memories(self, part: Part, plan: Plan, heirs: "Heirs | None" = None) -> list[NewMemory]:
        # What the journal says of a given id so far belongs to a memory that was forgotten.
        through = self.store.journal.table.version if part.given_ids else 0
        verdicts = {one.memory_id: one for one in plan.verdicts if one.decision != Decision.SKIP}
        memories = [
            NewMemory(
                draft=addition.draft,
                outcome=addition.outcome,
                digest=addition.digest,
                scope=self.scope,
                created_at=part.now,
                folded_through=through,
                rules_version=self.store.rules.version if part.judge else "",
                merged_into=addition.merged_into,
                verdict=verdicts.get(addition.outcome.id),
                standing=addition.standing,
            )
            for addition in plan.additions
        ]
        if heirs is None:
            return memories
        return [heirs.endowed(*pair) for pair in zip(memories, plan.additions, strict=True)]


@dataclass(frozen=True, slots=True)
class Heirs:
    """What new memories take over from the stored ones that they stand in the place of.

    Attributes:
        changed: The ids of the stored memories that the plan changes.
        known: Those of them that are there, with the accesses that the journal has of them.
        through: The version of the journal that these are of.
    """

    changed: Collection[str]
    known: Mapping[str, MemoryRecord]
    through: int

    def endowed(self, memory: NewMemory, addition: Addition) -> NewMemory:
        """Return a new memory with the accesses of the one that it stands in the place of.

        Where that which it was to be merged into is gone meanwhile it lives on its own.
        """
        if memory.merged_into in self.changed and memory.merged_into not in self.known:
            memory = replace(memory, merged_into="")
        old = self.known.get(addition.heir_of)
        if old is None or memory.standing is None:
            return memory
        met = max(memory.standing.met_at or old.last_accessed_at, old.last_accessed_at)
        return replace(
            memory,
            standing=replace(memory.standing, met_at=met),
            access_count=old.access_count,
            folded_through=self.through,
        )


def told(outcomes: Remembered | Sequence[Remembered], _: Mapping[str, Any]) -> Told:
    """Return what telemetry is told of memories that were given."""
    if isinstance(outcomes, Remembered):
        decision = outcomes.decision.value
        labels: dict[str, Value] = {"ailake.decision": decision}
        labels["ailake.repeated"] = outcomes.repeated
        return Told(labels, decisions={decision: 1})
    counted = Counter(outcome.decision.value for outcome in outcomes)
    each = {f"ailake.decisions.{decision}": count for decision, count in counted.items()}
    return Told(attributes={"ailake.memories": len(outcomes), **each}, decisions=counted)


def with_taken(outcomes: Iterable[Remembered], taken: Mapping[str, Remembered]) -> list[Remembered]:
    """Return outcomes with those of memories that were not stored after all replaced."""
    return [taken.get(one.id, one) if one.decision is Decision.CREATE else one for one in outcomes]


def add_passages(store: Store, scope: Scope, long: Mapping[str, EmbeddedPassages]) -> int | None:
    """Store the passages of long memories, by id; before the memories, so that none lacks them.

    Returns:
        The version that was made, where there are any.
    """
    if not long:
        return None
    vectors = np.concatenate([one.vectors for one in long.values()])
    split_up = {memory_id: one.passages for memory_id, one in long.items()}
    identity = store.embedder.id
    rows = passage_rows(split_up, vectors, scope=scope, embedder_id=identity)
    return passages.append(store, rows)


def changes_logged(plan: Plan, view: ReadView | None) -> bool:
    """Tell whether a plan changes what is only logged, which no table could change yet."""
    logged = () if view is None else view.logged
    changed = {*plan.extensions, *plan.changes}
    return any(one.row["chunk_id"] in changed for one in logged)


def skipped(plan: Plan) -> list[DecisionRecord]:
    """Return the verdicts on drafts that another memory stands for."""
    return [one for one in plan.verdicts if one.decision == Decision.SKIP]
