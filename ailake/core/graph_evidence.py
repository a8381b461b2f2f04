"""The graph as evidence of recall: what the entities of a query lead to, in what order."""

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Protocol, runtime_checkable

from ailake.core.entities import EntityRef
from ailake.core.entity_extraction import EntityExtractor, check_extractor
from ailake.core.episodic import unit_interval
from ailake.core.graph import check_fact_id
from ailake.core.records import Scope
from ailake.errors import InvalidInputError, MissingExtraError

log = logging.getLogger("ailake")

# What more than a tenth of a scope's memories mention, as the names of those who talk, leads to
# all of them. Measured: docs/graph.md.
MAX_SHARE = 0.1


@runtime_checkable
class RankedGraph(Protocol):
    """A graph that ranks facts by how many short ways lead to them; ``lake.graph()`` is one."""

    def page_rank(
        self, scope: Scope, entities: Sequence[str | EntityRef], *, max_share: float
    ) -> list[tuple[str, float]]:
        """Return facts with their PageRank, personalised on some entities, the highest first.

        Args:
            scope: Whose graph.
            entities: Where walks begin.
            max_share: Not at those that a greater share of the facts mentions.
        """
        ...


class GraphEvidence:
    """Leads a recall to what the entities of its query are joined to: ``recall(…, graph=…)``.

    Safe to use from several threads. Where the extractor or the graph fails, recall goes without:
    it is logged, and counted in ``failures``.

    Args:
        graph: What mentions which entities; ``lake.graph()``, or another one with ``page_rank``.
        extractor: Reads the entities of a query, the one by which memories were indexed.
        weight: By how much the first that the graph leads to comes nearer, in [0, 1].

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self, graph: RankedGraph, extractor: EntityExtractor, *, weight: float = 0.15
    ) -> None:
        if not isinstance(graph, RankedGraph):
            raise InvalidInputError.of("graph", got=graph, wanted="a graph with page_rank")
        self._graph, self._extractor = graph, check_extractor(extractor)
        self._weight = unit_interval(weight, name="weight")
        self._failures, self._lock = 0, Lock()

    @property
    def weight(self) -> float:
        """By how much the first that the graph leads to comes nearer."""
        return self._weight

    @property
    def failures(self) -> int:
        """Recalls that went without the graph, because it or the extractor failed."""
        return self._failures

    def led_to(self, scopes: Sequence[Scope], text: str, *, limit: int) -> list[list[str]]:
        """Return ids of facts that a query leads to, a list per scope, the first first.

        Args:
            scopes: Whose graphs.
            text: The query.
            limit: So many of each scope at most.

        Raises:
            MissingExtraError: The ``graph`` extra is not installed; that is no failure to go
                without.
        """
        try:
            entities = self._extractor.extract(text)
            if not entities:
                return []
            ranked = [
                self._graph.page_rank(scope, entities, max_share=MAX_SHARE) for scope in scopes
            ]
            return [[check_fact_id(one) for one, _ in ranks[:limit]] for ranks in ranked]
        except MissingExtraError:
            raise
        except Exception:
            log.warning("the graph failed; recall goes without it", exc_info=True)
            with self._lock:
                self._failures += 1
            return []
