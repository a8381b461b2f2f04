from datetime import UTC, datetime
from pathlib import Path

import pytest

import ailake
from ailake.core.knowledge import InMemoryKnowledgeGraph, KnowledgeGraph
from ailake.testing.graph import GraphConformance

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class TestInMemory(GraphConformance):
    def make_graph(self) -> KnowledgeGraph:
        return InMemoryKnowledgeGraph(now=NOW)


class TestLance(GraphConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.made = 0

    def lake(self) -> ailake.Lake:
        self.made += 1
        return ailake.connect(self.folder / str(self.made), embedder="hashing")

    def make_graph(self) -> KnowledgeGraph:
        return self.lake().graph()


class TestRecorded(TestLance):
    """What is recorded in the ledger behaves as what is not."""

    def make_graph(self) -> KnowledgeGraph:
        lake = self.lake()
        return ailake.ProvenanceKnowledgeGraph(lake.graph(), lake.ledger())


class TestInMemoryRecorded(TestLance):
    def make_graph(self) -> KnowledgeGraph:
        graph = InMemoryKnowledgeGraph(now=NOW)
        return ailake.ProvenanceKnowledgeGraph(graph, self.lake().ledger())
