"""lake.verify finds what must not be, and nothing in a healthy lake."""

from datetime import UTC, datetime

import ailake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_lake_that_was_used_is_sound(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": "tea"}, {"text": "Tea"}, {"text": "coffee"}], now=NOW)
    memory.remember("tea", judge=False, now=NOW)
    lake.memory(agent_id="other").remember("tea", now=NOW)
    first = memory.remember("v1", now=NOW)
    memory.update(first.id, text="v2", now=NOW)
    memory.recall("tea", now=NOW)
    assert lake.verify() == ()


def test_every_broken_invariant_is_named(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", id="a", now=NOW)
    memory.remember("coffee", id="b", now=NOW)
    memory.remember("cocoa", id="c", now=NOW)
    table = lake.table("episodic")
    rows = table.to_lance().to_table(filter="chunk_id = 'a'")
    table.add(rows)
    table.update(where="chunk_id = 'b'", values={"state": "merged", "merged_into": "gone"})
    table.update(where="chunk_id = 'c'", values={"folded_through": 99})
    passages = lake.table("passages")
    spared = {"agent_id": "ana-bot", "user_id": "ana", "project_id": "", "start": 0, "end": 9}
    vector = {"part": 0, "embedding": [0.5] * 64}
    passages.add([{"chunk_id": "c", **spared, **vector}, {"chunk_id": "d", **spared, **vector}])
    passages.add([{"chunk_id": "c", **spared, **vector, "user_id": "bo"}])
    problems = {problem.what: problem for problem in lake.verify()}
    assert {what: problem.examples for what, problem in problems.items()} == {
        "two memories have the same id": ("a", "a"),
        "two live memories of one author say the same": ("a", "a"),
        "a merged memory points at none of its scope": ("b",),
        "a memory counts accesses that the journal does not have": ("c",),
        "a passage belongs to no memory": ("c", "d"),
    }
