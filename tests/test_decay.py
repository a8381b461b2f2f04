"""MemoryDecayJob on real tables: what it writes, what it leaves, and who may write beside it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import forked
import lance
import numpy as np
import pyarrow as pa
import pytest
from kept import KEEP
from lancedb.index import IvfSq

import ailake
from ailake import InvalidInputError, RecencyConfig
from ailake.clock import utc_now
from ailake.core.episodic import days_between
from ailake.maintenance import MemoryDecayJob
from ailake.storage import columns as columns_module

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
UNTOUCHED = [
    "chunk_id", "chunk_text", "embedding", "importance_score", "access_count",
    "last_accessed_at", "created_at", "metadata",
]  # fmt: skip


def fill(lake: ailake.Lake, count: int, *, dim: int = 64) -> ailake.Memory:
    memory = lake.memory(agent_id="a")
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(count, dim)).astype(np.float32)
    ages = rng.random(count) * 365
    memory.remember_many(
        [
            {
                "text": f"memory {n}", "id": f"m{n}", "vector": vectors[n],
                "event_time": NOW - float(ages[n]) * DAY, "importance": float(ages[n]) / 365,
            }
            for n in range(count)
        ],
        judge=False,
        now=NOW,
    )  # fmt: skip
    return memory


def dataset(lake: ailake.Lake) -> lance.LanceDataset:
    return lake.table("episodic").to_lance()


def expected(rows: pa.Table, now: datetime, rate: float = 0.099) -> Any:
    accessed = rows["last_accessed_at"].cast(pa.int64()).to_numpy()
    days = days_between(accessed, int(now.timestamp()) * 1_000_000_000)
    return np.exp(-rate * np.maximum(days, 0)).astype(np.float32)


def test_weights_are_the_formula(lake: ailake.Lake) -> None:
    fill(lake, 500)
    report = MemoryDecayJob(lake, recency=RecencyConfig.MONTHLY_DECAY).run(NOW)
    rows = dataset(lake).to_table()
    assert np.array_equal(rows["recency_weight"].to_numpy(), expected(rows, NOW, 0.023))
    assert (report.rows, report.fragments, report.fragments_written) == (500, 1, 1)
    assert report.version_after == report.version_before + 1
    assert report.lambda_ == 0.023


def test_the_large_table(tmp_path: Path) -> None:
    """200,000 rows with 384-d vectors and a vector index."""
    with ailake.connect(tmp_path, embedder="hashing:384", judge_rules=KEEP) as lake:
        memory = fill(lake, 200_000, dim=384)
        index_kind = IvfSq(distance_type="cosine", num_partitions=8)
        lake.table("episodic").create_index("embedding", config=index_kind)
        memory.forget([f"m{n}" for n in range(0, 1_000, 7)])
        # Otherwise upkeep of the indexes may commit in between.
        lake.flush()
        before = dataset(lake)
        rows_before = before.to_table(columns=UNTOUCHED, with_row_id=True)
        report = MemoryDecayJob(lake).run(NOW)
        after = dataset(lake)
        assert after.version == before.version + 1 == report.version_after
        assert report.bytes_written <= 6 * 200_000
        assert size(tmp_path, after, before) == report.bytes_written
        assert after.to_table(columns=UNTOUCHED, with_row_id=True).equals(rows_before)
        stats = lake.stats().tables
        found = next(t for t in stats if t.name == "episodic").indexes
        (index,) = (index for index in found if index.name == "embedding_idx")
        assert index.unindexed_rows == 0
        weights = after.to_table(columns=["recency_weight", "last_accessed_at"])
        assert np.array_equal(weights["recency_weight"].to_numpy(), expected(weights, NOW))
        again = MemoryDecayJob(lake).run(NOW)
        assert again.version_after == report.version_after
        assert again.fragments_written == again.bytes_written == 0
        assert memory.count() == 200_000 - 143


def size(root: Path, after: lance.LanceDataset, before: lance.LanceDataset) -> int:
    """Bytes of the data files that the newer version refers to and the older does not."""
    names = {f.path for frag in after.get_fragments() for f in frag.data_files()}
    names -= {f.path for frag in before.get_fragments() for f in frag.data_files()}
    return sum((root / "episodic.lance" / "data" / name).stat().st_size for name in names)


def test_daily_for_a_year_equals_once_at_the_end(lake: ailake.Lake, tmp_path: Path) -> None:
    fill(lake, 50)
    for day in range(0, 366, 5):
        MemoryDecayJob(lake).run(NOW + day * DAY)
    daily = dataset(lake).to_table(columns=["recency_weight"])
    with ailake.connect(tmp_path / "once", embedder="hashing:64", judge_rules=KEEP) as other:
        fill(other, 50)
        MemoryDecayJob(other).run(NOW + 365 * DAY)
        assert dataset(other).to_table(columns=["recency_weight"]).equals(daily)
    # Stacked column files don't pile up: the text's file and the weight's.
    (fragment,) = dataset(lake).get_fragments()
    assert len(fragment.data_files()) == 2


def test_only_fragments_that_change_are_written(lake: ailake.Lake) -> None:
    fill(lake, 100)
    MemoryDecayJob(lake).run(NOW)
    lake.memory(agent_id="a").remember("a fresh one", event_time=NOW - DAY, now=NOW)
    report = MemoryDecayJob(lake).run(NOW)
    assert (report.fragments, report.fragments_written) == (2, 1)


def test_dry_run_writes_nothing(lake: ailake.Lake, tmp_path: Path) -> None:
    memory = fill(lake, 100)
    memory.recall("memory", now=NOW)
    before = sorted(path.name for path in (tmp_path / "lake").rglob("*"))
    report = MemoryDecayJob(lake).run(NOW, dry_run=True)
    assert report.dry_run
    assert report.fragments_written == 1
    assert report.accesses_folded == 10
    assert report.version_after == report.version_before
    assert sorted(path.name for path in (tmp_path / "lake").rglob("*")) == before


def test_accesses_are_folded_exactly_once(lake: ailake.Lake) -> None:
    memory = fill(lake, 40)
    repeated = memory.remember("said twice", confidence=0.5, now=NOW)
    for hour in range(3):
        memory.recall("memory 7", limit=5, now=NOW + hour * timedelta(hours=1))
    memory.remember("said twice", confidence=0.9, now=NOW + 2 * DAY)
    ids = [f"m{n}" for n in range(40)] + [repeated.id]
    before = [memory.get(name, now=NOW) for name in ids]
    report = MemoryDecayJob(lake).run(NOW + 3 * DAY)
    assert report.accesses_folded == sum(m.access_count > 0 for m in before) + 1
    stored = dataset(lake).to_table().to_pylist()
    assert sum(row["access_count"] for row in stored) == 15
    for old, name in zip(before, ids, strict=True):
        new = memory.get(name, now=NOW)
        assert (new.access_count, new.last_accessed_at) == (old.access_count, old.last_accessed_at)
        assert (new.updated_at, new.confidence) == (old.updated_at, old.confidence)
    assert memory.get(repeated.id).updated_at == NOW + 2 * DAY
    again = MemoryDecayJob(lake).run(NOW + 3 * DAY)
    assert again.accesses_folded == 0
    memory.recall("memory 7", limit=1, now=NOW + 4 * DAY)
    MemoryDecayJob(lake).run(NOW + 4 * DAY)
    assert sum(m.access_count for m in memory.list(now=NOW)) == 16


def test_a_fresh_process_counts_the_same(lake: ailake.Lake, tmp_path: Path) -> None:
    memory = fill(lake, 20)
    memory.recall("memory", limit=5, now=NOW)
    MemoryDecayJob(lake).run(NOW)
    memory.recall("memory", limit=5, now=NOW + DAY)
    lake.flush()
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
        records = other.memory(agent_id="a").list(now=NOW)
        assert sum(record.access_count for record in records) == 10
        assert other.stats().pending_accesses == 5


def test_null_last_access_counts_from_the_event(lake: ailake.Lake) -> None:
    memory = fill(lake, 3)
    memory.remember("written later", id="late", now=NOW)
    lake.table("episodic").update(where="true", values_sql={"last_accessed_at": "NULL"})
    MemoryDecayJob(lake).run(NOW + DAY)
    rows = {m.id: m for m in memory.list(now=NOW)}
    assert rows["late"].recency_weight == pytest.approx(np.exp(-0.099))
    for n in range(3):
        record = rows[f"m{n}"]
        assert record.event_time is not None
        age = (NOW + DAY - record.event_time) / DAY
        assert record.recency_weight == pytest.approx(np.exp(-0.099 * age), rel=1e-5)


def test_the_run_is_recorded_with_its_commit(lake: ailake.Lake) -> None:
    fill(lake, 3)
    report = MemoryDecayJob(lake).run(NOW)
    transaction = dataset(lake).read_transaction(report.version_after)
    properties = transaction.transaction_properties
    assert properties["ailake.lambda"] == "0.099"
    assert properties["ailake.now"] == NOW.isoformat()


def test_deleted_rows_stay_deleted(lake: ailake.Lake) -> None:
    memory = fill(lake, 30)
    memory.forget(["m3", "m4"])
    MemoryDecayJob(lake).run(NOW)
    assert memory.count(now=NOW) == 28
    rows = dataset(lake).to_table()
    assert np.array_equal(rows["recency_weight"].to_numpy(), expected(rows, NOW))


def interrupted(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, between: Any) -> Any:
    """Run the job; call ``between`` once, just before its first commit."""
    commit = columns_module._commit
    calls: list[int] = []

    def late(*args: Any) -> int:
        calls.append(1)
        if len(calls) == 1:
            between()
        return commit(*args)

    monkeypatch.setattr(columns_module, "_commit", late)
    return MemoryDecayJob(lake).run(NOW), len(calls)


def test_a_concurrent_append_keeps_its_rows(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fill(lake, 30)
    meanwhile = [{"text": "meanwhile"}]
    report, attempts = interrupted(
        lake, monkeypatch, lambda: memory.remember_many(meanwhile, now=NOW)
    )
    assert attempts == 1
    assert memory.count(now=NOW) == 31
    assert report.version_after == report.version_before + 2


@pytest.mark.parametrize("writer", ["delete", "update", "compact"])
def test_a_conflicting_writer_makes_it_retry(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    memory = fill(lake, 30)
    lake.memory(agent_id="a").remember("second fragment", now=NOW)

    def between() -> None:
        table = lake.table("episodic")
        if writer == "delete":
            memory.forget("m5")
        elif writer == "update":
            table.update(where="chunk_id = 'm6'", values={"kind": "changed"})
        else:
            table.to_lance().optimize.compact_files()

    report, attempts = interrupted(lake, monkeypatch, between)
    assert attempts == 2
    rows = dataset(lake).to_table()
    assert np.array_equal(rows["recency_weight"].to_numpy(), expected(rows, NOW))
    assert rows.num_rows == (30 if writer == "delete" else 31)
    if writer == "update":
        assert memory.get("m6").kind == "changed"
    assert report.version_after == dataset(lake).version


def test_a_cleaned_up_delete_is_not_undone(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine sees no conflict with a version that is gone: only the commit guard does.

    The tag keeps the version that the run has read, so nothing else stops its commit.
    """
    memory = fill(lake, 30)
    lake.tag("kept")

    def between() -> None:
        memory.forget("m5")
        memory.remember("and one more version", now=NOW)
        dataset(lake).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

    _, attempts = interrupted(lake, monkeypatch, between)
    assert attempts == 2
    assert memory.count(now=NOW) == 30
    assert not memory.count({"chunk_id": "m5"}, now=NOW)


