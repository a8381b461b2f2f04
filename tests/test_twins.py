"""Memories that were stored twice because two writers could not see each other."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake.core.remembering import EXACT_DUPLICATE, NO_CONTAINED_MATCH, UNJUDGED
from ailake.core.twins import plan_merges
from ailake.maintenance import MemoryDecayJob
from ailake.storage.retries import is_conflict

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def row(name: str, **values: Any) -> dict[str, Any]:
    plain = {
        "chunk_id": name, "agent_id": "a", "user_id": "", "project_id": "", "role": "user",
        "speaker": "", "source": "direct", "dedupe_key": "tea", "created_at": NOW,
        "event_time": None, "state": "active", "merged_into": "", "reason": NO_CONTAINED_MATCH,
        "updated_at": NOW, "expires_at": None, "confidence": 0.5, "access_count": 0,
        "last_accessed_at": NOW,
    }  # fmt: skip
    return {**plain, **values}


def planned(*rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["chunk_id"]: one for one in plan_merges(rows, now=NOW + DAY)}


def test_the_earliest_survives_and_takes_all_in() -> None:
    first = row("z", access_count=2, expires_at=NOW + DAY, confidence=0.3)
    second = row("a", created_at=NOW + DAY / 2, access_count=3, last_accessed_at=NOW + DAY)
    third = row("b", created_at=NOW + 2 * DAY, confidence=0.9, event_time=NOW + 3 * DAY)
    changed = planned(third, second, first)
    assert changed["z"] == {
        **first, "access_count": 5, "expires_at": None, "confidence": 0.9,
        "last_accessed_at": NOW + DAY, "updated_at": NOW + 3 * DAY,
    }  # fmt: skip
    lost = {"state": "merged", "merged_into": "z", "reason": EXACT_DUPLICATE}
    assert changed["a"] == {**second, **lost, "updated_at": NOW + DAY}
    assert changed["b"] == {**third, **lost, "updated_at": NOW + DAY}


@pytest.mark.parametrize(
    "other",
    [
        {"agent_id": "b"}, {"user_id": "u"}, {"project_id": "p"}, {"role": "tool"},
        {"speaker": "Ana"}, {"source": "tool"}, {"dedupe_key": "coffee"}, {"state": "merged"},
        {"state": "deferred"}, {"reason": UNJUDGED, "created_at": NOW + DAY},
    ],
)  # fmt: skip
def test_what_is_not_the_same_stays(other: dict[str, Any]) -> None:
    assert planned(row("a"), row("b", **other)) == {}


def test_what_equals_nothing_stays() -> None:
    assert planned(row("a", dedupe_key=""), row("b", dedupe_key="")) == {}


def test_what_had_expired_is_no_survivor() -> None:
    gone = row("a", expires_at=NOW + DAY)
    changed = planned(gone, row("b", created_at=NOW + DAY), row("c", created_at=NOW + 2 * DAY))
    assert set(changed) == {"b", "c"}
    assert changed["c"]["merged_into"] == "b"


INSTANTS = st.integers(0, 5).map(lambda days: NOW + days * DAY)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "created_at": INSTANTS,
            "expires_at": st.none() | INSTANTS,
            "reason": st.sampled_from([UNJUDGED, NO_CONTAINED_MATCH]),
            "speaker": st.sampled_from(["", "Ana"]),
            "access_count": st.integers(0, 9),
        }
    ),
    max_size=8,
)


@given(ROWS)
def test_nothing_is_lost_and_a_second_plan_is_empty(values: list[dict[str, Any]]) -> None:
    rows = {str(n): row(str(n), **some) for n, some in enumerate(values)}
    after = rows | planned(*rows.values())
    assert plan_merges(after.values(), now=NOW + DAY) == []
    assert planned(*reversed(rows.values())) == planned(*rows.values())
    live = [one for one in after.values() if one["state"] == "active"]
    counts = [sum(one["access_count"] for one in some) for some in (rows.values(), live)]
    assert counts[0] == counts[1]
    for one in after.values():
        if one["state"] == "merged":
            assert after[one["merged_into"]]["state"] == "active"


def test_a_merge_is_planned_anew_where_others_change_its_rows(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    made = memory.remember("tea", now=NOW)
    lake.flush()
    table = lake.store.episodic
    names = ["chunk_id", "access_count"]
    for change in (
        lambda: memory.update(made.id, importance=0.7, now=NOW),
        lambda: MemoryDecayJob(lake).run(NOW + DAY),
        lambda: memory.forget(made.id),
    ):
        read_at = table.fresh()
        rows = read_at.to_table(columns=names)
        change()
        with pytest.raises((OSError, RuntimeError)) as raised:
            table.upsert(rows, at=read_at)
        assert is_conflict(raised.value)


@dataclass
class Meeting:
    """An embedder that answers all writers at once, when they have planned and not written yet."""

    barrier: Barrier
    id: str = "meeting"
    dim: int = 4
    vector: list[float] = field(default_factory=lambda: [1.0] * 4)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.barrier.wait(120)
        return np.array([self.vector] * len(texts), np.float32)

    def embed_query(self, _: str) -> NDArray[np.float32]:
        return np.array(self.vector, np.float32)


@pytest.mark.slow
def test_a_race_on_an_object_store(s3: dict[str, str]) -> None:
    uri, embedder = "s3://lakes/twins", Meeting(Barrier(3))
    with ExitStack() as opened, ThreadPoolExecutor(3) as pool:
        lakes = [
            opened.enter_context(
                ailake.connect(uri, embedder=embedder, storage_options=s3, judge_rules=KEEP)
            )
            for _ in range(3)
        ]
        memories = [lake.memory("a") for lake in lakes]
        expiries = [NOW + DAY, None, NOW + 2 * DAY]

        def remember(n: int) -> str:
            return memories[n].remember("tea", expires_at=expiries[n], now=NOW + n * DAY / 9).id

        ids = list(pool.map(remember, range(3)))
        assert len(set(ids)) == 3
        for memory_id in ids:
            memories[0].touch([memory_id], now=NOW)
        lakes[0].flush()
        memories[0].touch(ids, now=NOW)
        dry = MemoryDecayJob(lakes[1]).run(NOW + DAY / 2, dry_run=True)
        assert dry.duplicates_merged == 2
        lakes[0].flush()
        done = MemoryDecayJob(lakes[1]).run(NOW + DAY / 2)
        assert (done.duplicates_merged, done.rows) == (2, 3)
        again = MemoryDecayJob(lakes[1]).run(NOW + DAY / 2)
        assert (again.duplicates_merged, again.version_after) == (0, again.version_before)
        (kept,) = memories[2].list(now=NOW + DAY / 2)
        assert (kept.id, kept.access_count, kept.expires_at) == (ids[0], 6, None)
        assert all(memories[2].get(memory_id).id == kept.id for memory_id in ids)
        assert lakes[1].verify(now=NOW) == ()
        lakes[1].flush()
        ledger = lakes[1].ledger()
        told = [str(entry.event) for entry in ledger.entries(memories[0].scope)]
        assert (told.count("create"), told.count("merged")) == (3, 2)
        assert ledger.verify() == ()
