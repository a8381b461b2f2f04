"""A year of a lake in little: does it stay small and quick where it is kept up?

    python benchmarks/lifecycle.py [--days 360] [--writes 50] [--recalls 20] [--dim 128]
                                   [--scale 1.0] [--queries 30] [--quick]

Every day memories are written, half of them one by one, and some are recalled, which counts
accesses; every night the weights decay and what has expired goes; every week the lake is
compacted. A tenth of the memories expires after a month. --scale multiplies the daily numbers. A
month has 30 days. One line per month: bytes on disk per live row, column files of the memories
per row, fragments and versions of all tables, and recall by vector (k = 10, no touch) against the
first month's lake, which is kept beside: asked in turn with this month's, with the same queries.
"""

import argparse
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import (
    AGENT,
    NOW,
    Draw,
    Vectors,
    alternate,
    clustered,
    folder_of,
    made,
    opened,
    p50_p95,
    report,
)

import ailake
from ailake.maintenance import CompactionJob, CompactionPolicy, ForgetJob, MemoryDecayJob

K = 10
DAY = timedelta(days=1)
MONTH = 30
WEEK = 7
LIFETIME = 30 * DAY
POLICY = CompactionPolicy(keep_versions=timedelta(minutes=1))
QUICK = {"days": 60, "writes": 4, "recalls": 2, "dim": 16, "queries": 3}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--days", type=int, default=12 * MONTH)
    parser.add_argument("--writes", type=int, default=50, help="a day")
    parser.add_argument("--recalls", type=int, default=20, help="a day")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    with tempfile.TemporaryDirectory() as folder:
        live(Path(folder), options)


def live(folder: Path, options: argparse.Namespace) -> None:
    draw = clustered(options.dim)
    made(folder / "lake", 0, draw)
    queries = draw(np.random.default_rng(11), options.queries)
    with opened(folder / "lake") as lake:
        year = Year(lake, folder / "first", draw, queries, options)
        for day in range(options.days):
            year.live(day)
            if (day + 1) % MONTH == 0:
                year.tell((day + 1) // MONTH)


@dataclass
class Year:
    """A lake that is lived in, and how it was after its first month."""

    lake: ailake.Lake
    first: Path
    draw: Draw
    queries: Vectors
    options: argparse.Namespace
    rng: np.random.Generator = field(default_factory=partial(np.random.default_rng, 3))

    def live(self, day: int) -> None:
        now = NOW + day * DAY
        memory = self.lake.memory(AGENT)
        notes = self._notes(day, now)
        for note in notes[::2]:
            memory.remember(**note, now=now)
        memory.remember_many(notes[1::2], now=now)
        for query in self.draw(self.rng, self._number(self.options.recalls)):
            memory.recall(query, limit=K, now=now)
        night = now + DAY / 2
        MemoryDecayJob(self.lake).run(night)
        ForgetJob(self.lake).run(night)
        if day % WEEK == WEEK - 1:
            # A simulated week takes seconds: all versions but the latest count as old.
            latest = self.lake.versions("episodic")[-1].created_at
            CompactionJob(self.lake, policy=POLICY).run(latest + POLICY.keep_versions)

    def _notes(self, day: int, now: datetime) -> list[dict[str, Any]]:
        vectors = self.draw(self.rng, self._number(self.options.writes))
        return [
            {
                "text": f"day {day}, note {place}",
                "vector": vector,
                "expires_at": now + LIFETIME if place % 10 == 0 else None,
            }
            for place, vector in enumerate(vectors)
        ]

    def _number(self, daily: int) -> int:
        return int(max(round(daily * self.options.scale), 2))

    def tell(self, month: int) -> None:
        self.lake.flush()
        if month == 1:
            shutil.copytree(folder_of(self.lake), self.first)
        tables = {table.name: table for table in self.lake.stats().tables}
        rows = tables["episodic"].rows
        files = (path for path in folder_of(self.lake).rglob("*") if path.is_file())
        fragments = self.lake.table("episodic").to_lance().get_fragments()
        data = sum(file.file_size_bytes or 0 for one in fragments for file in one.data_files())
        report(
            figure="lifecycle", month=month, rows=rows,
            bytes_per_row=round(sum(path.stat().st_size for path in files) / rows, 1),
            data_bytes_per_row=round(data / rows, 1),
            fragments={name: table.fragments for name, table in tables.items()},
            versions={name: table.versions for name, table in tables.items()},
            **self._recalls(NOW + month * MONTH * DAY),
        )  # fmt: skip

    def _recalls(self, now: datetime) -> dict[str, float]:
        with opened(self.first) as beginning:
            memories = {"month": self.lake.memory(AGENT), "first": beginning.memory(AGENT)}

            def ask(name: str, step: int) -> object:
                return memories[name].recall(self.queries[step], limit=K, touch=False, now=now)

            contenders = {name: partial(ask, name) for name in memories}
            for contender in contenders.values():
                contender(0)
            seconds = alternate(contenders, len(self.queries))
        ratio = float(np.median(seconds["month"]) / np.median(seconds["first"]))
        return {**p50_p95(seconds["month"]), "recall_vs_month_1": round(ratio, 3)}


if __name__ == "__main__":
    main()
