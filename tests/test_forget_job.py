"""ForgetJob on real lakes: what goes, what stays, and that the plan is what is done."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kept import KEEP

import ailake
from ailake import InvalidInputError, Scope, ScoringPolicy
from ailake.maintenance import ForgetJob, MemoryDecayJob, PruneCounts, PruneReport
from ailake.storage import removal

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SEED = ScoringPolicy.SEED


def fill(memory: ailake.Memory, count: int, *, name: str = "m", seed: int = 0) -> None:
    """Memories of all ages within a year and of all importances; every tenth is pinned."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    memory.remember_many(
        [
            {
                "text": f"{name} {n}", "id": f"{name}{n}", "vector": np.eye(64)[n % 64],
                "event_time": NOW - chance.random() * 90 * DAY,
                "importance": 1.0 if n % 10 == 0 else chance.random(),
            }
            for n in range(count)
        ],
        judge=False,
        now=NOW,
    )  # fmt: skip


def kept(memory: ailake.Memory) -> set[str]:
    everything = {"state": {"in": ["active", "deferred", "merged"]}}
    return {record.id for record in memory.list(everything, limit=10_000, now=NOW)}


def weights(memory: ailake.Memory, policy: ScoringPolicy = SEED) -> dict[str, float]:
    """Return what recall says that each memory weighs."""
    hits = memory.recall(np.ones(64), limit=10_000, scoring=policy, touch=False, now=NOW)
    return {hit.id: hit.parts["weight"] for hit in hits}


@pytest.mark.parametrize("policy", [SEED, ScoringPolicy(), ScoringPolicy(floor=0.5)])
def test_what_goes_is_what_recall_ranks_below_the_threshold(
    lake: ailake.Lake, policy: ScoringPolicy
) -> None:
    """By the same function, with accesses that no decay run has folded in; dry-run says it."""
    memory = lake.memory("a")
    fill(memory, 300)
    memory.recall("m 7", limit=20, now=NOW - DAY)
    ranked = weights(memory, policy)
    bound = sorted(ranked.values())[150]
    light = {one for one, weight in ranked.items() if weight < bound}
    pinned = {f"m{n}" for n in range(0, 300, 10)}
    job = ForgetJob(lake, min_weight=bound, scoring=policy)
    plan = job.run(NOW, dry_run=True)
    assert kept(memory) == set(ranked)
    report = job.run(NOW)
    assert set(report.ids) == light - pinned == set(ranked) - kept(memory)
    assert (report.ids, report.counts, report.scopes) == (plan.ids, plan.counts, plan.scopes)
    assert (plan.pinned, report.spared) == (len(light & pinned), 0)
    assert len(light & pinned) < len(pinned)
    assert policy is not SEED or light & pinned
    assert job.run(NOW).counts == PruneCounts()
    assert lake.verify(now=NOW) == ()


