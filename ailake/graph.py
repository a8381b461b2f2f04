"""The entity graph of a lake: kept in the table ``mentions``, current across processes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ailake import clock
from ailake.core.entities import EntityRef
from ailake.core.entity_extraction import EntityExtractor, check_extractor
from ailake.core.graph import IndexEntry, check_fact_id
from ailake.core.graph_walk import ScopeGraph
from ailake.core.knowledge import WalkedGraph, checked_entries, checked_scope
from ailake.core.mention_rows import fresh_mentions, mention_rows
from ailake.core.records import Scope
from ailake.extracting import records_of
from ailake.storage import memories, mentions
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.store import Store

if TYPE_CHECKING:
    import polars as pl


class LanceKnowledgeGraph(WalkedGraph):
    """The graph of a lake; get it from ``lake.graph()``.

    Only mentions are stored. What co-occurs is derived from them: two entities do in every fact
    that mentions both, so that a count is never wrong and a removal is one delete.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def failures(self) -> int:
        """How often the graph has failed a write of memories in this process, since it was opened.

        The memories are stored, or gone, all the same; the log tells which.
        """
        return self._store.graph_faults.count

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
        """As of ``KnowledgeGraph``; on disk when it returns.

        Raises:
            InvalidInputError: An argument is wrong; nothing was written.
            ReadOnlyError: The lake can't be written.
        """
        entry = IndexEntry(fact_id, entities, text, valid_from)
        return bool(self.index_many(scope, [entry], now=now))

    def index_many(
        self, scope: Scope, batch: Iterable[IndexEntry], *, now: datetime | None = None
    ) -> list[str]:
        """As of ``KnowledgeGraph``: one commit, on disk when it returns.

        Args:
            scope: Whose graph.
            batch: The entries.
            now: When they are recorded, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An entry is wrong; nothing was written.
            ReadOnlyError: The lake can't be written.
        """
        self._store.ensure_writable()
        entries, scope = checked_entries(batch), checked_scope(scope)
        moment = clock.resolve_now(now)
        # Two processes that note the same write it twice, which no read tells from once.
        with exclusive(self._store.location.root, WRITE):
            return self._noted(scope, entries, now=moment)

    def extract(
        self,
        scope: Scope,
        memory_ids: Iterable[str],
        *,
        extractor: EntityExtractor,
        now: datetime | None = None,
    ) -> list[str]:
        """Note which entities an extractor reads out of stored memories, in one commit.

        A memory holds since its event, else since its creation. One that is forgotten meanwhile is
        left out, and the same again adds nothing.

        Args:
            scope: Whose memories.
            memory_ids: Their ids.
            extractor: Reads the entities of a text; where it raises nothing is written.
            now: When they are recorded, timezone-aware; default: the present.

        Returns:
            The ids of those that were news, in order.

        Raises:
            InvalidInputError: No list of ids, one of a memory that was merged into another, or no
                extractor.
            NotFoundError: The scope has no such memory.
            ReadOnlyError: The lake can't be written.
        """
        self._store.ensure_writable()
        moment, reader = clock.resolve_now(now), check_extractor(extractor)
        entries = [
            IndexEntry(one.id, reader.extract(one.text), "", one.event_time or one.created_at)
            for one in records_of(self._store, checked_scope(scope), memory_ids)
        ]
        ids = [one.fact_id for one in entries]
        with exclusive(self._store.location.root, WRITE):
            kept = memories.kept_ids(self._store.rows_view(), scope, ids)
            left = [one for one in entries if one.fact_id in kept]
            return self._noted(scope, left, now=moment)

    def _noted(self, scope: Scope, entries: Sequence[IndexEntry], *, now: datetime) -> list[str]:
        fresh = fresh_mentions(entries, self._store.graphs.noted(scope))
        if fresh:
            mentions.append(self._store, mention_rows(scope, fresh, recorded_at=now))
        return [one.fact_id for one in fresh]

    def forget(self, scope: Scope, fact_id: str) -> bool:
        """As of ``KnowledgeGraph``, in one commit; with what was merged into a memory.

        Raises:
            ReadOnlyError: The lake can't be written.
        """
        self._store.ensure_writable()
        scope, fact_id = checked_scope(scope), check_fact_id(fact_id)
        with exclusive(self._store.location.root, WRITE):
            gone = self._store.graphs.standing_for(scope, fact_id)
            return bool(mentions.remove(self._store, {scope: gone}))

    def scope_graph(self, scope: Scope) -> ScopeGraph:
        """Return the present mentions of a scope, to be walked."""
        self._store.ensure_open()
        return self._store.graphs.of(scope)

    def noted_graph(self, scope: Scope) -> ScopeGraph:
        """Return the present mentions, those of a merged memory under its own id."""
        self._store.ensure_open()
        return self._store.graphs.noted(scope)

    def noted_ids(self, scope: Scope, fact_id: str) -> set[str]:
        """Return a fact's id with those of the memories that were merged into it."""
        return self._store.graphs.standing_for(scope, fact_id)

    def to_polars(self, scope: Scope) -> "pl.DataFrame":
        """Return a row per mention of a scope: fact_id, entity_id, entity_name, entity_type."""
        import polars as pl  # noqa: PLC0415 (half a second that a walk need not pay)

        graph = self.scope_graph(checked_scope(scope))
        entities = np.repeat(np.arange(len(graph.entity_ids)), graph.mentioning.counts)
        columns = {
            "fact_id": pa.array(graph.facts, pa.string()).take(graph.mentioning.targets),
            "entity_id": pa.array(graph.entity_ids, pa.string()).take(entities),
            "entity_name": graph.names.take(entities),
            "entity_type": graph.types.take(entities),
        }
        return pl.DataFrame(pl.from_arrow(pa.table(columns)))
