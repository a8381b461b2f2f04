"""The one interface that turns text into vectors."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Anything with these four members can serve a lake; no base class is needed.

    The ``id`` is stored in the lake and compared at every opening, so it names the model and
    changes whenever the vectors do. Errors raised by an embedder reach the caller unchanged.
    """

    @property
    def id(self) -> str:
        """What made the vectors, such as ``"local-use-multilingual-v3"``; never empty."""
        ...

    @property
    def dim(self) -> int:
        """How many numbers a vector has; positive and constant."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text, in order, shape ``(len(texts), dim)``."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, shape ``(dim,)``, comparable with the documents'."""
        ...
