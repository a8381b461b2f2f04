"""The lake: what ``ailake.connect`` returns."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ailake import clock
from ailake.backup import BackupReport, backup_store
from ailake.core.drafts import check_label
from ailake.core.instants import as_utc
from ailake.core.records import Scope
from ailake.core.schema import SCOPE_COLUMNS, table_spec
from ailake.embed import Embedder, StoredEmbedder
from ailake.errors import InvalidInputError
from ailake.facts import Facts, facts_of
from ailake.graph import LanceKnowledgeGraph
from ailake.ledger import Ledger
from ailake.memory import Memory
from ailake.reading import MemoryReader
from ailake.storage.measures import TableStats, Version, measure, versions
from ailake.storage.memories import pending_count
from ailake.storage.past import create_tag, logged_by, tags, versions_at, view
from ailake.storage.store import Store
from ailake.storage.table import Table
from ailake.storage.verify import Problem, verify

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class LakeStats:
    """Size and shape of a lake.

    Attributes:
        tables: One entry per table.
        scopes: Number of scopes with memories.
        pending_accesses: Memories with accesses that no decay run has folded in yet.
    """

    uri: str
    embedder_id: str
    dim: int
    read_only: bool
    tables: tuple[TableStats, ...]
    scopes: int
    pending_accesses: int


class Lake:
    """An open lake. Use it as a context manager, or close it.

    Attributes:
        embedder: The embedder that the lake was made with.
    """

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self.embedder = embedder
        self._graph: LanceKnowledgeGraph | None = None

    @property
    def store(self) -> Store:
        """The open tables, for jobs; what was just remembered may be in the log yet.

        Raises:
            InvalidInputError: The lake is closed.
        """
        self._store.ensure_open()
        return self._store

    @property
    def uri(self) -> str:
        """Where the lake lives."""
        return self._store.location.uri

    @property
    def embedder_id(self) -> str:
        """Id of the embedder that the lake was made with."""
        return self._store.embedder.id

    @property
    def read_only(self) -> bool:
        """Whether this process can only read the lake."""
        return self._store.read_only

    def memory(
        self, agent_id: str, *, user_id: str = "", project_id: str = "", session_id: str = ""
    ) -> Memory:
        """Return the memory of one scope.

        Raises:
            ScopeError: A part of the scope is missing or malformed.
        """
        scope = Scope(agent_id, user_id, project_id)
        check_label(session_id, name="session_id")
        return Memory(self.store, self.embedder, (scope,), session_id)

    def facts(
        self,
        agent_id: str,
        *,
        user_id: str = "",
        project_id: str = "",
        verifier: str | Mapping[str, str] = "latest_assertion",
        multi_valued: Collection[str] = (),
    ) -> Facts:
        """Return the facts of one scope.

        Args:
            agent_id: Owner of the facts.
            user_id: User within the agent.
            project_id: Project within the agent.
            verifier: Which of two facts that contradict each other stays: ``latest_assertion``,
                the one asserted later, or ``latest_event``, the one that began later; with
                ``queued`` both, until a ``FactVerifyJob`` has asked a verifier. A mapping chooses
                it by predicate; those it lacks have ``latest_assertion``.
            multi_valued: Predicates of which a subject may have several objects at once, in all
                scopes; kept in the lake from then on.

        Raises:
            ScopeError: A part of the scope is missing or malformed.
            InvalidInputError: No such verifier, or no name of a predicate.
            ReadOnlyError: A predicate would have to be declared, and the lake can't be written.
        """
        scope = Scope(agent_id, user_id, project_id)
        return facts_of(self.store, scope, verifier=verifier, multi_valued=multi_valued)

    def read(self, scopes: Iterable[Scope]) -> MemoryReader:
        """Return a reader of several scopes at once; it counts no access.

        Raises:
            InvalidInputError: No scope, or something else.
        """
        wanted = () if isinstance(scopes, Scope) else tuple(dict.fromkeys(scopes))
        if not wanted or not all(isinstance(scope, Scope) for scope in wanted):
            raise InvalidInputError.of("scopes", got=scopes, wanted="at least one Scope")
        self.store.settle()
        return MemoryReader(self.store, self.embedder, wanted)

    def graph(self) -> LanceKnowledgeGraph:
        """Return the entity graph: which memories and facts mention which entities."""
        self._store.ensure_open()
        if self._graph is None:
            self._graph = LanceKnowledgeGraph(self._store)
        return self._graph

    def ledger(self) -> Ledger:
        """Return the provenance ledger: what happened to memories and facts, a chain per scope."""
        return Ledger(self.store)

    def scan(self, name: str) -> "pl.LazyFrame":
        """Return a table as a polars lazy frame: every scope, every row whatever its state.

        Pending accesses are counted in.

        Raises:
            NotFoundError: No such table.
        """
        from ailake.storage.frames import lazy_frame  # noqa: PLC0415 (brings polars)

        more = self.store.drained_later if name == "episodic" else None
        return lazy_frame(self._table(name), self.store.journal, more=more)

    def facts_at(
        self,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        now: datetime | None = None,
    ) -> "pl.LazyFrame":
        """Return the facts of all scopes that hold at one instant, as was believed at another.

        Args:
            as_of: When they are to hold; default: now.
            known_at: What was believed then; default: what is believed now.
            now: The present, timezone-aware; default: by the clock.

        Returns:
            A polars lazy frame with the columns of ``facts``, a row per version.

        Raises:
            InvalidInputError: A datetime is naive.
        """
        from ailake.storage.fact_frames import facts_frame  # noqa: PLC0415 (brings polars)

        self.store.ensure_open()
        holds, believed = clock.resolve_now(now if as_of is None else as_of), known_at or now
        if believed is not None:
            believed = as_utc(believed, name="known_at")
        return facts_frame(self.store, as_of=holds, known_at=believed)

    def table(self, name: str) -> Any:
        """Return the LanceDB table itself."""
        return self._table(name).handle

    def versions(self, name: str) -> list[Version]:
        """Return the versions of a table that can still be read, oldest first."""
        return versions(self._table(name))

    def tag(self, name: str) -> None:
        """Name the present state of all tables, so that ``at(name)`` reads it for ever.

        Raises:
            InvalidInputError: The name is malformed or taken.
            ReadOnlyError: The lake can't be written.
        """
        self.store.ensure_writable()
        create_tag(self.store, name)

    def tags(self) -> list[str]:
        """Return the names of all tags, sorted."""
        return list(tags(self.store))

    def at(self, when: datetime | str) -> Self:
        """Return all tables as they were, as a read-only lake of its own.

        Args:
            when: A tag, or a timezone-aware instant.

        Raises:
            NotFoundError: No such tag, or nothing is kept from that long ago.
        """
        self.store.settle()
        versions = versions_at(self.store, when)
        logged = None
        if isinstance(when, datetime):
            logged = logged_by(self.store, versions["episodic"], when)
        then = view(self.store, versions, logged=logged)
        embedder = self.embedder
        if then.embedder != self.store.embedder:
            embedder = StoredEmbedder(then.embedder.id, then.embedder.dim)
        return type(self)(then, embedder)

    def scopes(self) -> list[Scope]:
        """Return every scope that has memories, sorted."""
        return list(self.scope_counts())

    def scope_counts(self) -> dict[Scope, int]:
        """Return every scope with its number of rows, whatever their state, sorted by scope."""
        import polars as pl  # noqa: PLC0415 (half a second that opening a lake need not pay)

        counted = self.scan("episodic").group_by(SCOPE_COLUMNS).agg(pl.len()).collect().rows()
        return dict(sorted((Scope(*row[:3]), int(row[3])) for row in counted))

    def stats(self) -> LakeStats:
        """Measure the lake."""
        store = self.store
        store.settle()
        return LakeStats(
            uri=self.uri,
            embedder_id=store.embedder.id,
            dim=store.embedder.dim,
            read_only=store.read_only,
            tables=tuple(measure(table) for table in store.tables.values()),
            scopes=len(self.scopes()),
            pending_accesses=pending_count(store),
        )

    def verify(self, *, now: datetime | None = None) -> tuple[Problem, ...]:
        """Check the lake's invariants, and return what does not hold; nothing is changed."""
        self.store.settle()
        return verify(self.store, clock.resolve_now(now))

    def backup(
        self,
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        progress: bool = False,
    ) -> BackupReport:
        """Copy all tables, as they are at one moment, to a new place, while others go on writing.

        The copy is a lake of its own: same ids, vectors, access counts, version numbers and
        indexes. Older versions and tags stay behind.

        Args:
            uri: A new or empty folder, or an object store such as ``s3://bucket/prefix``.
            storage_options: Keys, region, endpoint and the like of that object store; default:
                those of this lake.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: The place is not empty, or lies within the lake.
            ReadOnlyError: The place can't be written.
        """
        return backup_store(self.store, uri, storage_options=storage_options, progress=progress)

    def flush(self) -> None:
        """Return when everything given so far is committed, so that every process sees it.

        Single memories are on disk as ``remember`` returns, but for up to a second only in the
        log, where other processes don't look. Upkeep that is running, such as the merge of an
        index, is waited for.
        """
        self.store.flush()

    def close(self) -> None:
        """Flush and close the lake; closing twice is fine."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self.uri!r}, embedder={self.embedder_id!r})"

    def _table(self, name: str) -> Table:
        found = self.store.tables[table_spec(name).name]
        self.store.settle()
        return found
