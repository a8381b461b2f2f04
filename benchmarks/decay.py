"""Decay of a whole table: MemoryDecayJob against the engine's own ways, and other engines.

    python benchmarks/decay.py [--rows 100000 1000000] [--dim 384] [--repeats 5] [--skip NAME ...]
    python benchmarks/decay.py --rows 10000000 --dim 8 --repeats 3

Contenders, in turn on copies of the same rows, `now` a day later each time:
ours (the whole job, journal and orphan sweep included), update (LanceDB, the formula in SQL),
merge_insert (numpy weights joined on chunk_id), duckdb and sqlite (UPDATE, then a checkpoint),
delta (update), polars (the whole Parquet file anew), and floor (numpy over resident ages and one
column file, nothing read or committed). Those whose package is missing are named as skipped.
Medians; from 500,000 rows on at most 2 rounds of all but ours, floor and duckdb, from 5,000,000
on one. Bytes are those that the process hands to the system, on Linux; all results are compared
with the formula. A line of versions, one line per contender, then one per reference: speed is
ours / theirs, bytes theirs / ours.
"""

import argparse
import multiprocessing
import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from decay_rivals import RIVALS, Rival, Stored, missing, rows_of
from lance.file import LanceFileWriter
from numpy.typing import NDArray
from timing import DAY_NS, NOW, NOW_NS, Vectors, fill, report, timed

import ailake
from ailake.core.decay import decayed_weights
from ailake.maintenance import MemoryDecayJob

MIB = 2**20
LARGE = 500_000
VERY_LARGE = 5_000_000
RATE = ailake.RecencyConfig.WEEKLY_DECAY
SQL = (
    "cast(exp(-{rate} * greatest({now} - arrow_cast(last_accessed_at, 'Int64'), 0)"
    " / 86400000000000.0) as float)"
)


SKIPPABLE = ("update", "merge_insert", *RIVALS)
QUICK = {"ours", "floor", "duckdb"}
PACKAGES = ("lancedb", "pylance", "numpy", "pyarrow", "duckdb", "deltalake", "polars")


@dataclass
class Contender:
    """One way to decay, on its own copy of the rows."""

    name: str
    decay: Callable[[int], object]
    stored: Callable[[], Stored]
    version: Callable[[], int] = lambda: 0
    bytes_written: list[int | None] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skip", nargs="+", default=[], choices=[*SKIPPABLE])
    options = parser.parse_args()
    report(figure="versions", **versions())
    skipped = {*options.skip, *missing()}
    for name in sorted(skipped):
        report(figure="skipped", contender=name)
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            base(Path(folder), rows, options.dim)
            compare(Path(folder), rows, options.repeats, skipped=skipped)


def versions() -> dict[str, Any]:
    found: dict[str, Any] = {"python": platform.python_version(), "processors": os.cpu_count()}
    found["sqlite"] = sqlite3.sqlite_version
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def base(folder: Path, rows: int, dim: int) -> None:
    with ailake.connect(folder / "base", embedder=f"hashing:{dim}") as lake:
        fill(lake, rows, partial(random_vectors, dim=dim))


def compare(folder: Path, rows: int, repeats: int, *, skipped: set[str]) -> None:
    contenders = [one for one in made(folder, skipped) if one.name not in skipped]
    slow = 1 if rows >= VERY_LARGE else min(repeats, 2) if rows >= LARGE else repeats
    rounds = {one.name: repeats if one.name in QUICK else slow for one in contenders}
    seconds = measure(contenders, rounds)
    lines = {one.name: line_of(one, rows, seconds[one.name]) for one in contenders}
    lines["ours"] |= peak_memory(folder / "ours", repeats)
    for line in lines.values():
        report(**line)
    for name in [one for one in lines if one != "ours"]:
        report(figure="decay ratio", against=name, rows=rows, **ratios(lines["ours"], lines[name]))


