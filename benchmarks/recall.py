"""Recall against raw vector searches of the same table, and against the truth.

    python benchmarks/recall.py [--rows 1000 10000 100000] [--shares 0.025 0.5 1] [--dim 384]
                                [--queries 300] [--writes 1000] [--index IVF_SQ | IVF_HNSW_SQ]

Clustered unit vectors, ages uniform over a year, importance Beta(5, 2), k = 10, the query's vector
given. A share is how much of the table belongs to the scope that is asked; the rest is that of 40
other agents. Each JSON line names its rows and share.

latency: p50, p95, p99 of `recall` in mode vector, with and without accesses counted, and in modes
hybrid and text, beside LanceDB searches of the same k, all in turn for every query. "raw" selects
id, text and distance without a filter; "raw scoped" has the scope's prefilter; "raw rerank" fetches
the nearest 3 x k in scope with every column and reranks them, as other memories do; "numpy" is a
bare float32 product with the scope's vectors. `vs_raw` is the ratio of the p50s to "raw scoped".
cold: the first recall of a new process, from opening the lake on, by its parts.
threads: recalls per second of 8 threads against one.
written: p50 after single writes against before.
share: how much of the true top 10, by brute force over the whole scope, recall and "raw rerank"
find per scoring policy, how often it was proven, and how many rows were scored.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from lancedb.index import HnswSq, IvfSq
from numpy.typing import NDArray
from timing import (
    AGENT,
    NOW,
    NOW_NS,
    Vectors,
    alternate,
    clustered,
    fill,
    folder_of,
    normalised,
    percentiles,
    report,
)

import ailake
from ailake.core.episodic import days_between, score
from ailake.core.rows import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

K = 10
WARM_UP = 20
THREADS = 8
RERANKED = 3 * K
SCOPE = (
    f"agent_id = '{AGENT}' AND user_id = '' AND project_id = '' AND state = 'active' "
    f"AND (expires_at IS NULL OR expires_at > TIMESTAMP '{NOW:%Y-%m-%dT%H:%M:%S}Z')"
)
PLAIN = ("chunk_id", "chunk_text")
INDEXES = {"IVF_SQ": IvfSq, "IVF_HNSW_SQ": HnswSq}
POLICIES = {"default": ailake.ScoringPolicy(), "seed": ailake.ScoringPolicy.SEED}
WORDS = "word7 word77 word777 word1777"

COLD = """
import json, sys
from time import perf_counter
from datetime import datetime
started = perf_counter()
import ailake
imported = perf_counter()
lake = ailake.connect(sys.argv[1], create=False)
opened = perf_counter()
vector = json.loads(sys.argv[2])
now = datetime.fromisoformat(sys.argv[3])
times = []
for _ in range(2):
    at = perf_counter()
    lake.memory(agent_id=sys.argv[4]).recall(vector, mode="vector", touch=False, now=now)
    times.append(perf_counter() - at)
