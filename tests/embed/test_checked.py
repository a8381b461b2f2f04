"""Embedders that misbehave, and what is said about them."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ailake.embed import (
    HashingEmbedder,
    check_embedder,
    check_vector,
    check_vectors,
    embed_documents,
    embed_query,
)
from ailake.embed.checked import _all_fit, _fit
from ailake.errors import InvalidInputError

DIM = 4
GOOD = [0.5, -0.5, 0.5, 0.5]


class Answering:
    """A user's embedder that answers with ``GOOD``, except for the text "bad"."""

    id = "answering"
    dim = DIM

    def __init__(self, bad: Any = None, *, wrap: Callable[[list[Any]], Any] = list) -> None:
        self.bad = bad
        self.wrap = wrap
        self.calls: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.calls.append(len(texts))
        return self.wrap([self.bad if text == "bad" else GOOD for text in texts])

    def embed_query(self, text: str) -> Any:
        return self.bad if text == "bad" else GOOD


BAD_VECTORS = {
    "nan": ([0.5, float("nan"), 0.5, 0.5], "got nan at position 1, wanted finite"),
    "inf": ([0.5, 0.5, float("inf"), 0.5], "got inf at position 2, wanted finite"),
    "beyond float32": ([1e300, 0.5, 0.5, 0.5], "got 1e+300 at position 0, wanted finite"),
    "beyond float16": ([0.5, 0.5, 0.5, -70000.0], "got -70000.0 at position 3, wanted numbers"),
    "zero": ([0.0] * DIM, "got a zero vector"),
    "zero in float16": ([1e-9] * DIM, "at most 1e-09, all zero in float16"),
    "too short": (GOOD[:3], "got a value of shape (3,), wanted a vector of 4 numbers"),
    "too long": ([*GOOD, 0.5], "got a value of shape (5,), wanted a vector of 4 numbers"),
    "nested": ([GOOD], "got a value of shape (1, 4), wanted a vector of 4 numbers"),
    "ragged": ([[1.0], [1.0, 2.0], 3.0, 4.0], "wanted a vector of 4 real numbers"),
    "number": (0.5, "got a value of shape (), wanted a vector of 4 numbers"),
    "string": ("0.5", "got '0.5', wanted a vector of 4 real numbers"),
    "strings": (["1", "2", "3", "4"], "wanted a vector of 4 real numbers"),
    "complex": ([1j, 1j, 1j, 1j], "wanted a vector of 4 real numbers"),
    "none": (None, "got None, wanted a vector of 4 real numbers"),
}


@pytest.mark.parametrize(("bad", "said"), BAD_VECTORS.values(), ids=BAD_VECTORS.keys())
def test_a_bad_vector_is_refused_with_embedder_and_text_named(bad: Any, said: str) -> None:
    texts = ["a", "b", "c", "bad", "d", "bad"]
    expected = f"^embedder 'answering', text 3: .*{re.escape(said)}"
    with pytest.raises(InvalidInputError, match=expected):
        embed_documents(Answering(bad), texts, batch_size=2)
    with pytest.raises(
        InvalidInputError, match=f"^embedder 'answering', query: .*{re.escape(said)}"
    ):
        embed_query(Answering(bad), "bad")
    with pytest.raises(InvalidInputError, match=f"^query vector: .*{re.escape(said)}"):
        check_vector(bad, dim=DIM, name="query vector")
    with pytest.raises(InvalidInputError, match=f"^vector 1: .*{re.escape(said)}"):
        check_vectors([GOOD, bad], dim=DIM, name="vector")


