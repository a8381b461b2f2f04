"""Recall among what the entities of a query lead to, and plain recall where that is nothing."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Unpack

from ailake import clock
from ailake.core.entities import EntityRef
from ailake.core.entity_extraction import EntityExtractor, check_extractor
from ailake.core.graph import RetrievalPath, check_fact_id, check_hits, check_hops, entity_refs
from ailake.core.knowledge import KnowledgeGraph
from ailake.hits import Hits
from ailake.reading import MemoryReader, RecallOptions, noted

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger("ailake")


@dataclass(frozen=True, slots=True)
class GraphMetrics:
    """What a ``GraphAwareRecall`` has done so far.

    Attributes:
        graph_hits: Hits that were found by way of the graph.
        vector_fallbacks: Recalls that the graph had too few hits for.
        candidates: Facts that the graph led to.
        failures: Recalls in which the extractor or the graph failed, and times that it failed to
            show its paths.
    """

    graph_hits: int = 0
    vector_fallbacks: int = 0
    candidates: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class GraphHits(Hits):
    """Recalled memories, best first, and how the graph led to them.

    Attributes:
        entities: What the query is about.
        from_graph: They were chosen among what these lead to; False: plain recall found them.
    """

    entities: tuple[EntityRef, ...] = ()
    from_graph: bool = False
    trace: Callable[[], Iterable[RetrievalPath]] = tuple

    def paths(self) -> dict[str, RetrievalPath]:
        """Return for each hit that the graph leads to the first path to it, by id.

        Where the graph fails by then there are none, which is logged and counted.
        """
        ids = {hit.id for hit in self.items}
        found: dict[str, RetrievalPath] = {}
        for path in self.trace():
            if path.fact_id in ids:
                found.setdefault(path.fact_id, path)
        return found

    def explain(self) -> "pl.DataFrame":
        """Return ``Hits.explain`` with a column ``path``, such as "Ben > f1 > Atlas > f2"."""
        import polars as pl  # noqa: PLC0415 (see Hits.to_polars)

        shown = {memory_id: str(path) for memory_id, path in self.paths().items()}
        paths = [shown.get(hit.id) for hit in self.items]
        return Hits.explain(self).with_columns(pl.Series("path", paths, dtype=pl.String))


class GraphAwareRecall:
    """Recalls among the memories that the entities of a query lead to.

    Where they lead to too few, or the extractor or the graph fails, plain recall answers: what is
    remembered is the authority, and the graph only narrows it down.

    Args:
        memory: A memory, or a reader of several scopes.
        graph: Its entities; ``lake.graph()``, or another one.
        extractor: Reads the entities of a query.
        min_graph_hits: With fewer hits than this by way of the graph, or than ``limit`` where that
            is less, plain recall answers; at least 1.
        max_hops: Over how many siblings the graph is walked, 1 to 3.

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self,
        memory: MemoryReader,
        graph: KnowledgeGraph,
        extractor: EntityExtractor,
        *,
        min_graph_hits: int = 1,
        max_hops: int = 1,
    ) -> None:
        self._memory, self._graph = memory, graph
        self._extractor = check_extractor(extractor)
        self._least, self._hops = check_hits(min_graph_hits), check_hops(max_hops)
        self._metrics, self._lock = GraphMetrics(), Lock()

    @property
    def metrics(self) -> GraphMetrics:
        """What was done so far, by all threads."""
        return self._metrics

    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        hints: Sequence[str | EntityRef] = (),
        **options: Unpack[RecallOptions],
    ) -> GraphHits:
        """Return the memories that matter most for a query, best first.

        Args:
            query: Text.
            limit: Number of hits, 1 to 10,000.
            hints: Entities that the query is known to be about.
            options: As of ``recall``.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        given = entity_refs(hints)
        now = clock.resolve_now(options.get("now"))
        options["now"] = now
        entities, ids = self._led_to(query, given)
        if ids:
            quiet: RecallOptions = {**options, "touch": False}
            hits = self._memory.recall_filtered(query, limit, ids, **quiet)
            if len(hits) >= min(self._least, limit):
                self._count(graph_hits=len(hits), candidates=len(ids))
                if options.get("touch", True):
                    hits = noted(self._memory, hits, now=now)
                return self._traced(hits, entities, from_graph=True)
        self._count(vector_fallbacks=1, candidates=len(ids))
        hits = self._memory.recall(query, limit=limit, **options)
        return self._traced(hits, entities, from_graph=False)

    def _led_to(
        self, query: str, hints: Sequence[EntityRef]
    ) -> tuple[tuple[EntityRef, ...], list[str]]:
        """Return the entities of a query, and the ids that they lead to in all scopes."""
        entities: tuple[EntityRef, ...] = tuple(hints)
        try:
            entities = tuple(self._extractor.extract(query, hints))
            return entities, [
                check_fact_id(one)
                for scope in self._memory.scopes
                if entities
                for one in self._graph.neighbors(scope, entities, max_hops=self._hops)
            ]
        except Exception:
            log.warning("the graph failed; plain recall answers", exc_info=True)
            self._count(failures=1)
            return entities, []

    def _traced(
        self, hits: Hits, entities: tuple[EntityRef, ...], *, from_graph: bool
    ) -> GraphHits:
        def trace() -> Iterable[RetrievalPath]:
            return self._paths(entities) if from_graph else ()

        return GraphHits(hits.items, hits.report, hits.counted, entities, from_graph, trace)

    def _paths(self, entities: Sequence[EntityRef]) -> list[RetrievalPath]:
        """Walk again, whenever that is asked for: the graph may fail by then."""
        try:
            found = [
                path
                for scope in self._memory.scopes
                for path in self._graph.recall_paths(scope, entities, max_hops=self._hops)
            ]
            for path in found:
                check_fact_id(path.fact_id)
        except Exception:
            log.warning("the graph failed; hits are shown without their paths", exc_info=True)
            self._count(failures=1)
            return []
        return found

    def _count(self, **more: int) -> None:
        with self._lock:
            known: Mapping[str, int] = {name: getattr(self._metrics, name) for name in more}
            self._metrics = replace(
                self._metrics, **{name: known[name] + count for name, count in more.items()}
            )
