"""Draining the log: what all processes have logged becomes rows, in one commit.

Always under the lake's write lock, which a caller that commits holds on to: what it changes next
can't be brought back by a record that was still in the log.
"""

import logging
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ailake.core.draining import DrainPlan, Twins, moved_id, plan_drain
from ailake.core.log import LoggedMemory, Rest, replay
from ailake.core.noting import entry_of
from ailake.core.rows import episodic_rows, expiry_rows, nanoseconds
from ailake.errors import AilakeError
from ailake.storage import decisions, mentions
from ailake.storage import log as logs
from ailake.storage.identity import EmbedderIdentity, identity_of
from ailake.storage.locks import WRITE, LockedError, exclusive
from ailake.storage.memories import duplicates, scopes_of_ids
from ailake.storage.retries import reading_again
from ailake.storage.syncing import sync
from ailake.storage.view import ReadView

if TYPE_CHECKING:
    from ailake.core.graph import IndexEntry
    from ailake.core.records import Scope
    from ailake.storage.store import Store

logger = logging.getLogger(__name__)

# A drain's commit says with this when each of its rows was logged.
LOGGED_AT_KEY = "ailake.logged_at"

# Another process sees a memory at the latest so many seconds after it was logged.
VISIBLE_AFTER = 1.0


@contextmanager
def committing(store: "Store") -> Iterator[None]:
    """Hold the lake's write lock, with the log drained."""
    with exclusive(store.location.root, WRITE):
        _drain(store)
        yield


def settle(store: "Store") -> None:
    """Return when what was logged so far, by whatever process, is committed."""
    root = store.location.root
    if root is None or store.read_only or not logs.segments(root):
        return
    with committing(store):
        pass
    _tidy(store)


def settle_if_possible(store: "Store") -> None:
    """Settle, where nothing is wrong with writing: what can be read is read all the same."""
    try:
        settle(store)
    except (OSError, RuntimeError, AilakeError):
        logger.warning("the log could not be drained", exc_info=True)


def settle_stale(store: "Store") -> None:
    """Commit what its writer has left lying; whoever holds the write lock does so anyway."""
    root = store.location.root
    if root is None or store.read_only or not logs.is_stale(root, after=VISIBLE_AFTER):
        return
    _settle_unhindered(store, root)


def settle_logged(store: "Store") -> None:
    """Commit what this process has logged, so that it can be searched by words.

    Where another process holds the write lock, it stays in the log for now.
    """
    root = store.location.root
    if root is not None and store.log is not None and len(store.log):
        _settle_unhindered(store, root)


def _settle_unhindered(store: "Store", root: Path) -> None:
    try:
        with exclusive(root, WRITE, wait=False):
            _drain(store)
    except LockedError:
        return
    except (OSError, RuntimeError, AilakeError):
        # Not this reader's concern; the writer's own thread tells and tries again, too.
        logger.warning("the log could not be drained", exc_info=True)
        return
    _tidy(store)


def _tidy(store: "Store") -> None:
    store.episodic.tidy()
    store.tables[decisions.DECISIONS].tidy()
    store.graph_faults.tried(store.tables[mentions.NAME].tidy, what="not tidied", ids=())


def _drain(store: "Store") -> None:
    root = store.location.root
    # A drain that did not come to its end may have recorded what was decided.
    again = root is not None and logs.has_sealed(root)
    sealed = [] if root is None else logs.seal(root)
    if not sealed:
        return
    memories = [logged for path in sealed for logged in _replayed(path)]
    if memories:
        plan = reading_again(lambda: _plan(store.keys_view(), memories))
        _apply(store, plan, again=again)
    for path in sealed:
        path.unlink(missing_ok=True)
    # Otherwise a power cut could bring a segment back, and with it what was forgotten since.
    sync(sealed[0].parent)


def _plan(view: ReadView, memories: Sequence[LoggedMemory]) -> DrainPlan:
    ids = {logged.memory.id for logged in memories}
    ids |= {moved_id(logged.memory.scope, logged.memory.id) for logged in memories}
    return plan_drain(memories, stored=scopes_of_ids(view, ids), twins=_twins(view, memories))


def _replayed(path: Path) -> Sequence[LoggedMemory]:
    content = path.read_bytes()
    found = replay(content)
    if found.rest is Rest.DAMAGED:
        kept = path.with_suffix(logs.DAMAGED)
        kept.write_bytes(found.damage)
        sync(kept)
        logger.error(
            "a log segment is damaged: %d memories were read, the rest is kept in %s",
            len(found.memories),
            kept,
        )
    return found.memories


def _twins(view: ReadView, memories: Sequence[LoggedMemory]) -> Twins:
    digests: dict[Scope, set[str]] = {}
    for logged in memories:
        digests.setdefault(logged.memory.scope, set()).add(logged.memory.digest)
    # Whether one is still visible is asked for each memory at its own instant.
    earliest = min(logged.memory.created_at for logged in memories)
    return {
        (scope, key): twins
        for scope, wanted in digests.items()
        for key, twins in duplicates(view, scope, wanted, earliest).items()
    }


def _apply(store: "Store", plan: DrainPlan, *, again: bool) -> None:
    """Write the plan; each step can be taken twice, and the rows come last."""
    for memory_id, fresh in plan.moved.items():
        logger.warning("id %r was taken by another scope; stored as %r", memory_id, fresh)
    if plan.extensions:
        store.change(expiry_rows(plan.extensions))
    for scope in {scope for scope, _ in plan.refreshes}:
        notes = [note for other, note in plan.refreshes if other == scope]
        store.journal.record_refreshes(scope, notes)
    verdicts = [one.memory.verdict for one in plan.additions if one.memory.verdict is not None]
    decisions.append(store, verdicts, again=again)
    _note(store, plan, again=again)
    if plan.additions:
        present = identity_of(store.episodic.snapshot().schema)
        vectors = np.stack([_vector(logged, present) for logged in plan.additions])
        memories = [logged.memory for logged in plan.additions]
        rows = episodic_rows(memories, vectors, embedder_id=present.id)
        instants = np.array([nanoseconds(one.logged_at) for one in plan.additions], "<i8")
        recorded = {LOGGED_AT_KEY: b64encode(instants.tobytes()).decode()}
        store.episodic.sync(store.episodic.append(rows, properties=recorded))


def _note(store: "Store", plan: DrainPlan, *, again: bool) -> None:
    telling = [one for one in plan.additions if one.memory.draft.entities]
    if not telling:
        return
    entries: dict[Scope, list[IndexEntry]] = {}
    for one in telling:
        memory = one.memory
        entry = entry_of(memory.id, memory.draft, now=memory.created_at)
        entries.setdefault(memory.scope, []).append(entry)
    mentions.note(store, entries, now=max(one.logged_at for one in telling), again=again)


def _vector(logged: LoggedMemory, present: EmbedderIdentity) -> NDArray[np.float16]:
    """Return a memory's vector: zeros, far from all, where another embedder has made it.

    The lake was switched over after it was logged; a re-embedding finds the zeros.
    """
    if logged.embedder_id in {"", present.id} and len(logged.vector) == present.dim:
        return logged.vector
    logger.warning("memory %r is to be embedded anew: run ailake reembed", logged.memory.id)
    return np.zeros(present.dim, np.float16)


def logged_at(recorded: str) -> NDArray[np.int64]:
    """Return when each row of a drain's commit was logged, nanoseconds since 1970."""
    return np.frombuffer(b64decode(recorded), "<i8")
