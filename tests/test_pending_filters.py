"""Filters see the accesses that wait, as everything that is read does."""

from datetime import UTC, datetime, timedelta

import pytest

import ailake
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=100)


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    memory = lake.memory(agent_id="a")
    memory.remember("the alarm code is 1234", id="met", now=OLD)
    memory.remember("nobody asked for this", id="never", now=OLD)
    memory.remember("said twice", id="twice", confidence=0.25, now=OLD)
    for hour in range(3):
        memory.recall("the alarm code is 1234", limit=1, now=NOW + timedelta(hours=hour))
    memory.remember("said twice", confidence=0.75, now=NOW)
    return memory


WHERES: list[tuple[dict[str, object], set[str]]] = [
    ({"access_count": 0}, {"never", "twice"}),
    ({"access_count": 3}, {"met"}),
    ({"access_count": {"gt": 0}}, {"met"}),
    ({"NOT": {"access_count": {"gt": 0}}}, {"never", "twice"}),
    ({"last_accessed_at": {"lt": NOW - timedelta(days=30)}}, {"never"}),
    ({"last_accessed_at": {"gte": NOW}}, {"met", "twice"}),
    ({"confidence": 0.75}, {"twice"}),
    ({"confidence": 0.25}, set()),
    ({"updated_at": {"gte": NOW}}, {"twice"}),
    ({"OR": [{"access_count": 3}, {"chunk_id": "never"}]}, {"met", "never"}),
    ({"access_count": 3, "metadata.topic": None}, {"met"}),
]


@pytest.mark.parametrize("when", ["logged", "pending", "folded"])
@pytest.mark.parametrize(("where", "wanted"), WHERES)
def test_every_verb_filters_by_what_it_shows(
    lake: ailake.Lake,
    memory: ailake.Memory,
    *,
    where: dict[str, object],
    wanted: set[str],
    when: str,
) -> None:
    if when == "pending":
        lake.flush()
    elif when == "folded":
        MemoryDecayJob(lake).run(NOW + timedelta(hours=5))
    now = NOW + timedelta(days=1)
    assert {record.id for record in memory.list(where, now=now)} == wanted
    assert memory.count(where, now=now) == len(wanted)
    hits = memory.recall("code", where=where, touch=False, now=now)
    assert {hit.id for hit in hits} == wanted
    assert set(memory.forget(where=where, dry_run=True).ids) == wanted


def test_what_was_just_recalled_is_not_forgotten_as_never_accessed(
    memory: ailake.Memory,
) -> None:
    memory.forget(where={"last_accessed_at": {"lt": NOW - timedelta(days=30)}})
    assert {record.id for record in memory.list(now=NOW)} == {"met", "twice"}


def test_an_update_with_the_same_text_changes_nothing(memory: ailake.Memory) -> None:
    same = memory.update("met", text="the alarm code is 1234", now=NOW)
    assert same.id == "met"
    assert len(memory.history("met")) == 1
    assert memory.update("met", text=same.text, importance=1.0, now=NOW).importance_score == 1.0
    assert memory.get("met", now=NOW).id == "met"


def test_more_memories_with_accesses_than_a_filter_may_name(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="many")
    ids = [f"m{n}" for n in range(10_500)]
    items = [{"id": name, "text": name} for name in ids]
    memory.remember_many(items, judge=False, now=OLD)
    memory.touch(ids[:-1], now=NOW)
    assert memory.count({"access_count": {"gt": 0}}, now=NOW) == len(ids) - 1
    assert memory.forget(where={"access_count": 0}, now=NOW).ids == (ids[-1],)