@pytest.mark.parametrize("bad", ["nan", "inf", "beyond float16", "zero", "zero in float16"])
def test_a_bad_row_of_an_array_is_refused_too(bad: str) -> None:
    vector, said = BAD_VECTORS[bad]
    for dtype in (np.float32, np.float64):
        wrap = partial(np.array, dtype=dtype)
        expected = f"'answering', text 2: .*{re.escape(said)}"
        with pytest.raises(InvalidInputError, match=expected):
            embed_documents(Answering(vector, wrap=wrap), ["a", "b", "bad", "c"], batch_size=2)


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (lambda rows: rows[:-1], "text 3: got 1 vectors for 2 texts"),
        (lambda rows: [*rows, GOOD], "text 4: got 3 vectors for 2 texts"),
        (lambda rows: np.array(rows)[:-1], "text 3: got 1 vectors for 2 texts"),
        (lambda rows: np.array(rows)[:, :-1], "text 2: got a value of shape (3,)"),
        (lambda rows: [rows[0], rows[1][:-1]], "text 3: got a value of shape (3,)"),
        (lambda rows: np.array([*rows[0]])[: len(rows)], "text 2: got a value of shape ()"),
        (lambda _rows: None, "text 2: got None instead of vectors"),
        (lambda _rows: "vectors", "text 2: got 'vectors' instead of vectors"),
        (lambda _rows: 0.5, "text 2: got 0.5 instead of vectors"),
        (lambda _rows: np.float32(0.5), "text 2: got np.float32(0.5) instead of vectors"),
        (lambda rows: {"vectors": rows}, "text 2: got {'vectors': "),
    ],
)
def test_a_bad_batch_is_refused_where_it_starts_to_be_wrong(
    wrap: Callable[[list[Any]], Any], said: str
) -> None:
    class WrongLater(Answering):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            rows = [GOOD for _ in texts]
            return wrap(rows) if texts[0] == "c" else rows

    with pytest.raises(InvalidInputError, match=re.escape(f"embedder 'answering', {said}")):
        embed_documents(WrongLater(), ["a", "b", "c", "d", "e", "f"], batch_size=2)


class Tensor:
    """What torch and others look like to numpy."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        return np.array(self.rows, dtype=dtype, copy=copy or True)


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        Tensor,
        lambda rows: [np.array(row, dtype=np.float16) for row in rows],
        lambda rows: np.asfortranarray(np.array(rows)),
        lambda rows: np.array([[*row, 9.0] for row in rows])[:, :DIM],
    ],
)
def test_any_honest_shape_becomes_contiguous_float32_unchanged(
    wrap: Callable[[list[Any]], Any],
) -> None:
    out = embed_documents(Answering(wrap=wrap), ["a", "b", "c"], batch_size=2)
    assert out.dtype == np.float32
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out, np.array([GOOD] * 3, dtype=np.float32))
    direct = check_vectors(wrap([GOOD, GOOD]), dim=DIM, name="vector")
    assert direct.dtype == np.float32
    assert direct.flags.c_contiguous


def test_booleans_are_no_numbers() -> None:
    booleans = [True, False, True, True]
    with pytest.raises(InvalidInputError, match="wanted a vector of 4 real numbers"):
        check_vector(booleans, dim=DIM, name="vector")
    with pytest.raises(InvalidInputError, match=r"text 0: .* wanted a vector of 4 real numbers"):
        embed_documents(Answering(booleans), ["bad", "bad"])


def test_integers_are_numbers_and_lengths_are_kept() -> None:
    out = check_vector([3, 0, 4, 0], dim=DIM, name="vector")
    assert out.dtype == np.float32
    assert out.tolist() == [3.0, 0.0, 4.0, 0.0]
    assert embed_query(Answering([3, 0, 4, 0]), "bad").tolist() == [3.0, 0.0, 4.0, 0.0]


def test_the_largest_float16_passes_and_the_next_step_does_not() -> None:
    check_vector([65504.0, -65504.0, 0, 0], dim=DIM, name="vector")
    with pytest.raises(InvalidInputError, match="65520"):
        check_vector([65520.0, 0, 0, 0], dim=DIM, name="vector")


@given(arrays(np.float64, (3, DIM)))
def test_what_passes_survives_float16(value: Any) -> None:
    try:
        out = check_vectors(value, dim=DIM, name="vector")
    except InvalidInputError:
        with np.errstate(over="ignore", under="ignore"):
            half = value.astype(np.float32).astype(np.float16)
        assert not (np.isfinite(half).all() and half.any(axis=1).all())
    else:
        half = out.astype(np.float16)
        assert np.isfinite(half).all()
        assert half.any(axis=1).all()


def test_texts_go_in_batches_and_each_is_reported() -> None:
    embedder, reported = Answering(), list[int]()
    out = embed_documents(embedder, ["t"] * 7, batch_size=3, on_batch=reported.append)
    assert out.shape == (7, DIM)
    assert embedder.calls == reported == [3, 3, 1]


@given(st.lists(st.text(min_size=1, max_size=5), max_size=9), st.integers(1, 10))
def test_batches_keep_the_order(texts: list[str], batch_size: int) -> None:
    hashing = HashingEmbedder(16)
    out = embed_documents(hashing, texts, batch_size=batch_size)
    assert out.shape == (len(texts), 16)
    for row, text in zip(out, texts, strict=True):
        np.testing.assert_array_equal(row, embed_query(hashing, text))


def test_no_texts_need_no_embedder() -> None:
    embedder = Answering()
    assert embed_documents(embedder, []).shape == (0, DIM)
    assert embedder.calls == []
    assert check_vectors([], dim=DIM, name="vector").shape == (0, DIM)


@pytest.mark.parametrize("text", [None, 3, b"bytes", "lone \ud800"])
def test_a_text_that_is_not_text_is_refused_before_any_call(text: Any) -> None:
    embedder = Answering()
    with pytest.raises(InvalidInputError, match=r"^text 1: "):
        embed_documents(embedder, ["a", text])
    assert embedder.calls == []
    with pytest.raises(InvalidInputError, match=r"^query: "):
        embed_query(embedder, text)


def test_one_string_is_no_sequence_of_texts() -> None:
    with pytest.raises(InvalidInputError, match=r"^texts: got 'abc', wanted a sequence"):
        embed_documents(Answering(), "abc")


def test_a_batch_has_at_least_one_text() -> None:
    with pytest.raises(InvalidInputError, match=r"^batch_size: got 0"):
        embed_documents(Answering(), ["a"], batch_size=0)


class QuotaError(Exception):
    """An error of the user's provider."""


