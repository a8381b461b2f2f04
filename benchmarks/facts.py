"""Facts: classification, assertion against a raw append, as-of queries against a plain scan.

Prints one JSON line per figure; ratios are within the same run.
"""

import argparse
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from timing import AGENT, NOW, alternate, opened, p50_p95, report

import ailake
from ailake.core.reconcile import FactTriple, SpoEntry, classify_fact
from ailake.core.reconcile_batch import classify_batch

INSTANT = pa.timestamp("ns", "UTC")
PREDICATES = ("lives_in", "works_at", "speaks")
OPEN_SHARE = 0.5
CONTRADICTING = 0.1
YEAR = 365
SINGLE = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classify", type=int, default=1_000_000, help="facts in the batch")
    parser.add_argument("--assert", dest="asserted", type=int, default=100_000, help="facts")
    parser.add_argument("--stored", type=int, default=1_000_000, help="facts to query")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", type=int, default=20)
    options = parser.parse_args()
    classification(options.classify, options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        assertion(Path(folder), options.asserted, options.repeats)
        queries(Path(folder), options.stored, options.queries)


def columns(count: int, subjects: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    start = int(NOW.timestamp()) * 10**9 - rng.integers(1, 20 * YEAR, count) * 86_400 * 10**9
    ends = start + rng.integers(1, 2 * YEAR, count) * 86_400 * 10**9
    closed = pa.array(ends, mask=rng.random(count) < OPEN_SHARE)
    return pa.table(
        {
            "subject": [f"person {n}" for n in rng.integers(0, subjects, count)],
            "predicate": np.array(PREDICATES)[rng.integers(0, len(PREDICATES), count)],
            "object": [f"thing {n}" for n in rng.integers(0, 1_000, count)],
            "valid_from": pa.array(start).cast(INSTANT),
            "valid_to": closed.cast(INSTANT),
            "fact_id": [f"{n:032x}" for n in range(count)],
        }
    )


def classification(count: int, repeats: int) -> None:
    """Each fact meets two thirds of a known one, on average."""
    new, prior = columns(count, count // 2, 1), columns(count, count // 2, 2)
    some = min(count, 50_000)
    pairs = [
        (FactTriple("Ana", "lives_in", f"place {n % 7}", NOW - timedelta(days=n % 900)),
         [SpoEntry(f"place {n % 5}", f"f{n}", NOW - timedelta(days=n % 700))])
        for n in range(some)
    ]  # fmt: skip
    contenders = {
        "scalar": lambda _: [classify_fact(fact, known) for fact, known in pairs],
        "batch": lambda _: classify_batch(new, prior),
    }
    for name, seconds in alternate(contenders, repeats).items():
        rows = some if name == "scalar" else count
        speed = round(rows / min(seconds))
        report(figure="classify", what=name, rows=rows, prior=rows, rows_per_s=speed)


def stated(count: int) -> list[FactTriple]:
    """Return facts of which a tenth contradict one before them."""
    since = datetime(2010, 1, 1, tzinfo=UTC)
    apart = max(int(count * (1 - CONTRADICTING)), 1)
    return [
        FactTriple(
            f"person {n % apart}", "lives_in", f"place {n}", since + timedelta(days=n // apart)
        )
        for n in range(count)
    ]


def assertion(folder: Path, count: int, repeats: int) -> None:
    facts = stated(count)
    lakes = {
        name: [made(folder / f"{name} {step}") for step in range(repeats)]
        for name in ("ours", "raw")
    }
    first = made(folder / "first")
    first.facts(AGENT).assert_(facts, now=NOW)
    rows = first.table("facts").to_arrow()
    first.close()

    def ours(step: int) -> object:
        return lakes["ours"][step].facts(AGENT).assert_(facts, now=NOW)

    def raw(step: int) -> object:
        return lakes["raw"][step].table("facts").add(rows)

    seconds = alternate({"ours": ours, "raw": raw}, repeats)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["raw"])), 2)
        stored = lakes[name][0].table("facts").count_rows()
        speed = round(count / float(np.median(taken)))
        report(figure="assert", what=name, facts=count, stored=stored, facts_per_s=speed,
               vs_raw=ratio)  # fmt: skip
    single(lakes["ours"][0], lakes["raw"][0], count)
    for lake in [*lakes["ours"], *lakes["raw"]]:
        lake.close()


def single(ours: ailake.Lake, raw: ailake.Lake, count: int) -> None:
    """One fact that contradicts one of many, whose keys are indexed, against a raw append."""
    ours.flush()
    row = raw.table("facts").to_arrow().slice(0, 1)

    def one(step: int) -> object:
        late = FactTriple(f"person {step}", "lives_in", "elsewhere", NOW)
        return ours.facts(AGENT).assert_([late], now=NOW)

    seconds = alternate({"ours": one, "raw": lambda _: raw.table("facts").add(row)}, SINGLE)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["raw"])), 2)
        report(figure="assert one", what=name, stored=count, **p50_p95(taken), vs_raw=ratio)


def made(folder: Path) -> ailake.Lake:
    return ailake.connect(folder, embedder="hashing:16")


def queries(folder: Path, count: int, steps: int) -> None:
    lake = made(folder / "queried")
    lake.facts(AGENT).assert_(stated(min(count, 1_000)), now=NOW)
    base = lake.table("facts").to_arrow().slice(0, 1)
    start = np.arange(count, dtype=np.int64) % (10 * YEAR) * 86_400 * 10**9
    varying = {
        "version_id": pa.array([f"v{n:031x}" for n in range(count)]),
        "key_id": pa.array([f"k{n:031x}" for n in range(count)]),
        "subject_id": pa.array([f"s{n % (count // 10 + 1):031x}" for n in range(count)]),
        "valid_from": pa.array(start).cast(INSTANT),
    }
    rows = pa.table(
        {
            field.name: varying.get(
                field.name, pa.repeat(base[field.name][0], count).cast(field.type)
            )
            for field in base.schema
        },
        schema=base.schema,
    )
    lake.table("facts").add(rows)
    lake.close()
    lake = opened(folder / "queried")
    facts, day = lake.facts(AGENT), timedelta(days=1)

    def ours(step: int) -> object:
        return facts.find("person 5", "lives_in", as_of=NOW - step * day, known_at=NOW)

    def scan(step: int) -> object:
        subject = ailake.EntityRef("concept", "person 5").id
        at = (NOW - step * day).isoformat()
        chosen = (
            f"agent_id = '{AGENT}' AND subject_id = '{subject}' AND predicate = 'lives_in' AND "
            f"valid_from <= timestamp '{at}' AND (valid_to IS NULL OR valid_to > timestamp '{at}')"
        )
        return lake.table("facts").to_lance().to_table(filter=chosen)

    seconds = alternate({"ours": ours, "scan": scan}, steps)
    for name, taken in seconds.items():
        ratio = round(float(np.median(taken) / np.median(seconds["scan"])), 3)
        report(figure="as of", what=name, stored=count, **p50_p95(taken), vs_scan=ratio)
    lake.close()


if __name__ == "__main__":
    main()