KILLED = """
import os, sys
from datetime import datetime
import ailake
from ailake.maintenance import MemoryDecayJob
from ailake.storage import columns

def die(*_):
    os.kill(os.getpid(), 9)

setattr(columns, sys.argv[2], die)
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    MemoryDecayJob(lake).run(datetime.fromisoformat(sys.argv[3]))
"""


@pytest.mark.parametrize("step", ["_commit", "_with_file", "guard"])
def test_killed_before_the_commit_the_lake_is_as_before(
    lake: ailake.Lake, tmp_path: Path, step: str
) -> None:
    memory = fill(lake, 30)
    memory.recall("memory", now=NOW)
    before = dataset(lake).to_table()
    done = forked.run(KILLED, tmp_path / "lake", step, NOW.isoformat())
    assert done.returncode == -9, done.stderr
    assert dataset(lake).to_table().equals(before)
    orphans = list((tmp_path / "lake" / "episodic.lance" / "data").glob("ailake-*"))
    assert len(orphans) == 1
    report = MemoryDecayJob(lake).run(NOW)
    assert report.orphans_removed == 1
    assert not orphans[0].exists()
    assert sum(m.access_count for m in memory.list(now=NOW)) == 10


def test_a_lost_race_leaves_no_orphan_for_long(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fill(lake, 30)
    memory.remember("second fragment", now=NOW)
    interrupted(lake, monkeypatch, dataset(lake).optimize.compact_files)
    MemoryDecayJob(lake).run(NOW + DAY)
    assert not columns_module.orphans(lake.store.episodic, before=utc_now())


@pytest.mark.parametrize("bad", [NOW.replace(tzinfo=None), "2026-01-01", 5])
def test_now_must_be_aware(lake: ailake.Lake, bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"now: got .* timezone-aware"):
        MemoryDecayJob(lake).run(bad)


def test_recency_must_be_a_config(lake: ailake.Lake) -> None:
    with pytest.raises(InvalidInputError, match="recency: got"):
        MemoryDecayJob(lake, recency=0.1)  # type: ignore[arg-type]


def test_an_empty_lake(lake: ailake.Lake) -> None:
    report = MemoryDecayJob(lake).run(NOW)
    assert (report.rows, report.fragments, report.bytes_written) == (0, 0, 0)
    assert report.version_after == report.version_before