def test_decay_changes_nothing_of_what_goes(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    fill(memory, 100)
    memory.recall("m 7", limit=20, now=NOW - DAY)
    job = ForgetJob(lake, min_weight=0.2, scoring=SEED)
    before = job.run(NOW, dry_run=True)
    MemoryDecayJob(lake).run(NOW + 9 * DAY)
    assert job.run(NOW, dry_run=True).ids == before.ids != ()


def test_expired_memories_go_deferred_ones_too(lake: ailake.Lake) -> None:
    """At the very instant from which no read returns them; what is only logged counts as well."""
    memory = lake.memory("a")
    for name, expires_at in [
        ("past", NOW - DAY), ("present", NOW), ("future", NOW + timedelta(microseconds=1)),
        ("never", None), ("deferred", NOW - DAY), ("deferred later", NOW + DAY),
    ]:  # fmt: skip
        memory.remember(name, id=name, expires_at=expires_at, now=NOW - 2 * DAY)
    memory.remember("p", id="pinned", importance=1.0, expires_at=NOW, now=NOW - 2 * DAY)
    lake.flush()
    lake.table("episodic").update(where="chunk_id LIKE 'deferred%'", values={"state": "deferred"})
    memory.remember("logged", id="logged", expires_at=NOW - DAY, now=NOW - 2 * DAY)
    assert ForgetJob(lake).run(NOW, dry_run=True).counts == PruneCounts(expired=4)
    report = ForgetJob(lake).run(NOW)
    assert report.ids == ("deferred", "logged", "past", "present")
    assert report.pinned == 1
    assert kept(memory) == {"future", "never", "deferred later", "pinned"}


def test_a_cap_keeps_the_best_of_each_scope(lake: ailake.Lake) -> None:
    scopes = [Scope("a"), Scope("a", "u"), Scope("b", "", "p")]
    best: set[str] = set()
    for place, scope in enumerate(scopes):
        memory = lake.memory(scope.agent_id, user_id=scope.user_id, project_id=scope.project_id)
        fill(memory, 40, name=f"s{place}-", seed=place)
        ranked = weights(memory)
        heavy = sorted(ranked, key=ranked.__getitem__)[-12:]
        best |= set(heavy) | {f"s{place}-{n}" for n in range(0, 40, 10)}
    report = ForgetJob(lake, keep=12, scoring=SEED).run(NOW)
    rows = lake.scan("episodic").collect()
    assert set(rows["chunk_id"]) == best
    assert [found.scope for found in report.scopes] == scopes
    assert sum(found.counts.over_cap for found in report.scopes) == 120 - len(best)
    assert report.counts == PruneCounts(over_cap=120 - len(best))


def test_ties_at_the_cap_are_broken_as_recall_breaks_them(lake: ailake.Lake) -> None:
    """The newer memory, then the id; what has expired takes nobody's place."""
    memory = lake.memory("a")
    names = ["c", "a", "d", "b"]
    for name in names:
        memory.remember(name, id=name, now=NOW)
    memory.remember("old", id="old", event_time=NOW - DAY, now=NOW)
    memory.touch("old", now=NOW)
    memory.remember("gone", id="gone", expires_at=NOW, now=NOW)
    hits = memory.recall(np.ones(64), limit=10, scoring=SEED, mode="vector", touch=False, now=NOW)
    assert len({hit.parts["weight"] for hit in hits}) == 1
    report = ForgetJob(lake, keep=2).run(NOW)
    assert kept(memory) == {"a", "b"}
    assert report.counts == PruneCounts(expired=1, over_cap=3)


def test_what_was_merged_into_it_goes_along_and_only_then(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember("tea", id="first", event_time=NOW - 80 * DAY, now=NOW)
    second = memory.update("first", text="green tea", now=NOW).id
    third = memory.update(second, text="black tea", now=NOW).id
    memory.remember("milk", id="milk", now=NOW)
    newer = memory.update("milk", text="oat milk", expires_at=NOW + DAY, now=NOW).id
    # Its own weight and expiry are not what a merged memory goes by.
    lake.table("episodic").update(
        where="state = 'merged'",
        values_sql={"importance_score": "cast(0.0 as float)", "expires_at": "created_at"},
    )
    job = ForgetJob(lake, min_weight=0.1, scoring=SEED)
    assert set(job.run(NOW, dry_run=True).ids) == {"first", second, third}
    report = job.run(NOW)
    assert report.counts == PruneCounts(below_weight=1, merged=2)
    assert report.scopes[0].counts == report.counts
    assert kept(memory) == {"milk", newer}
    assert lake.verify(now=NOW) == ()


def test_only_the_given_scopes(lake: ailake.Lake) -> None:
    for agent in ("a", "/a", "ab"):
        lake.memory(agent).remember("old", id=agent, event_time=NOW - 90 * DAY, now=NOW)
    job = ForgetJob(lake, min_weight=0.5, scoring=SEED, scopes=[Scope("/a"), Scope("a", "u")])
    assert job.run(NOW).ids == ("/a",)
    assert set(lake.scan("episodic").collect()["chunk_id"]) == {"a", "ab"}


def between(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, change: Any, **options: Any
) -> PruneReport:
    """Run the job; call ``change`` between plan and removal."""
    planned = ForgetJob._plan

    def plan(job: ForgetJob, *args: Any, **more: Any) -> Any:
        found = planned(job, *args, **more)
        if not done:
            done.append(1)
            change()
        return found

    done: list[int] = []
    monkeypatch.setattr(ForgetJob, "_plan", plan)
    return ForgetJob(lake, **options).run(NOW)


@pytest.mark.parametrize("how", ["touch", "recall", "update", "expiry", "forget"])
def test_who_changes_after_the_plan_is_looked_at_again(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    memory = lake.memory("a")
    for name in ("x", "y", "z"):
        expires_at = NOW if name == "z" else None
        memory.remember(
            name, id=name, event_time=NOW - 80 * DAY, expires_at=expires_at, now=NOW - DAY
        )
    changes: dict[str, Any] = {
        "touch": lambda: memory.touch("x", now=NOW),
        "recall": lambda: memory.recall("x", limit=1, mode="text", now=NOW),
        "update": lambda: memory.update("x", importance=1.0, now=NOW),
        "expiry": lambda: memory.update("z", expires_at=NOW + DAY, now=NOW),
        "forget": lambda: memory.forget("y"),
    }
    report = between(lake, monkeypatch, changes[how], min_weight=0.1, scoring=SEED)
    # What no longer expires is light all the same: it was planned, and it goes.
    expected = {"forget": ("x", "z"), "expiry": ("x", "y", "z")}.get(how, ("y", "z"))
    assert report.ids == expected
    assert report.spared == 3 - len(expected)


def test_no_more_than_was_planned(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """New memories push others over the cap; those go with the next run."""
    memory = lake.memory("a")
    for n in range(4):
        memory.remember(f"{n}", id=f"{n}", event_time=NOW - n * DAY, now=NOW)

    def change() -> None:
        memory.remember("newest", id="newest", now=NOW + DAY)
        lake.flush()

    report = between(lake, monkeypatch, change, keep=3)
    assert report.ids == ("3",)
    assert ForgetJob(lake, keep=3).run(NOW + DAY).ids == ("2",)


def test_a_cap_that_others_have_met_already_removes_nobody(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = lake.memory("a")
    for n in range(4):
        memory.remember(f"{n}", id=f"{n}", event_time=NOW - n * DAY, now=NOW)
    report = between(lake, monkeypatch, lambda: memory.forget("0"), keep=3)
    assert (report.ids, report.spared) == ((), 1)


def test_nothing_is_left_of_what_went(lake: ailake.Lake) -> None:
    """No passage, no journal entry, and nothing of what stays is touched."""
    memory = lake.memory("a")
    long = " ".join(f"Sentence number {n} is about tea." for n in range(100))
    memory.remember(long, id="gone", event_time=NOW - 300 * DAY, now=NOW)
    memory.remember(long + " Really.", id="stays", judge=False, now=NOW)
    memory.touch(["gone", "stays"], now=NOW - 299 * DAY)
    lake.flush()
    report = ForgetJob(lake, min_weight=0.1, scoring=SEED).run(NOW)
    assert report.ids == ("gone",)
    for name in ("accesses", "passages"):
        assert set(lake.scan(name).collect()["chunk_id"]) == {"stays"}
    assert report.left_behind > 1
    assert memory.get("stays", now=NOW).access_count == 1
    assert memory.remember("again", id="gone", now=NOW).decision is ailake.Decision.CREATE
    assert memory.get("gone", now=NOW).access_count == 0


def test_an_access_of_what_is_only_logged_stays(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process meets its own memory while the sweep has the lock, and has drained."""
    memory = lake.memory("a")
    memory.remember("tea", id="tea", now=NOW)
    sweep = lake.store.journal.sweep

    def late(**options: Any) -> int:
        lake.store.drainer.stop()
        memory.remember("new", id="new", now=NOW)
        memory.touch("new", now=NOW)
        return sweep(**options)

    monkeypatch.setattr(lake.store.journal, "sweep", late)
    assert ForgetJob(lake).run(NOW).left_behind == 0
    lake.flush()
    assert memory.get("new", now=NOW).access_count == 1


def test_many_are_removed_in_several_commits(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_AT_ONCE", 7)
    memory = lake.memory("a")
    fill(memory, 100)
    report = ForgetJob(lake, keep=1, scoring=SEED).run(NOW)
    assert report.counts.over_cap == len(report.ids) >= 89
    assert report.version_after > report.version_before + 12
    assert kept(memory) == {f"m{n}" for n in range(100)} - set(report.ids)


def test_an_error_half_way_says_what_is_left(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next run removes that."""
    memory = lake.memory("a")
    fill(memory, 100)
    plan = ForgetJob(lake, keep=1, scoring=SEED).run(NOW, dry_run=True)
    with monkeypatch.context() as patch:
        patch.setattr(removal, "_AT_ONCE", 20)
        delete = lake.store.episodic.delete_rows
        calls = Counter[str]()

        def fails(row_ids: Any) -> None:
            calls["delete"] += 1
            if calls["delete"] == 3:
                raise OSError(28, "No space left on device")
            delete(row_ids)

        patch.setattr(lake.store.episodic, "delete_rows", fails)
        with pytest.raises(OSError, match="No space left") as raised:
            ForgetJob(lake, keep=1, scoring=SEED).run(NOW)
    left = len(plan.ids) - 40
    assert raised.value.__notes__ == [
        f"40 of {len(plan.ids)} memories were removed, {left} are left; run again"
    ]
    assert len(kept(memory)) == 60
    report = ForgetJob(lake, keep=1, scoring=SEED).run(NOW)
    assert len(report.ids) == left
    assert set(report.ids) < set(plan.ids)


def test_a_hundred_thousand_rows(tmp_path: Path) -> None:
    """Forgetting a user of 100,000 memories removes every one; batches hold the memory."""
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        memory, count = lake.memory("a", user_id="u"), 100_000
        ages = (np.linspace(0, 365, count) * 86_400).astype(np.int64) * 10**9
        born = pa.array(int(NOW.timestamp()) * 10**9 - ages)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(8 * count, "f4")), 8)
        columns = {
            "text": [f"n {n}" for n in range(count)],
            "event_time": born.cast(pa.timestamp("ns", "UTC")),
            "vector": vectors,
        }
        memory.remember_many(pa.table(columns), judge=False, now=NOW)
        lake.memory("a").remember("another user's", now=NOW)
        report = ForgetJob(lake, min_weight=0.25, scoring=SEED).run(NOW)
        # exp(-0.099 * days) * 0.5 < 0.25, from ln 2 / 0.099 days on.
        assert report.counts.below_weight == count - 1_919
        assert report.looked_at == count + 1
        assert ForgetJob(lake, keep=5).run(NOW).counts.over_cap == 1_914
        assert memory.count(now=NOW) == 5
        assert lake.memory("a").count(now=NOW) == 1


def test_an_empty_lake(lake: ailake.Lake) -> None:
    report = ForgetJob(lake, min_weight=1.0, keep=1).run(NOW)
    assert (report.ids, report.looked_at, report.scopes) == ((), 0, ())
    assert report.version_after == report.version_before


def test_dry_run_of_a_view_of_the_past(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember("tea", id="tea", expires_at=NOW, now=NOW - DAY)
    lake.tag("then")
    ForgetJob(lake).run(NOW)
    then = lake.at("then")
    assert ForgetJob(then).run(NOW, dry_run=True).ids == ("tea",)
    with pytest.raises(ailake.ReadOnlyError):
        ForgetJob(then).run(NOW)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"min_weight": 1.5}, r"min_weight: got 1.5, wanted a number in \[0, 1\]"),
        ({"min_weight": float("nan")}, "min_weight: got nan"),
        ({"keep": 0}, "keep: got 0, wanted a whole number >= 1"),
        ({"keep": True}, "keep: got True"),
        ({"keep": 1.0}, "keep: got 1.0"),
        ({"scopes": []}, r"scopes: got \[\], wanted at least one Scope"),
        ({"scopes": ["a"]}, "scopes: got"),
        ({"scoring": 0.1}, "scoring: got 0.1, wanted a ScoringPolicy"),
    ],
)
def test_bad_options(lake: ailake.Lake, options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidInputError, match=wrong):
        ForgetJob(lake, **options)


def test_now_must_be_aware(lake: ailake.Lake) -> None:
    with pytest.raises(InvalidInputError, match=r"now: got .* timezone-aware"):
        ForgetJob(lake).run(NOW.replace(tzinfo=None))
