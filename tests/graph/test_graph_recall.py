"""Recall by way of the graph: what it narrows down to, and when plain recall answers."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

import ailake
from ailake.core.knowledge import InMemoryKnowledgeGraph

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RULES = ailake.RulesExtractor()
TEXTS = {"lead": "Ben leads the project", "place": "It is built by the sea", "other": "I like tea"}


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    memory = lake.memory("ana-bot", user_id="ana")
    memory.remember_many([{"text": text, "id": one} for one, text in TEXTS.items()], now=NOW)
    graph = lake.graph()
    graph.index(memory.scope, "lead", ["Ben", "Atlas"], valid_from=NOW)
    graph.index(memory.scope, "place", ["Atlas"], valid_from=NOW)
    graph.index(memory.scope, "a fact and no memory", ["Carl"], valid_from=NOW)
    return memory


def ids(hits: ailake.Hits) -> set[str]:
    return {hit.id for hit in hits}


def test_hits_are_among_what_the_entities_lead_to(lake: ailake.Lake, memory: ailake.Memory) -> None:
    recall = ailake.GraphAwareRecall(memory, lake.graph(), RULES)
    hits = recall.recall("what does Ben like", now=NOW)
    assert (ids(hits), hits.from_graph, hits.counted) == ({"lead", "place"}, True, True)
    assert [ref.name for ref in hits.entities] == ["Ben"]
    paths = dict(hits.explain().select("id", "path").iter_rows())
    assert paths == {"lead": "Ben > lead", "place": "Ben > lead > Atlas > place"}
    assert {one: memory.get(one).access_count for one in TEXTS} == {
        "lead": 1, "place": 1, "other": 0,
    }  # fmt: skip
    assert ids(recall.recall("anything", hints=["Atlas"], limit=1, touch=False)) <= {
        "lead",
        "place",
    }
    assert recall.metrics == ailake.GraphMetrics(graph_hits=3, candidates=4)


@pytest.mark.parametrize("query", ["about Dora", "about Carl", "about tea"])
def test_plain_recall_answers_where_the_graph_leads_nowhere(
    lake: ailake.Lake, memory: ailake.Memory, query: str
) -> None:
    recall = ailake.GraphAwareRecall(memory, lake.graph(), RULES)
    hits = recall.recall(query, now=NOW)
    assert (ids(hits), hits.from_graph) == (set(TEXTS), False)
    assert hits.explain()["path"].to_list() == [None] * 3
    assert recall.metrics.vector_fallbacks == 1
    assert {memory.get(one).access_count for one in TEXTS} == {1}


def test_too_few_are_none_and_are_counted_once(lake: ailake.Lake, memory: ailake.Memory) -> None:
    recall = ailake.GraphAwareRecall(memory, lake.graph(), RULES, min_graph_hits=3)
    assert ids(recall.recall("about Ben", now=NOW)) == set(TEXTS)
    assert {memory.get(one).access_count for one in TEXTS} == {1}
    assert recall.recall("about Ben", limit=2, touch=False).from_graph


class Broken(InMemoryKnowledgeGraph):
    def neighbors(self, *_: object, **__: object) -> Any:
        raise ZeroDivisionError


class Numbered(InMemoryKnowledgeGraph):
    def neighbors(self, *_: object, **__: object) -> Any:
        return [7]


@pytest.mark.parametrize("graph", [Broken, Numbered])
def test_a_failure_never_breaks_recall(
    memory: ailake.Memory, caplog: pytest.LogCaptureFixture, graph: type[InMemoryKnowledgeGraph]
) -> None:
    recall = ailake.GraphAwareRecall(memory, graph(now=NOW), RULES)
    with caplog.at_level(logging.WARNING, "ailake"):
        assert ids(recall.recall("about Ben", now=NOW)) == set(TEXTS)
    assert "the graph failed" in caplog.text
    assert recall.metrics == ailake.GraphMetrics(vector_fallbacks=1, failures=1)


class Pathless(InMemoryKnowledgeGraph):
    def recall_paths(self, *_: object, **__: object) -> Any:
        raise ZeroDivisionError


class Misled(InMemoryKnowledgeGraph):
    def recall_paths(self, *_: object, **__: object) -> Any:
        return [ailake.RetrievalPath(())]


@pytest.mark.parametrize("graph", [Pathless, Misled])
def test_a_failure_to_show_paths_leaves_the_scores(
    memory: ailake.Memory, caplog: pytest.LogCaptureFixture, graph: type[InMemoryKnowledgeGraph]
) -> None:
    made = graph(now=NOW)
    made.index(memory.scope, "lead", ["Ben"])
    recall = ailake.GraphAwareRecall(memory, made, RULES)
    hits = recall.recall("about Ben", now=NOW)
    assert (ids(hits), hits.from_graph, recall.metrics.failures) == ({"lead"}, True, 0)
    with caplog.at_level(logging.WARNING, "ailake"):
        shown = hits.explain()
    assert (shown["id"].to_list(), shown["path"].to_list()) == (["lead"], [None])
    assert shown.drop("path").equals(ailake.Hits.explain(hits))
    assert "the graph failed" in caplog.text
    assert recall.metrics.failures == 1
    assert hits.paths() == {}
    assert recall.metrics.failures == 2


def test_several_scopes_and_wrong_arguments(lake: ailake.Lake, memory: ailake.Memory) -> None:
    reader = lake.read([ailake.Scope("nobody"), memory.scope])
    recall = ailake.GraphAwareRecall(reader, lake.graph(), RULES)
    assert ids(recall.recall("about Ben")) == {"lead", "place"}
    for hints, named in (([7], r"entities\[0\]: got 7"), (b"Ben", "entities: got b'Ben'")):
        with pytest.raises(ailake.InvalidInputError, match=named):
            recall.recall("about Ben", hints=hints)  # type: ignore[arg-type]
    wrong: list[dict[str, Any]] = [{"min_graph_hits": one} for one in (0, True, 1.5, "a", None)]
    for options in (*wrong, {"max_hops": 4}):
        with pytest.raises(ailake.InvalidInputError, match=next(iter(options))):
            ailake.GraphAwareRecall(reader, lake.graph(), RULES, **options)
