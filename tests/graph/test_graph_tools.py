"""PageRank, frames, files and commands over a small graph."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import rustworkx
from typer.testing import CliRunner, Result

import ailake
from ailake.cli import app
from ailake.core.graph_export import write_graphml
from ailake.core.knowledge import InMemoryKnowledgeGraph

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCOPE = ailake.Scope("助理")
BEN = ailake.EntityRef("person", "Ben")
ENTRIES = [
    ailake.IndexEntry("f1", [BEN, "Atlas"], 'Ben leads "Atlas" & 茶', NOW),
    ailake.IndexEntry("f2", ["Atlas", "Oslo"], valid_from=NOW),
    ailake.IndexEntry("f3", ["Oslo"], valid_from=NOW),
]


@pytest.fixture
def graph() -> InMemoryKnowledgeGraph:
    made = InMemoryKnowledgeGraph(now=NOW)
    made.index_many(SCOPE, ENTRIES)
    return made


def test_page_rank_falls_with_the_way(graph: InMemoryKnowledgeGraph) -> None:
    graph.index(SCOPE, "f4", ["island"])
    ranks = graph.page_rank(SCOPE, [BEN])
    assert [fact_id for fact_id, _ in ranks] == ["f1", "f2", "f3"]
    # Half of all visits are at facts, but for those that begin anew.
    assert 0.4 < sum(rank for _, rank in ranks) < 0.5
    assert graph.page_rank(SCOPE, ["nobody"]) == graph.page_rank(SCOPE, []) == []
    wrong: list[Any] = [0, 1, True, "a", None, float("nan")]
    for damping in wrong:
        with pytest.raises(ailake.InvalidInputError, match=r"damping: .* within \(0, 1\)"):
            graph.page_rank(SCOPE, [BEN], damping=damping)


def test_no_walk_begins_at_what_most_facts_mention(graph: InMemoryKnowledgeGraph) -> None:
    hub = ailake.EntityRef("person", "Ana")
    graph.index_many(SCOPE, [ailake.IndexEntry(f"few {n}", [hub]) for n in range(10)])
    assert len(graph.page_rank(SCOPE, [hub], max_share=0)) == 10
    graph.index(SCOPE, "f3", [hub])
    assert graph.page_rank(SCOPE, [hub], max_share=0.8) == []
    assert graph.page_rank(SCOPE, [hub], max_share=11 / 13)
    beside = graph.page_rank(SCOPE, [BEN, hub], max_share=0.5)
    assert beside == graph.page_rank(SCOPE, [BEN])
    with pytest.raises(ailake.InvalidInputError, match="max_share"):
        graph.page_rank(SCOPE, [BEN], max_share=1.1)


def test_without_the_library_the_extra_is_named(
    graph: InMemoryKnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ailake.core.graph_export.find_spec", lambda _: None)
    with pytest.raises(ailake.MissingExtraError, match="graph"):
        graph.page_rank(SCOPE, [BEN])


def test_networkx_reads_all_of_a_view(graph: InMemoryKnowledgeGraph, tmp_path: Path) -> None:
    graph.index(SCOPE, "f4", ["Oslo"], "a\x0bb")
    view = graph.subgraph(SCOPE, 100)
    write_graphml(view, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml")
    nodes = {told["name"]: told for _, told in read.nodes(data=True)}
    assert nodes == {
        node.id: {
            "name": node.id, "kind": node.kind.value, "label": node.label, "type": node.type,
            "text": view.texts.get(node.id, "").replace("\x0b", "\ufffd"),
        }
        for node in view.nodes
    }  # fmt: skip
    assert nodes["f1"]["text"] == 'Ben leads "Atlas" & 茶'
    names = read.nodes(data="name")
    edges = {(names[a], names[b]): told for a, b, told in read.edges(data=True)}
    assert edges == {
        (edge.source, edge.target): {"kind": edge.kind.value, "count": edge.count}
        for edge in view.edges
    }


def test_each_attribute_of_a_graphml_file_has_an_id_of_its_own(
    graph: InMemoryKnowledgeGraph, tmp_path: Path
) -> None:
    for limit in (0, 1, 100):
        write_graphml(graph.subgraph(SCOPE, limit), tmp_path / "graph.graphml")
        file = tmp_path / "graph.graphml"
        ids = re.findall(r'<key id="(\w+)"', file.read_text(encoding="utf-8"))
        assert len(set(ids)) == len(ids) == 7
        (again,) = rustworkx.read_graphml(str(file))
        assert again.num_nodes() == len(graph.subgraph(SCOPE, limit).nodes)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with ailake.connect(tmp_path / "lake", embedder="hashing:8") as lake:
        lake.graph().index_many(SCOPE, ENTRIES)
        frame = lake.graph().to_polars(SCOPE)
        assert sorted(frame.select("fact_id", "entity_name", "entity_type").rows()) == [
            ("f1", "Atlas", "concept"), ("f1", "Ben", "person"), ("f2", "Atlas", "concept"),
            ("f2", "Oslo", "concept"), ("f3", "Oslo", "concept"),
        ]  # fmt: skip
        assert lake.graph().to_polars(ailake.Scope("nobody")).is_empty()
    return str(tmp_path / "lake")


def run(uri: str, *arguments: str) -> Result:
    env = {"AILAKE_URI": uri, "AILAKE_AGENT": "助理", "COLUMNS": "200"}
    return CliRunner().invoke(app, ["graph", *arguments], env=env)


def read(uri: str, *arguments: str) -> Any:
    return json.loads(run(uri, *arguments, "--json").output)


def test_commands(uri: str, tmp_path: Path) -> None:
    assert run(uri, "neighbors", "ben", "--type", "person").output.split() == ["f1", "f2"]
    assert read(uri, "neighbors", "Oslo", "--max-hops", "2") == ["f2", "f3", "f1"]
    assert run(uri, "neighbors", "ben").output == "nothing mentions them\n"
    assert "Ben > f1 > Atlas > f2" in run(uri, "paths", "Ben", "--type", "person").output
    assert {"entity": "Oslo", "type": "concept", "fact_id": "f3"} in [
        path[-1] for path in read(uri, "paths", "Oslo")
    ]
    assert "CO_OCCURS" in run(uri, "show").output
    assert "there is more" in run(uri, "show", "--limit", "2").output
    assert len(read(uri, "show")["nodes"]) == 6
    for name in ("json", "graphml"):
        file = tmp_path / name
        assert "6 nodes" in run(uri, "export", str(file), "--format", name).output
        assert "茶" in file.read_text(encoding="utf-8")
        missing = tmp_path / "nowhere" / name
        told = run(uri, "export", str(missing), "--format", name)
        assert str(missing) in str(told.exception)
        assert run(uri, "export", str(file), "--format", name).exit_code == 2
