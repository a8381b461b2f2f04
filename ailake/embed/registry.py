"""A bridge to the embedding functions of LanceDB's own registry."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlparse

import numpy as np

from ailake.embed.checked import check_vector, check_vectors
from ailake.embed.protocol import Vectors
from ailake.errors import InvalidInputError, MissingExtraError

PREFIX = "lancedb:"
# As documents these take images only, and would open a memory's text as a path or an address.
IMAGE_FUNCTIONS = frozenset({"colpali", "imagebind", "open-clip", "siglip"})


class RegistryEmbedder:
    """Embed with any text function of LanceDB's registry, as ``lancedb:<function>[:<model>]``.

    Keys and addresses come from where the function takes them, mostly the environment
    (``OPENAI_API_KEY``). Its plain ``compute_*`` methods are called: retries are those of the
    provider's client. LanceDB's own would also retry mistakes, for minutes, and hide their type.

    Args:
        spec: Such as ``lancedb:openai:text-embedding-3-small``; a model may hold colons and
            slashes. Without one the function's default is taken and spelled out in ``id``.

    Raises:
        InvalidInputError: No such function, one for images, one that takes or needs a model.
        MissingExtraError: A Python package behind the function is not installed; some functions
            notice only when they embed.
    """

    def __init__(self, spec: str) -> None:
        name, _, model = spec.removeprefix(PREFIX).partition(":")
        cls = _function_class(name, spec=spec)
        field = next((field for field in ("name", "model_name") if field in cls.model_fields), None)
        if field is None and model:
            raise InvalidInputError.of("embedder", got=spec, wanted=f"{PREFIX}{name}: no model")
        default = cls.model_fields[field].get_default() if field else ""
        if not model and not isinstance(default, str):
            raise InvalidInputError.of("embedder", got=spec, wanted=f"{PREFIX}{name}:<model>")
        chosen = model or str(default)
        self._id = f"{PREFIX}{name}:{chosen}" if chosen else f"{PREFIX}{name}"
        with _Packages(self._id):
            self._function = cls.create(**{field: model} if field and model else {})

    @property
    def id(self) -> str:
        """The spec, with the model spelled out."""
        return self._id

    @cached_property
    def dim(self) -> int:
        """What the function says; some load a model or call their service to know."""
        with _Packages(self._id):
            return int(self._function.ndims())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the function's source embeddings, shape ``(len(texts), dim)``.

        Raises:
            InvalidInputError: The function gave no vector for a text, or a malformed one.
        """
        with _Packages(self._id):
            vectors = self._function.compute_source_embeddings([self._as_text(t) for t in texts])
        return check_vectors(
            vectors, dim=self.dim, name=f"embedder {self._id!r}, text", count=len(texts)
        )

    def embed_query(self, text: str) -> Vectors:
        """Return the function's query embedding, shape ``(dim,)``.

        Raises:
            InvalidInputError: The function gave no vector, or a malformed one.
        """
        name = f"embedder {self._id!r}, query"
        with _Packages(self._id):
            vectors = self._function.compute_query_embeddings(self._as_text(text))
        if not isinstance(vectors, list | tuple | np.ndarray) or len(vectors) != 1:
            raise InvalidInputError.of(name, got=vectors, wanted="a list of one vector")
        return check_vector(vectors[0], dim=self.dim, name=name)

    def _as_text(self, text: str) -> str:
        """Keep functions for text and images from fetching a text that is an address."""
        from lancedb.embeddings import TextEmbeddingFunction  # noqa: PLC0415

        if isinstance(self._function, TextEmbeddingFunction):
            return text
        return f"<{text}>" if _is_address(text) else text


def _function_class(name: str, *, spec: str) -> Any:
    from lancedb.embeddings import get_registry  # noqa: PLC0415

    # The registry has no public listing.
    known = get_registry()._functions  # noqa: SLF001
    names = sorted(set(known) - IMAGE_FUNCTIONS)
    if name not in names:
        raise InvalidInputError.of(
            "embedder",
            got=spec,
            wanted=f"{PREFIX}<function>:<model> with a text function: {', '.join(names)}",
        )
    return known[name]


def _is_address(text: str) -> bool:
    try:
        parsed = urlparse(text)
    except ValueError:
        return False
    return bool(parsed.scheme and parsed.netloc)


class _Packages:
    """Turns LanceDB's "Please install x" into a MissingExtraError."""

    def __init__(self, spec: str) -> None:
        self._spec = spec

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ImportError) and not isinstance(error, MissingExtraError):
            package = str(error).removeprefix("Please install ")
            hint = str(error) if package == str(error) else f"pip install {package}"
            raise MissingExtraError(
                f"embedder {self._spec!r} needs a package that is not installed: {hint}"
            ) from error
