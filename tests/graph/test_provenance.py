"""What happens to a graph stands in the ledger: once, whoever dies, and as hashes alone."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ailake
from ailake import IndexEntry, ProvenanceKnowledgeGraph
from ailake.core.chain import LedgerEntry, LedgerRecord
from ailake.core.graph_provenance import Mentioning
from ailake.core.knowledge import InMemoryKnowledgeGraph
from ailake.core.recording import Told
from ailake.storage import recording_graph

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ANA, BO = ailake.Scope("a", "ana"), ailake.Scope("a", "bo")
BEN = ailake.EntityRef("person", "Ben")


class Foreign:
    """A graph of somebody else's: no more than the protocol."""

    def __init__(self) -> None:
        self.kept = InMemoryKnowledgeGraph(now=NOW)

    def index(  # noqa: PLR0917 (the protocol's signature)
        self,
        scope: ailake.Scope,
        fact_id: str,
        entities: Sequence[str | ailake.EntityRef],
        text: str = "",
        valid_from: datetime | None = None,
    ) -> bool:
        return self.kept.index(scope, fact_id, entities, text, valid_from)

    def index_many(self, scope: ailake.Scope, batch: Iterable[IndexEntry]) -> list[str]:
        return self.kept.index_many(scope, batch)

    def neighbors(
        self,
        scope: ailake.Scope,
        entities: Sequence[str | ailake.EntityRef],
        *,
        max_hops: int = 1,
    ) -> list[str]:
        return self.kept.neighbors(scope, entities, max_hops=max_hops)

    def recall_paths(
        self,
        scope: ailake.Scope,
        entities: Sequence[str | ailake.EntityRef],
        *,
        max_hops: int = 1,
    ) -> list[ailake.RetrievalPath]:
        return self.kept.recall_paths(scope, entities, max_hops=max_hops)

    def subgraph(self, scope: ailake.Scope, limit: int) -> ailake.GraphView:
        return self.kept.subgraph(scope, limit)

    def forget(self, scope: ailake.Scope, fact_id: str) -> bool:
        return self.kept.forget(scope, fact_id)


@pytest.fixture(params=["lance", "in memory", "foreign"])
def plain(request: pytest.FixtureRequest, lake: ailake.Lake) -> ailake.KnowledgeGraph:
    if request.param == "foreign":
        return Foreign()
    return lake.graph() if request.param == "lance" else InMemoryKnowledgeGraph(now=NOW)


@pytest.fixture
def graph(lake: ailake.Lake, plain: ailake.KnowledgeGraph) -> ProvenanceKnowledgeGraph:
    return ProvenanceKnowledgeGraph(plain, lake.ledger())


def entries(lake: ailake.Lake, scope: ailake.Scope = ANA) -> list[LedgerEntry]:
    assert lake.ledger().verify() == ()
    return lake.ledger().entries(scope)


def events(lake: ailake.Lake, scope: ailake.Scope = ANA) -> list[tuple[str, str]]:
    return [(one.event, one.subject_id) for one in entries(lake, scope)]


def field(value: str) -> bytes:
    return pack("<I", len(value.encode())) + value.encode()


def test_what_happened_is_recorded_and_nothing_else(
    lake: ailake.Lake, graph: ProvenanceKnowledgeGraph
) -> None:
    assert graph.index(ANA, "f1", [BEN, "Atlas"], "a secret told", NOW, now=NOW)
    assert not graph.index(ANA, "f1", ["atlas"], now=NOW)
    assert not graph.index(ANA, "f2", [], now=NOW)
    batch = [IndexEntry("f3", ["Oslo"]), IndexEntry("f4", []), IndexEntry("f1", ["Oslo"])]
    assert graph.index_many(ANA, batch, now=NOW) == ["f3", "f1"]
    assert not graph.forget(ANA, "f9", now=NOW)
    assert graph.forget(ANA, "f1", now=NOW)
    assert not graph.forget(ANA, "f1", now=NOW)
    assert events(lake) == [
        ("graph_index", "f1"), ("graph_index", "f3"), ("graph_index", "f1"),
        ("forget_intent", "f1"), ("memory_forget", "f1"),
    ]  # fmt: skip
    first, _, third, intent, last = entries(lake)
    assert (third.parents, intent.parents) == ((first.id,), (third.id,))
    assert last.parents == (intent.id,)
    assert first.timestamp == NOW
    assert third.payload_hash == intent.payload_hash == last.payload_hash
    ids = sorted([BEN.id, ailake.EntityRef("concept", "Atlas").id])
    told = b"".join(map(field, ["a", "ana", "", "f1", *ids]))
    assert first.payload_hash == sha256(b"ailake-graph" + pack("<I", 1) + told).hexdigest()
    rows = str(lake.table("ledger").to_arrow().to_pylist())
    assert not any(word in rows for word in ("secret", "Atlas", "Ben", *ids))
    assert graph.index(ANA, "f1", [BEN, "Atlas"], now=NOW)
    assert events(lake)[5:] == [("graph_index", "f1")]
    assert events(lake, BO) == []


