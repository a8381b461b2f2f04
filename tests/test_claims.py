"""Ids that several processes give at the same moment, on an object store: one of them wins."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Barrier

import numpy as np
import pytest
from numpy.typing import NDArray

import ailake

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WRITERS = 3
LONG = " ".join(f"Sentence number {n} is about tea." for n in range(60))
Write = Callable[[ailake.Memory, str, str], Sequence[ailake.Remembered]]


class Meeting:
    """An embedder that answers all writers at once, when they have planned and not written yet."""

    id, dim = "meeting", 4

    def __init__(self) -> None:
        self.barrier = Barrier(WRITERS)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.barrier.wait(120)
        return np.ones((len(texts), self.dim), np.float32)

    def embed_query(self, _: str) -> NDArray[np.float32]:
        return np.ones(self.dim, np.float32)


def one(memory: ailake.Memory, memory_id: str, name: str) -> Sequence[ailake.Remembered]:
    return [memory.remember(f"{memory_id} of {name}", id=memory_id, now=NOW)]


def long(memory: ailake.Memory, memory_id: str, name: str) -> Sequence[ailake.Remembered]:
    return [memory.remember(f"{LONG} {memory_id} of {name}", id=memory_id, now=NOW)]


def batch(memory: ailake.Memory, memory_id: str, name: str) -> Sequence[ailake.Remembered]:
    """Of three one is everybody's, and another one half of the time."""
    ids = [memory_id, f"{memory_id} {name}", f"{memory_id} {name in {'w0', 'w1'}}"]
    return memory.remember_many([{"text": f"{n} of {name}", "id": n} for n in ids], now=NOW)


def with_vectors(memory: ailake.Memory, memory_id: str, name: str) -> Sequence[ailake.Remembered]:
    embedder = memory.embedder
    assert isinstance(embedder, Meeting)
    embedder.barrier.wait(120)
    vector = [1.0, 0.0, 0.0, 0.0]
    items = [{"text": f"{memory_id} of {name}", "id": memory_id, "vector": vector}]
    return memory.remember_many(items, now=NOW)


@pytest.fixture(scope="module")
def lakes(s3: dict[str, str]) -> Iterator[list[ailake.Lake]]:
    """The same lake, opened by each writer."""
    embedder = Meeting()
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                ailake.connect("s3://lakes/claims", embedder=embedder, storage_options=s3)
            )
            for _ in range(WRITERS)
        ]


@pytest.mark.parametrize("write", [one, long, batch, with_vectors])
def test_one_of_several_wins(lakes: list[ailake.Lake], write: Write) -> None:
    memories = [lake.memory("a") for lake in lakes]
    names = [f"w{writer}" for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        told = list(pool.map(write, memories, [write.__name__] * WRITERS, names))
    outcomes = [outcome for some in told for outcome in some]
    # As if one had come after the other: each id was stored once, by one of them.
    kept = {outcome.id for outcome in outcomes}
    assert len(outcomes) - sum(outcome.repeated for outcome in outcomes) == len(kept)
    for (first, *_), name in zip(told, names, strict=True):
        assert first.id == write.__name__
        assert memories[0].get(first.id).text.endswith(name) == (not first.repeated)
    assert lakes[0].verify(now=NOW) == ()
    parts = lakes[0].scan("passages").select("chunk_id", "part").collect()
    assert parts.n_unique() == parts.height
    with pytest.raises(ailake.InvalidInputError, match="is taken in this lake"):
        lakes[1].memory("b").remember_many([{"text": "x", "id": first.id, "vector": [1.0] * 4}])
