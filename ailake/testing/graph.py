"""The conformance suite of ``KnowledgeGraph``: one test per statement of what a graph does.

Subclass it in a test module, and return an empty graph::

    class TestMyGraph(GraphConformance):
        def make_graph(self) -> KnowledgeGraph:
            return MyGraph()
"""

from datetime import UTC, datetime, timedelta

from ailake.core.entities import EntityRef
from ailake.core.graph import EdgeKind, GraphView, IndexEntry, NodeKind, known_epoch
from ailake.core.knowledge import KnowledgeGraph
from ailake.core.records import Scope
from ailake.errors import InvalidInputError

ANA = Scope("conformance", "ana")
BO = Scope("conformance", "bo")
OTHER_PROJECT = Scope("conformance", "ana", "other")

A, B, C, D = (EntityRef("person", name) for name in ("Ada", "Ben", "Cid", "Dot"))
DAY_ONE = datetime(2025, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    """Return an instant; a later day is newer."""
    return DAY_ONE + timedelta(days=number)


class GraphConformance:
    """Tests of a graph; each begins with an empty one."""

    def make_graph(self) -> KnowledgeGraph:
        """Return an empty graph."""
        raise NotImplementedError

    def chain(self) -> KnowledgeGraph:
        """Return a graph where Ada and Ben share f1, Ben and Cid f2, and Cid alone is in f3."""
        graph = self.make_graph()
        graph.index(ANA, "f1", [A, B], "Ada met Ben", day(1))
        graph.index(ANA, "f2", [B, C], "Ben met Cid", day(2))
        graph.index(ANA, "f3", [C], "Cid left", day(3))
        return graph

    # Walks

    def test_neighbors_are_direct_facts_and_those_of_one_hop_siblings(self) -> None:
        """The facts of the entity, and of what is mentioned beside it; no further."""
        assert self.chain().neighbors(ANA, [A]) == ["f1", "f2"]

    def test_max_hops_goes_further(self) -> None:
        """Two hops reach the siblings of siblings."""
        graph = self.chain()
        graph.index(ANA, "f4", [C, D], valid_from=day(4))
        graph.index(ANA, "f5", [D], valid_from=day(5))
        assert graph.neighbors(ANA, [A], max_hops=1) == ["f1", "f2"]
        assert graph.neighbors(ANA, [A], max_hops=2) == ["f1", "f2", "f4", "f3"]
        assert graph.neighbors(ANA, [A], max_hops=3) == ["f1", "f2", "f4", "f3", "f5"]

    def test_other_numbers_of_hops_are_refused(self) -> None:
        """Only 1, 2 and 3 are."""
        graph = self.chain()
        for hops in (0, 4, -1):
            _refused(lambda hops=hops: graph.neighbors(ANA, [A], max_hops=hops))
            _refused(lambda hops=hops: graph.recall_paths(ANA, [A], max_hops=hops))

    def test_direct_comes_before_sibling_then_the_newest_then_the_smaller_id(self) -> None:
        """The order is stated, whatever that of the writes."""
        graph = self.make_graph()
        graph.index(ANA, "sibling-new", [B], valid_from=day(9))
        graph.index(ANA, "b", [A, B], valid_from=day(1))
        graph.index(ANA, "a", [A], valid_from=day(1))
        graph.index(ANA, "newest", [A], valid_from=day(2))
        graph.index(ANA, "all-time", [A], valid_from=known_epoch())
        assert graph.neighbors(ANA, [A]) == ["newest", "a", "b", "all-time", "sibling-new"]

    def test_without_valid_from_a_fact_is_as_new_as_its_recording(self) -> None:
        """It comes before what has always been known."""
        graph = self.make_graph()
        graph.index(ANA, "always", [A], valid_from=known_epoch())
        graph.index(ANA, "now", [A])
        assert graph.neighbors(ANA, [A]) == ["now", "always"]

    def test_unknown_and_no_entities_have_no_neighbors(self) -> None:
        """Neither is an error."""
        graph = self.chain()
        assert graph.neighbors(ANA, [D]) == []
        assert graph.neighbors(ANA, []) == []
        assert graph.recall_paths(ANA, [D]) == []
        assert graph.recall_paths(ANA, []) == []

    def test_several_entities_are_walked_from_at_once(self) -> None:
        """A fact of one is direct, though it may be a sibling's of the other."""
        assert self.chain().neighbors(ANA, [A, C]) == ["f3", "f2", "f1"]

    def test_names_compare_normalised_and_types_tell_apart(self) -> None:
        """Case, width, blanks and closing marks don't matter; the type does."""
        graph = self.chain()
        assert graph.neighbors(ANA, [EntityRef("person", "  ＡＤＡ. ")]) == ["f1", "f2"]
        assert graph.neighbors(ANA, [EntityRef("place", "Ada")]) == []

    def test_a_string_is_a_concept(self) -> None:
        """Where it is written, and where it is asked for."""
        graph = self.make_graph()
        graph.index(ANA, "f1", ["tea"])
        assert graph.neighbors(ANA, ["Tea"]) == ["f1"]
        assert graph.neighbors(ANA, [EntityRef("concept", "tea")]) == ["f1"]

    def test_paths_name_every_mention_that_the_walk_passes(self) -> None:
        """One per edge from entity to fact, by way of what led there."""
        paths = self.chain().recall_paths(ANA, [A])
        walked = [tuple((hop.entity.name, hop.fact_id) for hop in path.hops) for path in paths]
        assert sorted(walked) == [
            (("Ada", "f1"),),
            (("Ada", "f1"), ("Ben", "f1")),
            (("Ada", "f1"), ("Ben", "f2")),
        ]

    def test_paths_lead_to_the_neighbors(self) -> None:
        """To these, and nothing else, at every number of hops."""
        graph = self.chain()
        for hops in (1, 2, 3):
            led_to = {path.fact_id for path in graph.recall_paths(ANA, [A], max_hops=hops)}
            assert led_to == set(graph.neighbors(ANA, [A], max_hops=hops))

    # Writes

    def test_indexing_again_adds_and_takes_nothing_away(self) -> None:
        """Other entities come on top of those that were there."""
        graph = self.chain()
        assert graph.index(ANA, "f1", [D], valid_from=day(1))
        assert graph.neighbors(ANA, [D]) == ["f1", "f2"]
        assert graph.neighbors(ANA, [A]) == ["f1", "f2"]

    def test_the_same_again_changes_nothing(self) -> None:
        """Neither edges nor counts nor the order."""
        graph = self.chain()
        before = graph.subgraph(ANA, 100)
        assert not graph.index(ANA, "f1", [A, B], "Ada met Ben", day(1))
        assert graph.index_many(ANA, [IndexEntry("f2", [B, C], "Ben met Cid", day(2))]) == []
        assert graph.subgraph(ANA, 100) == before

    def test_counts_rise_for_new_pairs_only(self) -> None:
        """A pair counts the facts that mention both."""
        graph = self.chain()
        graph.index(ANA, "f1", [A, B, C], valid_from=day(1))
        assert _counts(graph.subgraph(ANA, 100)) == {"Ada Ben": 1, "Ben Cid": 2, "Ada Cid": 1}

    def test_no_entities_write_nothing(self) -> None:
        """Alone or in a batch."""
        graph = self.make_graph()
        assert not graph.index(ANA, "f1", [], "nothing to see", day(1))
        assert graph.index_many(ANA, [IndexEntry("f2", []), IndexEntry("f3", [A])]) == ["f3"]
        assert {node.id for node in graph.subgraph(ANA, 100).nodes} == {"f3", A.id}

    def test_a_batch_is_as_its_entries_one_by_one(self) -> None:
        """It sees itself, the same fact twice included."""
        one_by_one, at_once = self.chain(), self.make_graph()
        entries = [
            IndexEntry("f1", [A], "Ada met Ben", day(1)),
            IndexEntry("f2", [B, C], "Ben met Cid", day(2)),
            IndexEntry("f1", [A, B], "not this one", day(1)),
            IndexEntry("f3", [C], "Cid left", day(3)),
        ]
        assert at_once.index_many(ANA, entries) == ["f1", "f2", "f1", "f3"]
        assert at_once.subgraph(ANA, 100) == one_by_one.subgraph(ANA, 100)

    def test_a_bad_entry_is_named_before_anything_is_written(self) -> None:
        """Of whatever kind, and wherever in the batch."""
        graph = self.make_graph()
        good = IndexEntry("good", [A])
        for bad in ({"fact_id": "f"}, "f", None):
            said = _refused(lambda bad=bad: graph.index_many(ANA, [good, bad]))
            assert "batch[1]" in said
        for fact_id, entities in (("", [A]), ("wrong", [7]), ("wrong", ["..."]), (None, [A])):
            wrong = (fact_id, entities)
            said = _refused(lambda wrong=wrong: graph.index(ANA, *wrong))
            assert "fact_id" in said or "wrong" in said
        assert graph.subgraph(ANA, 100).nodes == ()

    def test_scopes_never_mix(self) -> None:
        """In any operation, whatever the ids and names."""
        graph = self.chain()
        graph.index(BO, "f1", [A, D], "Ada met Dot", day(1))
        for stranger in (OTHER_PROJECT, Scope("conformance")):
            assert graph.neighbors(stranger, [A]) == []
            assert graph.recall_paths(stranger, [A]) == []
            assert graph.subgraph(stranger, 100).nodes == ()
            assert not graph.forget(stranger, "f1")
        assert graph.neighbors(BO, [A]) == ["f1"]
        assert graph.forget(BO, "f1")
        assert graph.neighbors(ANA, [A]) == ["f1", "f2"]

    # Forgetting

    def test_what_is_forgotten_is_gone_with_its_counts(self) -> None:
        """And so are entities that nothing mentions any more."""
        graph = self.chain()
        assert graph.forget(ANA, "f1")
        assert graph.neighbors(ANA, [A]) == []
        assert graph.neighbors(ANA, [B]) == ["f2", "f3"]
        view = graph.subgraph(ANA, 100)
        assert A.id not in {node.id for node in view.nodes}
        assert _counts(view) == {"Ben Cid": 1}
        assert "f1" not in view.texts

    def test_an_unknown_fact_is_forgotten_without_an_error(self) -> None:
        """It was gone before."""
        graph = self.chain()
        assert not graph.forget(ANA, "never")
        assert graph.forget(ANA, "f1")
        assert not graph.forget(ANA, "f1")

    def test_what_was_forgotten_can_be_indexed_again(self) -> None:
        """With nothing left of what was known of it."""
        graph = self.chain()
        graph.forget(ANA, "f1")
        assert graph.index(ANA, "f1", [D], "another", day(1))
        assert graph.neighbors(ANA, [D]) == ["f1"]
        assert graph.subgraph(ANA, 100).texts["f1"] == "another"

    # Views

    def test_a_view_shows_nodes_edges_and_texts(self) -> None:
        """All of a small graph."""
        view = self.chain().subgraph(ANA, 100)
        kinds = {node.id: node.kind for node in view.nodes}
        facts = {one for one, kind in kinds.items() if kind is NodeKind.FACT}
        assert facts == {"f1", "f2", "f3"}
        assert set(kinds) - facts == {A.id, B.id, C.id}
        mentions = {(e.source, e.target) for e in view.edges if e.kind is EdgeKind.MENTIONED_IN}
        assert mentions == {
            (A.id, "f1"), (B.id, "f1"), (B.id, "f2"), (C.id, "f2"), (C.id, "f3"),
        }  # fmt: skip
        assert view.texts == {"f1": "Ada met Ben", "f2": "Ben met Cid", "f3": "Cid left"}
        assert not view.truncated

    def test_a_view_is_bounded_and_says_so(self) -> None:
        """Truncated only where there is more."""
        graph = self.chain()
        for limit in range(6):
            view = graph.subgraph(ANA, limit)
            assert len(view.nodes) == limit
            assert view.truncated
            shown = {node.id for node in view.nodes}
            assert all({edge.source, edge.target} <= shown for edge in view.edges)
            assert set(view.texts) <= shown
        assert not graph.subgraph(ANA, 6).truncated
        assert not self.make_graph().subgraph(ANA, 0).truncated

    def test_a_view_is_the_same_for_the_same_state(self) -> None:
        """And reading it changes nothing."""
        graph = self.chain()
        assert graph.subgraph(ANA, 4) == graph.subgraph(ANA, 4)

    def test_limits_that_are_none_are_refused(self) -> None:
        """Negative ones."""
        graph = self.chain()
        _refused(lambda: graph.subgraph(ANA, -1))


def _counts(view: GraphView) -> dict[str, int]:
    names = {node.id: node.label for node in view.nodes}
    return {
        " ".join(sorted((names[edge.source], names[edge.target]))): edge.count
        for edge in view.edges
        if edge.kind is EdgeKind.CO_OCCURS
    }


def _refused(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except InvalidInputError as error:
        return str(error)
    raise AssertionError("it was not refused")
