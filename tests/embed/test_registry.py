"""The bridge to LanceDB's embedding functions, against a real server on this machine."""

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from lancedb.embeddings import EmbeddingFunction, TextEmbeddingFunction, get_registry

from ailake.embed import (
    Embedder,
    HashingEmbedder,
    RegistryEmbedder,
    embed_documents,
    embed_query,
    resolve_embedder,
)
from ailake.errors import InvalidInputError, MissingExtraError

SPEC = "lancedb:openai:text-embedding-3-small"
DIM = 1536
needs_openai = pytest.mark.skipif(find_spec("openai") is None, reason="openai is not installed")


class OpenAIServer(ThreadingHTTPServer):
    """Answers ``POST /v1/embeddings`` with hashing vectors, as ``spoil`` changes them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.spoil: Callable[[list[list[float]]], list[list[float]]] = lambda rows: rows
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(
            {**asked, "path": self.path, "key": self.headers["Authorization"]}
        )
        rows = self.server.spoil(HashingEmbedder(DIM).embed_documents(asked["input"]).tolist())
        packed = asked.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(np.array(row, "<f4").tobytes()).decode()
                if packed
                else row,
            }
            for index, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "data": data, "model": asked["model"], "usage": usage})
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{running.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield running
        running.shutdown()
        thread.join()


@needs_openai
def test_openai_vectors_arrive_as_sent(server: OpenAIServer) -> None:
    embedder = resolve_embedder(SPEC)
    assert isinstance(embedder, RegistryEmbedder)
    assert isinstance(embedder, Embedder)
    assert (embedder.id, embedder.dim) == (SPEC, DIM)
    texts = ["tea", "她对花生过敏", "https://example.org/a.png"]
    np.testing.assert_array_equal(
        embed_documents(embedder, texts, batch_size=2), HashingEmbedder(DIM).embed_documents(texts)
    )
    np.testing.assert_array_equal(
        embed_query(embedder, "tea?"), HashingEmbedder(DIM).embed_query("tea?")
    )
    assert [request["input"] for request in server.requests] == [texts[:2], texts[2:], ["tea?"]]
    assert {request["model"] for request in server.requests} == {"text-embedding-3-small"}
    assert {request["path"] for request in server.requests} == {"/v1/embeddings"}
    assert {request["key"] for request in server.requests} == {"Bearer test-key"}


@needs_openai
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda rows: rows[:-1], "text 1: got None, wanted a vector of 1536 real numbers"),
        (lambda rows: [rows[0], rows[1][:-1]], r"text 1: got a value of shape \(1535,\)"),
        (lambda rows: [[0.0] * DIM, rows[1]], "text 0: got a zero vector"),
    ],
)
def test_a_malformed_answer_is_refused(
    server: OpenAIServer, spoil: Callable[[list[list[float]]], list[list[float]]], said: str
) -> None:
    server.spoil = spoil
    embedder = RegistryEmbedder(SPEC)
    with pytest.raises(InvalidInputError, match=f"^embedder '{SPEC}', {said}"):
        embed_documents(embedder, ["tea", "coffee"])
    with pytest.raises(InvalidInputError, match=f"^embedder '{SPEC}', {said}"):
        embedder.embed_documents(["tea", "coffee"])


@needs_openai
def test_a_refused_key_passes_unchanged_and_at_once(server: OpenAIServer) -> None:
    import openai

    server.status = 401
    with pytest.raises(openai.AuthenticationError):
        RegistryEmbedder(SPEC).embed_query("tea")
    assert len(server.requests) == 1


@needs_openai
def test_a_bad_request_is_no_empty_result(server: OpenAIServer) -> None:
    server.status = 400  # LanceDB's function turns it into a None for each text
    with pytest.raises(InvalidInputError, match="text 0: got None"):
        RegistryEmbedder(SPEC).embed_documents(["tea", "coffee"])
    with pytest.raises(InvalidInputError, match="query: got None"):
        RegistryEmbedder(SPEC).embed_query("tea")


def test_an_unknown_function_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"got 'lancedb:opnai:x'.*cohere.*ollama, openai"):
        RegistryEmbedder("lancedb:opnai:x")
    with pytest.raises(InvalidInputError, match="cohere"):
        RegistryEmbedder("lancedb:")


@pytest.mark.parametrize("name", ["colpali", "imagebind", "open-clip", "siglip"])
def test_functions_that_would_open_texts_as_images_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="with a text function: ") as caught:
        RegistryEmbedder(f"lancedb:{name}:x")
    assert f" {name}," not in str(caught.value).partition("text function")[2]


def test_the_default_model_is_spelled_out_in_the_id() -> None:
    assert RegistryEmbedder("lancedb:openai").id == "lancedb:openai:text-embedding-ada-002"
    assert RegistryEmbedder("lancedb:openai:").id == "lancedb:openai:text-embedding-ada-002"
    assert RegistryEmbedder("lancedb:openai").dim == 1536
    with pytest.raises(InvalidInputError, match="wanted lancedb:voyageai:<model>"):
        RegistryEmbedder("lancedb:voyageai")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cohere", None)
    embedder = RegistryEmbedder("lancedb:cohere:embed-english-v3.0")
    assert embedder.dim == 1024
    said = "'lancedb:cohere:embed-english-v3.0' needs .*: pip install cohere$"
    with pytest.raises(MissingExtraError, match=said):
        embedder.embed_documents(["tea"])
    with pytest.raises(MissingExtraError, match=said):
        embedder.embed_query("tea")


def test_a_package_missing_for_the_dim_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedder = RegistryEmbedder("lancedb:sentence-transformers")
    with pytest.raises(MissingExtraError, match=r"pip install sentence-transformers$"):
        embedder.dim  # noqa: B018


@pytest.fixture
def functions() -> Iterator[None]:
    """Register two functions of a user's own, and take them out again."""
    registry = get_registry()
    registry.register("own-mixed")(OwnMixed)
    registry.register("own-nameless")(OwnNameless)
    yield
    for name in ("own-mixed", "own-nameless"):
        del registry._functions[name]


