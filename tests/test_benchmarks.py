"""The benchmark scripts run, and what they print is plausible in ways that no clock decides."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RIVALS = {"duckdb", "sqlite", "polars", "delta"}
REFERENCES = {"update", "merge_insert", "floor", *RIVALS}
WAYS_TO_WRITE = {"judge", "no judge", "raw"}
SEARCHES = {
    "numpy", "raw", "raw scoped", "raw rerank", "recall", "recall touch", "recall hybrid",
    "recall text",
}  # fmt: skip
RANKINGS = {
    "bm25", "vector", "hybrid, stage one", "hybrid", "hybrid + default policy",
    "pure formula (SEED)",
}  # fmt: skip


def figures(script: str, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(BENCHMARKS / script), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_decay() -> None:
    lines = figures("decay.py", "--rows", "500", "--dim", "64", "--repeats", "1")
    runs = {line["contender"]: line for line in lines if line["figure"] == "decay"}
    ratios = {line["against"]: line for line in lines if line["figure"] == "decay ratio"}
    skipped = {line["contender"] for line in lines if line["figure"] == "skipped"}
    # Nobody's tests need that package.
    assert skipped <= {"delta"}
    assert set(runs) == {"ours", *REFERENCES} - skipped
    assert set(ratios) == REFERENCES - skipped
    commits = {name: run["commits"] for name, run in runs.items() if name not in RIVALS}
    assert commits == {"ours": 1, "update": 1, "merge_insert": 1, "floor": 0}
    assert all(run["max_error"] < 1e-6 for run in runs.values())
    assert all(run["rows_per_s"] > 0 for run in runs.values())
    written = {name: run["bytes_per_row"] for name, run in runs.items()}
    assert (
        written["floor"]
        <= written["ours"]
        < min(written[one] for one in REFERENCES - skipped - {"floor"})
    )
    assert ratios["update"]["bytes"] > 1


@pytest.mark.parametrize("index", [None, "IVF_SQ"])
def test_recall(index: str | None) -> None:
    options = ["--rows", "300", "--shares", "0.5", "1", "--dim", "64", "--queries", "3"]
    chosen = ["--writes", "20", *(["--index", index] if index else [])]
    lines = figures("recall.py", *options, *chosen)
    for share in (0.5, 1.0):
        here = [line for line in lines if line["share"] == share]
        assert {line["index"] for line in here} == {index}
        latencies = {line["what"]: line for line in here if line["figure"] == "latency"}
        assert set(latencies) == SEARCHES
        assert latencies["raw scoped"]["vs_raw"] == 1.0
        for line in latencies.values():
            assert 0 < line["p50_ms"] <= line["p95_ms"] <= line["p99_ms"]
        shares = {line["policy"]: line for line in here if line["figure"] == "share"}
        assert set(shares) == {"default", "seed"}
        # Held in memory: every row is scored, and nothing can be missed, index or not.
        assert all(line["found"] == line["proven"] == 1.0 for line in shares.values())
        assert shares["seed"]["raw_rerank_found"] < 1
        (rows,) = {line["rows_scored"] for line in shares.values()}
        assert rows == 301 if share == 1 else 100 < rows < 200
        kinds = [line["figure"] for line in here]
        assert [kinds.count(name) for name in ("cold", "threads", "written")] == [1, 1, 1]


def test_indexes() -> None:
    lines = figures("indexes.py", "--quick")
    asked = [line.get("indexes", line.get("indexed")) for line in lines if "p50_ms" in line][:6]
    assert asked == ["none", "agent and state", "all", "none", "all", "all but 1000"]
    assert sum(line["figure"] == "upkeep" for line in lines) == 3
    (built,) = (line for line in lines if line["figure"] == "index")
    assert (built["kind"], built["recall"] >= 0.99) == ("IVF_SQ", True)
    assert [line["by"] for line in lines if line["figure"] == "nearest"] == ["exact", "index"]


@pytest.mark.parametrize(
    ("name", "file", "step"), [("locomo", "locomo.json", 2), ("longmemeval", "oracle.json", 3)]
)
def test_evidence(shared: Path, tmp_path: Path, *, name: str, file: str, step: int) -> None:
    """Of the conversations every second or third one: more would prove no more."""
    some = json.loads((shared / name / file).read_text(encoding="utf-8"))[::step]
    (tmp_path / file).write_text(json.dumps(some), encoding="utf-8")
    ingest, *recalls = figures(f"{name}.py", "--data", str(tmp_path), "--embedder", "hashing")
    assert ingest["figure"] == "ingest"
    assert ingest["turns"] > 1_000
    assert {line["ranking"] for line in recalls} == RANKINGS
    for line in recalls:
        depths = [line[f"recall@{depth}"] for depth in (5, 10, 20)]
        assert 0 <= depths[0] <= depths[1] <= depths[2] <= 1
        assert 0 <= line["mrr"] <= 1
        assert 0 <= line["ndcg@10"] <= 1
        assert line["exact"] == 1


def test_lifecycle() -> None:
    first, second = figures("lifecycle.py", "--quick")
    assert [first["month"], second["month"]] == [1, 2]
    # Of four a day one expires after a month.
    assert (first["rows"], second["rows"]) == (120, 210)
    assert second["fragments"]["episodic"] < 12
    assert second["recall_vs_month_1"] > 0


def test_judge(shared: Path) -> None:
    lines = figures("judge.py", "--data", str(shared / "pairs"), "--embedder", "hashing")
    judged = {(line["sets"], line["half"]): line for line in lines if line["figure"] == "judge"}
    for half in ("both", "tuned", "held out"):
        statements = judged["statements", half]
        assert statements["wrong_share"] <= 0.002
        assert statements["recall"] >= 0.25
    merged = {line["by"]: line["merged"] for line in lines if line["figure"] == "contradictions"}
    assert merged["judge"] == 0 < merged["cosine 0.5"]
    speeds = [line["pairs_per_s"] for line in lines if line["figure"] == "throughput"]
    assert min(speeds) > 0
    curve = [line["recall"] for line in lines if line["figure"] == "cosine"]
    assert all(0 <= share <= 1 for share in curve)


def test_writes() -> None:
    lines = figures("writes.py", "--quick")
    singles = [line for line in lines if line["figure"] == "single"]
    assert {(line["rows"], line["what"]) for line in singles} == {
        (rows, what) for rows in (0, 50) for what in WAYS_TO_WRITE
    }
    # Six steps and three to warm up; each contender's lake is its own.
    assert {line["stored"] for line in singles} == {9}
    assert all(0 < line["p50_ms"] <= line["p95_ms"] for line in singles)
    bulk = {line["what"]: line for line in lines if line["figure"] == "bulk"}
    assert set(bulk) == WAYS_TO_WRITE
    assert {line["stored"] for line in bulk.values()} == {200}
    assert {line["vs_raw"] for line in [*singles, *bulk.values()] if line["what"] == "raw"} == {1}


def test_writes_one_by_one() -> None:
    options = ("--rows", "--bulk", "0", "--writers", "1", "2")
    small = ("--dim", "32", "--base", "50", "--writes", "12", "--queries", "3")
    lines = figures("writes.py", *options, *small)
    assert {line["figure"] for line in lines} == {"memory", "recall", "disk"}
    for writers in (1, 2):
        here = [line for line in lines if line["writers"] == writers]
        memory = [line for line in here if line["figure"] == "memory"]
        assert [line["writer"] for line in memory] == list(range(writers))
        assert all(line["rss_end_mib"] > 0 for line in memory)
        recalls = {line["lake"]: line for line in here if line["figure"] == "recall"}
        assert recalls["base"]["vs_base"] == recalls["bulk"]["vs_bulk"] == 1
        disk = {line["lake"]: line for line in here if line["figure"] == "disk"}
        assert {name: line["rows"] for name, line in disk.items()} == {
            "base": 50, "written": 62, "bulk": 62,
        }  # fmt: skip
        assert disk["bulk"]["fragments"] == disk["bulk"]["cleaned_vs_bulk"] == 1
        for line in disk.values():
            assert line["cleaned_bytes_per_row"] <= line["bytes_per_row"]


def test_facts() -> None:
    options = ("--classify", "500", "--assert", "200", "--stored", "300", "--queries", "3")
    lines = figures("facts.py", *options, "--repeats", "1")
    found = {(line["figure"], line.get("what")): line for line in lines}
    assert set(found) == {
        ("classify", "scalar"), ("classify", "batch"), ("assert", "ours"), ("assert", "raw"),
        ("assert one", "ours"), ("assert one", "raw"), ("as of", "ours"), ("as of", "scan"),
    }  # fmt: skip
    # A tenth lose and leave a remainder.
    assert found["assert", "ours"]["stored"] == found["assert", "raw"]["stored"] == 220
    assert found["assert", "raw"]["vs_raw"] == found["as of", "scan"]["vs_scan"] == 1


def test_judged_writes(shared: Path) -> None:
    chosen = ["--turns", "60", "--batch", "40", "--embedder", "hashing", "--repeats", "1"]
    lines = figures("judged_writes.py", "--data", str(shared), *chosen)
    checked = [line for line in lines if line["figure"] == "invariants"]
    assert all(line["broken"] == [] for line in checked)
    assert {(line["unexplained"], line["twice"]) for line in checked} == {(0, 0)}
    assert sum(line["count"] for line in lines if line["figure"] == "decisions") == 60


def test_graph() -> None:
    options = ("--index", "200", "--stored", "1000", "3000", "--queries", "2", "--repeats", "1")
    lines = figures("graph.py", *options)
    index = {line["what"]: line for line in lines if line["figure"] == "index"}
    assert index["ours"]["stored"] == index["raw"]["stored"] == index["ours"]["mentions"]
    assert index["raw"]["vs_raw"] == 1
    walks = [line for line in lines if line["figure"] == "neighbors"]
    assert [line["scopes"] for line in walks] == [1] * 3 + [3] * 4
    assert all(0 < line["p50_ms"] <= line["p95_ms"] for line in walks)