def test_the_embedders_own_error_passes_unchanged() -> None:
    class Failing(Answering):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            raise QuotaError(len(texts))

        def embed_query(self, text: str) -> Any:
            raise QuotaError(text)

    with pytest.raises(QuotaError) as caught:
        embed_documents(Failing(), ["a"])
    assert caught.value.__cause__ is None
    with pytest.raises(QuotaError):
        embed_query(Failing(), "a")


def test_an_embedder_is_returned_as_it_is() -> None:
    embedder = Answering()
    assert check_embedder(embedder) is embedder


@pytest.mark.parametrize("missing", ["id", "dim", "embed_documents", "embed_query"])
def test_each_missing_member_is_named(missing: str) -> None:
    members = {
        name: getattr(Answering(), name)
        for name in ("id", "dim", "embed_documents", "embed_query")
        if name != missing
    }
    with pytest.raises(InvalidInputError, match=f"lacks {missing}$"):
        check_embedder(type("Partial", (), members)())


def test_all_missing_members_are_listed() -> None:
    with pytest.raises(InvalidInputError, match=r"lacks id, dim, embed_documents, embed_query$"):
        check_embedder(object())


def test_a_method_must_be_callable() -> None:
    members = {"id": "x", "dim": 3, "embed_documents": None, "embed_query": len}
    with pytest.raises(InvalidInputError, match=r"lacks embed_documents$"):
        check_embedder(type("Partial", (), members)())


def test_a_class_is_no_embedder() -> None:
    with pytest.raises(InvalidInputError, match=r"wanted an instance, such as Answering\(\)"):
        check_embedder(Answering)


@pytest.mark.parametrize("identity", [None, "", "  ", 7])
def test_the_id_is_a_non_empty_string(identity: Any) -> None:
    embedder = Answering()
    embedder.id = identity
    with pytest.raises(InvalidInputError, match=r"^embedder id: "):
        check_embedder(embedder)


@pytest.mark.parametrize("dim", [None, 0, -1, 3.0, "3", True])
def test_the_dim_is_a_positive_int(dim: Any) -> None:
    embedder = Answering()
    embedder.dim = dim
    with pytest.raises(InvalidInputError, match=r"^dim of embedder 'answering': "):
        check_embedder(embedder)


@given(
    st.lists(
        st.lists(
            st.floats(width=32) | st.floats(-70_000, 70_000, width=32), min_size=3, max_size=3
        ),
        min_size=1,
    )
)
def test_lengths_tell_what_the_numbers_tell(rows: list[list[float]]) -> None:
    vectors = np.array(rows, np.float32)
    with np.errstate(over="ignore"):
        scaled = [vectors, vectors * np.float32(1e-6), vectors * np.float32(1e-30)]
    for some in scaled:
        assert _all_fit(some) == _fit(some).all()


def test_rows_of_an_array_are_checked_as_the_array() -> None:
    whole = np.random.default_rng(3).standard_normal((5, 4))
    for rows in (whole, list(whole), [list(row) for row in whole]):
        assert np.array_equal(check_vectors(rows, dim=4, name="v"), whole.astype(np.float32))
    mixed = [np.ones(4, np.float32), np.array(["a"] * 4)]
    with pytest.raises(InvalidInputError, match="v 1"):
        check_vectors(mixed, dim=4, name="v")
    with pytest.raises(InvalidInputError, match="v 0: got a value of shape"):
        check_vectors([np.ones((1, 4))] * 2, dim=4, name="v")