def test_paths_name_the_entries(lake: ailake.Lake, graph: ProvenanceKnowledgeGraph) -> None:
    graph.index(ANA, "f1", [BEN, "Atlas"], valid_from=NOW)
    graph.index(BO, "f1", [BEN], valid_from=NOW)
    graph.index(ANA, "f2", ["Atlas"], valid_from=NOW)
    ids = {one.subject_id: one.id for one in entries(lake)}
    found = graph.recall_paths(ANA, [BEN])
    assert found
    assert all(hop.chain_entry == ids[hop.fact_id] for path in found for hop in path.hops)
    assert graph.neighbors(ANA, [BEN]) == ["f1", "f2"]
    assert graph.recall_paths(ANA, ["nobody"]) == []


def index_one(graph: ProvenanceKnowledgeGraph) -> bool:
    return graph.index(ANA, "f1", [BEN], valid_from=NOW)


def forget_one(graph: ProvenanceKnowledgeGraph) -> bool:
    return graph.forget(ANA, "f0")


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        (index_one, [("graph_index", "f1")]),
        (forget_one, [("forget_intent", "f0"), ("memory_forget", "f0")]),
    ],
)
def test_what_was_not_recorded_is_by_the_next(
    lake: ailake.Lake,
    plain: ailake.KnowledgeGraph,
    verb: Callable[[ProvenanceKnowledgeGraph], bool],
    told: list[tuple[str, str]],
) -> None:
    """Where a process dies between the write and its entry."""
    graph = ProvenanceKnowledgeGraph(plain, lake.ledger())
    graph.index(ANA, "f0", [BEN], valid_from=NOW, now=NOW)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(recording_graph, "record", die)
        with pytest.raises(KeyboardInterrupt):
            verb(graph)
    assert events(lake) == [("graph_index", "f0"), *told[:-1]]
    later = ProvenanceKnowledgeGraph(plain, lake.ledger())
    for path in later.recall_paths(ANA, [BEN]):
        assert path.hops[0].chain_entry in {one.id for one in entries(lake)}
    later.index(ANA, "f2", [BEN], now=NOW)
    assert not verb(later)
    # The one that failed and went on has nothing to add.
    graph.index(ANA, "f3", [BEN], now=NOW)
    assert events(lake) == [
        ("graph_index", "f0"), *told, ("graph_index", "f2"), ("graph_index", "f3")
    ]  # fmt: skip


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_removal_that_never_came_is_voided_by_the_next(
    lake: ailake.Lake, plain: ailake.KnowledgeGraph, *, goes_on: bool
) -> None:
    graph = ProvenanceKnowledgeGraph(plain, lake.ledger())
    memory = lake.memory("a", user_id="ana")
    memory.remember("Ben leads Atlas", id="f0", now=NOW)
    lake.flush()
    graph.index(ANA, "f0", [BEN], valid_from=NOW, now=NOW)

    def fail(*_: object) -> bool:
        raise OSError("a disk is broken")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plain, "forget", fail)
        with pytest.raises(OSError, match="disk"):
            graph.forget(ANA, "f0", now=NOW)
    lake.flush()
    written = [("create", "f0"), ("graph_index", "f0"), ("forget_intent", "f0")]
    # It is none of the memory, which nobody takes for forgotten.
    assert events(lake) == written
    assert memory.count(now=NOW) == 1
    with ailake.connect(lake.uri, create=False) as opened:
        assert not opened.store.recorder.is_waiting
    later = graph if goes_on else ProvenanceKnowledgeGraph(plain, lake.ledger())
    (path,) = later.recall_paths(ANA, [BEN])
    assert path.hops[0].chain_entry == entries(lake)[1].id
    assert events(lake) == [*written, ("forget_void", "f0")]
    later.catch_up(ANA)
    assert later.forget(ANA, "f0")
    assert events(lake)[4:] == [("forget_intent", "f0"), ("memory_forget", "f0")]
    told = entries(lake)
    assert [one.parents for one in told[2:]] == [(one.id,) for one in told[1:-1]]


