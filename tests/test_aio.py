"""The verbs as coroutines: the same results, in worker threads, cancelled or not."""

import asyncio
import gc
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, assert_type

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake import AsyncMemory, AsyncMemoryReader, Hits, InvalidInputError, Memory, Remembered
from ailake.aio import Verb
from ailake.reading import MemoryReader

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PATIENCE = 60

R = TypeVar("R")
who: ContextVar[str] = ContextVar("who", default="nobody")


class Gate:
    """An embedder that waits before texts that hold the word "slow" until it is let go on.

    Attributes:
        begun: How often it has begun to wait.
        asked: Texts, each with the value of a context variable where it was embedded.
    """

    id = "gate"
    dim = 16

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.fails = False
        self.asked: list[tuple[str, str]] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.asked.append((text, who.get()))
        if "slow" in text:
            self.begun.release()
            assert self.go_on.wait(PATIENCE)
            if self.fails:
                raise OSError("the model's server is gone")
        rng = np.random.default_rng(sum(text.encode()))
        return rng.standard_normal(16).astype(np.float32)

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def gated(tmp_path: Path, gate: Gate) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "gated", embedder=gate, judge_rules=KEEP) as lake:
        yield lake
        gate.go_on.set()


@asynccontextmanager
async def quietly() -> AsyncIterator[None]:
    """Fail where the loop is told of an error that nobody asked for."""
    told: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    yield
    await loop.shutdown_default_executor()
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    async def guarded() -> R:
        async with quietly():
            return await coroutine

    return asyncio.run(guarded())


def verbs_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if isinstance(getattr(kind, name), Verb)}


@pytest.mark.parametrize(
    ("sync", "edge"), [(Memory, AsyncMemory), (MemoryReader, AsyncMemoryReader)]
)
def test_every_method_is_a_verb(sync: type, edge: type) -> None:
    methods = {name for name, _ in inspect.getmembers(sync, inspect.isfunction) if name[0] != "_"}
    assert verbs_of(edge) == methods
    for name in methods:
        assert getattr(edge, name).__doc__ == getattr(sync, name).__doc__


def test_a_verb_shows_what_its_method_does(memory: Memory) -> None:
    recall = memory.aio.recall
    assert inspect.iscoroutinefunction(recall)
    assert inspect.signature(recall) == inspect.signature(memory.recall)
    assert (recall.__name__, recall.__doc__) == ("recall", Memory.recall.__doc__)


def test_the_same_results(lake: ailake.Lake, memory: Memory) -> None:
    amemory = memory.aio

    async def story() -> None:
        made = await amemory.remember("green tea", id="m1", now=NOW)
        assert_type(made, Remembered)
        assert made == memory.remember("green tea", id="m1", now=NOW)
        await amemory.remember_many([{"text": "black tea", "id": "m2"}], now=NOW)
        await amemory.add_messages([{"role": "user", "content": "coffee", "id": "m3"}], now=NOW)
        hits = await amemory.recall("tea", limit=2, now=NOW, touch=False)
        assert_type(hits, Hits)
        assert hits == memory.recall("tea", limit=2, now=NOW, touch=False)
        assert [hit.id for hit in await amemory.recall_filtered("tea", 5, ["m3"])] == ["m3"]
        await amemory.touch("m2", now=NOW)
        assert (await amemory.get("m2", now=NOW)).access_count == 1
        new = await amemory.update("m1", text="white tea", now=NOW)
        assert await amemory.history("m1") == memory.history("m1")
        assert (await amemory.restore("m1", now=NOW)).id == "m1"
        assert (await amemory.forget(new.id)).ids == (new.id,)
        assert await amemory.list(now=NOW) == memory.list(now=NOW)
        reader = lake.read([memory.scope]).aio
        assert await reader.count(now=NOW) == 3
        assert await reader.list(limit=1, now=NOW) == memory.list(limit=1, now=NOW)

    run(story())


def test_errors_are_those_of_the_method(lake: ailake.Lake, memory: Memory) -> None:
    async def story() -> None:
        with pytest.raises(InvalidInputError, match="limit: got 0"):
            await memory.aio.recall("tea", limit=0)
        with pytest.raises(ailake.NotFoundError):
            await memory.aio.get("unknown")
        with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
            await memory.aio.recall("tea", limits=3)  # type: ignore[call-arg]
        with pytest.raises(ailake.ReadOnlyError):
            await lake.at("then").memory("ana-bot").aio.remember("tea")

    lake.tag("then")
    run(story())


def test_what_is_no_verb_is_refused_and_named(lake: ailake.Lake, memory: Memory) -> None:
    listed = (
        "its verbs are add_messages, count, decisions, forget, get, history, list, recall, "
        "recall_filtered, remember, remember_many, restore, touch, update; all else is at .sync"
    )
    for name in ("recal", "scope", "store", "aio", "_read"):
        with pytest.raises(AttributeError, match=f"^AsyncMemory has no '{name}': {listed}$"):
            getattr(memory.aio, name)
    reader = lake.read([memory.scope]).aio
    refused = r"AsyncMemoryReader has no 'remember'.*count, decisions, get"
    with pytest.raises(AttributeError, match=refused):
        reader.remember  # type: ignore[attr-defined]  # noqa: B018
    assert memory.aio.sync is memory
    assert memory.aio.sync.scope == memory.scope
    assert memory.aio == memory.aio


def test_the_loop_goes_on_and_the_context_comes_along(gate: Gate, gated: ailake.Lake) -> None:
    amemory = gated.memory("a").aio

    async def remember(name: str) -> Remembered:
        who.set(name)
        return await amemory.remember(f"slow {name}")

    async def story() -> None:
        tasks = [asyncio.create_task(remember(name)) for name in ("ana", "bo")]
        await gate.has_begun()
        await gate.has_begun()
        gate.go_on.set()
        await asyncio.gather(*tasks)

    run(story())
    assert sorted(gate.asked) == [("slow ana", "ana"), ("slow bo", "bo")]
    assert who.get() == "nobody"


