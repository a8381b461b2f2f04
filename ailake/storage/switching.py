"""Switching a lake over to another embedder's vectors.

The new vectors are put beside the old ones, in a column of their own whose metadata names the
embedder, and one commit swaps the names of the two columns. From that commit on the lake is the
new embedder's; what follows (the passages, the metadata of the tables, the old column) is done by
whoever opens the lake next, where the process that switched it dies before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.reembedding import embedded_texts
from ailake.core.schema import arrow_schema
from ailake.errors import EmbedderMismatchError, LakeCorruptError
from ailake.storage.columns import FragmentView, rewrite_columns
from ailake.storage.executing import Executor
from ailake.storage.identity import COLUMN, EmbedderIdentity, identity_of, named_in
from ailake.storage.locks import WRITE, exclusive
from ailake.storage.retries import with_retries
from ailake.storage.staging import PLACE, StagedVectors, Staging, existing, remove_staged
from ailake.storage.table import Table

if TYPE_CHECKING:
    from ailake.storage.location import Location

NEXT, OLD = "embedding_next", "embedding_old"

# Of these columns the text is made that is embedded.
EMBEDDED = ("chunk_text", "speaker", "event_time")


@dataclass(frozen=True, slots=True)
class _NextVectors:
    """The computation of a fragment's new vectors; it can be pickled."""

    made: StagedVectors

    def __call__(self, view: FragmentView) -> Mapping[str, pa.Array]:
        return {NEXT: vector_column(self.made.of(embedded_texts(view.columns)))}


def switch_vectors(
    table: Table, staging: Staging, *, executor: Executor | None, new_file_id: Callable[[], str]
) -> None:
    """Give ``episodic`` the vectors of another embedder; the last of its commits is the switch.

    Hold the write lock and that of the table's upkeep.

    Args:
        table: The table.
        staging: The vectors; a memory that lacks one gets zeros.
        executor: Who writes them; default: threads of this process.
        new_file_id: Makes a unique name for a file.
    """
    identity = staging.identity
    drop_columns(table, (NEXT,))
    vector = pa.list_(pa.float16(), identity.dim)
    field = pa.field(NEXT, vector, metadata=identity.metadata())
    with_retries(
        lambda: table.fresh().add_columns(pa.schema([field])), what=f"column of {table.name}"
    )

    compute = _NextVectors(staging.made)
    rewrite_columns(
        table,
        EMBEDDED,
        lambda _: compute,
        new_file_id=new_file_id,
        properties=identity.metadata(),
        executor=executor,
    )
    with_retries(
        lambda: table.fresh().alter_columns(
            {"path": COLUMN, "name": OLD}, {"path": NEXT, "name": COLUMN}
        ),
        what=f"switch of {table.name}",
    )


def vector_column(vectors: NDArray[np.float16]) -> pa.Array:
    """Return vectors, float16 (n, dim), as a column."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def stage_passages(staging: Staging, parts: Iterator[pa.Table], options: Mapping[str, str]) -> None:
    """Keep all rows that ``passages`` will have, in one commit, until the lake is switched."""
    identity = staging.identity
    schema = arrow_schema("passages", dim=identity.dim, embedder_id=identity.id)
    batches = (batch for part in parts for batch in part.cast(schema).to_batches())
    lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, batches),
        staging.passages_uri,
        mode="overwrite",
        storage_options=dict(options) or None,
    )


def is_switched(schemas: Mapping[str, pa.Schema]) -> bool:
    """Tell whether all that follows a switch is done, or there was none."""
    identity = identity_of(schemas["episodic"])
    named = (identity.id, str(identity.dim))
    return OLD not in schemas["episodic"].names and all(
        named_in(schema) == named for schema in schemas.values()
    )


def refuse_half_switched(schemas: Mapping[str, pa.Schema], uri: str) -> None:
    """Refuse to read what only a writer can complete.

    Raises:
        EmbedderMismatchError: The tables have vectors of different embedders.
    """
    if not is_switched(schemas):
        identity = identity_of(schemas["episodic"])
        raise EmbedderMismatchError(
            f"{uri} is half-way to embedder {identity.id!r} ({identity.dim}), and read-only for "
            "this process: open it once where it can be written"
        )


def complete_switch(
    tables: Mapping[str, Table], location: "Location", options: Mapping[str, str]
) -> None:
    """Do what follows a switch, so far as it is not done; each step can be taken twice.

    New vectors that were never switched to are dropped.

    Raises:
        LakeCorruptError: The passages of the new embedder are not there.
    """
    # On an object store nobody can tell whether the run that made it still lives.
    leftover = location.root is not None and NEXT in tables["episodic"].handle.schema.names
    if not leftover and is_switched(_schemas(tables)):
        return
    with exclusive(location.root, WRITE):
        if leftover:
            drop_columns(tables["episodic"], (NEXT,))
        if not is_switched(_schemas(tables)):
            finish_switch(tables, location, options)


def finish_switch(
    tables: Mapping[str, Table], location: "Location", options: Mapping[str, str]
) -> None:
    """Do the same for who holds the write lock."""
    identity = identity_of(tables["episodic"].handle.schema)
    named = (identity.id, str(identity.dim))
    passages = tables["passages"]
    if named_in(passages.handle.schema) != named:
        _put_passages(passages, location, options, identity)
    for table in tables.values():
        if named_in(table.handle.schema) != named:
            _name_embedder(table, identity)
    drop_columns(tables["episodic"], (OLD,))
    remove_staged(location, options)


def _schemas(tables: Mapping[str, Table]) -> dict[str, pa.Schema]:
    return {name: table.handle.schema for name, table in tables.items()}


def drop_columns(table: Table, names: Sequence[str]) -> None:
    """Drop those of the columns that a table has."""
    present = [name for name in names if name in table.handle.schema.names]
    if present:
        with_retries(lambda: table.fresh().drop_columns(present), what=f"column of {table.name}")


def _put_passages(
    table: Table, location: "Location", options: Mapping[str, str], identity: EmbedderIdentity
) -> None:
    uri = f"{location.uri.rstrip('/')}/{PLACE}/passages.lance"
    staged = existing(uri, options)
    if staged is None or named_in(staged.schema) != (identity.id, str(identity.dim)):
        raise LakeCorruptError(
            f"{location.uri} is embedder {identity.id!r}'s, and {uri}, which holds its passages, "
            "is gone: restore it, or a backup"
        )
    made: Any = lance.write_dataset(
        staged.scanner().to_reader(),
        table.fresh(),
        mode="overwrite",
        storage_options=dict(options) or None,
    )
    table.sync(int(made.version))


def _name_embedder(table: Table, identity: EmbedderIdentity) -> None:
    with_retries(
        lambda: table.fresh().update_schema_metadata(identity.metadata()),
        what=f"metadata of {table.name}",
    )
