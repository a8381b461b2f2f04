"""Writes against LanceDB's own `add`, and what single writes leave behind for recall.

    python benchmarks/writes.py [--quick] [--dim 384] [--steps 200] [--rows 0 10000]
                                [--writes 1000 10000] [--writers 1 4] [--base 10000]
                                [--queries 50] [--bulk 100000] [--repeats 3]

All vectors are computed beforehand, all texts differ, LanceDB writes the same columns.
single: one `remember` at a time, with and without the judge, beside a LanceDB `add` of one row,
in turn on equal lakes that hold --rows memories. `remember` is fsynced when it returns, LanceDB's
`add` is not.
recall: --writers processes write --writes memories one by one into a lake of --base. Recall of it
(k = 10, no touch) beside the lake as it was before and one in which the same memories came in one
commit and were compacted, in turn for every query.
disk: of the same lakes, every file of the folder: right after, and with old versions cleaned away.
memory: resident set of each writing process after a twentieth, half and all of its writes.
bulk: `remember_many` of an Arrow table beside LanceDB's `add`, each into a new lake, medians.
"""

import argparse
import multiprocessing
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import psutil
import pyarrow as pa
from timing import (
    AGENT,
    NOW,
    Draw,
    alternate,
    clustered,
    episodic_batches,
    folder_of,
    made,
    matrix,
    notes_table,
    opened,
    p50_p95,
    report,
)

import ailake

K = 10
MIB = 2**20
WARM_UP = 3
QUICK = {
    "dim": 32, "steps": 6, "rows": [0, 50], "writes": [12], "writers": [1, 2], "base": 50,
    "queries": 3, "bulk": 200, "repeats": 1,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 10_000])
    parser.add_argument("--writes", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--base", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--bulk", type=int, default=100_000, help="0 leaves it out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    for rows in options.rows:
        in_a_folder(partial(single, rows, options))
    for writes in options.writes:
        for writers in options.writers:
            in_a_folder(partial(after_writes, writes, writers, options))
    if options.bulk:
        in_a_folder(partial(bulk, options))


def in_a_folder(measure: partial[None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def single(rows: int, options: argparse.Namespace, folder: Path) -> None:
    draw, steps = clustered(options.dim), options.steps + WARM_UP
    made(folder / "base", rows, draw)
    lakes = {name: copied(folder, name) for name in ("judge", "no judge", "raw")}
    notes = notes_table(steps, draw)
    texts, vectors = notes["text"].to_pylist(), matrix(notes)
    plain = plain_rows(lakes["raw"], steps, draw)
    raw = lakes["raw"].table("episodic")

    def remember(name: str, step: int) -> object:
        memory, judge = lakes[name].memory(AGENT), name == "judge"
        return memory.remember(texts[step], vector=vectors[step], judge=judge, now=NOW)

    def add(step: int) -> object:
        return raw.add(plain.slice(step, 1))

    contenders = {
        "judge": partial(remember, "judge"),
        "no judge": partial(remember, "no judge"),
        "raw": partial(add),
    }
    seconds = {name: taken[WARM_UP:] for name, taken in alternate(contenders, steps).items()}
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["raw"])), 3)
        stored = lakes[name].table("episodic").count_rows() - rows
        report(figure="single", rows=rows, what=name, stored=stored, **p50_p95(taken), vs_raw=ratio)
        lakes[name].close()


def after_writes(count: int, writers: int, options: argparse.Namespace, folder: Path) -> None:
    draw = clustered(options.dim)
    made(folder / "base", options.base, draw)
    for name in ("written", "bulk"):
        shutil.copytree(folder / "base", folder / name)
    labels = {"base": options.base, "writes": count, "writers": writers}
    write_one_by_one(folder / "written", count, writers, options.dim)
    load(folder / "bulk", notes_table(count, draw))
    lakes = {name: opened(folder / name) for name in ("base", "written", "bulk")}
    recalls(lakes, draw(np.random.default_rng(11), options.queries), labels)
    disk(lakes, labels)
    for lake in lakes.values():
        lake.close()


def write_one_by_one(folder: Path, count: int, writers: int, dim: int) -> None:
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(writers, mp_context=fresh) as pool:
        shares = [range(writer, count, writers) for writer in range(writers)]
        lines = pool.map(partial(write_share, folder, dim, count), shares)
        for writer, line in enumerate(lines):
            report(figure="memory", writes=count, writers=writers, writer=writer, **line)


