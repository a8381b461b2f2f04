"""Rerankers: models that read a query and a text together, over the best of stage one."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ailake.errors import InvalidInputError


@runtime_checkable
class Reranker(Protocol):
    """Anything with these two members; a cross-encoder, or a service that is one.

    Errors raised by a reranker reach the caller unchanged.
    """

    @property
    def id(self) -> str:
        """What made the numbers; never empty."""
        ...

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.floating]:
        """Return how well each text answers the query, in [0, 1], shape ``(len(texts),)``."""
        ...


def relevance_of(reranker: Reranker, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return a reranker's numbers, checked.

    Raises:
        InvalidInputError: They are not one number in [0, 1] per text.
    """
    if not texts:
        return np.empty(0)
    found = np.asarray(reranker.relevance(query, texts), np.float64)
    if found.shape != (len(texts),):
        raise InvalidInputError.of(
            f"reranker {reranker.id!r}", got=found.shape, wanted=f"shape ({len(texts)},)"
        )
    wrong = ~((found >= 0) & (found <= 1))
    if wrong.any():
        raise InvalidInputError.of(
            f"reranker {reranker.id!r}",
            got=float(found[wrong][0]),
            wanted="numbers in [0, 1]; a sigmoid makes them of logits",
        )
    return found
