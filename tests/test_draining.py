"""What becomes of logged memories: replayed as often as one likes, each is one row or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ailake.core.drafts import Draft
from ailake.core.draining import DrainPlan, moved_id, plan_drain
from ailake.core.log import LoggedMemory
from ailake.core.records import Decision, Remembered, Scope
from ailake.core.remembering import (
    EXACT_DUPLICATE,
    NO_CONTAINED_MATCH,
    UNJUDGED,
    DuplicateKey,
    NewMemory,
    Twin,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
A, B = Scope("a"), Scope("b")


def logged(
    memory_id: str,
    digest: str = "tea",
    *,
    scope: Scope = A,
    judged: bool = True,
    hours: float = 0,
    lasts: float | None = None,
    draft: Mapping[str, Any] = {},
) -> LoggedMemory:
    """Return a memory created some hours from NOW on, that expires some hours after NOW."""
    reason = NO_CONTAINED_MATCH if judged else UNJUDGED
    expires_at = None if lasts is None else NOW + lasts * HOUR
    memory = NewMemory(
        draft=Draft(memory_id, expires_at=expires_at, **draft),
        outcome=Remembered(memory_id, Decision.CREATE, reason),
        digest=digest,
        scope=scope,
        created_at=NOW + hours * HOUR,
        folded_through=0,
    )
    return LoggedMemory(memory, np.zeros(2, np.float16), NOW, "hashing-v1-2")


def key(one: LoggedMemory) -> tuple[Scope, DuplicateKey]:
    return one.memory.scope, one.memory.key


class Rows:
    """A table that drains write into, as the store does."""

    def __init__(self, *stored: LoggedMemory) -> None:
        self.rows: dict[str, LoggedMemory] = {one.memory.id: one for one in stored}

    def plan(self, batch: Sequence[LoggedMemory]) -> DrainPlan:
        twins: dict[tuple[Scope, DuplicateKey], list[Twin]] = {}
        for one in sorted(self.rows.values(), key=lambda one: one.memory.created_at):
            if not one.memory.merged_into:
                twin = Twin(one.memory.id, one.memory.draft.expires_at)
                twins.setdefault(key(one), []).append(twin)
        stored = {memory_id: one.memory.scope for memory_id, one in self.rows.items()}
        return plan_drain(batch, stored=stored, twins=twins)

    def extend(self, plan: DrainPlan) -> None:
        for memory_id, expires_at in plan.extensions.items():
            one = self.rows[memory_id]
            longer = replace(one.memory.draft, expires_at=expires_at)
            self.rows[memory_id] = replace(one, memory=replace(one.memory, draft=longer))

    def add(self, plan: DrainPlan) -> None:
        added = [one.memory.id for one in plan.additions]
        assert len(added) == len(set(added))
        assert not set(added) & set(self.rows)
        self.rows |= {one.memory.id: one for one in plan.additions}

    def drain(self, *batch: LoggedMemory) -> DrainPlan:
        plan = self.plan(batch)
        self.extend(plan)
        self.add(plan)
        return plan

    def live(self, now: datetime = NOW) -> list[str]:
        return [
            memory_id
            for memory_id, one in self.rows.items()
            if not one.memory.merged_into
            and (one.memory.draft.expires_at is None or one.memory.draft.expires_at > now)
        ]

    def survivor(self, memory_id: str) -> str:
        seen = {memory_id}
        while into := self.rows[memory_id].memory.merged_into:
            assert into not in seen
            seen.add(into)
            memory_id = into
        return memory_id


def test_nothing_is_nothing() -> None:
    assert plan_drain([], stored={}, twins={}) == DrainPlan((), (), {}, {})


def test_memories_are_added_in_order() -> None:
    batch = [logged(f"n{n}", digest=f"d{n}") for n in (3, 1, 2)]
    assert Rows().drain(*batch).additions == tuple(batch)


def test_a_replay_adds_nothing() -> None:
    rows = Rows()
    batch = [logged("x"), logged("y"), logged("z", "", judged=False), logged("x", scope=B)]
    rows.drain(*batch)
    assert rows.plan(batch).additions == ()
    assert rows.plan(batch[::-1]).additions == ()


def test_a_record_that_is_met_twice_counts_once() -> None:
    assert len(Rows().drain(logged("x"), logged("x")).additions) == 1


def test_a_loser_is_stored_and_points_at_the_survivor() -> None:
    plan = Rows().drain(logged("x"), logged("y", hours=1, lasts=5))
    first, second = (one.memory for one in plan.additions)
    assert (first.merged_into, first.outcome.reason) == ("", NO_CONTAINED_MATCH)
    assert (second.id, second.merged_into) == ("y", "x")
    assert (second.outcome.reason, second.outcome.existing_id) == (EXACT_DUPLICATE, "x")
    ((scope, refresh),) = plan.refreshes
    assert (scope, refresh.memory_id, refresh.met_at) == (A, "x", NOW + HOUR)
    assert not plan.extensions


def test_a_loser_met_its_survivor_when_its_event_was() -> None:
    one = logged("y")
    one = replace(one, memory=replace(one.memory, draft=replace(one.memory.draft, event_time=NOW)))
    ((_, refresh),) = Rows(logged("x")).drain(one).refreshes
    assert refresh.met_at == NOW


def test_the_tables_twin_wins() -> None:
    plan = Rows(logged("x")).drain(logged("y"), logged("z"))
    assert [one.memory.merged_into for one in plan.additions] == ["x", "x"]


def test_what_was_not_judged_never_loses() -> None:
    rows = Rows(logged("x"))
    rows.drain(logged("y", judged=False), logged("z", judged=False))
    assert rows.live() == ["x", "y", "z"]


def test_what_was_not_judged_wins() -> None:
    rows = Rows()
    rows.drain(logged("x", judged=False), logged("y"), logged("z", judged=False), logged("w"))
    assert rows.live() == ["x", "z"]
    assert rows.survivor("w") == "x"


def test_an_empty_digest_equals_nothing() -> None:
    rows = Rows(logged("x", ""))
    rows.drain(logged("y", ""), logged("z", ""))
    assert rows.live() == ["x", "y", "z"]


@pytest.mark.parametrize(
    "other",
    [
        logged("y", scope=B),
        logged("y", scope=Scope("a", "user")),
        logged("y", draft={"role": "assistant"}),
        logged("y", draft={"speaker": "Ana"}),
        logged("y", draft={"source": "tool"}),
        logged("y", "coffee"),
    ],
)
def test_partitions_are_apart(other: LoggedMemory) -> None:
    assert Rows(logged("x")).drain(other).additions == (other,)
    assert Rows().drain(logged("x"), other).additions[1] == other


@pytest.mark.parametrize(
    ("survivor", "loser", "wanted"),
    [(1, 2, NOW + 2 * HOUR), (1, None, None), (2, 1, NOW + 2 * HOUR), (None, 1, None)],
)
def test_a_loser_extends_its_survivor(
    survivor: float | None, loser: float | None, wanted: datetime | None
) -> None:
    stored = Rows(logged("x", lasts=survivor))
    plan = stored.drain(logged("y", lasts=loser), logged("z", lasts=loser))
    assert stored.rows["x"].memory.draft.expires_at == wanted
    assert plan.extensions == ({"x": wanted} if survivor == 1 else {})
    fresh = Rows()
    plan = fresh.drain(logged("x", lasts=survivor), logged("y", lasts=loser))
    assert fresh.rows["x"].memory.draft.expires_at == wanted
    assert not plan.extensions


def test_what_has_expired_does_not_win() -> None:
    rows = Rows(logged("x", lasts=1))
    rows.drain(logged("y", hours=1), logged("z", hours=2))
    assert [rows.survivor(name) for name in "xyz"] == ["x", "y", "y"]
    short = Rows()
    short.drain(logged("x", lasts=1), logged("y", hours=1))
    assert short.live() == ["x", "y"]


def test_what_has_expired_does_not_hide_a_later_one() -> None:
    """The first of the drain is so old that the expired one was visible then."""
    rows = Rows(logged("x", hours=-3, lasts=-1), logged("y", hours=-1))
    rows.drain(logged("w", "other", hours=-2), logged("z"))
    assert rows.survivor("z") == "y"


def test_an_id_of_another_scope_moves() -> None:
    rows = Rows(logged("x", scope=B))
    plan = rows.drain(logged("x"), logged("y"))
    moved = moved_id(A, "x")
    assert plan.moved == {"x": moved}
    assert [one.memory.id for one in plan.additions] == [moved, "y"]
    assert rows.survivor("y") == moved
    assert moved not in {"x", moved_id(B, "x"), moved_id(A, "y")}


def test_a_moved_memory_does_not_lose_against_itself() -> None:
    """Its record may be met again: by the next drain where this one died before its end."""
    rows = Rows(logged("x", scope=B))
    rows.drain(logged("x"))
    assert rows.plan([logged("x"), logged("x")]).additions == ()


ids = st.sampled_from("uvwxyz")
memories = st.builds(
    logged,
    ids,
    st.sampled_from(["tea", "coffee", ""]),
    scope=st.sampled_from([A, B]),
    judged=st.booleans(),
    lasts=st.none() | st.integers(1, 3),
    draft=st.sampled_from([{}, {"role": "assistant"}]),
)


@given(st.lists(st.tuples(st.lists(memories, max_size=6), st.integers(0, 3)), max_size=5))
@settings(max_examples=300)
def test_drains_that_die_at_any_step(turns: list[tuple[list[LoggedMemory], int]]) -> None:
    """A drain dies 0: never, 1: before its rows, 2: after them; its records are met again.

    3: it sees them twice. Whatever happened, each writer finds its memory under its id, and one
    judged memory is live per key, whatever the time.
    """
    rows = Rows()
    told: list[LoggedMemory] = []
    waiting: list[LoggedMemory] = []
    for batch, death in turns:
        told += batch
        waiting += batch
        plan = rows.plan(waiting * 2 if death == 3 else waiting)
        rows.extend(plan)
        if death != 1:
            rows.add(plan)
        if death in {0, 3}:
            waiting = []
    rows.drain(*waiting)
    assert rows.plan(told).additions == ()
    for one in told:
        same = rows.rows[one.memory.id]
        if same.memory.scope != one.memory.scope:
            same = rows.rows[moved_id(one.memory.scope, one.memory.id)]
        assert same.memory.scope == one.memory.scope
        assert rows.rows[rows.survivor(same.memory.id)].memory.scope == one.memory.scope
        assert rows.survivor(same.memory.id) in rows.live()
    for other in rows.rows.values():
        assert not other.memory.merged_into or other.memory.outcome.reason == EXACT_DUPLICATE
    judged = [rows.rows[name] for name in rows.live()]
    keys = [key(o) for o in judged if o.memory.digest and o.memory.outcome.reason != UNJUDGED]
    assert len(keys) == len(set(keys))


@given(st.lists(memories, max_size=8), st.data())
def test_nothing_vanishes_before_its_time(batch: list[LoggedMemory], data: st.DataObject) -> None:
    """Where a memory was merged, the one that stands for it lasts as long."""
    cut = data.draw(st.integers(0, len(batch)))
    unique = list({one.memory.id: replace(one) for one in batch}.values())
    rows = Rows()
    rows.drain(*unique[:cut])
    rows.drain(*unique[cut:])
    for one in unique:
        end = rows.rows[rows.survivor(one.memory.id)].memory.draft.expires_at
        own = one.memory.draft.expires_at
        assert end is None or (own is not None and end >= own)
