"""Changing stored memories: update, restore, and what a review decides."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ailake import clock
from ailake.core.decisions import BY_RESTORE, RESTORED, DecisionRecord
from ailake.core.drafts import Draft, check_text
from ailake.core.records import Decision, MemoryRecord, Scope, State
from ailake.core.remembering import DuplicateKey, duplicate_keys
from ailake.core.rows import nanoseconds
from ailake.core.schema import INSTANT
from ailake.core.standing import merged, metadata_text, standing_of
from ailake.embed import Embedder, embed_documents, embed_passages, is_long
from ailake.errors import InvalidInputError, NotFoundError
from ailake.storage import decisions, memories
from ailake.storage.locks import DECAY, exclusive
from ailake.storage.retries import is_conflict, with_retries
from ailake.storage.store import Store
from ailake.storage.view import ReadView
from ailake.writing import add_passages

UPDATED = "updated"


@dataclass(frozen=True, slots=True)
class Changer:
    """Changes memories of one scope of a lake."""

    store: Store
    embedder: Embedder
    scope: Scope

    def set_fields(self, memory_id: str, fields: Mapping[str, Any], *, now: datetime) -> None:
        """Change columns of an active memory in place, in one commit.

        Args:
            memory_id: The memory.
            fields: New values by column.
            now: Becomes ``updated_at``.

        Raises:
            InvalidInputError: It had expired, and a live memory says the same.
        """
        with self._alone():
            record = self._active(memory_id)
            ends, until = record.expires_at, fields.get("expires_at")
            if ends is not None and until is not None and ends <= now < until:
                row = self._row(record.id, self.store.rows_view(committed=True))
                digest = row["dedupe_key"][0].as_py()
                key = DuplicateKey(record.role, record.speaker, record.source, digest)
                self._refuse_twins(key, record.id, now)
            self._set(record.id, fields, now=now)

    def rewrite(
        self, memory_id: str, text: str, fields: Mapping[str, Any], *, now: datetime
    ) -> str:
        """Put a new row in an active memory's place, and mark the old one merged into it.

        The new row keeps all that was known of the old one, its accesses included. Both rows
        change in one commit.

        Returns:
            The new row's id; the old one's where the text is the same.
        """
        present = self._active(memory_id)
        if text == present.text:
            # The same memory, not a new one that says what this one says.
            if fields:
                self.set_fields(present.id, fields, now=now)
            return present.id
        draft = replace(_draft_of(present), text=check_text(text))
        (vector,) = embed_documents(self.embedder, [draft.embedded_text])
        long = {}
        fresh = clock.new_id()
        if is_long(draft, self.embedder):
            long[fresh] = embed_passages(self.embedder, draft)
        (key,) = duplicate_keys([draft])

        def attempt() -> None:
            with self._alone():
                self.store.journal.flush()
                old = self._active(memory_id)
                self._refuse_twins(key, old.id, now)
                through, _ = self.store.journal.unfolded()
                view = self.store.rows_view(committed=True)
                row = self._row(old.id, view)
                new = {
                    **_kept(old, now),
                    **fields,
                    "chunk_id": fresh,
                    "chunk_text": text,
                    "embedding": vector.astype(np.float16),
                    "dedupe_key": key.digest,
                    "decision": Decision.MODIFY.value,
                    "reason": UPDATED,
                    "updated_at": now,
                    **_counted(old, through),
                }
                gone = {
                    **_counted(old, through),
                    "state": State.MERGED.value,
                    "merged_into": fresh,
                    "updated_at": now,
                }
                both = [_with_values(row, new), _with_values(row, gone)]
                add_passages(self.store, self.scope, long)
                # They are there now, whoever changes the memory first.
                long.clear()
                self.store.change(pa.concat_tables(both), at=self.store.unless_changed(view))

        with_retries(attempt, what=f"update of {memory_id}", retry_on=is_conflict)
        return fresh

    def restore(self, memory_id: str, *, now: datetime) -> None:
        """Make a memory live again: a merged one beside that which it was merged into.

        One that was deferred as not worth keeping stays then, too, and one that has expired since
        has no expiry any more.

        Raises:
            InvalidInputError: It is active, or a live memory says the same.
        """
        with self._alone():
            record = self._stored(memory_id)
            if record.state is State.ACTIVE:
                raise InvalidInputError(
                    f"restore: memory {memory_id!r} is active, wanted a merged or deferred one"
                )
            self._refuse_twins(duplicate_keys([_draft_of(record)])[0], memory_id, now)
            # First, as of every verdict: one that restores nothing is found by its memory.
            decisions.append(self.store, [self._undone(record, now)])
            fields = {"state": State.ACTIVE.value, "merged_into": "", **_kept(record, now)}
            self._set(memory_id, fields, now=now)

    def review(
        self,
        pair: tuple[str, str],
        decide: Callable[[tuple[MemoryRecord, MemoryRecord]], DecisionRecord | None],
    ) -> DecisionRecord | None:
        """Record what is decided of two memories, then let one live on in the other.

        The decision is recorded first: who dies in between leaves one that can be applied later.
        Both rows change in one commit.

        Args:
            pair: The ids of the new and the existing memory.
            decide: Given both as they are under the lock of all writers, the decision, or None for
                nothing to be done.

        Returns:
            The decision; None also where one of the two is gone.
        """
        with self._alone():
            self.store.journal.flush()
            through, entries = self.store.journal.unfolded()
            view = self.store.rows_view(committed=True, entries=entries)
            wall = memories.in_scopes((self.scope,))
            new, existing = (memories.find_id(view, one, wall) for one in pair)
            decided = None if new is None or existing is None else decide((new, existing))
            if new is None or existing is None or decided is None:
                return None
            decisions.append(self.store, [decided], again=True)
            if decided.absorbed_id:
                is_new = decided.absorbed_id == new.id
                absorbed, survivor = (new, existing) if is_new else (existing, new)
                lives = _counted(survivor, through) | _with_taken_over(survivor, absorbed)
                gone = {"state": State.MERGED.value, "merged_into": survivor.id}
                values = {survivor.id: lives, absorbed.id: _counted(absorbed, through) | gone}
                both = [
                    _with_values(
                        self._row(one, view).select(["chunk_id", "updated_at", *lives]),
                        {**fields, "updated_at": decided.decided_at},
                    )
                    for one, fields in values.items()
                ]
                self.store.change(pa.concat_tables(both))
        return decided

    def _undone(self, record: MemoryRecord, now: datetime) -> DecisionRecord:
        """Return that a merge is undone, whichever of its memories was the new one, or a defer."""
        pair = {"absorbed_id": record.id, "decided_by": {"ne": BY_RESTORE}}
        if record.state is State.DEFERRED:
            pair = {"memory_id": record.id, "decision": Decision.DEFER.value}
        asked = decisions.where_decisions(pair)
        found = decisions.find(self.store, [self.scope], asked, limit=1)
        return DecisionRecord(
            id=clock.new_id(),
            scope=self.scope,
            decided_at=now,
            decision=RESTORED,
            memory_id=record.id,
            existing_id=record.merged_into,
            reason=RESTORED,
            decided_by=BY_RESTORE,
            about=found[0].id if found else "",
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # A fold between reading a row and writing it back would be undone.
        with exclusive(self.store.location.root, DECAY), self.store.committing():
            yield
        self.store.upkeep_soon()

    def _stored(self, memory_id: str) -> MemoryRecord:
        wall = memories.in_scopes((self.scope,))
        found = memories.find_id(self.store.view(), memory_id, wall)
        if found is None:
            raise NotFoundError(f"no memory {memory_id!r} in {self.scope}")
        return found

    def _active(self, memory_id: str) -> MemoryRecord:
        (survivor,) = memories.survivors(self.store.rows_view(), [memory_id])
        record = self._stored(survivor)
        if record.state is State.MERGED:
            raise InvalidInputError(
                f"update: memory {memory_id!r} was merged into {record.merged_into!r}; update that "
                "one, or restore this one first"
            )
        return record

    def _refuse_twins(self, key: DuplicateKey, memory_id: str, now: datetime) -> None:
        twin = memories.live_duplicates(self.store.rows_view(), self.scope, [key], now).get(key)
        if twin is not None and twin.id != memory_id:
            raise InvalidInputError(
                f"memory {twin.id!r} says the same already; forget one of the two first"
            )

    def _row(self, memory_id: str, view: ReadView) -> pa.Table:
        names = self.store.episodic.handle.schema.names
        return view.stored("chunk_id", [memory_id], tuple(names))

    def _set(self, memory_id: str, fields: Mapping[str, Any], *, now: datetime) -> None:
        # Only these columns: the engine fills in the others as they are when it commits.
        view = self.store.rows_view(committed=True)
        row = self._row(memory_id, view).select(["chunk_id", "updated_at", *fields])
        self.store.change(_with_values(row, {**fields, "updated_at": now}))


def _draft_of(record: MemoryRecord) -> Draft:
    return Draft(
        text=record.text,
        role=record.role,
        speaker=record.speaker,
        source=record.source,
        event_time=record.event_time,
    )


def _with_values(row: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    for name, value in values.items():
        place = row.schema.get_field_index(name)
        field = row.schema.field(name)
        row = row.set_column(place, field, _cell(value, field.type))
    return row


def _cell(value: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(value, datetime):
        return pa.array([nanoseconds(value)], pa.int64()).cast(INSTANT)
    return pa.array([value], kind)


def _counted(record: MemoryRecord, through: int) -> dict[str, Any]:
    """Return what a row holds once all that the journal says of it up to a version is in it."""
    return {
        "access_count": record.access_count,
        "last_accessed_at": record.last_accessed_at,
        "confidence": record.confidence,
        "folded_through": through,
    }


def _kept(record: MemoryRecord, now: datetime) -> dict[str, Any]:
    """Return what changes where somebody keeps a memory that would go, or be seen by nobody."""
    if record.state is State.DEFERRED:
        return {"state": State.ACTIVE.value, "expires_at": None}
    has_expired = record.expires_at is not None and record.expires_at <= now
    return {"expires_at": None} if record.state is State.MERGED and has_expired else {}


def _with_taken_over(survivor: MemoryRecord, absorbed: MemoryRecord) -> dict[str, Any]:
    """Return what becomes of the memory that lives on, by the rules of every merge."""
    both = merged(standing_of(survivor), standing_of(absorbed))
    return {
        "state": State.ACTIVE.value,
        "merged_into": "",
        "importance_score": both.importance,
        "created_at": both.created_at,
        "event_time": both.event_time,
        "expires_at": both.expires_at,
        "kind": both.kind,
        "metadata": metadata_text(both),
        "last_accessed_at": max(survivor.last_accessed_at, absorbed.last_accessed_at),
        "access_count": survivor.access_count + absorbed.access_count,
    }
