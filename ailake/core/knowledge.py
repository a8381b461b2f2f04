"""What every entity graph can do, and the one that is kept in memory."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from threading import Lock
from typing import Protocol, runtime_checkable

import pyarrow as pa

from ailake.core.entities import EntityRef
from ailake.core.episodic import unit_interval, within_unit
from ailake.core.graph import (
    GraphView,
    IndexEntry,
    RetrievalPath,
    check_fact_id,
    check_hops,
    check_nodes,
    entity_refs,
)
from ailake.core.graph_export import ranked_facts
from ailake.core.graph_walk import ScopeGraph, scope_graph
from ailake.core.instants import as_utc
from ailake.core.mention_rows import fresh_mentions, mention_rows
from ailake.core.records import Scope
from ailake.errors import InvalidInputError


@runtime_checkable
class KnowledgeGraph(Protocol):
    """An entity graph: which facts mention which entities, scope by scope.

    ``ailake.testing.graph`` has the suite that every implementation is to pass.
    """

    def index(  # noqa: PLR0917 (a published signature)
        self,
        scope: Scope,
        fact_id: str,
        entities: Sequence[str | EntityRef],
        text: str = "",
        valid_from: datetime | None = None,
    ) -> bool:
        """Note which entities a fact mentions; tell whether that was news.

        Nothing is ever taken away: entities that were noted before stay.

        Args:
            scope: Whose graph.
            fact_id: Id of the memory or the fact.
            entities: Strings (``concept``s) and ``EntityRef``s; with none nothing is written.
            text: What it says, kept where nothing was before.
            valid_from: Since when it holds, timezone-aware; default: since now. What has always
                been known has ``known_epoch()``.

        Raises:
            InvalidInputError: An argument is wrong; nothing was written.
        """
        ...

    def index_many(self, scope: Scope, batch: Iterable[IndexEntry]) -> list[str]:
        """Note many at once; return the ids of those that were news, in order.

        A graph that can't write a batch at once keeps what came before a failure, and says so.

        Raises:
            InvalidInputError: An entry is wrong, and named; nothing was written.
        """
        ...

    def neighbors(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[str]:
        """Return the facts of the entities and, hop by hop, of what these facts mention, too.

        Direct ones first, then siblings'; within a hop the newest first, then the smaller id.
        Entities that are not known have none.

        Raises:
            InvalidInputError: ``max_hops`` is not 1, 2 or 3, or an entity is none.
        """
        ...

    def recall_paths(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[RetrievalPath]:
        """Return how ``neighbors`` comes to its facts: a path for each mention that it passes."""
        ...

    def subgraph(self, scope: Scope, limit: int) -> GraphView:
        """Return up to ``limit`` nodes of the scope's graph, the same ones for the same state.

        Raises:
            InvalidInputError: ``limit`` is negative or no whole number.
        """
        ...

    def forget(self, scope: Scope, fact_id: str) -> bool:
        """Remove a fact with its mentions, and entities that nothing mentions any more.

        Returns:
            Whether it was known.
        """
        ...


class WalkedGraph:
    """The reads of a graph whose mentions of a scope can be had as a ``ScopeGraph``."""

    def scope_graph(self, scope: Scope) -> ScopeGraph:
        """Return the present mentions of a scope, to be walked."""
        raise NotImplementedError

    def noted_graph(self, scope: Scope) -> ScopeGraph:
        """Return the same with each mention under the id that it was noted for."""
        return self.scope_graph(scope)

    def noted_ids(self, scope: Scope, fact_id: str) -> set[str]:  # noqa: ARG002 (for who merges)
        """Return the ids that a fact's mentions were noted for."""
        return {fact_id}

    def neighbors(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[str]:
        """As of ``KnowledgeGraph``."""
        seeds, hops = entity_refs(entities), check_hops(max_hops)
        return self.scope_graph(checked_scope(scope)).neighbors(seeds, max_hops=hops)

    def recall_paths(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[RetrievalPath]:
        """As of ``KnowledgeGraph``."""
        seeds, hops = entity_refs(entities), check_hops(max_hops)
        return self.scope_graph(checked_scope(scope)).paths(seeds, max_hops=hops)

    def subgraph(self, scope: Scope, limit: int) -> GraphView:
        """As of ``KnowledgeGraph``."""
        return self.scope_graph(checked_scope(scope)).view(check_nodes(limit))

    def page_rank(
        self,
        scope: Scope,
        entities: Sequence[str | EntityRef],
        *,
        damping: float = 0.85,
        max_share: float = 1.0,
    ) -> list[tuple[str, float]]:
        """Return facts by their PageRank, personalised on some entities, the highest first.

        Facts that many short ways lead to come first, over however many hops.

        Args:
            scope: Whose graph.
            entities: Where walks begin; those that are not known lead nowhere.
            damping: With what probability a walk goes on, within (0, 1).
            max_share: No walk begins at what a greater share of the facts mentions, and more than
                10 of them, in [0, 1]: such an entity leads everywhere.

        Raises:
            InvalidInputError: A number is out of range, or an entity is none.
            MissingExtraError: The ``graph`` extra is not installed.
        """
        goes_on = within_unit(damping, name="damping")
        share = unit_interval(max_share, name="max_share")
        seeds, graph = entity_refs(entities), self.scope_graph(checked_scope(scope))
        return ranked_facts(graph, seeds, damping=goes_on, max_share=share)


class InMemoryKnowledgeGraph(WalkedGraph):
    """A graph in this process alone, gone with it.

    Args:
        now: The instant at which everything is recorded, timezone-aware; it decides the order
            among facts that came without ``valid_from``.
    """

    def __init__(self, *, now: datetime) -> None:
        self._now = as_utc(now, name="now")
        self._mentions: dict[Scope, pa.Table] = {}
        self._graphs: dict[Scope, ScopeGraph] = {}
        self._lock = Lock()

    def index(  # noqa: PLR0917 (a published signature)
        self,
        scope: Scope,
        fact_id: str,
        entities: Sequence[str | EntityRef],
        text: str = "",
        valid_from: datetime | None = None,
    ) -> bool:
        """As of ``KnowledgeGraph``."""
        return bool(self.index_many(scope, [IndexEntry(fact_id, entities, text, valid_from)]))

    def index_many(self, scope: Scope, batch: Iterable[IndexEntry]) -> list[str]:
        """As of ``KnowledgeGraph``."""
        entries = checked_entries(batch)
        with self._lock:
            news = fresh_mentions(entries, self._graph(checked_scope(scope)))
            if news:
                rows = [self._mentions[scope]] if scope in self._mentions else []
                rows.append(mention_rows(scope, news, recorded_at=self._now))
                self._mentions[scope] = pa.concat_tables(rows)
                self._graphs.pop(scope, None)
        return [one.fact_id for one in news]

    def forget(self, scope: Scope, fact_id: str) -> bool:
        """As of ``KnowledgeGraph``."""
        check_fact_id(fact_id)
        with self._lock:
            if not self._graph(checked_scope(scope)).entities_of(fact_id):
                return False
            rows = self._mentions[scope]
            self._mentions[scope] = rows.filter(pa.compute.not_equal(rows["fact_id"], fact_id))
            self._graphs.pop(scope, None)
        return True

    def scope_graph(self, scope: Scope) -> ScopeGraph:
        """Return the present mentions of a scope, to be walked."""
        with self._lock:
            return self._graph(scope)

    def _graph(self, scope: Scope) -> ScopeGraph:
        if scope not in self._graphs:
            empty = mention_rows(scope, (), recorded_at=self._now)
            made = scope_graph(self._mentions.get(scope, empty))
            if not len(made):
                return made
            self._graphs[scope] = made
        return self._graphs[scope]


def checked_scope(scope: object) -> Scope:
    """Return the scope.

    Raises:
        InvalidInputError: It is something else.
    """
    if not isinstance(scope, Scope):
        raise InvalidInputError.of("scope", got=scope, wanted="a Scope")
    return scope


def checked_entries(batch: object) -> list[IndexEntry]:
    """Return the entries of a batch.

    Raises:
        InvalidInputError: One is something else; the message says which.
    """
    if isinstance(batch, str) or not isinstance(batch, Iterable):
        raise InvalidInputError.of("batch", got=batch, wanted="IndexEntry objects")
    entries = list(batch)
    for place, entry in enumerate(entries):
        if not isinstance(entry, IndexEntry):
            raise InvalidInputError.of(f"batch[{place}]", got=entry, wanted="an IndexEntry")
    return entries
