"""What the benchmarks share: synthetic lakes, alternating contenders, JSON lines."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
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

Vectors = NDArray[np.float32]


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


def fill(lake: ailake.Lake, rows: int, draw: Callable[[np.random.Generator, int], Vectors]) -> None:
    """Append memories in one commit: ages uniform over a year, importance Beta(5, 2).

    Args:
        lake: An empty lake.
        rows: How many.
        draw: Returns that many vectors, float32 (n, dim).
    """
    schema = lake.table("episodic").schema
    batches = _batches(schema, rows, draw)
    lake.table("episodic").add(pa.RecordBatchReader.from_batches(schema, batches))


def _batches(
    schema: pa.Schema, rows: int, draw: Callable[[np.random.Generator, int], Vectors]
) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        vectors = draw(rng, count)
        born = pa.array(NOW_NS - (rng.random(count) * 365 * DAY_NS).astype(np.int64))
        words = rng.choice(_WORDS, (count, 12)).tolist()
        columns: dict[str, Any] = {
            "chunk_id": [f"memory-{start + place:09d}" for place in range(count)],
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
