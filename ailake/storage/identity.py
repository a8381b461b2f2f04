"""Which embedder made the vectors of a table."""

from dataclasses import dataclass

import pyarrow as pa

from ailake.core.schema import EMBEDDER_DIM_KEY, EMBEDDER_ID_KEY
from ailake.errors import LakeCorruptError

COLUMN = "embedding"


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Which embedder a lake was made with: its id and the length of its vectors."""

    id: str
    dim: int

    def metadata(self) -> dict[str, str]:
        """Return it as a schema, or the column of vectors, keeps it."""
        return {EMBEDDER_ID_KEY: self.id, EMBEDDER_DIM_KEY: str(self.dim)}


def identity_of(schema: pa.Schema) -> EmbedderIdentity:
    """Return which embedder made a table's vectors.

    Where the vectors were made anew, their column says so, because both change in one commit; the
    table's metadata follows.

    Raises:
        LakeCorruptError: Neither says so, or there are no vectors.
    """
    if COLUMN in schema.names:
        field = schema.field(COLUMN)
        for metadata in (field.metadata, schema.metadata):
            if metadata and EMBEDDER_ID_KEY.encode() in metadata:
                name = metadata[EMBEDDER_ID_KEY.encode()].decode()
                return EmbedderIdentity(name, int(field.type.list_size))
    raise LakeCorruptError(
        "table 'episodic' names no embedder in its metadata "
        f"({EMBEDDER_ID_KEY}, {EMBEDDER_DIM_KEY}): it was not made by ailake"
    )


def named_in(schema: pa.Schema) -> tuple[str, str]:
    """Return the embedder's id and dimension that a table's metadata names, empty where none."""
    metadata = schema.metadata or {}
    keys = (EMBEDDER_ID_KEY.encode(), EMBEDDER_DIM_KEY.encode())
    first, second = (metadata.get(key, b"").decode() for key in keys)
    return first, second
