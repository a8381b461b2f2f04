"""The graph as evidence of recall: what it brings in, what it leaves alone, and how it fails."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ailake
from ailake.core.evidence import graph_evidence
from ailake.core.knowledge import InMemoryKnowledgeGraph
from ailake.reading import MemoryReader

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RULES = ailake.RulesExtractor()
QUERY = "which island is home of the head of Atlas"
# Stage two looks at so few, so that small lakes do.
POOL = 5


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ailake.core.evidence.MIN_POOL", POOL)
    monkeypatch.setattr("ailake.core.evidence.POOL_FACTOR", 1)


def at(distance: float) -> NDArray[np.float32]:
    """Return a vector so far from ``asked()``."""
    vector = np.zeros(64, np.float32)
    vector[:2] = 1 - distance, np.sqrt(1 - (1 - distance) ** 2)
    return vector


def asked() -> NDArray[np.float32]:
    return at(0)


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    """Thirty memories are nearer than the answer, which shares no word with the query.

    The graph leads to it over Ben: from Atlas, which the query names, by way of "lead".
    """
    memory = lake.memory("ana-bot", user_id="ana")
    items: list[dict[str, Any]] = [
        {"id": f"filler {n}", "text": f"note {n} on tea", "vector": at(0.4 + n / 1_000)}
        for n in range(30)
    ]
    items += [
        {"id": "lead", "text": "Ben leads it", "vector": at(0.45)},
        {"id": "answer", "text": "Ben was born on Malta", "vector": at(0.5)},
    ]
    memory.remember_many(items, judge=False, now=NOW)
    graph = lake.graph()
    graph.index(memory.scope, "lead", ["Atlas", "Ben"], valid_from=NOW)
    graph.index(memory.scope, "answer", ["Ben"], valid_from=NOW)
    graph.index(memory.scope, "a fact and no memory", ["Atlas"], valid_from=NOW)
    return memory


def recalled(memory: MemoryReader, **options: Any) -> ailake.Hits:
    given: dict[str, Any] = {"vector": asked(), "limit": 5, "now": NOW, "touch": False, **options}
    hits: ailake.Hits = memory.recall(QUERY, **given)
    return hits


def ids(hits: ailake.Hits) -> list[str]:
    return [hit.id for hit in hits]


@given(st.lists(st.integers(-1, 10_000)))
def test_evidence_falls_with_the_rank(ranks: list[int]) -> None:
    found = graph_evidence(np.array(ranks, np.intp))
    assert [value == 0 for value in found] == [rank < 0 for rank in ranks]
    assert ((found >= 0) & (found <= 1)).all()
    for rank, value in zip(ranks, found.tolist(), strict=True):
        assert [other < value for other in found] == [
            other < 0 <= rank or other > rank >= 0 for other in ranks
        ]


def test_the_first_counts_whole_and_the_thirty_first_half() -> None:
    assert graph_evidence(np.array([0, 30, -1])).tolist() == [1, 0.5, 0]


@pytest.mark.parametrize("way", ["held", "on disk", "lists"])
def test_the_graph_brings_what_the_lists_do_not(
    lake: ailake.Lake, memory: ailake.Memory, request: pytest.FixtureRequest, way: str
) -> None:
    for fixture in {"held": [], "on disk": ["on_disk"], "lists": ["on_disk", "short_lists"]}[way]:
        request.getfixturevalue(fixture)
    plain = recalled(memory)
    assert {"lead", "answer"}.isdisjoint(ids(plain))
    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    hits = recalled(memory, graph=evidence)
    assert set(ids(hits)[:2]) == {"lead", "answer"}
    assert (hits.exact, hits.bound_held, evidence.failures) == (True, True, 0)
    assert hits.report.listed == {**plain.report.listed, "graph": 2}
    # The fact that is no memory takes no rank.
    wanted = {"lead": 0.15, "answer": 0.15 / (1 + 1 / 30)}
    for hit in hits:
        parts = hit.parts
        assert parts["graph"] == pytest.approx(wanted.get(hit.id, 0))
        lowering = ("lexical", "neighbour", "speaker", "date", "graph")
        near = parts["distance"] - sum(parts[name] for name in lowering) + parts["brevity"]
        assert parts["near"] == pytest.approx(near)
        assert hit.score == pytest.approx(near / parts["weight"])
    distances = {hit.id: hit.distance for hit in hits}
    assert distances["answer"] == pytest.approx(0.5, abs=1e-3)
    assert hits.explain()["graph"].to_list() == [hit.parts["graph"] for hit in hits]


def test_without_it_and_where_it_leads_nowhere_nothing_changes(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    plain = recalled(memory)
    assert {hit.parts["graph"] for hit in plain} == {0}
    empty = ailake.GraphEvidence(InMemoryKnowledgeGraph(now=NOW), RULES)
    nameless = ailake.GraphEvidence(lake.graph(), ailake.RulesExtractor({"none": "person"}))
    for graph in (None, empty):
        assert recalled(memory, graph=graph) == plain
    query = "where is my tea"
    assert memory.recall(query, vector=asked(), touch=False, now=NOW) == memory.recall(
        query, vector=asked(), graph=nameless, touch=False, now=NOW
    )


def test_what_it_leads_to_obeys_filters_and_bounds(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    other = {"chunk_id": {"ne": "answer"}}
    assert "answer" not in ids(recalled(memory, graph=evidence, where=other))
    assert "answer" not in ids(recalled(memory, graph=evidence, max_distance=0.48))
    few = memory.recall_filtered(
        QUERY, 5, ["answer", "filler 1"], vector=asked(), graph=evidence, now=NOW
    )
    assert ids(few) == ["answer", "filler 1"]
    memory.forget(where={"chunk_id": "answer"})
    assert "answer" not in ids(recalled(memory, graph=evidence))


def test_each_scope_has_its_own_graph(lake: ailake.Lake, memory: ailake.Memory) -> None:
    other = lake.memory("ana-bot", user_id="bo")
    other.remember("a rumour", id="rumour", vector=at(0.5), judge=False, now=NOW)
    lake.graph().index(other.scope, "rumour", ["Atlas"], valid_from=NOW)
    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    both = recalled(lake.read([memory.scope, other.scope]), graph=evidence)
    first = {hit.id for hit in both if hit.parts["graph"] == pytest.approx(0.15)}
    assert first == {"lead", "rumour"}
    assert "rumour" not in ids(recalled(memory, graph=evidence))


def talk(memory: ailake.Memory, *, last: float) -> None:
    """Remember two turns of a session, one of which is near."""
    turns = [("said first", 0.3), ("said last", last)]
    memory.remember_many(
        [{"id": text, "text": text, "vector": at(far), "session_id": "s"} for text, far in turns],
        judge=False,
        now=NOW,
    )


def test_turns_around_what_it_leads_to_count(lake: ailake.Lake, memory: ailake.Memory) -> None:
    talk(memory, last=0.5)
    lake.graph().index(memory.scope, "said last", ["Atlas"], valid_from=NOW)
    hits = recalled(memory, graph=ailake.GraphEvidence(lake.graph(), RULES))
    parts = {hit.id: hit.parts for hit in hits}
    assert parts["said last"]["neighbour"] > 0


def test_what_is_far_lends_no_nearness_to_others(lake: ailake.Lake, memory: ailake.Memory) -> None:
    talk(memory, last=0.35)
    memory.remember("far away", id="far", vector=at(1.9), judge=False, now=NOW)
    lake.graph().index(memory.scope, "far", ["Atlas"], valid_from=NOW)
    plain = {hit.id: hit.parts for hit in recalled(memory)}
    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    led = {hit.id: hit.parts for hit in recalled(memory, graph=evidence)}
    for turn in ("said first", "said last"):
        assert led[turn]["neighbour"] == plain[turn]["neighbour"] > 0


def test_a_reranker_reads_as_many_as_without(lake: ailake.Lake, memory: ailake.Memory) -> None:
    class Counting:
        id = "counting"

        def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:  # noqa: ARG002
            assert len(texts) == POOL
            return np.array(["Malta" in text for text in texts], np.float64)

    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    assert ids(recalled(memory, graph=evidence, reranker=Counting()))[0] == "answer"


class Broken(InMemoryKnowledgeGraph):
    def page_rank(self, *_: object, **__: object) -> Any:
        raise ZeroDivisionError


class Numbered(InMemoryKnowledgeGraph):
    def page_rank(self, *_: object, **__: object) -> Any:
        return [(7, 1.0)]


class Unread:
    def extract(self, text: str, hints: Sequence[str | ailake.EntityRef] = ()) -> Any:
        raise TimeoutError(text, hints)


def test_a_failure_never_breaks_recall(
    memory: ailake.Memory, lake: ailake.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    plain = recalled(memory)
    for evidence in (
        ailake.GraphEvidence(Broken(now=NOW), RULES),
        ailake.GraphEvidence(Numbered(now=NOW), RULES),
        ailake.GraphEvidence(lake.graph(), Unread()),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "ailake"):
            assert recalled(memory, graph=evidence) == plain
        assert "the graph failed" in caplog.text
        assert evidence.failures == 1


def test_a_missing_library_is_no_failure_to_go_without(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ailake.core.graph_export.find_spec", lambda _: None)
    with pytest.raises(ailake.MissingExtraError, match="graph"):
        recalled(memory, graph=ailake.GraphEvidence(lake.graph(), RULES))


def test_wrong_arguments(lake: ailake.Lake, memory: ailake.Memory) -> None:
    graph = lake.graph()
    for wrong in ((object(), RULES), (graph, object())):
        with pytest.raises(ailake.InvalidInputError, match=r"page_rank|EntityExtractor"):
            ailake.GraphEvidence(*wrong)
    with pytest.raises(ailake.InvalidInputError, match="weight"):
        ailake.GraphEvidence(graph, RULES, weight=1.5)
    evidence = ailake.GraphEvidence(graph, RULES)
    for mode in ("vector", "text"):
        with pytest.raises(ailake.InvalidInputError, match="mode hybrid"):
            memory.recall("Atlas", mode=mode, graph=evidence)
    with pytest.raises(ailake.InvalidInputError, match="must be text"):
        memory.recall(asked(), graph=evidence)
    with pytest.raises(ailake.InvalidInputError, match="a GraphEvidence"):
        memory.recall("Atlas", graph=graph)  # type: ignore[arg-type]


def test_pure_formula_and_graph(lake: ailake.Lake, memory: ailake.Memory) -> None:
    evidence = ailake.GraphEvidence(lake.graph(), RULES)
    hits = recalled(memory, graph=evidence, scoring=ailake.ScoringPolicy.SEED)
    assert ids(hits)[:2] == ["lead", "answer"]
    assert {hit.parts["brevity"] for hit in hits} == {0}
