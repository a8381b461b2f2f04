"""Writing a batch of drafts: decide, embed what is new, decide again under the lock, commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from ailake import clock
from ailake.core.drafts import Draft
from ailake.core.records import Remembered, Scope
from ailake.core.remembering import Addition, DuplicateKey, Plan, duplicate_keys, plan_batch
from ailake.core.rows import episodic_rows, expiry_rows
from ailake.embed import Embedder, Vectors, embed_documents
from ailake.progress import Advance
from ailake.storage.lake import Store
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.memories import known_outcomes, live_duplicates

# One commit makes one fragment, and large fragments keep decay and search fast.
COMMIT_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes memories of one scope into a lake."""

    store: Store
    embedder: Embedder
    scope: Scope

    def write(
        self,
        drafts: Sequence[Draft],
        vectors: Mapping[int, Vectors],
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
            vectors: Embeddings that the caller brought, checked, by the drafts' positions.
            judge: False stores repetitions too.
            now: The instant of the write.
            advance: Told the number of drafts that are done.
        """
        if len(drafts) > COMMIT_ROWS:
            # Refuse an id of another scope before the first commit, not between two.
            ids = [draft.id for draft in drafts if draft.id is not None]
            known_outcomes(self.store, self.scope, ids)
        outcomes: list[Remembered] = []
        for start in range(0, len(drafts), COMMIT_ROWS):
            share = drafts[start : start + COMMIT_ROWS]
            given = {
                place: vectors[start + place]
                for place in range(len(share))
                if start + place in vectors
            }
            part = _Part(share, judge=judge, now=now, vectors=given)
            outcomes.extend(self._write_part(part, advance))
        return outcomes

    def _write_part(self, part: "_Part", advance: Advance) -> tuple[Remembered, ...]:
        version = self.store.episodic.version
        plan = self._plan(part)
        advance(len(part.drafts) - len(plan.additions))
        while True:
            self._embed(part, plan, advance)
            with exclusive(self.store.location.root, WRITE):
                if self.store.episodic.version != version:
                    version = self.store.episodic.version
                    plan = self._plan(part)
                ready = all(addition.position in part.vectors for addition in plan.additions)
                if ready:
                    self._commit(part, plan)
            if ready:
                self.store.episodic.tidy()
                return plan.outcomes

    def _plan(self, part: "_Part") -> Plan:
        given = [draft.id for draft in part.drafts if draft.id is not None]
        return plan_batch(
            part.drafts,
            part.keys,
            fresh_ids=part.fresh_ids,
            known_ids=known_outcomes(self.store, self.scope, given),
            known_keys=live_duplicates(self.store, self.scope, part.keys, part.now)
            if part.judge
            else {},
            judge=part.judge,
            now=part.now,
        )

    def _embed(self, part: "_Part", plan: Plan, advance: Advance) -> None:
        """Bring a vector for every addition that has none yet."""
        texts = {
            addition.position: addition.draft.embedded_text
            for addition in plan.additions
            if addition.position not in part.vectors
        }
        advance(len(plan.additions) - len(texts))
        vectors = embed_documents(self.embedder, list(texts.values()), on_batch=advance)
        part.vectors.update(zip(texts, vectors, strict=True))

    def _commit(self, part: "_Part", plan: Plan) -> None:
        """Write the plan; the rows come last, so that what failed before them has added nothing."""
        through = self.store.journal.table.version
        if plan.extensions:
            self.store.episodic.upsert(expiry_rows(plan.extensions))
        self.store.journal.record_refreshes(self.scope, plan.refreshes)
        if plan.additions:
            rows = episodic_rows(
                plan.additions,
                _stacked(part, plan.additions),
                scope=self.scope,
                now=part.now,
                embedder_id=self.embedder.id,
                rules_version="",
                folded_through=through,
            )
            self.store.episodic.append(rows)


@dataclass(slots=True)
class _Part:
    """The share of a batch that one commit takes, and what is known of it so far."""

    drafts: Sequence[Draft]
    judge: bool
    now: datetime
    vectors: dict[int, Vectors]
    keys: list[DuplicateKey] = field(init=False)
    fresh_ids: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = duplicate_keys(self.drafts)
        self.fresh_ids = [clock.new_id() for _ in self.drafts]


def _stacked(part: _Part, additions: Sequence[Addition]) -> Vectors:
    return np.stack([part.vectors[addition.position] for addition in additions])