print(json.dumps([imported - started, opened - imported, *times]))
"""


@dataclass(frozen=True)
class Truth:
    """Every row of the scope, resident, for the full scan."""

    ids: NDArray[np.object_]
    vectors: Vectors
    days: NDArray[np.float64]
    importance: NDArray[np.float64]

    def top(self, query: Vectors, policy: ailake.ScoringPolicy) -> set[str]:
        return set(self.ids[self.best(query, policy, np.arange(len(self.ids)))])

    def reranked(self, query: Vectors, policy: ailake.ScoringPolicy) -> set[str]:
        """Return the best of the nearest 3 x k."""
        nearest = np.argsort(1.0 - self.vectors @ query)[:RERANKED]
        return set(self.ids[self.best(query, policy, nearest)])

    def best(
        self, query: Vectors, policy: ailake.ScoringPolicy, among: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        distance = np.maximum(1.0 - (self.vectors[among] @ query).astype(np.float64), 0.0)
        importance = policy.importance_part(self.importance[among])
        weight = policy.recency_part(self.days[among]) * importance
        return among[np.argsort(score(distance, weight))[:K]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.025, 0.5, 1.0])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--writes", type=int, default=1_000)
    parser.add_argument("--index", choices=sorted(INDEXES))
    options = parser.parse_args()
    for rows, share in product(options.rows, options.shares):
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), rows, share, options)


def measure(folder: Path, rows: int, share: float, options: argparse.Namespace) -> None:
    draw = clustered(options.dim)
    queries = draw(np.random.default_rng(11), options.queries)
    labels = {"rows": rows, "share": share, "index": options.index}
    with ailake.connect(folder / "base", embedder=f"hashing:{options.dim}") as lake:
        fill(lake, rows, draw, share=share)
        lake.memory(AGENT).remember("one more", vector=queries[0], judge=False, now=NOW)
        lake.flush()
        if options.index:
            kind = INDEXES[options.index](distance_type="cosine")
            lake.table("episodic").create_index("embedding", config=kind)
        # Touched memories stay fresh: only a copy of the lake leaves the truth as it is.
        shutil.copytree(folder_of(lake), folder / "touched")
        report(figure="cold", **labels, **cold(folder / "base", queries[0]))
        with ailake.connect(folder / "touched", create=False) as touched:
            latencies(lake, touched, queries, labels)
            written(touched, queries, labels, options.writes)
        threads(lake, queries, labels)
        truth = truth_of(lake)
        for name, policy in POLICIES.items():
            figures = found(lake.memory(AGENT), truth, queries[:50], policy)
            report(figure="share", **labels, policy=name, **figures)


def latencies(
    lake: ailake.Lake, touched: ailake.Lake, queries: Vectors, labels: dict[str, Any]
) -> None:
    vectors = truth_of(lake).vectors
    memory = lake.memory(AGENT)

    def search(columns: tuple[str, ...], where: str | None, limit: int, step: int) -> object:
        asked = lake.table("episodic").search(queries[step], vector_column_name="embedding")
        asked = asked.distance_type("cosine").limit(limit).select([*columns, "_distance"])
        asked = asked.where(where, prefilter=True) if where else asked
        return (asked.refine_factor(4) if labels["index"] else asked).to_arrow()

    def recall(memory: ailake.Memory, mode: str, step: int, *, touch: bool = False) -> object:
        if mode == "vector":
            return memory.recall(queries[step], limit=K, mode=mode, touch=touch, now=NOW)
        vector = queries[step] if mode == "hybrid" else None
        text = f"{WORDS} word{step}"
        return memory.recall(text, vector=vector, limit=K, mode=mode, touch=touch, now=NOW)

    def product_alone(step: int) -> object:
        return np.argpartition(1.0 - vectors @ queries[step], min(K, len(vectors) - 1))[:K]

    contenders: dict[str, Callable[[int], object]] = {
        "numpy": product_alone,
        "raw": partial(search, PLAIN, None, K),
        "raw scoped": partial(search, PLAIN, SCOPE, K),
        "raw rerank": partial(search, RECORD_COLUMNS, SCOPE, RERANKED),
        "recall": partial(recall, memory, "vector"),
        "recall touch": partial(recall, touched.memory(AGENT), "vector", touch=True),
        "recall hybrid": partial(recall, memory, "hybrid"),
        "recall text": partial(recall, memory, "text"),
    }
    alternate(contenders, min(WARM_UP, len(queries)))
    seconds = alternate(contenders, len(queries))
    reference = np.median(seconds["raw scoped"])
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / reference), 4)
        report(figure="latency", **labels, what=name, **percentiles(taken), vs_raw=ratio)


def cold(folder: Path, query: Vectors) -> dict[str, float]:
    """Return the seconds that a new process takes to import, open and recall twice."""
    arguments = [str(folder), json.dumps(query.tolist()), NOW.isoformat(), AGENT]
    done = subprocess.run(  # noqa: S603 (ourselves)
        [sys.executable, "-c", COLD, *arguments], check=True, capture_output=True, text=True
    )
    names = ("import_s", "open_s", "first_s", "second_s")
    return dict(zip(names, (round(one, 4) for one in json.loads(done.stdout)), strict=True))


def threads(lake: ailake.Lake, queries: Vectors, labels: dict[str, Any]) -> None:
    memory = lake.memory(AGENT)

    def recall(query: Vectors) -> object:
        return memory.recall(query, limit=K, mode="vector", touch=False, now=NOW)

    def rate(count: int) -> float:
        with ThreadPoolExecutor(count) as pool:
            started = perf_counter()
            list(pool.map(recall, [*queries, *queries]))
            return 2 * len(queries) / (perf_counter() - started)

    one, many = rate(1), rate(THREADS)
    report(figure="threads", **labels, one_per_s=round(one), eight_per_s=round(many))


def written(touched: ailake.Lake, queries: Vectors, labels: dict[str, Any], writes: int) -> None:
    memory = touched.memory(AGENT)

    def p50() -> float:
        taken = alternate(
            {"": lambda step: memory.recall(queries[step], mode="vector", touch=False, now=NOW)},
            len(queries),
        )
        return float(np.median(taken[""]))

    before = p50()
    for place in range(writes):
        vector = queries[place % len(queries)]
        memory.remember(f"written {place}", vector=vector, judge=False, now=NOW)
    touched.flush()
    growth = round(p50() / before, 3)
    report(figure="written", **labels, writes=writes, after_vs_before=growth)


def truth_of(lake: ailake.Lake) -> Truth:
    names = ["chunk_id", "embedding", "last_accessed_at", "importance_score"]
    rows = lake.table("episodic").to_lance().to_table(columns=names, filter=SCOPE)
    flat = rows["embedding"].combine_chunks().flatten().to_numpy().astype(np.float32)
    accessed = rows["last_accessed_at"].cast(pa.int64()).to_numpy()
    return Truth(
        ids=np.array(rows["chunk_id"].to_pylist(), dtype=object),
        vectors=normalised(flat.reshape(rows.num_rows, -1)),
        days=days_between(accessed, NOW_NS),
        importance=rows["importance_score"].to_numpy().astype(np.float64),
    )


def found(
    memory: ailake.Memory, truth: Truth, queries: Vectors, policy: ailake.ScoringPolicy
) -> dict[str, float]:
    """Return the shares of the true top 10 found, how often it was proven, the rows scored."""
    answers = [
        memory.recall(query, limit=K, scoring=policy, touch=False, now=NOW) for query in queries
    ]
    tops = [truth.top(query, policy) for query in queries]
    shares = [
        len({hit.id for hit in hits} & top) / len(top)
        for hits, top in zip(answers, tops, strict=True)
    ]
    reranked = [
        len(truth.reranked(query, policy) & top) / len(top)
        for query, top in zip(queries, tops, strict=True)
    ]
    return {
        "found": round(float(np.mean(shares)), 4),
        "raw_rerank_found": round(float(np.mean(reranked)), 4),
        "proven": round(float(np.mean([hits.exact for hits in answers])), 4),
        "bound_held": round(float(np.mean([hits.bound_held for hits in answers])), 4),
        "rows_scored": round(float(np.median([hits.scored for hits in answers]))),
    }


if __name__ == "__main__":
    main()