def write_share(folder: Path, dim: int, count: int, share: range) -> dict[str, Any]:
    """Write some of ``count`` memories; return the resident MiB on the way and the times."""
    notes = notes_table(count, clustered(dim))
    texts, vectors = notes["text"].to_pylist(), matrix(notes)
    marks = {max(len(share) // 20, 1): "start", len(share) // 2: "middle", len(share): "end"}
    resident: dict[str, int] = {}
    seconds = []
    with opened(folder) as lake:
        memory = lake.memory(AGENT)
        for done, place in enumerate(share, start=1):
            started = perf_counter()
            memory.remember(texts[place], vector=vectors[place], now=NOW)
            seconds.append(perf_counter() - started)
            if done in marks:
                resident[f"rss_{marks[done]}_mib"] = psutil.Process().memory_info().rss // MIB
    return {**resident, **p50_p95(seconds), "writes_per_s": round(len(share) / sum(seconds), 1)}


def load(folder: Path, notes: pa.Table) -> None:
    with opened(folder) as lake:
        lake.memory(AGENT).remember_many(notes, now=NOW)
        lake.table("episodic").to_lance().optimize.compact_files()


def recalls(lakes: dict[str, ailake.Lake], queries: Any, labels: dict[str, Any]) -> None:
    def recall(name: str, step: int) -> object:
        return lakes[name].memory(AGENT).recall(queries[step], limit=K, touch=False, now=NOW)

    contenders = {name: partial(recall, name) for name in lakes}
    alternate(contenders, min(WARM_UP, len(queries)))
    seconds = alternate(contenders, len(queries))
    for name, taken in seconds.items():
        against = {
            f"vs_{other}": round(float(np.median(taken) / np.median(seconds[other])), 3)
            for other in ("base", "bulk")
        }
        report(figure="recall", **labels, lake=name, **p50_p95(taken), **against)


def disk(lakes: dict[str, ailake.Lake], labels: dict[str, Any]) -> None:
    names = [table.name for table in lakes["bulk"].stats().tables]
    right_after = {name: size_of(lake) for name, lake in lakes.items()}
    for lake in lakes.values():
        for name in names:
            lake.table(name).to_lance().cleanup_old_versions(timedelta(0))
    cleaned = {name: size_of(lake) for name, lake in lakes.items()}
    for name, lake in lakes.items():
        dataset = lake.table("episodic").to_lance()
        rows = dataset.count_rows()
        report(
            figure="disk", **labels, lake=name, rows=rows, fragments=len(dataset.get_fragments()),
            bytes_per_row=round(right_after[name] / rows, 1),
            cleaned_bytes_per_row=round(cleaned[name] / rows, 1),
            cleaned_vs_bulk=round(cleaned[name] / cleaned["bulk"], 3),
        )  # fmt: skip


def bulk(options: argparse.Namespace, folder: Path) -> None:
    draw, count = clustered(options.dim), options.bulk
    made(folder / "base", 0, draw)
    notes = notes_table(count, draw)
    names = ("judge", "no judge", "raw")
    lakes = {n: [copied(folder, n, str(step)) for step in range(options.repeats)] for n in names}
    plain = plain_rows(lakes["raw"][0], count, draw)

    def remember(name: str, step: int) -> object:
        memory = lakes[name][step].memory(AGENT)
        return memory.remember_many(notes, judge=name == "judge", now=NOW)

    def add(step: int) -> object:
        return lakes["raw"][step].table("episodic").add(plain)

    contenders = {
        "judge": partial(remember, "judge"),
        "no judge": partial(remember, "no judge"),
        "raw": partial(add),
    }
    seconds = alternate(contenders, options.repeats)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["raw"])), 3)
        stored = lakes[name][0].table("episodic").count_rows()
        speed = round(count / float(np.median(taken)))
        report(figure="bulk", what=name, stored=stored, rows_per_s=speed, vs_raw=ratio)


def copied(folder: Path, *name: str) -> ailake.Lake:
    target = folder.joinpath(" ".join(name))
    shutil.copytree(folder / "base", target)
    return opened(target)


def plain_rows(lake: ailake.Lake, count: int, draw: Draw) -> pa.Table:
    schema = lake.table("episodic").schema
    batches = episodic_batches(schema, count, draw, name="raw", seed=17)
    return pa.Table.from_batches(batches, schema).combine_chunks()


def size_of(lake: ailake.Lake) -> int:
    return sum(path.stat().st_size for path in folder_of(lake).rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
