"""What of a stored row is embedded. Pure."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.drafts import Draft
from ailake.core.rows import to_pylist


def drafts_of(rows: pa.Table) -> Iterator[Draft]:
    """Yield each row as the draft that it was embedded as.

    Args:
        rows: With ``chunk_text``, ``speaker`` and ``event_time``; nulls are deleted rows.
    """
    columns = ("chunk_text", "speaker", "event_time")
    for row in to_pylist(rows.select(columns)):
        yield Draft(
            text=row["chunk_text"] or "",
            speaker=row["speaker"] or "",
            event_time=row["event_time"],
        )


def embedded_texts(rows: pa.Table) -> list[str]:
    """Return the text of each row that its vector is of."""
    return [draft.embedded_text for draft in drafts_of(rows)]


def are_to_be_embedded(column: pa.ChunkedArray, dim: int) -> NDArray[np.bool_]:
    """Tell which vectors are none yet: null, or zeros, which no embedder's are.

    Args:
        column: fixed_size_list<float16>, n rows.
        dim: Length of the vectors.
    """
    found = np.ones(len(column), np.bool_)
    place = 0
    for chunk in column.chunks:
        there = chunk.is_valid().to_numpy(zero_copy_only=False)
        flat = chunk.drop_null().flatten().to_numpy(zero_copy_only=False)
        empty = np.ones(len(chunk), np.bool_)
        empty[there] = ~flat.reshape(-1, dim).any(axis=1)
        found[place : place + len(chunk)] = empty
        place += len(chunk)
    return found