def test_fifty_recalls_at_once(memory: Memory) -> None:
    made = memory.remember("tea", now=NOW)

    async def story() -> list[Hits]:
        return await asyncio.gather(*(memory.aio.recall("tea", now=NOW) for _ in range(50)))

    assert [[hit.id for hit in hits] for hits in run(story())] == [[made.id]] * 50
    assert memory.get(made.id, now=NOW).access_count == 50


def test_a_group_of_tasks_of_which_one_fails(lake: ailake.Lake, memory: Memory) -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(
                    memory.aio.remember_many([{"text": f"{n} {i}"} for i in range(9)])
                )
            group.create_task(memory.aio.remember(" "))

    with pytest.raises(ExceptionGroup) as caught:
        run(story())
    assert [str(error)[:12] for error in caught.value.exceptions] == ["text: got ' "]
    counts: dict[str, int] = {}
    for record in memory.list(limit=1_000):
        first, _ = record.text.split()
        counts[first] = counts.get(first, 0) + 1
    assert set(counts.values()) <= {9}
    assert lake.verify() == ()


def test_cancelled_in_the_middle_it_is_written_whole(gate: Gate, gated: ailake.Lake) -> None:
    memory = gated.memory("a")

    async def story() -> None:
        items = [{"text": "slow tea"}, {"text": "coffee"}]
        task = asyncio.create_task(memory.aio.remember_many(items))
        await gate.has_begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # At once, while the thread still waits; the lake serves others meanwhile.
        assert not gate.go_on.is_set()
        assert await memory.aio.count() == 0
        await memory.aio.remember("milk")
        gate.go_on.set()

    run(story())
    assert sorted(record.text for record in memory.list()) == ["coffee", "milk", "slow tea"]
    assert memory.remember("slow tea").decision == "skip"
    assert gated.verify() == ()


def test_a_timeout_does_not_wait_for_the_thread(gate: Gate, gated: ailake.Lake) -> None:
    memory = gated.memory("a")
    memory.remember("tea")

    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await memory.aio.recall("slow question")
        assert not gate.go_on.is_set()
        assert len(await memory.aio.recall("question")) == 1
        gate.go_on.set()

    run(story())


def test_cancelled_before_it_begins_it_never_does(gate: Gate, gated: ailake.Lake) -> None:
    memory = gated.memory("a")

    async def story() -> None:
        with ThreadPoolExecutor(1) as only_thread:
            asyncio.get_running_loop().set_default_executor(only_thread)
            running = asyncio.create_task(memory.aio.remember("slow tea"))
            waiting = asyncio.create_task(memory.aio.remember("coffee"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gate.go_on.set()
            await running

    run(story())
    assert [text for text, _ in gate.asked] == ["slow tea"]
    assert [record.text for record in memory.list()] == ["slow tea"]


def test_nobody_is_told_how_a_cancelled_one_failed(
    gate: Gate, gated: ailake.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    memory = gated.memory("a")
    gate.fails = True

    async def story() -> None:
        task = asyncio.create_task(memory.aio.remember("slow tea"))
        await gate.has_begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gate.go_on.set()

    with caplog.at_level(logging.DEBUG, "asyncio"):
        run(story())
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
    assert memory.count() == 0
    gate.fails = False
    assert memory.remember("slow tea").decision == "create"


def test_the_lake_is_closed_meanwhile(gate: Gate, gated: ailake.Lake) -> None:
    amemory = gated.memory("a").aio

    async def story() -> list[object]:
        await amemory.remember("tea")
        first = [amemory.remember("slow coffee"), amemory.recall("slow question")]
        running = [asyncio.create_task(one) for one in first]
        await gate.has_begun()
        await gate.has_begun()
        await asyncio.to_thread(gated.close)
        gate.go_on.set()
        later = [amemory.remember("milk"), amemory.recall("tea")]
        return await asyncio.gather(*running, *later, return_exceptions=True)

    for outcome in run(story()):
        assert isinstance(outcome, InvalidInputError)
        assert str(outcome) == f"the lake {gated.uri} is closed; connect again"
    with ailake.connect(gated.uri, embedder=gate, judge_rules=KEEP) as again:
        assert [record.text for record in again.memory("a").list()] == ["tea"]
        assert again.verify() == ()


def test_what_was_remembered_before_the_lake_closed_is_kept(tmp_path: Path) -> None:
    uri = tmp_path / "lake"

    async def remember(amemory: AsyncMemory, n: int) -> str | None:
        try:
            return (await amemory.remember(f"note {n}", now=NOW + timedelta(seconds=n))).id
        except InvalidInputError as error:
            assert "is closed; connect again" in str(error)  # noqa: PT017 (gathered with the rest)
            return None

    async def story() -> set[str]:
        lake = ailake.connect(uri, embedder="hashing:16", judge_rules=KEEP)
        amemory = lake.memory("a").aio
        tasks = [asyncio.create_task(remember(amemory, n)) for n in range(200)]
        await tasks[20]
        # From here: in a thread its turn would come after theirs.
        lake.close()
        return set(filter(None, await asyncio.gather(*tasks)))

    kept = run(story())
    with ailake.connect(uri, judge_rules=KEEP) as again:
        stored = {record.id for record in again.memory("a").list(limit=1_000, now=NOW)}
        assert kept <= stored
        assert 20 < len(kept) < 200
        assert again.verify() == ()
