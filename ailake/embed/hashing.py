"""Lexical vectors from hashed character n-grams: numpy and the standard library, no model."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from ailake.embed.protocol import Vectors
from ailake.errors import InvalidInputError

MAX_DIM = 65_536
LONGEST_WORD = 40  # longer runs are no words: their n-grams are enough, and the cache stays small
NGRAM_SIZES = (3, 4, 5)

# Scripts written without spaces, and Hangul, whose syllables carry meaning one by one.
_CJK = (
    "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# `\w` leaves out combining marks, and so would cut Hindi, Thai or vocalised Arabic words apart.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0fff"
_TOKEN = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<word>(?:[^\W{_CJK}]|[{_MARKS}])+)|(?P<other>\S)")
_SIGN_BIT = np.uint64(63)


class HashingEmbedder:
    """Embed text by the characters and words it shares with other text: lexical only.

    It knows no synonyms and no other language: use it in tests and where no model may be
    installed, not for real recall. Features are words, character 3- to 5-grams within words, and
    single characters and pairs for Chinese, Japanese and Korean; each is hashed with BLAKE2b to a
    signed bucket (Weinberger et al. 2009, "Feature hashing for large scale multitask learning"),
    weighted by the square root of its count. Vectors have unit length and are the same on every
    machine; a text without features, such as ``"!!!"``, is one feature as a whole.

    Args:
        dim: Length of the vectors, 1 to 65,536.

    Raises:
        InvalidInputError: ``dim`` is out of range.
    """

    def __init__(self, dim: int = 512) -> None:
        given: object = dim
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= MAX_DIM:
            raise InvalidInputError.of(
                "dim of the hashing embedder", got=dim, wanted=f"an int from 1 to {MAX_DIM}"
            )
        self._dim = dim

    @property
    def id(self) -> str:
        """``hashing-v1-<dim>``."""
        return f"hashing-v1-{self._dim}"

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape ``(len(texts), dim)``."""
        out = np.empty((len(texts), self._dim), dtype=np.float32)
        for index, text in enumerate(texts):
            out[index] = self.embed_query(text)
        return out

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector, shape ``(dim,)``; queries and documents are treated alike."""
        folded = unicodedata.normalize("NFKC", text).casefold()
        hashes, counts = np.unique(
            np.fromiter(map(_hash, _features(folded)), dtype=np.uint64), return_counts=True
        )
        signs = 1.0 - 2.0 * (hashes >> _SIGN_BIT)
        buckets = (hashes % np.uint64(self._dim)).astype(np.intp)
        # Square roots and fsum are correctly rounded everywhere; logarithms and BLAS sums are not.
        vector = np.bincount(buckets, weights=signs * np.sqrt(counts), minlength=self._dim)
        norm = math.sqrt(math.fsum((vector * vector).tolist()))
        if norm == 0.0:  # no features, or all of them cancelled out
            vector[_hash(f"text {folded}") % self._dim] = norm = 1.0
        return (vector / norm).astype(np.float32)


def _features(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "word":
            if len(token) <= LONGEST_WORD:
                yield f"word {token}"
            yield from _ngrams(f" {token} ")
        elif match.lastgroup == "cjk":
            yield from token
            yield from map("".join, pairwise(token))
        elif unicodedata.category(token)[0] == "S":  # emoji, currency; punctuation says too little
            yield token


def _ngrams(padded: str) -> Iterator[str]:
    for size in NGRAM_SIZES:
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]


@lru_cache(maxsize=65_536)
def _hash(feature: str) -> int:
    # "surrogatepass": a lone surrogate is refused where texts enter, not half-way through.
    digest = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
