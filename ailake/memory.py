"""The memory of one scope: everything a reader does, and the verbs that write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake import clock
from ailake.aio import Verb
from ailake.bulk import BulkWriter
from ailake.changing import Changer
from ailake.core.accesses import AccessEvent
from ailake.core.drafts import Draft, Items, check_id, check_metadata
from ailake.core.entities import EntityRef
from ailake.core.episodic import unit_interval
from ailake.core.filters import Predicate, conjunction
from ailake.core.instants import EARLIEST, as_utc
from ailake.core.messages import drafts_of_messages
from ailake.core.records import ForgetReport, MemoryRecord, Remembered, Scope
from ailake.errors import InvalidInputError, NotFoundError
from ailake.parts import Embedded, GivenVectors, read_items
from ailake.progress import progress_bar
from ailake.reading import AsyncMemoryReader, MemoryReader
from ailake.storage import memories
from ailake.storage.table import in_lists, read_rows
from ailake.storage.view import ReadView
from ailake.telemetry import traced
from ailake.writing import Writer, told


@dataclass(frozen=True, slots=True)
class Memory(MemoryReader):
    """The memories of one scope of a lake; made by ``lake.memory(...)``.

    Attributes:
        session_id: What new memories are marked with; it limits no read.
    """

    session_id: str = ""

    touches: ClassVar[bool] = True

    @property
    def scope(self) -> Scope:
        """Every read and write is bound to it."""
        return self.scopes[0]

    @property
    def aio(self) -> "AsyncMemory":
        """The same verbs as coroutines."""
        return AsyncMemory(self)

    @traced("ailake.remember", told)
    def remember(
        self,
        text: str,
        *,
        importance: float = 0.5,
        confidence: float = 1.0,
        role: str = "user",
        speaker: str = "",
        source: str | None = None,
        kind: str = "",
        id: str | None = None,  # noqa: A002 (the field's name everywhere)
        entities: Sequence[str | EntityRef] = (),
        event_time: datetime | None = None,
        expires_at: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        vector: Sequence[float] | NDArray[np.floating[Any]] | None = None,
        judge: bool = True,
        now: datetime | None = None,
    ) -> Remembered:
        """Store one memory; it is on disk when this returns, and other processes see it in 1 s.

        Args:
            text: What to remember, 1 to 200,000 characters.
            importance: In [0, 1]; never decays; 0 is as good as never found, 1.0 marks what no
                pruning may remove.
            confidence: How sure the writer is, in [0, 1].
            role: Author's role, such as user, assistant, system or tool.
            speaker: Author's name; embedded with the text, because it helps recall.
            source: direct, tool, document, group_chat, system or recalled; default: direct, but
                recalled where the text holds what ``hits.as_prompt`` returned, or a part of it.
            kind: The application's own category.
            id: Makes the call idempotent: the same id again returns the first outcome and changes
                nothing. Unique in the whole lake.
            entities: What it mentions, for the graph: strings (``concept``s) and ``EntityRef``s.
                Where another memory stands for it, that one mentions them. The graph has them
                with the memory's row, within a second.
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
            "entities": entities, "event_time": event_time, "expires_at": expires_at,
            "metadata": metadata, "session_id": session_id, "vector": vector,
        }  # fmt: skip
        given = {name: value for name, value in item.items() if name != "text"}
        draft = Draft.of(text, default_session=self.session_id, **given)
        return self._write_few([draft], judge=judge, now=now)[0]

    @traced("ailake.remember_many", told)
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
        given = read_items(items, default_session=self.session_id, dim=self.embedder.dim)
        instant = clock.resolve_now(now)
        self.store.ensure_writable()
        bar = progress_bar("remembering", total=len(given.drafts), shown=progress)
        with self.store.writing_many(), bar as advance:
            if isinstance(given, Embedded) and not judge:
                bulk = BulkWriter(self.store, self.scope, judge=judge, now=instant)
                return bulk.write(given.drafts, given.vectors, advance=advance)
            rest = given.one_by_one() if isinstance(given, Embedded) else given
            writer = Writer(self.store, self.embedder, self.scope)
            return writer.write(
                rest.drafts, rest.vectors, judge=judge, now=instant, advance=advance
            )

    @traced("ailake.add_messages", told)
    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session_id: str | None = None,
        judge: bool = True,
        now: datetime | None = None,
    ) -> list[Remembered]:
        """Store chat turns, all or none; they are on disk when this returns.

        Args:
            messages: Mappings with ``role`` and ``content``, and optionally ``name`` (becomes the
                speaker), ``created_at`` (becomes the event's time), ``tool_calls``, ``id``
                and ``entities``.
            session_id: Instead of the one this memory was opened with.
            judge: False stores repetitions too, and for good what has the role of a program,
                such as system or tool, which is else deferred.
            now: The instant of the write, timezone-aware; default: the present.

        Raises:
            InvalidInputError: A message is wrong, named by its position; nothing was written.
        """
        session = self.session_id if session_id is None else session_id
        drafts = drafts_of_messages(messages, default_session=session)
        return self._write_few(drafts, judge=judge, now=now)

    def update(
        self,
        id: str,  # noqa: A002 (the field's name everywhere)
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        expires_at: datetime | None = None,
        now: datetime | None = None,
    ) -> MemoryRecord:
        """Change a memory; what is left out stays.

        Args:
            id: The memory.
            text: Becomes a new row with an id of its own; the old one is marked merged into it
                and shows in ``history``. The same text again changes nothing.
            metadata: Replaces all of it.
            importance: In [0, 1].
            expires_at: No read returns it from this instant on.
            now: The instant of the change, timezone-aware; default: the present.

        Returns:
            The memory as it is now.

        Raises:
            NotFoundError: None with this id in this scope.
            InvalidInputError: Nothing to change, a wrong value, a merged memory, or a text that
                another memory has, also where this one had expired.
        """
        fields: dict[str, Any] = {}
        if metadata is not None:
            fields["metadata"] = check_metadata(metadata)
        if importance is not None:
            fields["importance_score"] = unit_interval(importance, name="importance")
        if expires_at is not None:
            fields["expires_at"] = as_utc(expires_at, name="expires_at")
        if text is None and not fields:
            raise InvalidInputError(
                "update: got no change, wanted text, metadata, importance or expires_at"
            )
        instant = clock.resolve_now(now)
        self.store.ensure_writable()
        changer = Changer(self.store, self.embedder, self.scope)
        memory_id = check_id(id)
        if text is None:
            changer.set_fields(memory_id, fields, now=instant)
        else:
            memory_id = changer.rewrite(memory_id, text, fields, now=instant)
        return self.get(memory_id, now=EARLIEST)  # Whatever its expiry.

    def restore(self, id: str, *, now: datetime | None = None) -> MemoryRecord:  # noqa: A002
        """Make a merged memory live again, beside the one it was merged into.

        Where its expiry has passed meanwhile, it has none any more.

        Raises:
            NotFoundError: None with this id in this scope.
            InvalidInputError: It is not merged, or a live memory says the same.
        """
        instant = clock.resolve_now(now)
        self.store.ensure_writable()
        Changer(self.store, self.embedder, self.scope).restore(check_id(id), now=instant)
        return self.get(id, now=EARLIEST)

    def touch(self, ids: str | Sequence[str], *, now: datetime | None = None) -> None:
        """Count an access of each memory without a recall.

        Raises:
            NotFoundError: An id is not in this scope; nothing was counted.
        """
        instant = clock.resolve_now(now)
        wanted = _ids(ids)
        self.store.ensure_writable()

        def look(view: ReadView) -> tuple[list[str], set[str]]:
            meant = memories.survivors(view, wanted)
            return meant, memories.kept_ids(view, self.scope, meant)

        meant, kept = self._read(look)
        for memory_id, survivor in zip(wanted, meant, strict=True):
            if survivor not in kept:
                raise NotFoundError(f"no memory {memory_id!r} in {self.scope}")
        met = [(self.scope, survivor) for survivor in meant]
        self.store.journal.record(met, AccessEvent.TOUCH, now=instant)

    def _write_few(
        self, drafts: Sequence[Draft], *, judge: bool, now: datetime | None
    ) -> list[Remembered]:
        instant = clock.resolve_now(now)
        vectors = GivenVectors.of(drafts, self.embedder.dim)
        self.store.ensure_writable()
        writer = Writer(self.store, self.embedder, self.scope)
        return writer.write_few(drafts, vectors, judge=judge, now=instant)

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

        What was merged into one of them, such as its text before an update, goes with it. They are
        gone from every read at once. Old versions of the tables keep them until those
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
        terms = [memories.in_scopes(self.scopes), memories.predicate(where)]
        if older_than is not None:
            terms.append(memories.born_before(_cutoff(older_than, instant)))
        wanted = None if ids is None else _ids(ids)
        if dry_run:
            self.store.settle()
            return self._forget(terms, wanted, now=None)
        self.store.ensure_writable()
        # Held to the end: nobody merges or restores what is being removed.
        with self.store.committing():
            report = self._forget(terms, wanted, now=instant)
        # The ledger is told later that they are gone.
        self.store.upkeep_soon()
        return report

    def _forget(
        self, terms: Sequence[Predicate], wanted: Sequence[str] | None, *, now: datetime | None
    ) -> ForgetReport:
        """Remove what is meant; without ``now``, only tell what that is."""
        meant = wanted
        if wanted is not None:
            meant = sorted(set(memories.survivors(self.store.rows_view(), wanted)))
        rows = memories.with_merged(self.store, self._matching(terms, meant))
        found = sorted(rows["chunk_id"].to_pylist())
        missing = sorted(set(wanted or ()) - set(found))
        if now is not None:
            memories.remove(self.store, self.scope, rows, also=missing, now=now)
        return ForgetReport(ids=tuple(found), missing=tuple(missing), dry_run=now is None)

    def _matching(self, terms: Sequence[Predicate], ids: Sequence[str] | None) -> pa.Table:
        parts = [None] if ids is None else list(in_lists(ids))
        view = self.store.view(committed=True)
        tables = []
        for part in parts:
            named = None if part is None else {"chunk_id": {"in": list(part)}}
            asked = view.resolved(conjunction(*terms, memories.predicate(named)))
            tables.append(read_rows(view.dataset, ("chunk_id",), asked, with_row_id=True))
        return pa.concat_tables(tables)


