"""Embedding long texts: a vector for each of their passages, beside the one for the whole."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ailake.core.passages import Passage, split
from ailake.embed.checked import embed_documents
from ailake.embed.protocol import MIN_WINDOW, Embedder, Vectors, window_of

if TYPE_CHECKING:
    # Brings pyarrow, which an embedder need not load.
    from ailake.core.drafts import Draft


@dataclass(frozen=True, slots=True)
class EmbeddedPassages:
    """The passages of one text.

    Attributes:
        passages: n of them, in order.
        vectors: Their embeddings, float32 (n, dim).
    """

    passages: tuple[Passage, ...]
    vectors: Vectors


def is_long(draft: "Draft", embedder: Embedder) -> bool:
    """Tell whether a text is embedded in passages too; not where the caller brings its vector."""
    # Short ones don't have to ask the embedder, which may have to be loaded for it.
    if draft.vector is not None or len(draft.text) <= MIN_WINDOW:
        return False
    return len(draft.text) > window_of(embedder)


def embed_passages(embedder: Embedder, draft: "Draft") -> EmbeddedPassages:
    """Cut a long text into passages and embed each, with its speaker and date."""
    passages = split(draft.text, window=window_of(embedder))
    texts = [replace(draft, text=passage.of(draft.text)).embedded_text for passage in passages]
    return EmbeddedPassages(passages, embed_documents(embedder, texts))
