"""The memories that facts are taken from: they must be there, and of the same scope."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ailake.core.records import Scope
from ailake.errors import InvalidInputError
from ailake.storage.memories import scope_of

if TYPE_CHECKING:
    from ailake.storage.store import Store

_COLUMNS = ("chunk_id", "agent_id", "user_id", "project_id")


def find_links(store: "Store", scope: Scope, ids: Collection[str]) -> None:
    """See to it that memories are found that another process has just remembered."""
    if _lost(store, scope, ids):
        store.settle()


def refuse_lost_links(store: "Store", scope: Scope, ids: Collection[str]) -> None:
    """Refuse ids of memories that a scope does not have.

    Raises:
        InvalidInputError: There is one.
    """
    lost = _lost(store, scope, ids)
    if lost:
        raise InvalidInputError.of(
            "source_memory_id",
            got=min(lost),
            wanted=f"the id of a memory of {scope}, or none; remember it there first",
        )


def is_linked(store: "Store", scope: Scope, memory_id: str) -> bool:
    """Tell whether a scope has a memory that facts are taken from."""
    return not _lost(store, scope, {memory_id})


def _lost(store: "Store", scope: Scope, ids: Collection[str]) -> set[str]:
    if not ids:
        return set()
    view = store.rows_view()
    rows = [*view.stored("chunk_id", ids, _COLUMNS).to_pylist(), *(one.row for one in view.logged)]
    return set(ids) - {row["chunk_id"] for row in rows if scope_of(row) == scope}
