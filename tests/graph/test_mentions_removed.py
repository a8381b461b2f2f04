"""What is forgotten, pruned or erased is mentioned nowhere any more."""

from datetime import UTC, datetime, timedelta

import pytest
from graph_faults import failing

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


@pytest.mark.parametrize("opened_anew", [False, True])
def test_what_a_failing_graph_keeps_goes_once_it_works(
    lake: ailake.Lake,
    memory: ailake.Memory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    opened_anew: bool,
) -> None:
    with failing(monkeypatch, "delete_rows"):
        assert memory.forget("gone").ids == ("gone",)
        # The ledger goes on, and so do all others that need it.
        memory.update("kept", importance=0.9, now=NOW)
        memory.remember("what comes next", now=NOW)
        lake.flush()
        assert mentioned(lake, memory) == BEFORE
    assert [fact.predicate for fact in lake.facts("ana-bot", user_id="ana").find("Ana")] == [
        "has kept", "likes",
    ]  # fmt: skip
    assert "what these mention could not be removed: gone\n" in caplog.text
    assert lake.graph().failures > 0
    if opened_anew:
        ailake.connect(lake.uri, embedder="hashing:64").close()
    lake.flush()
    # What the lost fact mentions nobody finds by itself; the log has its id.
    assert mentioned(lake, memory) == ["has gone", *AFTER]
    events = [entry.event for entry in lake.ledger().entries(memory.scope, subject_id="gone")]
    assert events == ["create", "forget_intent", "memory_forget"]
    assert lake.ledger().verify() == ()


def test_an_id_given_again_keeps_what_is_new(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = lake.facts("ana-bot", user_id="ana")
    with failing(monkeypatch, "delete_rows"):
        memory.forget("gone")
        memory.remember("something else", id="gone", entities=["milk"], now=NOW)
        lake.flush()
        facts.assert_([ailake.FactTriple("Bo", "sees", "Ana", NOW)], source_memory_id="gone")
    lake.flush()
    assert memory.decisions({"memory_id": "gone"})
    assert facts.find("Bo")
    assert lake.graph().neighbors(memory.scope, ["milk"])[0] == "gone"


def test_a_source_given_again_keeps_its_facts(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is said of it: no verdict, and no mention."""
    facts = lake.facts("ana-bot", user_id="ana")
    with failing(monkeypatch, "delete_rows"):
        memory.forget("gone")
        memory.remember_many([{"text": "something else", "id": "gone"}], judge=False, now=NOW)
        facts.assert_([ailake.FactTriple("Bo", "sees", "Ana", NOW)], source_memory_id="gone")
    lake.flush()
    assert facts.find("Bo")


def test_what_is_said_of_others_ends_no_removal(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = lake.facts("ana-bot", user_id="ana")
    with failing(monkeypatch, "delete_rows"):
        memory.forget("gone")
        facts.assert_([ailake.FactTriple("Bo", "has", "cat", NOW)])
        facts.retract(facts.find("Bo")[0].fact_id, "it ran away")
    lake.flush()
    assert "gone" not in mentioned(lake, memory)


def test_a_purge_is_not_done_while_the_graph_fails(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = PurgeJob(lake, ids="gone", scope=memory.scope)
    with failing(monkeypatch, "delete_rows"), pytest.raises(OSError, match="disk"):
        job.run(now=NOW)
    job.run(now=NOW)
    assert mentioned(lake, memory) == AFTER
