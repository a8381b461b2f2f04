"""The memory of one scope: remember, recall, get, list, count, forget."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake import clock
from ailake.core.drafts import Draft, Items, check_id, check_text, drafts_of
from ailake.core.episodic import ScoringPolicy
from ailake.core.filters import conjunction
from ailake.core.instants import EARLIEST, as_utc
from ailake.core.records import ForgetReport, MemoryRecord, Remembered, Scope
from ailake.core.rows import RECORD_COLUMNS
from ailake.embed import Embedder, Vectors, check_vector, check_vectors, embed_query
from ailake.errors import InvalidInputError, NotFoundError
from ailake.hits import Hits
from ailake.progress import progress_bar
from ailake.recalling import RecallOptions, recall
from ailake.storage import memories
from ailake.storage.lake import Store
from ailake.storage.search import payload
from ailake.storage.table import in_lists
from ailake.writing import Writer

MAX_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Memory:
    """The memories of one scope of a lake; made by ``lake.memory(...)``.

    Attributes:
        scope: Every read and write is bound to it.
        session_id: What new memories are marked with; it limits no read.
    """

    store: Store
    embedder: Embedder
    scope: Scope
    session_id: str = ""

    def remember(
        self,
        text: str,
        *,
        importance: float = 0.5,
        confidence: float = 1.0,
        role: str = "user",
        speaker: str = "",
        source: str = "direct",
        kind: str = "",
        id: str | None = None,  # noqa: A002 (the field's name everywhere)
        event_time: datetime | None = None,
        expires_at: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        vector: Sequence[float] | NDArray[np.floating[Any]] | None = None,
        judge: bool = True,
        now: datetime | None = None,
    ) -> Remembered:
        """Store one memory; it is on disk when this returns.

        Args:
            text: What to remember, 1 to 200,000 characters.
            importance: In [0, 1]; never decays; 1.0 pins the memory.
            confidence: How sure the writer is, in [0, 1].
            role: Author's role: user, assistant, system or tool.
            speaker: Author's name; embedded with the text, because it helps recall.
            source: direct, tool, document, group_chat, system or recalled.
            kind: The application's own category.
            id: Makes the call idempotent: the same id again returns the first outcome.
            event_time: When it happened, where that is not now; the memory ages from there.
            expires_at: No read returns it from this instant on.
            metadata: The application's own fields, JSON values.
            session_id: Instead of the one this memory was opened with.
            vector: The embedding, where the caller has it already, (dim,).
            judge: False stores the text even if the same is there already.
            now: The instant of the write, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An argument is wrong; nothing was written.
            ReadOnlyError: The lake can't be written.
        """
        item = {
            "text": text, "importance": importance, "confidence": confidence, "role": role,
            "speaker": speaker, "source": source, "kind": kind, "id": id,
            "event_time": event_time, "expires_at": expires_at, "metadata": metadata,
            "session_id": session_id, "vector": vector,
        }  # fmt: skip
        given = {name: value for name, value in item.items() if name != "text"}
        draft = Draft.of(text, default_session=self.session_id, **given)
        return self._write([draft], judge=judge, now=now, progress=False)[0]

    def remember_many(
        self,
        items: Items,
        *,
        judge: bool = True,
        now: datetime | None = None,
        progress: bool = False,
    ) -> list[Remembered]:
        """Store many memories in few large commits; they see each other.

        Args:
            items: Mappings of ``remember``'s arguments, or an Arrow table or polars frame with
                such columns; every one is checked before the first is written.
            judge: False stores repetitions too.
            now: The instant of the write, timezone-aware; default: the present.
            progress: Show a bar on standard error.

        Returns:
            One outcome per item, in order.

        Raises:
            InvalidInputError: An item is wrong, named by its position; nothing was written.
        """
        drafts = drafts_of(items, default_session=self.session_id)
        return self._write(drafts, judge=judge, now=now, progress=progress)

    def _write(
        self, drafts: Sequence[Draft], *, judge: bool, now: datetime | None, progress: bool
    ) -> list[Remembered]:
        instant = clock.resolve_now(now)
        vectors = _given_vectors(drafts, self.embedder.dim)
        self.store.ensure_writable()
        writer = Writer(self.store, self.embedder, self.scope)
        with progress_bar("remembering", total=len(drafts), shown=progress) as advance:
            return writer.write(drafts, vectors, judge=judge, now=instant, advance=advance)

    def recall(
        self,
        query: str | Sequence[float] | NDArray[np.floating[Any]],
        *,
        limit: int = 10,
        where: Mapping[str, object] | None = None,
        session_id: str | None = None,
        scoring: ScoringPolicy | None = None,
        max_distance: float | None = None,
        exact: bool = False,
        touch: bool = True,
        now: datetime | None = None,
    ) -> Hits:
        """Return the memories that matter most for a query, best first.

        The nearest memories are scored by distance / (recency x importance) and reordered.

        Args:
            query: Text, or its vector (dim,).
            limit: Number of hits, 1 to 10,000.
            where: Filter, applied before the search.
            session_id: Only memories of this session.
            scoring: How age and importance weigh; ``ScoringPolicy.SEED`` is the pure formula.
            max_distance: Return nothing farther than this cosine distance.
            exact: Leave an approximate index alone.
            touch: Count the hits as accesses, which keeps them fresh; a read-only lake can't.
            now: The instant from which ages are counted, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        instant = clock.resolve_now(now)
        if isinstance(query, str):
            vector = embed_query(self.embedder, check_text(query))
        else:
            vector = check_vector(query, dim=self.embedder.dim, name="query")
        asked = memories.predicate(where)
        if session_id is not None:
            asked = conjunction(asked, memories.predicate({"session_id": session_id}))
        options = RecallOptions(
            limit=_whole(limit, name="limit", low=1, high=MAX_LIMIT),
            scoring=_scoring(scoring),
            max_distance=_distance(max_distance),
            exact=exact,
        )
        visible = memories.visible(self.scope, asked, instant)
        hits = recall(self.store, vector, visible, options, now=instant)
        if touch and not self.store.read_only:
            ids = [hit.id for hit in hits]
            self.store.journal.record_recall(self.scope, ids, now=instant)
        return hits

    def get(self, id: str, *, now: datetime | None = None) -> MemoryRecord:  # noqa: A002
        """Return one memory, whatever its state.

        Raises:
            NotFoundError: None with this id in this scope, or it has expired.
        """
        asked = conjunction(
            memories.in_scope(self.scope),
            memories.predicate({"chunk_id": check_id(id)}),
            memories.unexpired(clock.resolve_now(now)),
        )
        found = memories.find(self.store, asked)
        if not found:
            raise NotFoundError(f"no memory {id!r} in {self.scope}")
        return found[0]

    def list(
        self,
        where: Mapping[str, object] | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        newest_first: bool = False,
        now: datetime | None = None,
    ) -> builtins.list[MemoryRecord]:
        """Return a page of memories in the order in which they were written.

        Active, unexpired ones, unless ``where`` names state. That order is the same while others
        write; ``newest_first`` turns it round.
        """
        size = _whole(limit, name="limit", low=1, high=MAX_LIMIT)
        start = _whole(offset, name="offset", low=0, high=2**62)
        rows = self.store.episodic.read(
            ("created_at",), self._visible(where, now), with_row_id=True
        )
        order = "descending" if newest_first else "ascending"
        rows = rows.sort_by([("created_at", order), ("_rowid", order)])
        page = rows.slice(start, size)["_rowid"].to_numpy()
        return memories.records(
            payload(self.store.episodic, page, RECORD_COLUMNS), self.store.journal
        )

    def count(
        self, where: Mapping[str, object] | None = None, *, now: datetime | None = None
    ) -> int:
        """Return the number of active, unexpired memories, unless ``where`` names state."""
        return self.store.episodic.count(self._visible(where, now))

    def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Mapping[str, object] | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        now: datetime | None = None,
    ) -> ForgetReport:
        """Remove memories of this scope, whatever their state; the terms are ANDed.

        They are gone from every read at once. Old versions of the tables keep them until those
        versions are cleaned.

        Args:
            ids: One id or several.
            where: Filter.
            older_than: An age or an instant, compared with the event, else with the creation.
            dry_run: Report what would go, and change nothing.
            now: The instant that an age is counted from.

        Raises:
            InvalidInputError: No term at all, or a wrong one.
        """
        if ids is None and not where and older_than is None:
            raise InvalidInputError("forget: got no term, wanted ids, where or older_than")
        instant = clock.resolve_now(now)
        terms = [memories.in_scope(self.scope), memories.predicate(where)]
        if older_than is not None:
            terms.append(memories.born_before(_cutoff(older_than, instant)))
        wanted = None if ids is None else _ids(ids)
        rows = self._matching(terms, wanted)
        if not dry_run:
            self.store.ensure_writable()
            memories.remove(self.store, rows)
        found = sorted(rows["chunk_id"].to_pylist())
        return ForgetReport(
            ids=tuple(found),
            missing=tuple(sorted(set(wanted or ()) - set(found))),
            dry_run=dry_run,
        )

    def _matching(self, terms: Sequence[Any], ids: Sequence[str] | None) -> pa.Table:
        parts = [None] if ids is None else list(in_lists(ids))
        tables = [
            self.store.episodic.read(
                ("chunk_id",),
                conjunction(
                    *terms,
                    memories.predicate(None if part is None else {"chunk_id": {"in": list(part)}}),
                ),
                with_row_id=True,
            )
            for part in parts
        ]
        return pa.concat_tables(tables)

    def _visible(self, where: Mapping[str, object] | None, now: datetime | None) -> Any:
        return memories.visible(self.scope, memories.predicate(where), clock.resolve_now(now))


