"""The walk over arrays against a plain one over dicts."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ailake.core.entities import EntityRef
from ailake.core.graph import EdgeKind, IndexEntry
from ailake.core.knowledge import InMemoryKnowledgeGraph
from ailake.core.records import Scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCOPE = Scope("a")
REFS = [EntityRef("person", f"P{number}") for number in range(6)]

ages = st.none() | st.integers(0, 3).map(lambda days: NOW - timedelta(days=days))
entries = st.builds(
    IndexEntry,
    st.sampled_from(["f1", "f2", "f3", "f4", "f5"]),
    st.lists(st.sampled_from(REFS), max_size=4),
    st.sampled_from(["", "one", "two"]),
    ages,
)
steps = st.lists(st.lists(entries, max_size=4) | st.sampled_from(["f1", "f2", "f3"]), max_size=8)


class Plain:
    """Dicts and sets."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, datetime]] = {}

    def index(self, entry: IndexEntry) -> None:
        for ref in entry.refs:
            mentions = self.facts.setdefault(entry.fact_id, {})
            mentions.setdefault(ref.id, entry.valid_from or NOW)

    def rank(self, facts: set[str]) -> list[str]:
        since = {fact: min(self.facts[fact].values()) for fact in facts}
        return sorted(sorted(facts), key=since.__getitem__, reverse=True)

    def neighbors(self, seeds: list[EntityRef], hops: int) -> list[str]:
        entities, found = {ref.id for ref in seeds}, list[str]()
        for _ in range(hops + 1):
            facts = {one for one, named in self.facts.items() if entities & set(named)}
            found += self.rank(facts - set(found))
            entities |= {one for fact in facts for one in self.facts[fact]}
        return found


@given(steps, st.lists(st.sampled_from(REFS), max_size=2), st.integers(1, 3))
def test_walks_find_what_a_plain_one_does(
    written: list[list[IndexEntry] | str], seeds: list[EntityRef], hops: int
) -> None:
    graph, plain = InMemoryKnowledgeGraph(now=NOW), Plain()
    for step in written:
        if isinstance(step, str):
            assert graph.forget(SCOPE, step) == (plain.facts.pop(step, None) is not None)
            continue
        graph.index_many(SCOPE, step)
        for entry in step:
            plain.index(entry)
    found = graph.neighbors(SCOPE, seeds, max_hops=hops)
    assert found == plain.neighbors(seeds, hops)
    paths = graph.recall_paths(SCOPE, seeds, max_hops=hops)
    ends = {(path.hops[-1].entity.id, path.fact_id) for path in paths}
    assert len(ends) == len(paths)
    assert list(dict.fromkeys(path.fact_id for path in paths)) == found
    for path in paths:
        for before, after in zip(path.hops, path.hops[1:], strict=False):
            assert {before.entity.id, after.entity.id} <= set(plain.facts[before.fact_id])


@given(steps)
def test_views_count_what_facts_have_in_common(written: list[list[IndexEntry] | str]) -> None:
    graph, plain = InMemoryKnowledgeGraph(now=NOW), Plain()
    for step in written:
        if not isinstance(step, str):
            graph.index_many(SCOPE, step)
            for entry in step:
                plain.index(entry)
    view = graph.subgraph(SCOPE, 100)
    pairs = Counter(
        pair for named in plain.facts.values() for pair in combinations(sorted(named), 2)
    )
    edges = [edge for edge in view.edges if edge.kind is EdgeKind.CO_OCCURS]
    assert {(edge.source, edge.target): edge.count for edge in edges} == pairs
    assert len(edges) == len(pairs)