class OwnMixed(EmbeddingFunction):  # type: ignore[misc]
    """Takes texts and, like jina's and voyageai's, addresses of images, which it would fetch."""

    name: str = "a/b:c"

    def ndims(self) -> int:
        return 3

    def _vector(self, text: str) -> list[float] | None:
        if text.startswith("https://"):
            raise ConnectionError(text)
        return None if text == "none" else [float(len(text)), float(len(self.name)), 1.0]

    def compute_query_embeddings(self, query: str, *_: Any, **__: Any) -> Any:
        return {"two": [[1.0] * 3] * 2, "flat": None}.get(query, [self._vector(query)])

    def compute_source_embeddings(self, texts: list[str], *_: Any, **__: Any) -> Any:
        return [self._vector(text) for text in texts]


class OwnNameless(TextEmbeddingFunction):  # type: ignore[misc]
    """Has no models to choose from."""

    def ndims(self) -> int:
        return 2

    def generate_embeddings(self, texts: Any, *_: Any, **__: Any) -> Any:
        return [[1.0, 2.0] for _ in texts]


@pytest.mark.usefixtures("functions")
def test_a_model_may_hold_colons_and_slashes() -> None:
    assert RegistryEmbedder("lancedb:own-mixed").id == "lancedb:own-mixed:a/b:c"
    embedder = RegistryEmbedder("lancedb:own-mixed:org/model:latest")
    assert embedder.id == "lancedb:own-mixed:org/model:latest"
    assert embedder.embed_query("tea").tolist() == [3.0, 16.0, 1.0]


@pytest.mark.usefixtures("functions")
def test_a_function_without_models_takes_none() -> None:
    embedder = RegistryEmbedder("lancedb:own-nameless")
    assert embedder.id == "lancedb:own-nameless"
    assert embedder.embed_documents(["a", "b"]).tolist() == [[1.0, 2.0]] * 2
    with pytest.raises(InvalidInputError, match="wanted lancedb:own-nameless: no model"):
        RegistryEmbedder("lancedb:own-nameless:x")


@pytest.mark.usefixtures("functions")
def test_a_none_vector_is_refused() -> None:
    embedder = RegistryEmbedder("lancedb:own-mixed")
    with pytest.raises(InvalidInputError, match="text 1: got None"):
        embedder.embed_documents(["tea", "none"])
    with pytest.raises(InvalidInputError, match="text 2: got None"):
        embed_documents(embedder, ["tea", "tea", "none"], batch_size=3)
    with pytest.raises(InvalidInputError, match="query: got None"):
        embedder.embed_query("none")


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("query", ["two", "flat"])
def test_a_query_has_one_vector(query: str) -> None:
    with pytest.raises(InvalidInputError, match=r"query: .* wanted a list of one vector"):
        RegistryEmbedder("lancedb:own-mixed").embed_query(query)


@pytest.mark.usefixtures("functions")
def test_an_address_as_text_is_not_fetched() -> None:
    embedder, address = RegistryEmbedder("lancedb:own-mixed"), "https://10.0.0.1/secret.png"
    wanted = [float(len(address) + 2), 5.0, 1.0]
    assert embedder.embed_query(address).tolist() == wanted
    assert embedder.embed_documents([address, "http://[", "tea: x"]).tolist() == [
        wanted,
        [8.0, 5.0, 1.0],
        [6.0, 5.0, 1.0],
    ]
