"""What the benchmarks share: synthetic lakes, alternating contenders, JSON lines."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import ailake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
AGENT = "bench"
DAY_NS = 86_400 * 10**9
NOW_NS = int(NOW.timestamp()) * 10**9

_BATCH = 65_536
_WORDS = [f"word{number}" for number in range(2_000)]
_FILLED = {"role": "user", "source": "direct", "state": "active", "decision": "create"}

# Agents that share a table with the one that is asked.
_OTHERS = 40

_CENTRES = 200
_SPREAD = 0.7  # length of the noise around a centre of length 1

Vectors = NDArray[np.float32]
Draw = Callable[[np.random.Generator, int], Vectors]


def report(**line: object) -> None:
    print(json.dumps(line), flush=True)


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = perf_counter()
    call()
    return perf_counter() - started


def alternate(
    contenders: Mapping[str, Callable[[int], object]], steps: int
) -> dict[str, list[float]]:
    """Call each contender with 0, 1, 2, … in turn, so that noise hits all; return seconds.

    The order turns by one with every step: nobody always runs on the warmest cache.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for step in range(steps):
        turn = step % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(timed(partial(contenders[name], step)))
    return seconds


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    points = {"p50_ms": 50, "p95_ms": 95, "p99_ms": 99}
    return {name: round(1e3 * float(np.percentile(seconds, at)), 3) for name, at in points.items()}


def p50_p95(seconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = (round(1e3 * float(at), 3) for at in np.percentile(seconds, (50, 95)))
    return {"p50_ms": p50, "p95_ms": p95}


def folder_of(lake: ailake.Lake) -> Path:
    return Path(lake.uri.removeprefix("file://"))


def clustered(dim: int) -> Draw:
    """Return what draws unit vectors around a fixed set of centres, float32 (n, dim)."""
    centres = normalised(np.random.default_rng(5).standard_normal((_CENTRES, dim), np.float32))
    noise = np.float32(_SPREAD / np.sqrt(dim))

    def draw(rng: np.random.Generator, count: int) -> Vectors:
        around = noise * rng.standard_normal((count, dim), np.float32)
        return normalised(centres[rng.integers(_CENTRES, size=count)] + around)

    return draw


def normalised(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def made(folder: Path, rows: int, draw: Draw) -> None:
    dim = draw(np.random.default_rng(0), 1).shape[1]
    with ailake.connect(folder, embedder=f"hashing:{dim}") as lake:
        if rows:
            fill(lake, rows, draw)


def opened(folder: Path) -> ailake.Lake:
    return ailake.connect(folder, create=False)


def notes_table(count: int, draw: Draw) -> pa.Table:
    """Return memories of which no two say the same: text and vector."""
    vectors = draw(np.random.default_rng(13), count)
    texts = [f"note {place}: the meeting moved to room {place % 97}" for place in range(count)]
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({"text": texts, "vector": flat})


def matrix(notes: pa.Table) -> Any:
    return notes["vector"].combine_chunks().flatten().to_numpy().reshape(len(notes), -1)


def fill(lake: ailake.Lake, rows: int, draw: Draw, *, share: float = 1.0) -> None:
    """Append memories in one commit: ages uniform over a year, importance Beta(5, 2).

    Args:
        lake: An empty lake.
        rows: How many.
        draw: Returns that many vectors, float32 (n, dim).
        share: How many of them are the benchmark's agent's; the rest is that of others, in turn.
    """
    schema = lake.table("episodic").schema
    batches = episodic_batches(schema, rows, draw, share=share)
    lake.table("episodic").add(pa.RecordBatchReader.from_batches(schema, batches))


def episodic_batches(
    schema: pa.Schema,
    rows: int,
    draw: Draw,
    *,
    name: str = "memory",
    seed: int = 7,
    share: float = 1.0,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of ``episodic`` with every column, ids starting with ``name``."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        vectors = draw(rng, count)
        born = pa.array(NOW_NS - (rng.random(count) * 365 * DAY_NS).astype(np.int64))
        words = rng.choice(_WORDS, (count, 12)).tolist()
        others = [f"other-{place % _OTHERS}" for place in range(count)]
        agents = np.where(rng.random(count) < share, AGENT, others) if share < 1 else None
        columns: dict[str, Any] = {
            "agent_id": agents,
            "chunk_id": [f"{name}-{start + place:09d}" for place in range(count)],
            "chunk_text": [" ".join(picked) for picked in words],
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.astype(np.float16).ravel()), vectors.shape[1]
            ),
            "importance_score": rng.beta(5, 2, count),
            **dict.fromkeys(("created_at", "updated_at", "event_time", "last_accessed_at"), born),
        }
        yield pa.record_batch(
            [_column(field, columns.get(field.name), count) for field in schema], schema=schema
        )


def _column(field: pa.Field, values: Any, count: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(field.type)
    if values is not None:
        return pa.array(values, field.type)
    if field.nullable:
        return pa.nulls(count, field.type)
    texts = {**_FILLED, "agent_id": AGENT, "metadata": "{}"}
    number = int(field.name in {"confidence", "recency_weight"})
    value = texts.get(field.name, "") if pa.types.is_string(field.type) else number
    return pa.repeat(pa.scalar(value, field.type), count)
