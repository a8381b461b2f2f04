"""An entity graph whose indexing and forgetting stand in the ledger of a lake."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from ailake import clock
from ailake.core.entities import EntityRef
from ailake.core.graph import (
    EdgeKind,
    GraphView,
    IndexEntry,
    NodeKind,
    PathHop,
    RetrievalPath,
    check_fact_id,
)
from ailake.core.knowledge import KnowledgeGraph, WalkedGraph, checked_entries, checked_scope
from ailake.core.recording import Told
from ailake.core.records import Scope
from ailake.errors import InvalidInputError
from ailake.ledger import Ledger
from ailake.storage import recording_graph

# More nodes than any scope has.
_ALL_NODES = 2**31 - 1


class ProvenanceKnowledgeGraph:
    """A graph of whichever kind, with an entry in the ledger for all that happens to it.

    An entry follows the write that it tells of, a batch's in one commit; what is to be forgotten
    has one before, too. It is made by comparing the graph with the ledger: what a process did not
    live to record, and what the graph was told past this one, is recorded when a scope is first
    written or asked for paths by the next one.
    So of a scope a ledger tells of one graph: what another one lacks would pass for forgotten.

    Args:
        graph: The graph.
        ledger: ``lake.ledger()``; the chains of its scopes are added to.

    Raises:
        InvalidInputError: One of the two is something else.
    """

    def __init__(self, graph: KnowledgeGraph, ledger: Ledger) -> None:
        if not isinstance(graph, KnowledgeGraph):
            raise InvalidInputError.of("graph", got=graph, wanted="a KnowledgeGraph")
        if not isinstance(ledger, Ledger):
            raise InvalidInputError.of("ledger", got=ledger, wanted="what lake.ledger() returns")
        self._graph = graph
        self._store = ledger.store
        self._told: set[Scope] = set()

    def index(  # noqa: PLR0917 (a published signature)
        self,
        scope: Scope,
        fact_id: str,
        entities: Sequence[str | EntityRef],
        text: str = "",
        valid_from: datetime | None = None,
        *,
        now: datetime | None = None,
    ) -> bool:
        """As of ``KnowledgeGraph``; in the ledger where it was news.

        Args:
            scope: Whose graph.
            fact_id: Id of the memory or the fact.
            entities: Strings (``concept``s) and ``EntityRef``s.
            text: What it says.
            valid_from: Since when it holds.
            now: When it is recorded, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An argument is wrong; nothing was written.
            ReadOnlyError: The lake of the ledger can't be written.
        """
        entry = IndexEntry(fact_id, entities, text, valid_from)
        return bool(self.index_many(scope, [entry], now=now))

    def index_many(
        self, scope: Scope, batch: Iterable[IndexEntry], *, now: datetime | None = None
    ) -> list[str]:
        """As of ``KnowledgeGraph``; in the ledger are those that were news.

        Args:
            scope: Whose graph.
            batch: The entries.
            now: When they are recorded, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An entry is wrong, and named; nothing was written.
            ReadOnlyError: The lake of the ledger can't be written.
        """
        entries, moment = checked_entries(batch), clock.resolve_now(now)
        with self._telling(checked_scope(scope), moment):
            news = self._graph.index_many(scope, entries)
            self._tell(scope, news, now=moment)
        return news

    def neighbors(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[str]:
        """As of ``KnowledgeGraph``."""
        return self._graph.neighbors(scope, entities, max_hops=max_hops)

    def recall_paths(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_hops: int = 1
    ) -> list[RetrievalPath]:
        """As of ``KnowledgeGraph``; each hop names the last entry about what its fact mentions."""
        paths = self._graph.recall_paths(scope, entities, max_hops=max_hops)
        if not paths:
            return paths
        if not self._store.read_only and scope not in self._told:
            self.catch_up(scope)
        facts = {hop.fact_id for path in paths for hop in path.hops}
        sources = {one: self._sources(scope, one) for one in facts}
        told = recording_graph.told_of(self._store, scope, set().union(*sources.values()))
        entry = {one: _entry_of(some, told) for one, some in sources.items()}
        return [RetrievalPath(tuple(_named(hop, entry) for hop in path.hops)) for path in paths]

    def subgraph(self, scope: Scope, limit: int) -> GraphView:
        """As of ``KnowledgeGraph``."""
        return self._graph.subgraph(scope, limit)

    def forget(self, scope: Scope, fact_id: str, *, now: datetime | None = None) -> bool:
        """As of ``KnowledgeGraph``; in the ledger as ``memory_forget`` where it was known.

        It is announced there first. Where it fails, or dies before the end is recorded, the next
        one that comes to the scope records it: as ``memory_forget``, or as ``forget_void`` where
        the graph still has the fact.

        Args:
            scope: Whose graph.
            fact_id: The fact.
            now: When it is recorded, timezone-aware; default: the present.

        Raises:
            ReadOnlyError: The lake of the ledger can't be written.
        """
        moment, name = clock.resolve_now(now), check_fact_id(fact_id)
        with self._telling(checked_scope(scope), moment):
            sources = self._sources(scope, name)
            is_announced = recording_graph.announce(self._store, scope, sources, now=moment)
            is_known = self._graph.forget(scope, name)
            if is_known or is_announced:
                self._tell(scope, sources, now=moment)
        return is_known

    def catch_up(self, scope: Scope, *, now: datetime | None = None) -> None:
        """Record all that the graph has of a scope, or has no more, and the ledger does not say.

        Args:
            scope: Whose graph.
            now: When it is recorded, timezone-aware; default: the present.

        Raises:
            ReadOnlyError: The lake of the ledger can't be written.
        """
        self._store.ensure_writable()
        self._tell(checked_scope(scope), None, now=clock.resolve_now(now))
        self._told.add(scope)

    @contextmanager
    def _telling(self, scope: Scope, now: datetime) -> Iterator[None]:
        """Bring the ledger up to date before a write; after one that fails half-way, again."""
        self._store.ensure_writable()
        if scope not in self._told:
            self.catch_up(scope, now=now)
        self._told.discard(scope)
        yield
        self._told.add(scope)

    def _tell(self, scope: Scope, fact_ids: Iterable[str] | None, *, now: datetime) -> None:
        asked = None if fact_ids is None else list(dict.fromkeys(fact_ids))
        if asked is None or asked:
            recording_graph.record(
                self._store, scope, lambda: self._present(scope, asked), asked, now=now
            )

    def _present(self, scope: Scope, fact_ids: Iterable[str] | None) -> Mapping[str, set[str]]:
        """Return the ids of what some facts mention, or all facts, the oldest first."""
        if isinstance(self._graph, WalkedGraph):
            noted = self._graph.noted_graph(scope)
            asked = reversed(noted.facts) if fact_ids is None else fact_ids
            return {one: set(noted.entities_of(one)) for one in asked}
        found: dict[str, set[str]] = {one: set() for one in fact_ids or ()}
        view = self._graph.subgraph(scope, _ALL_NODES)
        refs = {
            node.id: EntityRef(node.type, node.label).id
            for node in view.nodes
            if node.kind is NodeKind.ENTITY
        }
        for edge in view.edges:
            if edge.kind is EdgeKind.MENTIONED_IN and (fact_ids is None or edge.target in found):
                found.setdefault(edge.target, set()).add(refs[edge.source])
        return found

    def _sources(self, scope: Scope, fact_id: str) -> set[str]:
        if isinstance(self._graph, WalkedGraph):
            return self._graph.noted_ids(scope, fact_id)
        return {fact_id}


def _entry_of(fact_ids: set[str], told: Mapping[str, Told]) -> str | None:
    found = [told[one].id for one in sorted(fact_ids) if one in told]
    return found[-1] if found else None


def _named(hop: PathHop, entries: Mapping[str, str | None]) -> PathHop:
    return replace(hop, chain_entry=entries[hop.fact_id])
