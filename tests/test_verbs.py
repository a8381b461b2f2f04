"""The everyday verbs: update, restore, history, touch, add_messages, reading several scopes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake import Decision, InvalidInputError, NotFoundError, Scope, State
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_update_in_place(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember("tea", metadata={"a": 1}, importance=0.2, now=NOW)
    before = lake.table("episodic").version
    record = memory.update(
        made.id, metadata={"b": 2}, importance=0.7, expires_at=NOW + 9 * DAY, now=NOW + DAY
    )
    assert lake.table("episodic").version == before + 1
    assert record == memory.get(made.id, now=NOW)
    assert (record.id, record.text, record.metadata) == (made.id, "tea", {"b": 2})
    assert (record.importance_score, record.expires_at) == (0.7, NOW + 9 * DAY)
    assert (record.created_at, record.updated_at) == (NOW, NOW + DAY)
    assert memory.count({"metadata.b": 2}, now=NOW) == 1


def test_update_of_the_text_is_a_new_row(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember(
        "Ana lives in Oslo", importance=0.8, speaker="Ana", metadata={"a": 1},
        event_time=NOW - 9 * DAY, now=NOW,
    )  # fmt: skip
    memory.recall("Oslo", now=NOW)
    before = lake.table("episodic").version
    record = memory.update(made.id, text="Ana lives in Bergen", now=NOW + DAY)
    assert lake.table("episodic").version == before + 1
    assert record.id != made.id
    assert (record.text, record.state, record.decision) == (
        "Ana lives in Bergen",
        State.ACTIVE,
        Decision.MODIFY,
    )
    assert (record.importance_score, record.speaker, record.metadata) == (0.8, "Ana", {"a": 1})
    assert (record.access_count, record.last_accessed_at) == (1, NOW)
    assert (record.created_at, record.event_time) == (NOW, NOW - 9 * DAY)
    old = memory.get(made.id)
    assert (old.state, old.merged_into, old.text) == (State.MERGED, record.id, "Ana lives in Oslo")
    assert [hit.id for hit in memory.recall("where does Ana live", now=NOW)] == [record.id]
    assert memory.count(now=NOW) == 1
    assert memory.count({"state": "merged"}, now=NOW) == 1
    MemoryDecayJob(lake).run(NOW + DAY)
    assert memory.get(record.id).access_count == 2
    assert memory.get(made.id).access_count == 1


def test_history_is_the_chain_of_merges(memory: ailake.Memory) -> None:
    first = memory.remember("v1", now=NOW)
    second = memory.update(first.id, text="v2", now=NOW + DAY)
    third = memory.update(second.id, text="v3", now=NOW + 2 * DAY)
    memory.remember("another", now=NOW)
    for start in (first.id, second.id, third.id):
        assert [record.text for record in memory.history(start)] == ["v1", "v2", "v3"]
    with pytest.raises(NotFoundError):
        memory.history("nothing")


def test_forgetting_a_memory_forgets_what_was_merged_into_it(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    first = memory.remember("secret v1", now=NOW)
    second = memory.update(first.id, text="secret v2", now=NOW)
    third = memory.update(second.id, text="secret v3", now=NOW)
    memory.remember("another", now=NOW)
    planned = memory.forget(third.id, dry_run=True)
    assert set(planned.ids) == {first.id, second.id, third.id}
    assert memory.forget(where={"chunk_text": "secret v3"}).ids == planned.ids
    assert lake.scan("episodic").select("chunk_text").collect()["chunk_text"].to_list() == [
        "another"
    ]
    assert lake.verify() == ()


def test_restore(memory: ailake.Memory) -> None:
    first = memory.remember("v1", now=NOW)
    second = memory.update(first.id, text="v2", now=NOW)
    record = memory.restore(first.id, now=NOW + DAY)
    assert (record.state, record.merged_into) == (State.ACTIVE, "")
    assert record.updated_at == NOW + DAY
    assert {m.text for m in memory.list(now=NOW)} == {"v1", "v2"}
    with pytest.raises(InvalidInputError, match="is active, wanted a merged"):
        memory.restore(second.id)


def test_what_is_restored_after_its_expiry_is_seen(memory: ailake.Memory) -> None:
    first = memory.remember("v1", expires_at=NOW + DAY, now=NOW)
    memory.update(first.id, text="v2", now=NOW)
    record = memory.restore(first.id, now=NOW + 2 * DAY)
    assert record.expires_at is None
    assert {m.text for m in memory.list(now=NOW + 2 * DAY)} == {"v1"}


def test_what_had_expired_is_not_brought_back_beside_what_says_the_same(
    memory: ailake.Memory,
) -> None:
    gone = memory.remember("tea", expires_at=NOW + DAY, now=NOW)
    there = memory.remember("tea", now=NOW + 2 * DAY)
    with pytest.raises(InvalidInputError, match=f"{there.id}.*says the same already"):
        memory.update(gone.id, expires_at=NOW + 9 * DAY, now=NOW + 2 * DAY)
    assert memory.update(there.id, expires_at=NOW + 9 * DAY, now=NOW + 2 * DAY).id == there.id
    # A live one may have a twin that nobody judged, and what stays expired brings nothing back.
    memory.remember("tea", id="x", judge=False, now=NOW + 2 * DAY)
    assert memory.update("x", expires_at=NOW + 9 * DAY, now=NOW + 2 * DAY).id == "x"
    memory.update(gone.id, expires_at=NOW, now=NOW + 2 * DAY)
    (loose,) = memory.remember_many([{"text": "tea"}], judge=False, now=NOW)
    assert memory.update(loose.id, expires_at=NOW + 9 * DAY, now=NOW + 2 * DAY).id == loose.id


def test_no_two_live_memories_with_one_text(memory: ailake.Memory) -> None:
    tea = memory.remember("tea", now=NOW)
    coffee = memory.remember("coffee", now=NOW)
    with pytest.raises(InvalidInputError, match=f"{tea.id}.*says the same already"):
        memory.update(coffee.id, text="Tea.", now=NOW)
    changed = memory.update(coffee.id, text="cocoa", now=NOW)
    memory.remember("coffee", now=NOW)
    with pytest.raises(InvalidInputError, match="says the same already"):
        memory.restore(coffee.id, now=NOW)
    assert memory.update(changed.id, text="Cocoa!", now=NOW).text == "Cocoa!"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "got no change"),
        ({"text": ""}, "text: got ''"),
        ({"importance": 2}, "importance: got 2"),
        ({"metadata": [1]}, "metadata: got"),
        ({"expires_at": NOW.replace(tzinfo=None)}, "expires_at: got"),
    ],
)
def test_a_bad_update_changes_nothing(
    lake: ailake.Lake, memory: ailake.Memory, change: dict[str, Any], message: str
) -> None:
    made = memory.remember("tea", now=NOW)
    before = lake.table("episodic").version
    with pytest.raises(InvalidInputError, match=message):
        memory.update(made.id, **change)
    with pytest.raises(NotFoundError, match="no memory 'unknown'"):
        memory.update("unknown", importance=0.1)
    assert lake.table("episodic").version == before


def test_a_merged_memory_is_not_updated(memory: ailake.Memory) -> None:
    made = memory.remember("v1")
    memory.update(made.id, text="v2")
    with pytest.raises(InvalidInputError, match="was merged into"):
        memory.update(made.id, importance=0.1)


def test_changes_stay_in_scope(lake: ailake.Lake, memory: ailake.Memory) -> None:
    theirs = lake.memory(agent_id="other").remember("theirs", now=NOW).id
    for change in (
        lambda: memory.update(theirs, importance=1.0),
        lambda: memory.restore(theirs),
        lambda: memory.history(theirs),
        lambda: memory.touch(theirs),
    ):
        with pytest.raises(NotFoundError):
            change()
    assert lake.memory(agent_id="other").get(theirs).importance_score == 0.5


def test_touch(memory: ailake.Memory) -> None:
    made = [memory.remember(text, now=NOW).id for text in ("tea", "coffee")]
    memory.touch(made, now=NOW + DAY)
    memory.touch(made[0], now=NOW + 2 * DAY)
    records = [memory.get(memory_id) for memory_id in made]
    assert [record.access_count for record in records] == [2, 1]
    assert [record.last_accessed_at for record in records] == [NOW + 2 * DAY, NOW + DAY]
    with pytest.raises(NotFoundError, match="no memory 'unknown'"):
        memory.touch([made[0], "unknown"])
    assert memory.get(made[0]).access_count == 2


def test_an_update_keeps_pending_accesses_through_a_fold(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    made = memory.remember("tea", now=NOW).id
    memory.touch(made, now=NOW)
    memory.update(made, importance=0.9, now=NOW)
    assert memory.get(made).access_count == 1
    MemoryDecayJob(lake).run(NOW)
    memory.touch(made, now=NOW)
    memory.update(made, importance=0.8, now=NOW)
    assert memory.get(made).access_count == 2


def test_add_messages(memory: ailake.Memory) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    outcomes = memory.add_messages(
        [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "I moved to Oslo", "name": "Ana", "created_at": NOW - DAY},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "rain", "tool_call_id": "c1"},
            {"role": "assistant", "content": [{"type": "text", "text": "It rains."}], "id": "m5"},
        ],
        session_id="s1",
        now=NOW,
    )
    rows = [memory.get(outcome.id) for outcome in outcomes]
    assert [(r.role, r.source, r.text) for r in rows] == [
        ("system", "system", "You are helpful."),
        ("user", "direct", "I moved to Oslo"),
        ("assistant", "tool", 'weather({"city": "Oslo"})'),
        ("tool", "tool", "rain"),
        ("assistant", "direct", "It rains."),
    ]
    assert (rows[1].speaker, rows[1].event_time, rows[1].session_id) == ("Ana", NOW - DAY, "s1")
    assert rows[4].id == "m5"
    assert rows[3].metadata == {"tool_call_id": "c1"}


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("hello", "messages: got 'hello'"),
        (["hello"], "message 0: message: got 'hello'"),
        ([{"content": "x"}], "message 0: role: got ''"),
        ([{"role": "user", "content": ""}], "message 0: content: got ''.*leave out messages"),
        ([{"role": "user", "content": 5}], "message 0: content: got 5"),
        ([{"role": "user", "content": "x", "mood": "sad"}], "message key: got 'mood'"),
        ([{"role": "user", "content": "x", "created_at": "now"}], "created_at: got 'now'"),
        ([{"role": "assistant", "tool_calls": [{"x": 1}]}], "tool call: got"),
        ([{"role": "assistant", "tool_calls": "x"}], "tool_calls: got 'x'"),
    ],
)
def test_bad_messages(memory: ailake.Memory, messages: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        memory.add_messages(messages)
    assert memory.count() == 0


def test_reading_several_scopes(lake: ailake.Lake) -> None:
    scopes = [Scope("a"), Scope("a", "u"), Scope("b")]
    for place, scope in enumerate([*scopes, Scope("c")]):
        writer = lake.memory(scope.agent_id, user_id=scope.user_id)
        writer.remember(f"tea {place}", now=NOW)
    reader = lake.read([scopes[0], scopes[2]])
    assert reader.count(now=NOW) == 2
    assert {hit.scope for hit in reader.recall("tea", now=NOW)} == {scopes[0], scopes[2]}
    assert [m.text for m in reader.list(now=NOW)] == ["tea 0", "tea 2"]
    assert lake.scan("accesses").collect().height == 0
    assert not hasattr(reader, "remember")
    for bad in ([], ["a"]):
        with pytest.raises(InvalidInputError, match="scopes: got"):
            lake.read(bad)  # type: ignore[arg-type]


def test_two_handles_change_one_memory(lake: ailake.Lake, tmp_path: Path) -> None:
    memory = lake.memory(agent_id="a")
    made = memory.remember("tea", now=NOW).id
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
        other.memory(agent_id="a").update(made, importance=0.9)
        memory.update(made, metadata={"a": 1})
        record = other.memory(agent_id="a").get(made)
        assert (record.importance_score, record.metadata) == (0.9, {"a": 1})
