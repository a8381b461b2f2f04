"""Decay of a whole table: MemoryDecayJob against the engine's own ways to rewrite one column.

    python benchmarks/decay.py [--rows 100000 1000000] [--dim 384] [--repeats 5]

Contenders, in turn on copies of one compacted table, `now` a day later each time:
ours (the whole job, journal and orphan sweep included), update (LanceDB, the formula in SQL),
merge_insert (numpy weights joined on chunk_id) and floor (numpy over resident ages and one column
file, nothing read or committed). Medians; from 500,000 rows on at most 2 rounds of the slow two.
One line per contender, then one per reference: speed is ours / theirs, bytes theirs / ours.
"""

import argparse
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")
os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter
from numpy.typing import NDArray
from timing import DAY_NS, NOW, NOW_NS, Vectors, fill, folder_of, report, timed

import ailake
from ailake.core.decay import decayed_weights
from ailake.maintenance import MemoryDecayJob

MIB = 2**20
LARGE = 500_000
RATE = ailake.RecencyConfig.WEEKLY_DECAY
SQL = (
    "cast(exp(-{rate} * greatest({now} - arrow_cast(last_accessed_at, 'Int64'), 0)"
    " / 86400000000000.0) as float)"
)


@dataclass
class Contender:
    """One way to decay, on its own copy of the lake."""

    name: str
    lake: ailake.Lake
    decay: Callable[[ailake.Lake, int], object]
    rounds: int
    bytes_written: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return folder_of(self.lake) / "episodic.lance"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), rows, options.dim, options.repeats)


def compare(folder: Path, rows: int, dim: int, repeats: int) -> None:
    with ailake.connect(folder / "base", embedder=f"hashing:{dim}") as lake:
        fill(lake, rows, partial(random_vectors, dim=dim))
    slow = min(repeats, 2) if rows >= LARGE else repeats
    contenders = [
        Contender("ours", copied(folder, "ours"), ours, repeats),
        Contender("update", copied(folder, "update"), update, slow),
        Contender("merge_insert", copied(folder, "merge_insert"), merge_insert, slow),
        floor_contender(folder, repeats),
    ]
    seconds = measure(contenders)
    lines = {c.name: line_of(c, rows, seconds[c.name]) for c in contenders}
    lines["ours"] |= peak_memory(folder / "ours", repeats)
    for line in lines.values():
        report(**line)
    for name in ("update", "merge_insert", "floor"):
        mine, theirs = lines["ours"], lines[name]
        speed = mine["rows_per_s"] / theirs["rows_per_s"]
        fewer = theirs["bytes_per_row"] / mine["bytes_per_row"]
        report(
            figure="decay ratio", against=name, rows=rows,
            speed=round(speed, 3), bytes=round(fewer, 3),
        )  # fmt: skip


def random_vectors(rng: np.random.Generator, count: int, *, dim: int) -> Vectors:
    return rng.standard_normal((count, dim), dtype=np.float32)


def copied(folder: Path, name: str) -> ailake.Lake:
    shutil.copytree(folder / "base", folder / name)
    return ailake.connect(folder / name, create=False)


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


def floor_contender(folder: Path, repeats: int) -> Contender:
    lake = copied(folder, "floor")
    dataset = lake.table("episodic").to_lance()
    accessed = nanos(dataset.to_table(columns=["last_accessed_at"]))

    def floor(_: ailake.Lake, step: int) -> None:
        weights = decayed_weights(accessed, NOW_NS + step * DAY_NS, RATE)
        batch = pa.table({"recency_weight": weights})
        path = f"{dataset.uri}/data/floor-{step}.lance"
        with LanceFileWriter(path, batch.schema, version=dataset.data_storage_version) as writer:
            writer.write_batch(batch)

    return Contender("floor", lake, floor, repeats)


def day(step: int) -> datetime:
    return NOW + timedelta(days=step)


def nanos(rows: pa.Table) -> NDArray[np.int64]:
    return np.asarray(rows["last_accessed_at"].cast(pa.int64()).to_numpy())


def measure(contenders: list[Contender]) -> dict[str, list[float]]:
    """Time all rounds; note beside the clock which files and versions each one made."""
    seconds: dict[str, list[float]] = {c.name: [] for c in contenders}
    for step in range(max(c.rounds for c in contenders)):
        for contender in contenders:
            if step < contender.rounds:
                seconds[contender.name].append(one_round(contender, step))
    return seconds


def one_round(contender: Contender, step: int) -> float:
    before, version = sizes(contender.folder), contender.lake.table("episodic").version
    seconds = timed(partial(contender.decay, contender.lake, step))
    after = sizes(contender.folder)
    contender.bytes_written.append(sum(after[name] for name in after.keys() - before.keys()))
    contender.commits.append(contender.lake.table("episodic").version - version)
    return seconds


def sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def line_of(contender: Contender, rows: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "figure": "decay",
        "contender": contender.name,
        "rows": rows,
        "rounds": len(seconds),
        "rows_per_s": round(rows / median(seconds)),
        "bytes_per_row": round(median(contender.bytes_written) / rows, 3),
        "commits": round(median(contender.commits)),
        "max_error": error_of(contender) if contender.name != "floor" else 0.0,
    }


def error_of(contender: Contender) -> float:
    """Return how far the stored weights are from the formula at the last round's `now`."""
    dataset = contender.lake.table("episodic").to_lance()
    rows = dataset.to_table(columns=["last_accessed_at", "recency_weight"])
    wanted = decayed_weights(nanos(rows), NOW_NS + (contender.rounds - 1) * DAY_NS, RATE)
    return float(np.abs(rows["recency_weight"].to_numpy() - wanted).max())


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
