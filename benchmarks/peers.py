"""Single durable adds and searches of other embedded memory and vector stores, beside ours.

    pip install chromadb qdrant-client mem0ai
    pip install sqlite-vec pysqlite3-binary langgraph-checkpoint-sqlite
    python benchmarks/peers.py [--base 10000] [--adds 1000] [--queries 50] [--dim 384]
                               [--only ailake chroma …]

Each is optional: one that is not installed is reported as skipped, with the reason. All get the
same precomputed vectors and texts, one scope, k = 10, all in turn.
add: one memory at a time; `durability` says what is on disk when it returns (syncs per add as
strace counts them).
search: before and after those adds; `growth` is after / before.
pysqlite3-binary serves where Python's own sqlite3 can't load extensions.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.update(LANCEDB_LOG="error", LANCE_LOG="error", MEM0_TELEMETRY="False")

import numpy as np
from peer_sqlite import LangGraph, SqliteVec
from peer_stores import Ailake, Chroma, Given, LanceDb, Mem0, Qdrant, Store
from timing import alternate, clustered, matrix, notes_table, p50_p95, report

WARM_UP = 3

STORES: Mapping[str, Callable[[Path, int], Store]] = {
    "ailake": Ailake, "lancedb": LanceDb, "chroma": Chroma, "qdrant-local": Qdrant, "mem0": Mem0,
    "sqlite-vec": SqliteVec, "langgraph-sqlite": LangGraph,
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """How many memories are there, how many come, how many questions are asked."""

    base: int
    adds: int
    queries: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--base", type=int, default=10_000)
    parser.add_argument("--adds", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--only", nargs="+", choices=sorted(STORES), default=list(STORES))
    options = parser.parse_args()
    sizes = Sizes(options.base, options.adds, options.queries)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEM0_DIR"] = f"{folder}/mem0-settings"
        stores = opened(Path(folder), options.only, options.dim)
        try:
            compare(stores, given(sizes, options.dim), sizes)
        finally:
            for store in stores.values():
                store.close()


def opened(folder: Path, names: list[str], dim: int) -> dict[str, Store]:
    stores: dict[str, Store] = {}
    for name in names:
        (folder / name).mkdir()
        try:
            stores[name] = STORES[name](folder / name, dim)
        except ImportError as error:
            report(figure="skipped", store=name, reason=str(error))
    return stores


def given(sizes: Sizes, dim: int) -> Given:
    """Return all memories and, after them, all questions."""
    draw = clustered(dim)
    notes = notes_table(sizes.base + sizes.adds, draw)
    questions = draw(np.random.default_rng(11), sizes.queries)
    asked = [f"question {place}" for place in range(sizes.queries)]
    texts = [*notes["text"].to_pylist(), *asked]
    return Given(texts, np.concatenate([matrix(notes), questions]))


def compare(stores: Mapping[str, Store], notes: Given, sizes: Sizes) -> None:
    for store in stores.values():
        store.load(notes.part(0, sizes.base))
    first = len(notes.texts) - sizes.queries

    def search(store: Store) -> Callable[[int], object]:
        return lambda step: store.search(notes.part(first + step, 1))

    def add(store: Store) -> Callable[[int], object]:
        return lambda step: store.add(notes.part(sizes.base + step, 1))

    searches = {name: search(store) for name, store in stores.items()}
    alternate(searches, min(WARM_UP, sizes.queries))
    before = alternate(searches, sizes.queries)
    adds = alternate({name: add(store) for name, store in stores.items()}, sizes.adds)
    after = alternate(searches, sizes.queries)
    for name, store in stores.items():
        labels = {"store": name, "base": sizes.base, "durability": store.durability}
        report(figure="add", **labels, adds=sizes.adds, **p50_p95(adds[name]))
        found = len(store.search(notes.part(first, 1)))
        report(figure="search", store=name, found=found, **growth(before[name], after[name]))


def growth(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    return {
        "before_p50_ms": p50_p95(before)["p50_ms"],
        "after_p50_ms": p50_p95(after)["p50_ms"],
        "growth": round(float(np.median(after) / np.median(before)), 3),
    }


if __name__ == "__main__":
    main()