@dataclass(frozen=True)
class AsyncMemory(AsyncMemoryReader):
    """The verbs of a ``Memory`` as coroutines; made by ``memory.aio``.

    A cancelled one either never began, or goes on to its end: nothing is ever half written.
    """

    sync: Memory

    remember = Verb(Memory.remember)
    remember_many = Verb(Memory.remember_many)
    add_messages = Verb(Memory.add_messages)
    update = Verb(Memory.update)
    restore = Verb(Memory.restore)
    touch = Verb(Memory.touch)
    forget = Verb(Memory.forget)


def _ids(ids: str | Sequence[str]) -> list[str]:
    if not isinstance(ids, Iterable):
        raise InvalidInputError.of("ids", got=ids, wanted="an id, or several")
    listed = [ids] if isinstance(ids, str) else list(ids)
    if not listed:
        raise InvalidInputError("ids: got an empty list, wanted at least one id")
    return sorted({check_id(memory_id) for memory_id in listed})


def _cutoff(older_than: object, now: datetime) -> datetime:
    if isinstance(older_than, datetime):
        return as_utc(older_than, name="older_than")
    if not isinstance(older_than, timedelta):
        raise InvalidInputError.of(
            "older_than", got=older_than, wanted="a timedelta or a timezone-aware datetime"
        )
    if not timedelta(0) <= older_than <= now - EARLIEST:
        raise InvalidInputError.of(
            "older_than", got=older_than, wanted="an age from 0 to 340 years"
        )
    return now - older_than
