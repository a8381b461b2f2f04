"""The one interface that turns text into vectors."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ailake.core.passages import WINDOW
from ailake.errors import InvalidInputError

Vectors: TypeAlias = NDArray[np.float32]

# Shorter passages are no sentences any more, and the splitter takes seconds over long texts.
MIN_WINDOW = 50


@runtime_checkable
class Embedder(Protocol):
    """Anything with these four members can serve a lake; no base class is needed.

    The ``id`` is stored in the lake and compared at every opening, so it names the model and
    changes whenever the vectors do. Errors raised by an embedder reach the caller unchanged.

    An optional attribute ``window`` says how many characters it reads well at once; see
    ``window_of``.
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


def window_of(embedder: Embedder) -> int:
    """Return the length in characters above which a text is embedded in passages, too.

    Its ``window`` where the embedder has one, else 700.

    Raises:
        InvalidInputError: ``window`` is not an int of at least 50.
    """
    window: object = getattr(embedder, "window", WINDOW)
    if not isinstance(window, int) or isinstance(window, bool) or window < MIN_WINDOW:
        raise InvalidInputError.of(
            f"window of embedder {embedder.id!r}",
            got=window,
            wanted=f"an int of at least {MIN_WINDOW} characters, or no such attribute",
        )
    return window
