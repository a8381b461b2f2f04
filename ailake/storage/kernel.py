"""Dot products of bytes: what recall's first look at all vectors of a scope consists of.

Whole numbers: every way to compute them gives the same, up to where a float32 holds them exactly.
NumKong (the extra ``fast``) uses what the processor has for bytes; numpy has no fast product of
them and makes floats of a few rows at a time, which stay in the processor's cache.
"""

import logging
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

Codes = NDArray[np.int8]

# So many rows at a time: as floats they fit into a cache of 1 MB.
_FLOAT_BYTES = 512 * 1024


class Kernel(Protocol):
    """How dot products are computed."""

    def pack(self, codes: Codes) -> Any:
        """Return rows (n, dim), numbers from -127 to 127, in the form that ``dots`` wants."""

    def dots(self, packed: Any, query: Codes) -> NDArray[np.float32]:
        """Return the dot product of each of n packed rows with a query (dim,), float32 (n,)."""


class NumpyKernel:
    """The one that is always there."""

    def pack(self, codes: Codes) -> Codes:
        """Return the rows as they are."""
        return np.ascontiguousarray(codes)

    def dots(self, packed: Codes, query: Codes) -> NDArray[np.float32]:
        """Return the dot products."""
        count, dim = packed.shape
        numbers = query.astype(np.float32)
        rows = np.empty((max(1, _FLOAT_BYTES // (4 * dim)), dim), np.float32)
        found = np.empty(count, np.float32)
        for start in range(0, count, len(rows)):
            some = packed[start : start + len(rows)]
            np.copyto(rows[: len(some)], some)
            np.matmul(rows[: len(some)], numbers, out=found[start : start + len(some)])
        return found


class NumKongKernel:
    """The extra ``fast``.

    Raises:
        ImportError: It is not installed.
    """

    def __init__(self) -> None:
        import numkong  # noqa: PLC0415 (an extra, and only recall needs it)

        self._pack = numkong.dots_pack
        self._dots = numkong.dots_packed

    def pack(self, codes: Codes) -> Any:
        """Return the rows in the library's own order of bytes, of the same size."""
        return self._pack(np.ascontiguousarray(codes))

    def dots(self, packed: Any, query: Codes) -> NDArray[np.float32]:
        """Return the dot products."""
        found = np.asarray(self._dots(query[np.newaxis], packed))
        return np.asarray(found[0], np.float32)


@cache
def best_kernel() -> Kernel:
    """Return the fastest kernel that is installed and computes what numpy does."""
    plain = NumpyKernel()
    try:
        fast = NumKongKernel()
    except ImportError:
        return plain
    draw = np.random.default_rng(0)
    for dim in (1, 63, 384, 1_000):
        codes = draw.integers(-127, 128, (70, dim)).astype(np.int8)
        codes[:3], query = 127, codes[-1].copy()
        query[::2] = -127
        if not np.array_equal(fast.dots(fast.pack(codes), query), plain.dots(codes, query)):
            log.warning("numkong computes wrong dot products on this processor; numpy is used")
            return plain
    return fast
