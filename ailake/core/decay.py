"""What a decay run writes into one fragment: new weights, and accesses folded in. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.accesses import MAX_UINT32, Pending
from ailake.core.episodic import RecencyConfig, days_between, decay
from ailake.core.rows import as_nanoseconds
from ailake.core.schema import INSTANT

ACCESS_COLUMNS = ("access_count", "folded_through")
REPEAT_COLUMNS = ("updated_at", "confidence")

# What lies between the steps stays in the processor's cache, and no memory is asked for: that
# costs more than the arithmetic.
_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True)
class Fold:
    """The journal's share of one fragment.

    Attributes:
        pending: What to count in, by physical row offset within the fragment.
        through: Version of the accesses table up to which that counts.
    """

    pending: Mapping[int, Pending]
    through: int

    @property
    def has_repeats(self) -> bool:
        """Whether a repetition is among them, which freshens more columns."""
        return any(pending.repeated_at is not None for pending in self.pending.values())


def decayed_weights(
    last_accessed: NDArray[np.int64], now: int, recency: RecencyConfig
) -> NDArray[np.float32]:
    """Return ``exp(-lambda * days since last access)`` of each row, rounded to float32.

    Args:
        last_accessed: Nanoseconds since 1970 (n,).
        now: Nanoseconds since 1970.
        recency: The forgetting curve.
    """
    weights = np.empty(len(last_accessed), np.float32)
    for start in range(0, len(weights), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        weights[part] = decay(days_between(last_accessed[part], now), recency)
    return weights


def folded_accesses(
    last_accessed: NDArray[np.int64], stored: pa.Table, fold: Fold
) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
    """Count pending accesses in.

    Args:
        last_accessed: Nanoseconds since 1970 (n,).
        stored: ``ACCESS_COLUMNS`` of the n rows.
        fold: What to count in.

    Returns:
        The new last accesses as nanoseconds, and the columns to write: ``access_count``,
        ``last_accessed_at`` and ``folded_through``.
    """
    counts = stored["access_count"].to_numpy().astype(np.uint64)
    newest = last_accessed.copy()
    for offset, pending in fold.pending.items():
        counts[offset] = min(int(counts[offset]) + pending.hits, MAX_UINT32)
        newest[offset] = max(newest[offset], pending.last_accessed_at)
    columns = {
        "access_count": pa.array(counts.astype(np.uint32)),
        "last_accessed_at": _instants(newest),
        "folded_through": _watermarks(stored["folded_through"], fold.through),
    }
    return newest, columns


def _watermarks(stored: pa.ChunkedArray, through: int) -> pa.Array:
    # Nothing of the journal up to here is pending for the fragment's other rows, either; a row
    # that was written since the journal was read may count later entries already. Where there is
    # none, a constant costs no bytes.
    return pa.array(np.maximum(stored.to_numpy(), np.uint64(through)))


def folded_repeats(
    updated_at: pa.ChunkedArray, confidence: pa.ChunkedArray, fold: Fold
) -> dict[str, pa.Array]:
    """Freshen ``updated_at`` and ``confidence`` of the rows whose text was given again."""
    updated = as_nanoseconds(updated_at).copy()
    sure = confidence.to_numpy().astype(np.float32)
    for offset, pending in fold.pending.items():
        if pending.repeated_at is not None and pending.confidence is not None:
            updated[offset] = max(updated[offset], pending.repeated_at)
            sure[offset] = max(sure[offset], np.float32(pending.confidence))
    return {"updated_at": _instants(updated), "confidence": pa.array(sure)}


def _instants(nanos: NDArray[np.int64]) -> pa.Array:
    return pa.array(nanos).cast(INSTANT)
