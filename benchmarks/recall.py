"""Recall against a raw vector search of the same table, and what its wide pool misses.

    python benchmarks/recall.py [--rows 1000 10000 100000] [--dim 384] [--queries 50]
                                [--index IVF_SQ | IVF_HNSW_SQ]

Clustered unit vectors, one scope, k = 10. Latency: `recall` with and without `touch` beside
LanceDB searches of the same k, all in turn for every query. "raw" selects id, text and distance
without a filter and is what `vs_raw` (of the p50s) refers to; "raw scoped" has the scope's
prefilter, "raw payload" both the prefilter and every column of a record. With --index all run once
more over that index, LanceDB's with refine_factor 4. Share: how much of the true top 10, by brute
force over all rows, recall finds, per scoring policy.
"""

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
    p50_p95,
    report,
)

import ailake
from ailake.core.episodic import days_between, score
from ailake.core.rows import RECORD_COLUMNS

K = 10
WARM_UP = 3
SCOPE = (
    f"agent_id = '{AGENT}' AND user_id = '' AND project_id = '' AND state = 'active' "
    f"AND (expires_at IS NULL OR expires_at > TIMESTAMP '{NOW:%Y-%m-%dT%H:%M:%S}Z')"
)
PLAIN = ("chunk_id", "chunk_text")
INDEXES = {"IVF_SQ": IvfSq, "IVF_HNSW_SQ": HnswSq}
POLICIES = {"default": ailake.ScoringPolicy(), "seed": ailake.ScoringPolicy.SEED}


@dataclass(frozen=True)
class Truth:
    """Every row of the table, resident, for the full scan."""

    ids: NDArray[np.object_]
    vectors: Vectors
    days: NDArray[np.float64]
    importance: NDArray[np.float64]

    def top(self, query: Vectors, policy: ailake.ScoringPolicy) -> set[str]:
        distance = np.maximum(1.0 - (self.vectors @ query).astype(np.float64), 0.0)
        weight = policy.recency_part(self.days) * policy.importance_part(self.importance)
        scores = score(distance, weight)
        return set(self.ids[np.argsort(scores)[:K]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--index", choices=sorted(INDEXES))
    options = parser.parse_args()
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), rows, options)


def measure(folder: Path, rows: int, options: argparse.Namespace) -> None:
    draw = clustered(options.dim)
    queries = draw(np.random.default_rng(11), options.queries)
    with ailake.connect(folder / "base", embedder=f"hashing:{options.dim}") as lake:
        fill(lake, rows, draw)
        compare(lake, folder / "touched", queries, {"rows": rows, "index": None})
        if options.index:
            kind = INDEXES[options.index](distance_type="cosine")
            lake.table("episodic").create_index("embedding", config=kind)
            labels = {"rows": rows, "index": options.index}
            compare(lake, folder / "touched, indexed", queries, labels)


def compare(lake: ailake.Lake, copy: Path, queries: Vectors, labels: dict[str, Any]) -> None:
    # Touched memories stay fresh: only a copy of the lake leaves the truth as it is.
    shutil.copytree(folder_of(lake), copy)
    with ailake.connect(copy, create=False) as touched:
        latencies(lake, touched, queries, labels)
    memory, truth = lake.memory(AGENT), truth_of(lake)
    for name, policy in POLICIES.items():
        report(figure="share", **labels, policy=name, **found(memory, truth, queries, policy))


def latencies(
    lake: ailake.Lake, touched: ailake.Lake, queries: Vectors, labels: dict[str, Any]
) -> None:
    def search(columns: tuple[str, ...], where: str | None, step: int) -> object:
        asked = lake.table("episodic").search(queries[step], vector_column_name="embedding")
        asked = asked.distance_type("cosine").limit(K).select([*columns, "_distance"])
        asked = asked.where(where, prefilter=True) if where else asked
        return (asked.refine_factor(4) if labels["index"] else asked).to_arrow()

    def recall(memory: ailake.Memory, step: int, *, touch: bool) -> object:
        return memory.recall(queries[step], limit=K, touch=touch, now=NOW)

    contenders = {
        "raw": partial(search, PLAIN, None),
        "raw scoped": partial(search, PLAIN, SCOPE),
        "raw payload": partial(search, RECORD_COLUMNS, SCOPE),
        "recall": partial(recall, lake.memory(AGENT), touch=False),
        "recall touch": partial(recall, touched.memory(AGENT), touch=True),
    }
    alternate(contenders, min(WARM_UP, len(queries)))
    seconds = alternate(contenders, len(queries))
    reference = np.median(seconds["raw"])
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / reference), 3)
        report(figure="latency", **labels, what=name, **p50_p95(taken), vs_raw=ratio)


def truth_of(lake: ailake.Lake) -> Truth:
    names = ["chunk_id", "embedding", "last_accessed_at", "importance_score"]
    rows = lake.table("episodic").to_lance().to_table(columns=names)
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
    """Return the share of the true top 10 found, how often it was proven, the rows scored."""
    answers = [
        memory.recall(query, limit=K, scoring=policy, touch=False, now=NOW) for query in queries
    ]
    shares = [
        len({hit.id for hit in hits} & (top := truth.top(query, policy))) / len(top)
        for query, hits in zip(queries, answers, strict=True)
    ]
    return {
        "share": round(float(np.mean(shares)), 4),
        "proven": round(float(np.mean([hits.exact for hits in answers])), 4),
        "rows_scored": round(float(np.median([hits.scored for hits in answers]))),
    }


if __name__ == "__main__":
    main()
