"""A state machine: Memory does what a plain dict does, whatever the order of calls."""

import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import ailake
from ailake import Decision, InvalidInputError, NotFoundError, State
from ailake.core.judge import dedupe_key
from ailake.maintenance import MemoryDecayJob

START = datetime(2026, 1, 1, tzinfo=UTC)
# The model knows exact duplicates alone.
RULES = ailake.JudgeRules(retention=None, containment=lambda *_: "none")
TEXTS = [
    "tea",
    "Tea.",
    "coffee",
    "我喝茶",
    "it's 5",
    "it's 5!",
    "a%b_c",
    "tea or coffee?",
    "\\'; --",
]
SCOPES = ["a", "a'b", "/a"]

texts = st.sampled_from(TEXTS)
scopes = st.sampled_from(SCOPES)


@dataclass
class Row:
    id: str
    text: str
    scope: str
    kind: str
    expires_at: datetime | None
    last: datetime
    count: int = 0
    importance: float = 0.5
    state: State = State.ACTIVE
    merged_into: str = ""
    order: int = field(default=0)


class MemoryMachine(RuleBasedStateMachine):
    ids = Bundle("ids")

    @initialize()
    def open_lake(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.now = START
        self.rows: dict[str, Row] = {}
        self.lakes = [
            ailake.connect(self.folder, embedder="hashing:16", judge_rules=RULES) for _ in range(2)
        ]
        self.turn = 0

    def teardown(self) -> None:
        for lake in self.lakes:
            lake.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory(self, scope: str) -> ailake.Memory:
        """Two handles take turns."""
        self.turn += 1
        return self.lakes[self.turn % 2].memory(agent_id=scope)

    def tick(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now

    def visible(self, scope: str) -> list[Row]:
        rows = [
            row
            for row in self.rows.values()
            if row.scope == scope
            and row.state is State.ACTIVE
            and (row.expires_at is None or row.expires_at > self.now)
        ]
        return sorted(rows, key=lambda row: row.order)

    def twin(self, scope: str, text: str) -> Row | None:
        same = [r for r in self.visible(scope) if dedupe_key(r.text) == dedupe_key(text)]
        return same[0] if same else None

    def merged_into(self, memory_id: str) -> set[str]:
        found = {memory_id}
        while more := {r.id for r in self.rows.values() if r.merged_into in found} - found:
            found |= more
        return found

    def add(self, outcome: ailake.Remembered, scope: str, text: str, **fields: Any) -> None:
        twin = self.twin(scope, text)
        if twin is None:
            assert outcome.decision is Decision.CREATE
            self.rows[outcome.id] = Row(
                outcome.id, text, scope, last=self.now, order=len(self.rows), **fields
            )
        else:
            assert (outcome.decision, outcome.id) == (Decision.SKIP, twin.id)
            twin.last = max(twin.last, self.now)
            lasts = fields["expires_at"]
            if twin.expires_at is not None and (lasts is None or lasts > twin.expires_at):
                twin.expires_at = lasts

    @rule(target=ids, scope=scopes, text=texts, lasts=st.sampled_from([None, 3]))
    def remember(self, scope: str, text: str, lasts: int | None) -> str:
        now = self.tick()
        expires = None if lasts is None else now + timedelta(hours=lasts)
        outcome = self.memory(scope).remember(text, expires_at=expires, now=now)
        self.add(outcome, scope, text, kind="", expires_at=expires)
        return outcome.id

    @rule(scope=scopes, batch=st.lists(texts, max_size=4))
    def remember_many(self, scope: str, batch: list[str]) -> None:
        now = self.tick()
        items = [{"text": text, "kind": "bulk"} for text in batch]
        for outcome, text in zip(
            self.memory(scope).remember_many(items, now=now), batch, strict=True
        ):
            self.add(outcome, scope, text, kind="bulk", expires_at=None)

    @rule(memory_id=consumes(ids), scope=scopes, dry_run=st.booleans())
    def forget(self, memory_id: str, scope: str, *, dry_run: bool) -> None:
        row = self.rows.get(memory_id)
        report = self.memory(scope).forget(memory_id, dry_run=dry_run)
        if row is not None and row.scope == scope:
            gone = self.merged_into(memory_id)
            assert set(report.ids) == gone
            if not dry_run:
                for name in gone:
                    del self.rows[name]
        else:
            assert (report.ids, report.missing) == ((), (memory_id,))

    @rule(memory_id=ids, importance=st.sampled_from([0.25, 1.0]))
    def update(self, memory_id: str, importance: float) -> None:
        row = self.rows.get(memory_id)
        if row is None or row.state is State.MERGED:
            return
        self.memory(row.scope).update(memory_id, importance=importance, now=self.tick())
        row.importance = importance

    @rule(target=ids, memory_id=ids, text=texts)
    def rewrite(self, memory_id: str, text: str) -> str:
        row = self.rows.get(memory_id)
        now = self.tick()
        if row is None:
            return memory_id
        memory = self.memory(row.scope)
        twin = self.twin(row.scope, text)
        try:
            new = memory.update(memory_id, text=text, now=now)
        except InvalidInputError:
            assert row.state is State.MERGED or (twin is not None and twin is not row)
            return memory_id
        assert row.state is State.ACTIVE
        assert twin is None or twin is row
        if text == row.text:
            assert new.id == memory_id
            return memory_id
        self.rows[new.id] = Row(
            new.id, text, row.scope, row.kind, row.expires_at, row.last, row.count,
            row.importance, order=row.order,
        )  # fmt: skip
        row.state, row.merged_into = State.MERGED, new.id
        return new.id

    @rule(memory_id=ids)
    def restore(self, memory_id: str) -> None:
        row = self.rows.get(memory_id)
        now = self.tick()
        if row is None:
            return
        blocked = row.state is not State.MERGED or self.twin(row.scope, row.text) is not None
        try:
            self.memory(row.scope).restore(memory_id, now=now)
        except InvalidInputError:
            assert blocked
        else:
            assert not blocked
            row.state, row.merged_into = State.ACTIVE, ""

    @rule(memory_id=ids)
    def touch(self, memory_id: str) -> None:
        row = self.rows.get(memory_id)
        if row is not None:
            self.memory(row.scope).touch(memory_id, now=self.tick())
            row.count, row.last = row.count + 1, max(row.last, self.now)

    @rule(scope=scopes, text=texts)
    def recall(self, scope: str, text: str) -> None:
        now = self.tick()
        hits = self.memory(scope).recall(text, limit=100, now=now)
        assert {hit.id for hit in hits} == {row.id for row in self.visible(scope)}
        for hit in hits:
            row = self.rows[hit.id]
            assert (hit.text, hit.access_count) == (row.text, row.count)
            row.count, row.last = row.count + 1, max(row.last, now)

    @rule()
    def decay(self) -> None:
        MemoryDecayJob(self.lakes[self.turn % 2]).run(self.now)

    @rule()
    def compact(self) -> None:
        self.lakes[0].table("episodic").optimize()

    @rule()
    def reopen(self) -> None:
        self.lakes[0].close()
        self.lakes[0] = ailake.connect(self.folder, judge_rules=RULES)

    @invariant()
    def sound(self) -> None:
        assert self.lakes[0].verify() == ()

    @invariant()
    def same_as_the_model(self) -> None:
        for scope in SCOPES:
            memory = self.lakes[self.turn % 2].memory(agent_id=scope)
            expected = self.visible(scope)
            assert memory.count(now=self.now) == len(expected)
            listed = memory.list(limit=1_000, now=self.now)
            assert {m.id for m in listed} == {row.id for row in expected}
            for record in listed:
                row = self.rows[record.id]
                assert (record.text, record.importance_score) == (row.text, row.importance)
                assert (record.access_count, record.last_accessed_at) == (row.count, row.last)
        for row in self.rows.values():
            memory = self.lakes[0].memory(agent_id=row.scope)
            try:
                record = memory.get(row.id, now=self.now)
            except NotFoundError:
                assert row.expires_at is not None
                assert row.expires_at <= self.now
            else:
                assert (record.state, record.merged_into) == (row.state, row.merged_into)


MemoryMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMemory = MemoryMachine.TestCase
