"""The lexical embedder: the same everywhere, never zero, near where texts overlap."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ailake.embed
from ailake.embed import Embedder, HashingEmbedder, check_vector
from ailake.errors import InvalidInputError

ROOT = str(Path(ailake.embed.__file__).parents[2])
TEXTS = [
    "Ana is allergic to peanuts",
    "她对花生过敏",
    "알레르기가 있어요",
    "!!!",
    "🍕",
    "नमस्ते दुनिया",
]
PROGRAM = f"""
import hashlib
from ailake.embed import HashingEmbedder
vectors = HashingEmbedder(512).embed_documents({TEXTS!r})
print(hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest())
"""
# Changes only together with the "v1" of the id: lakes hold vectors made by it.
GOLDEN = "9929a94bd8cae62d440354bbda0d81f8d65749e06138d706c1532b64b4e62419"


@pytest.mark.parametrize("seed", ["0", "1234"])
def test_vectors_are_the_same_in_every_process(seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ROOT},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == GOLDEN


@settings(deadline=None)
@given(st.text(min_size=1), st.sampled_from([1, 3, 64, 512]))
def test_any_text_has_a_finite_unit_vector(text: str, dim: int) -> None:
    vector = HashingEmbedder(dim).embed_query(text)
    assert vector.dtype == np.float32
    assert vector.shape == (dim,)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    check_vector(vector, dim=dim, name="hashing")


@pytest.mark.parametrize("text", ["", " ", "\n", "!!!", "🍕", "\0", "…", "x" * 50_000, "\ud800"])
def test_strange_texts_have_unit_vectors(text: str) -> None:
    assert np.linalg.norm(HashingEmbedder().embed_query(text)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("is Ana allergic?", "Ana is allergic to peanuts", "the train leaves at nine"),
        ("PEANUTS", "a peanut allergy", "a train to Rome"),
        ("花生过敏", "她对花生过敏", "火车九点出发"),
        ("东京的天气", "今天东京天气很好", "我喜欢喝咖啡"),
        ("コーヒーが好き", "私はコーヒーを飲む", "電車は九時に出る"),
        ("커피를 좋아해요", "나는 커피를 마셔요", "기차는 아홉 시에 떠나요"),
        ("नमस्ते दुनिया", "सारी दुनिया", "रेलगाड़ी नौ बजे"),
        ("ＡＢＣ", "abc商店", "ＸＹＺ饭馆"),
        ("🍕", "dinner: 🍕", "dinner: 🍣"),
        ("!!!", "!!!", "???"),
    ],
)
def test_shared_words_and_characters_make_texts_near(query: str, near: str, far: str) -> None:
    hashing = HashingEmbedder()
    to_near, to_far = hashing.embed_documents([near, far]) @ hashing.embed_query(query)
    assert to_near > to_far + 0.1


def test_documents_and_queries_are_treated_alike() -> None:
    hashing = HashingEmbedder()
    documents = hashing.embed_documents(TEXTS)
    for row, text in zip(documents, TEXTS, strict=True):
        np.testing.assert_array_equal(row, hashing.embed_query(text))


def test_order_of_words_matters_little_and_repetition_less_than_linearly() -> None:
    hashing = HashingEmbedder(65_536)
    tea, rome = hashing.embed_documents(["tea tea tea tea rome", "rome"])
    both = hashing.embed_query("rome tea")
    assert tea @ rome == pytest.approx(np.sqrt(10 / (10 + 7 * 4)))  # linear: 7 * 16
    assert both @ hashing.embed_query("tea rome") == pytest.approx(1.0, abs=1e-5)


def test_it_is_an_embedder_whose_id_has_its_dim() -> None:
    small = HashingEmbedder(64)
    assert isinstance(small, Embedder)
    assert (small.id, small.dim) == ("hashing-v1-64", 64)
    assert (HashingEmbedder().id, HashingEmbedder().dim) == ("hashing-v1-512", 512)


@pytest.mark.parametrize("dim", [0, -1, 65_537, 3.0, "3", None, True])
def test_a_dim_out_of_range_is_refused(dim: Any) -> None:
    with pytest.raises(InvalidInputError, match="dim of the hashing embedder"):
        HashingEmbedder(dim)
