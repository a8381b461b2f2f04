"""Reading the memories of one scope or several: recall, get, list, count, history."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ailake import clock
from ailake.aio import Edge, Verb
from ailake.core.accesses import AccessEvent
from ailake.core.decisions import DecisionRecord
from ailake.core.drafts import check_id, check_text
from ailake.core.episodic import ScoringPolicy
from ailake.core.filter_values import CheckedTexts
from ailake.core.filters import Predicate, conjunction
from ailake.core.graph_evidence import GraphEvidence
from ailake.core.records import MemoryRecord, Scope, SearchReport
from ailake.core.reranking import Reranker
from ailake.embed import Embedder, check_vector, embed_query
from ailake.errors import InvalidInputError, NotFoundError
from ailake.hits import Hits
from ailake.recalling import recall, told
from ailake.storage import decisions, memories
from ailake.storage.question import Mode, Question
from ailake.storage.retries import reading_again
from ailake.storage.store import Store
from ailake.storage.view import ReadView
from ailake.telemetry import traced

MAX_LIMIT = 10_000

T = TypeVar("T")


class RecallOptions(TypedDict, total=False):
    """What ``recall`` takes beside a query and a limit."""

    where: Mapping[str, object] | None
    mode: str
    session_id: str | None
    scoring: ScoringPolicy | None
    max_distance: float | None
    exact: bool
    vector: Sequence[float] | NDArray[np.floating[Any]] | None
    reranker: Reranker | None
    graph: GraphEvidence | None
    touch: bool
    now: datetime | None


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """Reads the memories of some scopes; made by ``lake.read([...])``.

    Attributes:
        scopes: Every read is bound to them.
    """

    store: Store
    embedder: Embedder
    scopes: tuple[Scope, ...]

    # Whether a recall counts as an access.
    touches: ClassVar[bool] = False

    @property
    def aio(self) -> "AsyncMemoryReader":
        """The same verbs as coroutines."""
        return AsyncMemoryReader(self)

    @traced("ailake.recall", told)
    def recall(
        self,
        query: str | Sequence[float] | NDArray[np.floating[Any]],
        *,
        limit: int = 10,
        where: Mapping[str, object] | None = None,
        mode: str = "hybrid",
        session_id: str | None = None,
        scoring: ScoringPolicy | None = None,
        max_distance: float | None = None,
        exact: bool = False,
        vector: Sequence[float] | NDArray[np.floating[Any]] | None = None,
        reranker: Reranker | None = None,
        graph: GraphEvidence | None = None,
        touch: bool = True,
        now: datetime | None = None,
    ) -> Hits:
        """Return the memories that matter most for a query, best first.

        Stage one finds the best by distance, less what shared words tell, over recency x
        importance; all memories of a scope that fits into memory are scored. ``hits.exact`` tells
        whether its best are proven to be the best. Stage two reorders them by what the turns
        around each and its speaker add. See ``ScoringPolicy``.

        Args:
            query: Text, or its vector (dim,), which has no words.
            limit: Number of hits, 1 to 10,000.
            where: Filter, applied before the search.
            mode: ``hybrid`` counts all evidence, ``vector`` stage one over distances alone,
                ``text`` words alone: memories that share none with the query are no hits, and
                nothing is embedded.
            session_id: Only memories of this session.
            scoring: How all that weighs; ``ScoringPolicy.SEED`` is the pure formula, distance /
                (recency x importance).
            max_distance: Return nothing farther than this cosine distance, even if it shares
                words with the query; not in mode text, which has no distances.
            exact: Leave an approximate index alone; ``hits.exact`` tells whether the answer is
                proven.
            vector: The embedding of a text query, where the caller has it already, (dim,).
            reranker: Reads the best max(100, 10 x limit) of the others' order together with the
                query; what it finds stands in place of all other evidence. Not in mode vector.
            graph: Lets stage two count where the entities of the query lead, and look at what the
                lists did not bring. Only in mode hybrid, with a text.
            touch: Count the hits as accesses, which keeps them fresh: at once here, and within a
                second in the journal, so that a kill loses those of a second. Where they can't be
                written, as on a full disk, a warning is logged and they wait; after 100,000,
                ``hits.counted`` is False. A read-only lake, a view of the past and a reader of
                several scopes never count.
            now: The instant from which ages are counted, timezone-aware; default: the present.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        instant = clock.resolve_now(now)
        asked = memories.predicate(where)
        if session_id is not None:
            asked = conjunction(asked, memories.predicate({"session_id": session_id}))
        size = _whole(limit, name="limit", low=1, high=MAX_LIMIT)
        chosen, policy = _mode(mode), _scoring(scoring)
        distance = _distance(max_distance)
        text, embedding = self._embedded(query, vector, mode=chosen, max_distance=distance)
        question = Question(
            vector=embedding,
            text=text,
            mode=chosen,
            scopes=self.scopes,
            asked=asked,
            scoring=policy if chosen is not Mode.TEXT else replace(policy, lexical_weight=1.0),
            max_distance=distance,
            instant=instant,
            reranker=_reranker(reranker, text),
            graph=_graph(graph, text, chosen),
        )
        if question.words is not None:
            # What is only logged can't be searched by words.
            self.store.settle_logged()
        hits = self._read(lambda view: recall(view, question, limit=size, exact=exact))
        return noted(self, hits, now=instant) if touch else hits

    def recall_filtered(
        self,
        query: str | Sequence[float] | NDArray[np.floating[Any]],
        limit: int,
        candidate_ids: Iterable[str],
        **options: Unpack[RecallOptions],
    ) -> Hits:
        """Return those of the given memories that matter most for a query, best first.

        Args:
            query: Text, or its vector (dim,).
            limit: Number of hits, 1 to 10,000.
            candidate_ids: The memories, any number of them, chosen before the search. Those that
                are not in these scopes or that recall does not see are left out; without any there
                are no hits, and nothing is read.
            options: As in ``recall``.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        size = _whole(limit, name="limit", low=1, high=MAX_LIMIT)
        unknown = sorted(options.keys() - RecallOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"recall_filtered has no option {', '.join(unknown)}")
        ids = _candidates(candidate_ids)
        if not ids:
            return Hits((), SearchReport(exact=True, bound_held=True))
        meant = self._read(lambda view: memories.survivors(view, ids))
        named = {"chunk_id": {"in": CheckedTexts(dict.fromkeys(meant))}}
        where = options.get("where")
        options["where"] = named if where is None else {"AND": [named, where]}
        return self.recall(query, limit=size, **options)

    def _embedded(
        self, query: Any, vector: Any, *, mode: Mode, max_distance: float | None
    ) -> tuple[str | None, NDArray[np.float32]]:
        """Return a query's words, None where it has none that count, and its vector."""
        text = check_text(query) if isinstance(query, str) else None
        if mode is Mode.TEXT:
            if text is None:
                raise InvalidInputError.of("query", got=query, wanted="text, in mode text")
            if max_distance is not None:
                raise InvalidInputError("max_distance: mode text looks at no vector")
            return text, np.empty(0, np.float32)
        if text is None:
            if vector is not None:
                raise InvalidInputError("vector: the query is a vector already")
            return None, check_vector(query, dim=self.embedder.dim, name="query")
        if vector is None:
            embedded = embed_query(self.embedder, text)
        else:
            embedded = check_vector(vector, dim=self.embedder.dim, name="vector")
        return (None if mode is Mode.VECTOR else text), embedded

    def get(self, id: str, *, now: datetime | None = None) -> MemoryRecord:  # noqa: A002
        """Return one memory, whatever its state.

        The id of one that lost a race against another process that remembered the same returns
        the survivor.

        Raises:
            NotFoundError: None with this id in this scope, or it has expired.
        """
        memory_id = check_id(id)
        seen = conjunction(
            memories.in_scopes(self.scopes), memories.unexpired(clock.resolve_now(now))
        )

        def survivor(view: ReadView) -> MemoryRecord | None:
            (found_id,) = memories.survivors(view, [memory_id])
            return memories.find_id(view, found_id, seen)

        found = self._read(survivor)
        if found is None:
            raise NotFoundError(f"no memory {id!r} in {_names(self.scopes)}")
        return found

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
        shown = self._listed(where, now)
        return self._read(
            lambda view: memories.page(
                view, shown, start=start, size=size, newest_first=newest_first
            )
        )

    def count(
        self, where: Mapping[str, object] | None = None, *, now: datetime | None = None
    ) -> int:
        """Return the number of active, unexpired memories, unless ``where`` names state."""
        shown = self._listed(where, now)
        return self._read(lambda view: memories.count(view, shown))

    def history(self, id: str) -> builtins.list[MemoryRecord]:  # noqa: A002
        """Return a memory's chain of merges: what was merged, and last what it was merged into.

        Every row is returned whose chain ends in the same memory, farthest first, whatever its
        state. A memory that nothing was merged into is alone.

        Raises:
            NotFoundError: None with this id in these scopes.
        """
        memory_id = check_id(id)
        found = self._read(lambda view: memories.chain(view, self.scopes, memory_id))
        if not found:
            raise NotFoundError(f"no memory {id!r} in {_names(self.scopes)}")
        return found

    def decisions(
        self, where: Mapping[str, object] | None = None, *, limit: int = 100
    ) -> builtins.list[DecisionRecord]:
        """Return what was decided of memories and why, newest first.

        Args:
            where: Filter on the columns of ``decisions``, such as ``{"decision": "merge"}`` or
                ``{"memory_id": id}``.
            limit: So many at most, 1 to 10,000.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        size = _whole(limit, name="limit", low=1, high=MAX_LIMIT)
        asked = decisions.where_decisions(where)
        # Verdicts follow their memories: what waits for a commit is not in the table yet.
        self.store.settle()
        return decisions.find(self.store, self.scopes, asked, limit=size)

    def _read(self, action: Callable[[ReadView], T]) -> T:
        self.store.settle_stale()
        return reading_again(lambda: action(self.store.view()))

    def _listed(self, where: Mapping[str, object] | None, now: datetime | None) -> Predicate:
        return memories.listed(self.scopes, memories.predicate(where), clock.resolve_now(now))


@dataclass(frozen=True)
class AsyncMemoryReader(Edge):
    """The verbs of a ``MemoryReader`` as coroutines; made by ``lake.read([...]).aio``."""

    sync: MemoryReader

    recall = Verb(MemoryReader.recall)
    recall_filtered = Verb(MemoryReader.recall_filtered)
    get = Verb(MemoryReader.get)
    list = Verb(MemoryReader.list)
    count = Verb(MemoryReader.count)
    history = Verb(MemoryReader.history)
    decisions = Verb(MemoryReader.decisions)


def _whole(value: Any, *, name: str, low: int, high: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise InvalidInputError.of(
            name, got=value, wanted=f"a whole number from {low:,} to {high:,}"
        )
    return int(value)


def _mode(value: str) -> Mode:
    try:
        return Mode(value)
    except ValueError as error:
        raise InvalidInputError.of("mode", got=value, wanted=" | ".join(Mode)) from error


def _reranker(value: object, text: str | None) -> Reranker | None:
    if value is None:
        return None
    if not isinstance(value, Reranker):
        raise InvalidInputError.of("reranker", got=value, wanted="a Reranker: id and relevance")
    if text is None:
        raise InvalidInputError(
            "reranker: it reads texts, so the query must be text and the mode not vector"
        )
    return value


def _graph(value: object, text: str | None, mode: Mode) -> GraphEvidence | None:
    if value is None:
        return None
    if not isinstance(value, GraphEvidence):
        raise InvalidInputError.of("graph", got=value, wanted="a GraphEvidence")
    if text is None or mode is not Mode.HYBRID:
        raise InvalidInputError(
            "graph: it reads the query's entities, so the query must be text and the mode hybrid"
        )
    return value


def noted(reader: MemoryReader, hits: Hits, *, now: datetime) -> Hits:
    """Count hits as accesses, where the reader and the lake count any."""
    if not reader.touches or reader.store.read_only:
        return hits
    met = [(hit.scope, hit.id) for hit in hits]
    counted = reader.store.note_accesses(met, AccessEvent.RECALL, now=now)
    return replace(hits, counted=counted)


def _candidates(ids: object) -> list[str]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidInputError.of("candidate_ids", got=ids, wanted="a collection of ids")
    return list(dict.fromkeys(check_id(one, name="candidate_ids") for one in ids))


# Checking its numbers anew would cost a recall more than many of its other steps.
_DEFAULT = ScoringPolicy()


def _scoring(value: object) -> ScoringPolicy:
    if value is None:
        return _DEFAULT
    if not isinstance(value, ScoringPolicy):
        raise InvalidInputError.of("scoring", got=value, wanted="a ScoringPolicy")
    return value


def _distance(value: Any) -> float | None:
    if value is None:
        return None
    number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not number or not 0 <= value <= 2:
        raise InvalidInputError.of("max_distance", got=value, wanted="a number in [0, 2]")
    return float(value)


def _names(scopes: Sequence[Scope]) -> str:
    return ", ".join(map(str, scopes))
