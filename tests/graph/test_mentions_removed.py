"""What is forgotten, pruned or erased is mentioned nowhere any more."""

from datetime import UTC, datetime, timedelta

import pytest

import ailake
from ailake.maintenance import ForgetJob, PurgeJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
OTHER = ailake.Scope("ana-bot", "bo")


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    """Two memories and their facts: one fact is the second's alone, one is both's."""
    memory = lake.memory("ana-bot", user_id="ana")
    for memory_id in ("kept", "gone"):
        text = f"what is {memory_id}"
        expiry = None if memory_id == "kept" else NOW + timedelta(days=1)
        memory.remember(text, id=memory_id, expires_at=expiry, now=NOW)
        lake.graph().index(memory.scope, memory_id, ["tea"], valid_from=NOW)
        facts = lake.facts("ana-bot", user_id="ana")
        said = [
            ailake.FactTriple("Ana", "likes", "tea", NOW),
            ailake.FactTriple("Ana", f"has {memory_id}", "tea", NOW),
        ]
        facts.assert_([said[1]], source_memory_id=memory_id, now=NOW)
    facts.assert_([said[0]], now=NOW)
    for fact in facts.find("Ana", as_of=NOW):
        lake.graph().index(memory.scope, fact.fact_id, ["Ana", "tea"], fact.predicate, NOW)
    lake.graph().index(OTHER, "gone", ["tea"])
    return memory


def mentioned(lake: ailake.Lake, memory: ailake.Memory) -> list[str]:
    view = lake.graph().subgraph(memory.scope, 100)
    ids = {node.id for node in view.nodes if node.kind == "fact"}
    assert lake.graph().neighbors(OTHER, ["tea"]) == ["gone"]
    return sorted(view.texts.get(one, one) for one in ids)


BEFORE = ["gone", "has gone", "has kept", "kept", "likes"]
AFTER = ["has kept", "kept", "likes"]


def test_forget(lake: ailake.Lake, memory: ailake.Memory) -> None:
    assert mentioned(lake, memory) == BEFORE
    memory.forget("gone")
    assert mentioned(lake, memory) == AFTER


def test_what_expires(lake: ailake.Lake, memory: ailake.Memory) -> None:
    ForgetJob(lake).run(now=NOW + timedelta(days=40))
    assert mentioned(lake, memory) == AFTER


def test_purge(lake: ailake.Lake, memory: ailake.Memory) -> None:
    PurgeJob(lake, ids="gone", scope=memory.scope).run(now=NOW)
    assert mentioned(lake, memory) == AFTER
