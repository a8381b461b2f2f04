"""The entity graph: mentions noted per second, and walks in one scope of many.

Prints one JSON line per figure; ratios are within the same run.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from timing import AGENT, NOW, NOW_NS, alternate, opened, p50_p95, report, timed

import ailake

# Each fact mentions so many entities, and each scope has so many mentions.
ENTITIES = 5
SCOPE_MENTIONS = 1_000
NAMES = 97
INSTANT = pa.timestamp("ns", "UTC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=int, default=100_000, help="mentions in the batch")
    parser.add_argument(
        "--stored", type=int, nargs="*", default=[1_000, 100_000, 1_000_000], help="mentions"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        indexing(Path(folder), options.index, options.repeats)
        for stored in options.stored:
            walks(Path(folder) / str(stored), stored, options.queries)


def made(folder: Path) -> ailake.Lake:
    return ailake.connect(folder, embedder="hashing:16")


def entries(count: int) -> list[ailake.IndexEntry]:
    """Return facts that make up so many mentions; half of the entities are met often."""
    return [
        ailake.IndexEntry(
            f"fact-{fact}",
            [
                ailake.EntityRef("person", f"Person {fact * step % NAMES if step % 2 else fact}")
                for step in range(1, ENTITIES + 1)
            ],
            f"what is said in number {fact}",
            NOW,
        )
        for fact in range(count // ENTITIES)
    ]


def indexing(folder: Path, count: int, repeats: int) -> None:
    batch, scope = entries(count), ailake.Scope(AGENT)
    mentions = sum(len(one.refs) for one in batch)
    with made(folder / "first") as first:
        first.graph().index_many(scope, batch, now=NOW)
        rows = first.table("mentions").to_arrow()
    lakes = {
        name: [made(folder / f"{name} {step}") for step in range(repeats)]
        for name in ("ours", "raw")
    }

    def ours(step: int) -> object:
        return lakes["ours"][step].graph().index_many(scope, batch, now=NOW)

    def raw(step: int) -> object:
        return lakes["raw"][step].table("mentions").add(rows)

    seconds = alternate({"ours": ours, "raw": raw}, repeats)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["raw"])), 2)
        stored = lakes[name][0].table("mentions").count_rows()
        speed = round(mentions / float(np.median(taken)))
        report(figure="index", what=name, mentions=mentions, stored=stored, mentions_per_s=speed,
               vs_raw=ratio)  # fmt: skip
    for lake in [*lakes["ours"], *lakes["raw"]]:
        lake.close()


def stored_mentions(count: int) -> pa.Table:
    """Return rows of ``mentions``, the scopes one after the other in turn."""
    place = np.arange(count, dtype=np.int64)
    scopes = max(count // SCOPE_MENTIONS, 1)
    fact = place // ENTITIES
    name = np.random.default_rng(3).integers(0, NAMES, count)
    ids = [ailake.EntityRef("person", f"Person {one}").id for one in range(NAMES)]
    return pa.table(
        {
            "fact_id": [f"fact-{one}" for one in fact],
            "agent_id": pa.repeat(AGENT, count),
            "user_id": [f"user-{one}" for one in fact % scopes],
            "project_id": pa.repeat("", count),
            "entity_id": np.array(ids)[name],
            "entity_name": [f"Person {one}" for one in name],
            "entity_type": pa.repeat("person", count),
            "text": pa.repeat("", count),
            "valid_from": pa.array(NOW_NS - fact * 10**9).cast(INSTANT),
            "recorded_at": pa.repeat(pa.scalar(NOW_NS, INSTANT), count),
        }
    )


def walks(folder: Path, count: int, steps: int) -> None:
    with made(folder) as lake:
        lake.table("mentions").add(stored_mentions(count))
        lake.store.keep_indexes_current()
    scopes = max(count // SCOPE_MENTIONS, 1)
    lake = opened(folder)
    graph = lake.graph()
    asked = [ailake.EntityRef("person", "Person 5")]

    def scope(number: int) -> ailake.Scope:
        return ailake.Scope(AGENT, f"user-{number % scopes}")

    def note(number: int, step: int) -> None:
        graph.index(scope(number), f"new-{number}-{step}", asked, valid_from=NOW)

    def walk(number: int, step: int) -> float:
        return timed(partial(graph.neighbors, scope(number + step), asked))

    def told(what: str, seconds: list[float]) -> None:
        report(figure="neighbors", what=what, mentions=count, scopes=scopes, **p50_p95(seconds))

    told("first", [walk(step, 0) for step in range(min(steps, scopes))])
    told("again", [walk(0, 0) for _ in range(steps)])
    for what, written in (("after a write elsewhere", 1), ("after a write there", 0)):
        if scopes == 1 and written:
            continue
        seconds = []
        for step in range(steps):
            note(written, step)
            seconds.append(walk(0, 0))
        told(what, seconds)
    lake.close()


if __name__ == "__main__":
    main()
