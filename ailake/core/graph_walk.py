"""Walks over the mentions of one scope, as arrays in both directions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.entities import EntityRef
from ailake.core.graph import (
    EdgeKind,
    GraphEdge,
    GraphNode,
    GraphView,
    NodeKind,
    PathHop,
    RetrievalPath,
)

Places = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Which nodes of one kind each node of the other is joined to, in rising order.

    Attributes:
        starts: Where each node's neighbours begin in ``targets``, int64 (n + 1,).
        targets: The neighbours, int64.
    """

    starts: Places
    targets: Places

    @classmethod
    def of(cls, sources: Places, targets: Places, count: int) -> "Adjacency":
        """Sort edges by their source."""
        order = np.lexsort((targets, sources))
        starts = np.searchsorted(sources[order], np.arange(count + 1))
        return cls(starts.astype(np.int64), targets[order].astype(np.int64))

    def of_node(self, node: int) -> Places:
        """Return one node's neighbours."""
        return self.targets[self.starts[node] : self.starts[node + 1]]

    def of_nodes(self, nodes: Places) -> Places:
        """Return all neighbours of some nodes, each as often as it is one."""
        begins = self.starts[nodes]
        counts: Places = self.starts[nodes + 1] - begins
        if not counts.sum():
            return _NONE
        # The place of every edge: its node's first one, and on from there.
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places: Places = np.repeat(begins, counts) + offsets
        return self.targets[places]

    @property
    def counts(self) -> Places:
        """How many neighbours each node has."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class ScopeGraph:
    """The mentions of one scope, to be walked.

    Attributes:
        facts: Ids, newest first, then by id: a fact's place is its rank in every answer.
        entity_ids: Ids of the entities, sorted.
        names: The entities' names, as they were first given, text (n entities,).
        types: Their types.
        mentioning: From entities to facts.
        mentioned: From facts to entities.
        texts: What the facts say, by id; those without a text are left out.
    """

    facts: tuple[str, ...]
    entity_ids: tuple[str, ...]
    names: pa.Array
    types: pa.Array
    mentioning: Adjacency
    mentioned: Adjacency
    texts: Mapping[str, str]

    def __len__(self) -> int:
        """Return the number of mentions."""
        return len(self.mentioning.targets)

    @cached_property
    def _entity_places(self) -> Mapping[str, int]:
        return {one: place for place, one in enumerate(self.entity_ids)}

    @cached_property
    def fact_places(self) -> Mapping[str, int]:
        """The place of each fact, by its id."""
        return {one: place for place, one in enumerate(self.facts)}

    def entity(self, place: int) -> EntityRef:
        """Return an entity as it was first given."""
        return EntityRef(self.types[place].as_py(), self.names[place].as_py())

    def entities_of(self, fact_id: str) -> frozenset[str]:
        """Return the ids of the entities that a fact mentions; none where it is not known."""
        place = self.fact_places.get(fact_id)
        if place is None:
            return frozenset()
        return frozenset(self.entity_ids[one] for one in self.mentioned.of_node(place).tolist())

    def neighbors(self, seeds: Iterable[EntityRef], *, max_hops: int) -> list[str]:
        """Return the facts that mention the seeds, then those of their siblings, hop by hop.

        Siblings of an entity are those that one of its facts mentions, too. Within a hop the
        newest fact comes first, then the smaller id.
        """
        found = [facts for _, facts in self._levels(self.places(seeds), max_hops)]
        return [self.facts[place] for places in found for place in places]

    def paths(self, seeds: Iterable[EntityRef], *, max_hops: int) -> list[RetrievalPath]:
        """Return a path for every mention that the same walk passes, in the order of the walk."""
        reached: dict[int, tuple[PathHop, ...]] = dict.fromkeys(self.places(seeds).tolist(), ())
        found: list[RetrievalPath] = []
        frontier = list(reached)
        for _ in range(max_hops + 1):
            paths = [path for entity in frontier for path in self._paths_of(entity, reached)]
            ranked = sorted(paths, key=lambda path: (path[0], path[1]))
            found += [RetrievalPath(hops) for _, _, hops in ranked]
            frontier = self._siblings(ranked, reached)
        return found

    def view(self, limit: int) -> GraphView:
        """Return up to ``limit`` nodes: the entities of most facts first, each with its facts."""
        chosen = self._chosen(limit)
        entities = [place for kind, place in chosen if kind is NodeKind.ENTITY]
        facts = [place for kind, place in chosen if kind is NodeKind.FACT]
        ids = (self.facts[place] for place in facts)
        return GraphView(
            nodes=tuple(self._node(kind, place) for kind, place in chosen),
            edges=(*self._mention_edges(entities, set(facts)), *self._co_occurrences(entities)),
            texts={one: self.texts[one] for one in ids if one in self.texts},
            truncated=len(self.facts) + len(self.entity_ids) > limit,
        )

    def places(self, seeds: Iterable[EntityRef]) -> Places:
        """Return the places of those of the entities that are known, rising."""
        known = {self._entity_places.get(ref.id, -1) for ref in seeds} - {-1}
        return np.array(sorted(known), np.int64)

    def _levels(self, frontier: Places, max_hops: int) -> Iterable[tuple[Places, Places]]:
        """Yield the new entities and the new facts of each hop."""
        seen_entities = np.zeros(len(self.entity_ids), bool)
        seen_facts = np.zeros(len(self.facts), bool)
        for _ in range(max_hops + 1):
            seen_entities[frontier] = True
            facts = np.unique(self.mentioning.of_nodes(frontier))
            facts = facts[~seen_facts[facts]]
            yield frontier, facts
            seen_facts[facts] = True
            frontier = np.unique(self.mentioned.of_nodes(facts))
            frontier = frontier[~seen_entities[frontier]]
            if not len(frontier):
                return

    def _paths_of(
        self, entity: int, reached: Mapping[int, tuple[PathHop, ...]]
    ) -> Iterable[tuple[int, int, tuple[PathHop, ...]]]:
        for fact in self.mentioning.of_node(entity).tolist():
            hop = PathHop(self.entity(entity), self.facts[fact])
            yield fact, entity, (*reached[entity], hop)

    def _siblings(
        self,
        ranked: Sequence[tuple[int, int, tuple[PathHop, ...]]],
        reached: dict[int, tuple[PathHop, ...]],
    ) -> list[int]:
        """Note by which path each new entity is reached first; return the new ones."""
        fresh: list[int] = []
        for fact, _, hops in ranked:
            for entity in self.mentioned.of_node(fact).tolist():
                if entity not in reached:
                    reached[entity] = hops
                    fresh.append(entity)
        return sorted(fresh)

    def _chosen(self, limit: int) -> list[tuple[NodeKind, int]]:
        counts = self.mentioning.counts
        chosen: dict[tuple[NodeKind, int], None] = {}
        for entity in np.lexsort((np.arange(len(counts)), -counts)).tolist():
            if len(chosen) >= limit:
                break
            chosen[NodeKind.ENTITY, entity] = None
            for fact in self.mentioning.of_node(entity)[:limit].tolist():
                chosen[NodeKind.FACT, fact] = None
        return list(chosen)[:limit]

    def _node(self, kind: NodeKind, place: int) -> GraphNode:
        if kind is NodeKind.FACT:
            return GraphNode(self.facts[place], kind, self.facts[place])
        ref = self.entity(place)
        return GraphNode(ref.id, kind, ref.name, ref.key[1])

    def _mention_edges(self, entities: Sequence[int], facts: set[int]) -> Iterable[GraphEdge]:
        for entity in entities:
            for fact in self.mentioning.of_node(entity).tolist():
                if fact in facts:
                    name = self.entity_ids[entity]
                    yield GraphEdge(name, self.facts[fact], EdgeKind.MENTIONED_IN)

    def _co_occurrences(self, entities: Sequence[int]) -> Iterable[GraphEdge]:
        shown = np.zeros(len(self.entity_ids), bool)
        shown[list(entities)] = True
        for entity in sorted(entities):
            met = self.mentioned.of_nodes(self.mentioning.of_node(entity))
            # Each pair once.
            others, counts = np.unique(met[shown[met] & (met > entity)], return_counts=True)
            for other, count in zip(others.tolist(), counts.tolist(), strict=True):
                ids = self.entity_ids[entity], self.entity_ids[other]
                yield GraphEdge(*ids, EdgeKind.CO_OCCURS, count)


def scope_graph(mentions: pa.Table) -> ScopeGraph:
    """Return the graph of one scope's mentions.

    A fact is as old as its oldest mention, has its first text that is not empty, and an entity is
    named as in its first mention.

    Args:
        mentions: Rows of the table ``mentions``, in the order of their writing; the same edge may
            stand more than once.
    """
    facts, fact_places = _ranked(mentions)
    entity_ids = pc.unique(mentions["entity_id"]).sort()
    entity_places = pc.index_in(mentions["entity_id"], value_set=entity_ids).to_numpy()
    first = np.full(len(entity_ids), len(mentions), np.int64)
    np.minimum.at(first, entity_places, np.arange(len(mentions)))
    width = max(len(facts), 1)
    edges = np.unique(entity_places.astype(np.int64) * width + fact_places)
    sources, targets = edges // width, edges % width
    told = mentions.filter(pc.not_equal(mentions["text"], ""))
    texts = zip(told["fact_id"].to_pylist(), told["text"].to_pylist(), strict=True)
    return ScopeGraph(
        tuple(facts.to_pylist()),
        tuple(entity_ids.to_pylist()),
        names=mentions["entity_name"].take(first).combine_chunks(),
        types=mentions["entity_type"].take(first).combine_chunks(),
        mentioning=Adjacency.of(sources, targets, len(entity_ids)),
        mentioned=Adjacency.of(targets, sources, len(facts)),
        texts=dict(reversed(list(texts))),
    )


def _ranked(mentions: pa.Table) -> tuple[pa.Array, Places]:
    """Return the facts, newest first and then by id, and the place of each mention's fact."""
    since = pc.coalesce(mentions["valid_from"], mentions["recorded_at"])
    aged = pa.table({"fact_id": mentions["fact_id"], "since": since}).group_by("fact_id")
    order = [("since_min", "descending"), ("fact_id", "ascending")]
    facts = aged.aggregate([("since", "min")]).sort_by(order)["fact_id"].combine_chunks()
    places = pc.index_in(mentions["fact_id"], value_set=facts).to_numpy()
    return facts, places.astype(np.int64)
