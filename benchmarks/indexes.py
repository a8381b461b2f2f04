"""What indexes gain a lake, and what they cost.

    python benchmarks/indexes.py [--quick] [--rows 100000] [--dim 384] [--queries 30]
                                 [--scopes 1000]

scopes: the nearest 10 in one of --scopes scopes of an agent, by LanceDB with their filter: with no
index, with bitmaps of agent and state, and with all that a lake has.
text: full-text search of two words in all rows: with no row indexed, with all but 1,000, with all.
upkeep: what the thread behind writes does after 1,000 new rows, and after it had rows that moved.
vectors: IndexJob of a scope of all rows: seconds, recall, MiB; the nearest 1,000 with and without.
"""

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from lance.query import MatchQuery
from timing import AGENT, Draw, alternate, clustered, episodic_batches, p50_p95, report, timed

import ailake
from ailake.core.indexing import ALWAYS
from ailake.maintenance import IndexJob
from ailake.storage.indexes import keep_current
from ailake.storage.search import nearest_rows
from ailake.storage.vectors import vector_index

NEW = 1_000
QUICK = {"rows": 3_000, "dim": 32, "queries": 3, "scopes": 10}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--scopes", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    for measure in (scopes, text, vectors):
        with tempfile.TemporaryDirectory() as folder:
            lake = ailake.connect(Path(folder) / "lake", embedder=f"hashing:{options.dim}")
            with lake:
                measure(lake, options, clustered(options.dim))


def add(lake: ailake.Lake, count: int, draw: Draw, *, users: int = 1, name: str = "memory") -> None:
    schema = lake.table("episodic").schema
    rows = pa.Table.from_batches(episodic_batches(schema, count, draw, name=name), schema)
    place = schema.get_field_index("user_id")
    owners = pa.array([f"user-{row % users:06d}" for row in range(count)])
    lake.table("episodic").add(rows.set_column(place, schema.field(place), owners))


def scopes(lake: ailake.Lake, options: argparse.Namespace, draw: Draw) -> None:
    table = lake.store.episodic
    add(lake, options.rows, draw, users=options.scopes)
    queries = draw(np.random.default_rng(11), options.queries)

    def search(step: int) -> object:
        where = (
            f"agent_id = '{AGENT}' AND user_id = 'user-{step % options.scopes:06d}' "
            "AND project_id = '' AND state = 'active'"
        )
        asked = lake.table("episodic").search(queries[step], vector_column_name="embedding")
        return asked.distance_type("cosine").where(where, prefilter=True).limit(10).to_arrow()

    few = ("agent_id_idx", "state_idx")
    drop(lake, {spec.name for spec in ALWAYS["episodic"]})
    told: dict[str, Any] = {
        "none": lambda: None,
        "agent and state": lambda: [
            table.fresh().create_scalar_index(name.removesuffix("_idx"), "BITMAP") for name in few
        ],
        "all": lambda: keep_current(table),
    }
    for name, make in told.items():
        make()
        seconds = alternate({name: search}, options.queries)[name]
        report(figure="scopes", rows=options.rows, indexes=name, **p50_p95(seconds))


def drop(lake: ailake.Lake, names: set[str]) -> None:
    for name in names:
        lake.table("episodic").drop_index(name)


def text(lake: ailake.Lake, options: argparse.Namespace, draw: Draw) -> None:
    table = lake.store.episodic
    add(lake, options.rows, draw)

    def search(step: int) -> object:
        words = MatchQuery(f"word{7 * step % 2_000} word{13 * step % 2_000}", "chunk_text")
        columns = ["chunk_id", "_score"]
        return table.snapshot().scanner(columns=columns, full_text_query=words, limit=10).to_table()

    def searched(name: str) -> None:
        seconds = alternate({name: search}, options.queries)[name]
        report(figure="text", rows=options.rows, indexed=name, **p50_p95(seconds))

    searched("none")
    built = timed(lambda: keep_current(table))
    report(figure="upkeep", rows=options.rows, what="first build", seconds=round(built, 3))
    searched("all")
    add(lake, NEW, draw, name="newer")
    searched(f"all but {NEW}")
    add(lake, 1, draw, name="one more")
    kept(lake, options, f"{NEW} new rows appended")
    changed = table.snapshot().to_table(columns=["chunk_id"], limit=NEW + 1)
    moved = changed.append_column("state", pa.array(["merged"] * changed.num_rows))
    table.upsert(moved)
    kept(lake, options, f"{NEW} changed rows merged")


def kept(lake: ailake.Lake, options: argparse.Namespace, what: str) -> None:
    seconds = round(timed(lambda: keep_current(lake.store.episodic)), 3)
    report(figure="upkeep", rows=options.rows, what=what, seconds=seconds)


def vectors(lake: ailake.Lake, options: argparse.Namespace, draw: Draw) -> None:
    add(lake, options.rows, draw)
    lake.store.keep_indexes_current()
    done = IndexJob(lake, policy=ailake.IndexPolicy(min_bytes=0)).run().tables[0]
    report(
        figure="index", rows=options.rows, dim=options.dim, kind=done.kind, recall=done.recall,
        seconds=round(done.seconds, 2), mib=round(done.bytes / 2**20, 1),
        nprobes=done.parameters and done.parameters.nprobes,
        refine_factor=done.parameters and done.parameters.refine_factor,
    )  # fmt: skip
    queries = draw(np.random.default_rng(11), options.queries)
    dataset = lake.store.episodic.snapshot()
    where = f"agent_id = '{AGENT}' AND state = 'active'"

    def nearest(step: int, *, exact: bool) -> Any:
        index = None if exact else vector_index(dataset)
        return nearest_rows(
            dataset, queries[step], where, columns=["chunk_id"], limit=1_000, index=index
        )

    contenders = {"exact": partial(nearest, exact=True), "index": partial(nearest, exact=False)}
    seconds = alternate(contenders, options.queries)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["exact"])), 3)
        report(figure="nearest", rows=options.rows, by=name, **p50_p95(taken), vs_exact=ratio)


if __name__ == "__main__":
    main()