def test_two_handles_record_each_change_once(lake: ailake.Lake) -> None:
    here = ProvenanceKnowledgeGraph(lake.graph(), lake.ledger())
    with ailake.connect(lake.uri, create=False) as opened:
        there = ProvenanceKnowledgeGraph(opened.graph(), opened.ledger())
        for step in range(3):
            here.index(ANA, f"h{step}", ["tea"])
            there.index(ANA, f"t{step}", ["tea"])
            there.catch_up(ANA)
        here.catch_up(ANA)
        assert there.forget(ANA, "h0")
    expected = [("graph_index", f"{who}{step}") for step in range(3) for who in "ht"]
    assert events(lake) == [*expected, ("forget_intent", "h0"), ("memory_forget", "h0")]


def test_entries_about_a_memory_stay_what_they_were(lake: ailake.Lake) -> None:
    """The graph's entries about it are no change of it."""
    memory = lake.memory("a", user_id="ana")
    graph = ProvenanceKnowledgeGraph(lake.graph(), lake.ledger())
    memory.remember("Ana lives in Oslo", id="x", now=NOW)
    lake.flush()
    graph.index(ANA, "x", ["Ana"], now=NOW)
    same = lake.table("episodic").to_arrow().select(["chunk_id", "importance_score"])
    lake.store.change(same)
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    lake.flush()
    (path,) = graph.recall_paths(ANA, ["Ana"])
    assert (path.fact_id, path.hops[0].chain_entry) == (moved.id, entries(lake)[1].id)
    graph.index(ANA, "x", ["Oslo"], now=NOW)
    memory.restore("x", now=NOW)
    lake.flush()
    about = lake.ledger().entries(ANA, subject_id="x")
    assert [one.event for one in about] == [
        "create", "graph_index", "merged", "graph_index", "restore"
    ]  # fmt: skip
    assert about[4].parents == (about[2].id,)
    memory.forget("x", now=NOW)
    graph.catch_up(ANA, now=NOW)
    after = [one.event for one in lake.ledger().entries(ANA, subject_id="x")]
    assert after[5:] == ["forget_intent", "memory_forget"]


def test_what_remember_noted_is_recorded_when_a_graph_comes_to_it(lake: ailake.Lake) -> None:
    memory = lake.memory("a", user_id="ana")
    memory.remember("Ben leads Atlas", id="x", entities=[BEN], now=NOW)
    lake.flush()
    graph = ProvenanceKnowledgeGraph(lake.graph(), lake.ledger())
    (path,) = graph.recall_paths(ANA, [BEN])
    assert events(lake) == [("create", "x"), ("graph_index", "x")]
    assert path.hops[0].chain_entry == entries(lake)[1].id
    with ailake.connect(lake.uri, create=False) as opened:
        again = ProvenanceKnowledgeGraph(opened.graph(), opened.ledger())
        assert again.recall_paths(ANA, [BEN]) == [path]
    assert len(entries(lake)) == 2


def test_other_things_are_refused(lake: ailake.Lake) -> None:
    wrong: Any = object()
    with pytest.raises(ailake.InvalidInputError, match="graph: got"):
        ProvenanceKnowledgeGraph(wrong, lake.ledger())
    with pytest.raises(ailake.InvalidInputError, match="ledger: got"):
        ProvenanceKnowledgeGraph(lake.graph(), wrong)


names = st.sampled_from(["f", "g", "h"])
state = st.dictionaries(names, st.frozensets(st.sampled_from("ABC"), max_size=2), max_size=3)


@given(states=st.lists(st.tuples(state, st.booleans()), max_size=6))
def test_the_ledger_says_what_the_graph_has(
    states: list[tuple[dict[str, frozenset[str]], bool]],
) -> None:
    told: dict[str, Told] = {}
    fresh = iter(map(str, range(1_000)))
    for there, announced in states:
        present = {**dict.fromkeys(told, frozenset()), **there}

        def take_in(made: list[LedgerRecord]) -> None:
            for one in made:
                last = told.get(one.subject_id)
                assert one.parents == (() if last is None else (last.id,))
                told[one.subject_id] = Told(one.id, one.event, one.payload_hash)

        if announced:
            take_in(Mentioning(ANA, {}, told).intents(fresh, now=NOW, source_version=1))
        take_in(Mentioning(ANA, present, told).records(fresh, now=NOW, source_version=1))
        assert not Mentioning(ANA, present, told).records(fresh, now=NOW, source_version=1)
        living = {one for one, it in told.items() if it.event != "memory_forget"}
        assert "forget_intent" not in {it.event for it in told.values()}
        assert living == {one for one, entities in there.items() if entities}
