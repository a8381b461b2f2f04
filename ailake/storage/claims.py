"""Adding rows under ids that another process may be giving at the same moment.

In a folder the write lock keeps the others away. On an object store the engine does: ``chunk_id``
is made a key of ``episodic`` there, an insert that finds its id taken adds nothing, and of two
that were under way at once the second has to look again.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.records import Remembered, Scope
from ailake.core.schema import KEY_METADATA
from ailake.storage.memories import known_outcomes
from ailake.storage.retries import is_conflict, with_retries
from ailake.storage.streams import Stream
from ailake.storage.table import Table

if TYPE_CHECKING:
    from ailake.storage.store import Store

_KEY = "chunk_id"
_VERSION = "_row_created_at_version"


def are_needed(store: "Store", given_ids: Collection[str]) -> bool:
    """Tell whether ids that were given have to be claimed with the insert itself."""
    return bool(given_ids) and store.location.root is None


def insert(
    store: "Store", rows: Stream, ids: Collection[str], *, scope: Scope, passages_at: int | None
) -> Mapping[str, Remembered]:
    """Add rows in one commit, those aside whose id was taken in the meantime.

    Args:
        store: The lake, on an object store.
        rows: New memories of one scope.
        ids: Their ids.
        scope: The scope.
        passages_at: The version of ``passages`` that brought those of these memories, if any did:
            what it brought of an id that was taken goes again.

    Returns:
        The first outcomes of the ids that were taken; for who gave them they are repetitions.

    Raises:
        InvalidInputError: An id was taken by another scope.
        ConflictError: Other writers won every retry.
    """
    table = store.episodic
    added = _insert(table, rows)
    if added == rows.count:
        return {}
    lost = _lost(store, ids, none_added=not added)
    if passages_at is not None:
        _remove_passages(store, lost, version=passages_at)
    return known_outcomes(store.rows_view(committed=True), scope, sorted(lost))


def _insert(table: Table, rows: Stream) -> int:
    def attempt() -> int:
        _make_key(table)
        merge = table.fresh().merge_insert(_KEY).when_not_matched_insert_all()
        return int(merge.execute(table.completed(rows).read())["num_inserted_rows"])

    return with_retries(attempt, what=f"append to {table.name}", retry_on=is_conflict)


def _make_key(table: Table) -> None:
    dataset = table.fresh()
    if KEY_METADATA.items() <= _texts(dataset.schema.field(_KEY).metadata).items():
        return
    dataset.update_field_metadata({_KEY: KEY_METADATA})


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def _lost(store: "Store", ids: Collection[str], *, none_added: bool) -> set[str]:
    """Return the ids that others have: all rows of one insert are of one version, the last."""
    view = store.rows_view(committed=True)
    found = view.stored(_KEY, ids, (_KEY, "_rowid"))
    if none_added:
        return set(found[_KEY].to_pylist())
    row_ids = ",".join(str(row_id) for row_id in found["_rowid"].to_pylist())
    options = {"columns": [_KEY, _VERSION], "filter": f"_rowid IN ({row_ids})"}
    versions = view.dataset.scanner(**options).to_table()
    older = pc.less(versions[_VERSION], pc.max(versions[_VERSION]))
    return set(versions.filter(older)[_KEY].to_pylist())


def _remove_passages(store: "Store", ids: Collection[str], *, version: int) -> None:
    table = store.tables["passages"]
    brought = table.snapshot().to_table(
        [_KEY], filter=f"{_VERSION} = {version:d}", with_row_id=True
    )
    lost = brought.filter(pc.is_in(brought[_KEY], value_set=pa.array(sorted(ids), pa.string())))
    table.delete_rows(lost["_rowid"].to_pylist())