def ratios(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    speed = mine["rows_per_s"] / theirs["rows_per_s"]
    written = (mine["bytes_per_row"], theirs["bytes_per_row"])
    fewer = None if None in written else round(written[1] / written[0], 3)
    return {"speed": round(speed, 3), "bytes": fewer}


def made(folder: Path, skipped: set[str]) -> Iterator[Contender]:
    """Yield the contenders, each on a copy that is made when it is asked for."""
    for name, decay in {"ours": ours, "update": update, "merge_insert": merge_insert}.items():
        if name not in skipped:
            yield of_lake(name, copied(folder, name), decay)
    for name, (_, rival) in RIVALS.items():
        if name not in skipped:
            (folder / name).mkdir()
            with ailake.connect(folder / "base", create=False) as lake:
                rows = partial(rows_of, lake.table("episodic").to_lance())
                yield of_rival(name, rival(folder / name, rows))
    yield floor_contender(copied(folder, "floor"))


def of_lake(name: str, lake: ailake.Lake, decay: Callable[[ailake.Lake, int], object]) -> Contender:
    def stored() -> Stored:
        dataset = lake.table("episodic").to_lance()
        rows = dataset.to_table(columns=["last_accessed_at", "recency_weight"])
        return nanos(rows), rows["recency_weight"].to_numpy()

    table = lake.table("episodic")
    return Contender(name, partial(decay, lake), stored, lambda: int(table.version))


def of_rival(name: str, rival: Rival) -> Contender:
    def decay(step: int) -> None:
        rival.decay(RATE.lambda_, NOW_NS + step * DAY_NS)

    return Contender(name, decay, rival.stored)


def random_vectors(rng: np.random.Generator, count: int, *, dim: int) -> Vectors:
    return rng.standard_normal((count, dim), dtype=np.float32)


def copied(folder: Path, name: str) -> ailake.Lake:
    # Files of columns are never written twice.
    shutil.copytree(folder / "base", folder / name, copy_function=linked)
    return ailake.connect(folder / name, create=False)


def linked(source: str, target: str) -> None:
    if source.endswith(".lance"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def ours(lake: ailake.Lake, step: int) -> object:
    return MemoryDecayJob(lake, recency=RATE).run(day(step))


def update(lake: ailake.Lake, step: int) -> object:
    formula = SQL.format(rate=RATE.lambda_, now=NOW_NS + step * DAY_NS)
    return lake.table("episodic").update(values_sql={"recency_weight": formula})


def merge_insert(lake: ailake.Lake, step: int) -> object:
    table = lake.table("episodic")
    rows = table.to_lance().to_table(columns=["chunk_id", "last_accessed_at"])
    weights = decayed_weights(nanos(rows), NOW_NS + step * DAY_NS, RATE)
    new = pa.table({"chunk_id": rows["chunk_id"], "recency_weight": weights})
    return table.merge_insert("chunk_id").when_matched_update_all().execute(new)


def floor_contender(lake: ailake.Lake) -> Contender:
    dataset = lake.table("episodic").to_lance()
    accessed = nanos(dataset.to_table(columns=["last_accessed_at"]))
    last: list[NDArray[np.float32]] = []

    def floor(step: int) -> None:
        weights = decayed_weights(accessed, NOW_NS + step * DAY_NS, RATE)
        batch = pa.table({"recency_weight": weights})
        path = f"{dataset.uri}/data/floor-{step}.lance"
        with LanceFileWriter(path, batch.schema, version=dataset.data_storage_version) as writer:
            writer.write_batch(batch)
        last[:] = [weights]

    return Contender("floor", floor, lambda: (accessed, last[0]))


def day(step: int) -> datetime:
    return NOW + timedelta(days=step)


def nanos(rows: pa.Table) -> NDArray[np.int64]:
    return np.asarray(rows["last_accessed_at"].cast(pa.int64()).to_numpy())


def measure(contenders: list[Contender], rounds: dict[str, int]) -> dict[str, list[float]]:
    """Time all rounds; note beside the clock what each one wrote and committed."""
    seconds: dict[str, list[float]] = {one.name: [] for one in contenders}
    for step in range(max(rounds.values())):
        for contender in contenders:
            if step < rounds[contender.name]:
                seconds[contender.name].append(one_round(contender, step))
    return seconds


def one_round(contender: Contender, step: int) -> float:
    before, version = written(), contender.version()
    seconds = timed(partial(contender.decay, step))
    after = written()
    contender.bytes_written.append(None if before is None or after is None else after - before)
    contender.commits.append(contender.version() - version)
    return seconds


def written() -> int | None:
    """Return what this process has handed to the system so far, on Linux."""
    counts = Path("/proc/self/io")
    if not counts.exists():
        return None
    fields = dict(line.split(": ", 1) for line in counts.read_text().splitlines())
    return int(fields["wchar"])


def line_of(contender: Contender, rows: int, seconds: list[float]) -> dict[str, Any]:
    counted = [count for count in contender.bytes_written if count is not None]
    return {
        "figure": "decay",
        "contender": contender.name,
        "rows": rows,
        "rounds": len(seconds),
        "rows_per_s": round(rows / median(seconds)),
        "bytes_per_row": round(median(counted) / rows, 3) if counted else None,
        "commits": round(median(contender.commits)),
        "max_error": error_of(contender, rounds=len(seconds)),
    }


def error_of(contender: Contender, *, rounds: int) -> float:
    """Return how far the stored weights are from the formula at the last round's `now`."""
    accessed, weights = contender.stored()
    wanted = decayed_weights(accessed, NOW_NS + (rounds - 1) * DAY_NS, RATE)
    return float(np.abs(weights - wanted).max())


def peak_memory(lake: Path, step: int) -> dict[str, Any]:
    """Run our job once more, in a process that never held the table."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        before, peak = pool.submit(decay_and_weigh, lake, step).result()
    return {"rss_before_mib": before, "peak_rss_mib": peak}


def decay_and_weigh(folder: Path, step: int) -> tuple[int | None, int | None]:
    with ailake.connect(folder, create=False) as lake:
        before = peak_rss()
        ours(lake, step)
        return before, peak_rss()


def peak_rss() -> int | None:
    """Return this process's peak in MiB, on Linux (getrusage's includes the parent's)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024 // MIB


if __name__ == "__main__":
    main()
