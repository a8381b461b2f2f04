"""Text to vectors: the protocol, the embedders that come with ailake, and the checks on all."""

from ailake.embed.checked import (
    check_embedder,
    check_vector,
    check_vectors,
    embed_documents,
    embed_query,
)
from ailake.embed.hashing import HashingEmbedder
from ailake.embed.local import LocalE5Embedder, LocalEmbedder
from ailake.embed.long import EmbeddedPassages, embed_passages, is_long
from ailake.embed.protocol import Embedder, Vectors, window_of
from ailake.embed.registry import RegistryEmbedder
from ailake.embed.resolve import StoredEmbedder, resolve_embedder

__all__ = [
    "EmbeddedPassages",
    "Embedder",
    "HashingEmbedder",
    "LocalE5Embedder",
    "LocalEmbedder",
    "RegistryEmbedder",
    "StoredEmbedder",
    "Vectors",
    "check_embedder",
    "check_vector",
    "check_vectors",
    "embed_documents",
    "embed_passages",
    "embed_query",
    "is_long",
    "resolve_embedder",
    "window_of",
]