def _given_vectors(drafts: Sequence[Draft], dim: int) -> dict[int, Vectors]:
    given = {place: draft.vector for place, draft in enumerate(drafts) if draft.vector is not None}
    if len(given) == len(drafts):
        return dict(enumerate(check_vectors(list(given.values()), dim=dim, name="vector of item")))
    return {
        place: check_vector(vector, dim=dim, name=f"vector of item {place}")
        for place, vector in given.items()
    }


def _ids(ids: str | Sequence[str]) -> list[str]:
    listed = [ids] if isinstance(ids, str) else list(ids)
    if not listed:
        raise InvalidInputError("ids: got an empty list, wanted at least one id")
    return sorted({check_id(memory_id) for memory_id in listed})


def _cutoff(older_than: object, now: datetime) -> datetime:
    if not isinstance(older_than, timedelta):
        return as_utc(older_than, name="older_than")
    if not timedelta(0) <= older_than <= now - EARLIEST:
        raise InvalidInputError.of(
            "older_than", got=older_than, wanted="an age from 0 to 340 years"
        )
    return now - older_than


def _whole(value: object, *, name: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInputError.of(
            name, got=value, wanted=f"a whole number from {low:,} to {high:,}"
        )
    return value


def _scoring(value: object) -> ScoringPolicy:
    if value is None:
        return ScoringPolicy()
    if not isinstance(value, ScoringPolicy):
        raise InvalidInputError.of("scoring", got=value, wanted="a ScoringPolicy")
    return value


def _distance(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 2:
        raise InvalidInputError.of("max_distance", got=value, wanted="a number in [0, 2]")
    return float(value)
