"""What a batch of drafts becomes once each was judged beside the memories nearest to it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ailake.core.decisions import DecisionRecord, SeenCandidate, verdict_id
from ailake.core.drafts import Draft
from ailake.core.judge import Candidate, JudgeRules, Verdict, Veto, judge
from ailake.core.records import Decision, Remembered, Scope
from ailake.core.remembering import (
    EXACT_DUPLICATE,
    Addition,
    BatchPlanner,
    DuplicateKey,
    Plan,
    Twin,
    lasts,
)
from ailake.core.standing import Standing, merged, metadata_text, standing_to_be

# What is not worth keeping stays for so long.
DEFERRED_FOR = timedelta(days=7)

EMBEDDING, LEXICAL = "embedding", "lexical"


@dataclass(frozen=True, slots=True)
class Near:
    """A memory near a draft.

    Attributes:
        score: Cosine similarity.
        what: The stored memory, or the place of an earlier draft of the batch.
    """

    score: float
    what: Standing | int


@dataclass(frozen=True, slots=True)
class Judging:
    """What a batch is judged by.

    Attributes:
        scope: The scope of all drafts.
        rules: The rules.
        nearest: For each draft what is near it, by its place; those that are missing were not
            looked for.
    """

    scope: Scope
    rules: JudgeRules
    nearest: Mapping[int, Sequence[Near]]


def plan_judged(
    drafts: Sequence[Draft],
    keys: Sequence[DuplicateKey],
    *,
    fresh_ids: Sequence[str],
    known_ids: Mapping[str, Remembered],
    known_keys: Mapping[DuplicateKey, Twin],
    judging: Judging,
    now: datetime,
) -> Plan:
    """Decide for each draft, in order, as ``plan_batch`` does, and judge what that would add."""
    batch = _JudgedBatch(
        dict(known_ids), dict(known_keys), judge=True, now=now, judging=judging, fresh_ids=fresh_ids
    )
    for position, (draft, key, fresh) in enumerate(zip(drafts, keys, fresh_ids, strict=True)):
        batch.decide(position, draft, key, memory_id=draft.id or fresh)
    return batch.plan()


@dataclass(slots=True, kw_only=True)
class _JudgedBatch(BatchPlanner):
    judging: Judging
    fresh_ids: Sequence[str]
    # Live memories that a draft of the batch has met, stored ones and new ones.
    standing: dict[str, Standing] = field(default_factory=dict)
    by_place: dict[int, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    verdicts: list[DecisionRecord] = field(default_factory=list)

    def plan(self) -> Plan:
        additions = [self._with_standing(one) for one in self.additions.values()]
        changes = {name: self.standing[name] for name in sorted(self.changed)}
        longer = {name: at for name, at in self.extensions.items() if name not in changes}
        return Plan(
            tuple(self.outcomes),
            tuple(additions),
            tuple(self.refreshes),
            longer,
            changes,
            tuple(self.verdicts),
        )

    def _with_standing(self, made: Addition) -> Addition:
        standing = self.standing.get(made.outcome.id)
        if standing is None or (standing.met_at is None and not standing.merged_into):
            return made
        draft = replace(
            made.draft,
            importance=standing.importance,
            event_time=standing.event_time,
            expires_at=standing.expires_at,
            kind=standing.kind,
            metadata=metadata_text(standing),
        )
        into = standing.merged_into or made.merged_into
        return replace(made, draft=draft, standing=standing, merged_into=into)

    def skip(self, position: int, draft: Draft, key: DuplicateKey, twin: Twin) -> None:
        BatchPlanner.skip(self, position, draft, key, twin)
        fresh = self.fresh_ids[position]
        verdict = Verdict(
            Decision.SKIP, twin.id, draft.id or fresh, 1.0, LEXICAL, EXACT_DUPLICATE, Veto.NONE, ()
        )
        self._record(verdict, twin.id, [SeenCandidate(twin.id, 1.0, LEXICAL)], named=fresh)

    def extend(self, memory_id: str, expires_at: datetime | None) -> None:
        BatchPlanner.extend(self, memory_id, expires_at)
        if memory_id in self.standing:
            self.standing[memory_id] = replace(self.standing[memory_id], expires_at=expires_at)

    def judged(self, position: int, draft: Draft, key: DuplicateKey, memory_id: str) -> None:
        judging = self.judging
        new = standing_to_be(draft, memory_id, judging.scope, self.now)
        candidates = self._candidates(position)
        verdict = judge(new.item, candidates, judging.rules)
        if verdict.decision is Decision.SKIP:
            # By a key of the caller's own rules.
            known = self.standing[verdict.existing_id]
            self.skip(position, draft, key, Twin(known.id, known.expires_at))
            return
        if verdict.decision is Decision.DEFER:
            until = self.now + DEFERRED_FOR
            until = until if draft.expires_at is None else min(until, draft.expires_at)
            draft = replace(draft, expires_at=until)
        into = verdict.existing_id if verdict.decision is Decision.MERGE else ""
        outcome = Remembered(
            memory_id,
            verdict.decision,
            str(verdict.reason),
            verdict.existing_id,
            str(verdict.veto),
        )
        self.add(Addition(position, draft, outcome, key.digest, into))
        seen = [SeenCandidate(one.item.id, one.score, one.mode) for one in candidates]
        self._record(verdict, memory_id, seen, named=memory_id)
        self._settle(verdict, new, position)
        if verdict.decision in {Decision.CREATE, Decision.MODIFY}:
            self.live_as(key, draft, memory_id)

    def _candidates(self, position: int) -> list[Candidate]:
        """Return what is near a draft and lives, as the batch has left it so far."""
        found: dict[str, Candidate] = {}
        for near in self.judging.nearest.get(position, ()):
            if isinstance(near.what, Standing):
                known = self._stored(near.what)
            elif near.what in self.by_place:
                known = self.standing[self.by_place[near.what]]
            else:
                continue
            if not known.merged_into and lasts(known.expires_at, self.now):
                found.setdefault(known.id, Candidate(known.item, near.score, EMBEDDING))
        return sorted(found.values(), key=lambda one: (-one.score, one.item.id))

    def _stored(self, found: Standing) -> Standing:
        if found.id not in self.standing:
            longer = self.extensions.get(found.id, found.expires_at)
            self.standing[found.id] = replace(found, expires_at=longer)
        return self.standing[found.id]

    def _settle(self, verdict: Verdict, new: Standing, position: int) -> None:
        """Note what the memories are after a verdict."""
        if verdict.decision is Decision.DEFER:
            return
        if verdict.decision is Decision.MERGE:
            self._put(merged(self.standing[verdict.existing_id], new))
            return
        if verdict.decision is Decision.MODIFY:
            old = self.standing[verdict.existing_id]
            new = merged(new, old)
            self._put(replace(old, merged_into=new.id))
            self._forget_key(old.id)
            heir_of = old.id
            if old.id in self.additions:
                heir_of = self.additions[old.id].heir_of
            self.additions[new.id] = replace(self.additions[new.id], heir_of=heir_of)
        self.standing[new.id] = new
        self.by_place[position] = new.id

    def _put(self, standing: Standing) -> None:
        self.standing[standing.id] = standing
        if standing.id not in self.additions:
            self.changed.add(standing.id)

    def _forget_key(self, memory_id: str) -> None:
        for key in [key for key, twin in self.live.items() if twin.id == memory_id]:
            del self.live[key]

    def _record(
        self, verdict: Verdict, memory_id: str, seen: Sequence[SeenCandidate], *, named: str
    ) -> None:
        self.verdicts.append(
            DecisionRecord(
                id=verdict_id(named),
                scope=self.judging.scope,
                decided_at=self.now,
                decision=verdict.decision.value,
                memory_id=memory_id,
                existing_id=verdict.existing_id,
                absorbed_id=verdict.absorbed_id,
                score=verdict.score,
                mode=verdict.mode,
                reason=str(verdict.reason),
                veto=str(verdict.veto),
                candidates=tuple(seen),
                grey=verdict.grey,
                rules_version=self.judging.rules.version,
            )
        )
