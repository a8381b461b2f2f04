"""Jobs on a Ray cluster: the same table as without, also where workers die."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import ailake
from ailake import InvalidInputError, WorkerDiedError
from ailake.clock import utc_now
from ailake.embed import HashingEmbedder
from ailake.maintenance import (
    CompactedTable,
    CompactionJob,
    CompactionPolicy,
    MemoryDecayJob,
    RayExecutor,
    ReembedJob,
)
from ailake.storage import columns, compaction
from ailake.storage.table import Table

pytest.importorskip("ray", reason="Ray has no build for this Python or platform")

pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and files to its exit.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LONG = " ".join(f"Sentence number {n} is about coffee." for n in range(80))
COMPARED = ["chunk_id", "recency_weight", "access_count", "last_accessed_at", "folded_through"]

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Two workers on this machine, reached by nobody else."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    with warnings.catch_warnings():
        # The engine warns of every fork; Ray's are followed by an exec at once.
        warnings.simplefilter("ignore")
        ray.init(
            address="local",
            _node_ip_address="127.0.0.1",
            # Whatever else takes this machine's memory.
            _system_config={"memory_monitor_refresh_ms": 0},
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            logging_level="error",
            log_to_driver=False,
        )
    yield
    with warnings.catch_warnings():
        # It kills its processes and waits for none of them.
        warnings.simplefilter("ignore")
        ray.shutdown()
        gc.collect()


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six fragments, two go to a worker at a time."""
    monkeypatch.setattr(columns, "_SHARE_ROWS", 80)


@pytest.fixture(autouse=True)
def untidied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else merges small fragments."""
    monkeypatch.setattr(Table, "tidy", lambda *_, **__: None)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of six fragments, with deleted rows, accesses and repetitions that wait."""
    folder = tmp_path_factory.mktemp("base") / "lake"
    rng = np.random.default_rng(3)
    rows = [
        {"text": f"memory {n}", "id": f"m{n}", "event_time": NOW - float(rng.random() * 99) * DAY}
        for n in range(240)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Table, "tidy", lambda *_, **__: None)
        with ailake.connect(folder, embedder="hashing:16") as lake:
            memory = lake.memory("a")
            for start in range(0, 240, 40):
                memory.remember_many(rows[start : start + 40], now=NOW)
            memory.forget(["m3", "m50", "m51"])
            memory.touch(["m1", "m100", "m100", "m239"], now=NOW + DAY)
            memory.remember("memory 7", confidence=0.5, now=NOW + DAY)
            lake.flush()
    return folder


def copied(base: Path, folder: Path) -> ailake.Lake:
    shutil.copytree(base, folder)
    return ailake.connect(folder, create=False)


def stored(lake: ailake.Lake) -> pa.Table:
    return lake.table("episodic").to_lance().to_table(columns=COMPARED, with_row_id=True)


def episodic(job: CompactionJob) -> CompactedTable:
    (found,) = (one for one in job.run(utc_now()).tables if one.table == "episodic")
    return found


def killing(executor: RayExecutor, marks: Path, *, times: int, after: bool) -> Any:
    """Return the executor with workers that die over the first piece, so many times.

    Args:
        executor: What runs the work.
        marks: A folder where the dead are counted.
        times: How often.
        after: Whether the piece is done by then, and only nobody hears of it.
    """

    # Within the function, so that a worker gets them by value: it can't import this module.
    def die() -> None:
        for turn in range(times):
            with suppress(FileExistsError):
                (marks / str(turn)).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)

    class Killing:
        width = executor.width

        def map(self, work: Callable[[T], R], pieces: Sequence[T]) -> Generator[R, None, None]:
            first = pieces[0]

            def deadly(piece: T) -> R:
                if piece == first and not after:
                    die()
                result = work(piece)
                if piece == first:
                    die()
                return result

            return executor.map(deadly, pieces)

    marks.mkdir()
    return Killing()


def dying(marks: Path, dies: str) -> Any:
    """Return an executor one of whose workers dies once, ``never`` or when it says."""
    if dies == "never":
        return RayExecutor()
    return killing(RayExecutor(), marks, times=1, after=dies == "after the file")


def data_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "episodic.lance" / "data").iterdir()}


def test_without_a_cluster_it_says_how_to_connect(base: Path, tmp_path: Path) -> None:
    import ray

    if ray.is_initialized():
        pytest.skip("the cluster of the other tests is up already")
    with copied(base, tmp_path / "lake") as lake:
        version = lake.table("episodic").version
        with pytest.raises(InvalidInputError, match=r"ray\.init"):
            MemoryDecayJob(lake, executor=RayExecutor()).run(NOW)
        assert lake.table("episodic").version == version


@pytest.mark.usefixtures("cluster", "small_shares")
@pytest.mark.parametrize("dies", ["never", "before the file", "after the file"])
def test_decay_is_that_of_one_process(base: Path, tmp_path: Path, dies: str) -> None:
    executor = dying(tmp_path / "marks", dies)
    with copied(base, tmp_path / "one") as one, copied(base, tmp_path / "ray") as many:
        alone = MemoryDecayJob(one).run(NOW + 2 * DAY)
        before = data_files(tmp_path / "ray")
        report = MemoryDecayJob(many, executor=executor).run(NOW + 2 * DAY)
        assert stored(many).equals(stored(one))
        assert report.version_after == report.version_before + 1 == alone.version_after
        assert (report.fragments_written, report.accesses_folded) == (6, 4)
        assert report.bytes_written == alone.bytes_written
        # Who did it again has replaced what the dead one left.
        assert len(data_files(tmp_path / "ray") - before) == 6
        assert columns.orphans(many.store.episodic, before=utc_now()) == []
        assert (tmp_path / "marks" / "0").exists() == (dies != "never")
        again = MemoryDecayJob(many, executor=RayExecutor()).run(NOW + 2 * DAY)
        assert (again.fragments_written, again.version_after) == (0, report.version_after)


@pytest.mark.usefixtures("cluster", "small_shares")
def test_a_worker_that_always_dies_ends_the_run(base: Path, tmp_path: Path) -> None:
    executor = killing(RayExecutor(retries=1), tmp_path / "marks", times=9, after=True)
    with copied(base, tmp_path / "lake") as lake:
        before, version = stored(lake), lake.table("episodic").version
        with pytest.raises(WorkerDiedError, match="failed 2 times because its worker died"):
            MemoryDecayJob(lake, executor=executor).run(NOW + 2 * DAY)
        assert len(list((tmp_path / "marks").iterdir())) == 2
        assert lake.table("episodic").version == version
        assert stored(lake).equals(before)
        report = MemoryDecayJob(lake).run(NOW + 2 * DAY)
        assert report.orphans_removed > 0
        assert report.accesses_folded == 4


@pytest.mark.usefixtures("cluster", "small_shares")
def test_what_the_work_raises_comes_back_as_it_was(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a lost race is retried: here the version is cleaned up before workers open it."""
    with copied(base, tmp_path / "lake") as lake:
        opened: list[int] = []
        files = columns._Run.files

        def cleaned(run: Any, dataset: Any, on_rows: Any) -> Any:
            opened.append(int(dataset.version))
            if len(opened) == 1:
                lake.memory("a").remember_many([{"text": "meanwhile"}], now=NOW)
                lake.table("episodic").to_lance().cleanup_old_versions(timedelta(0))
            return files(run, dataset, on_rows)

        monkeypatch.setattr(columns._Run, "files", cleaned)
        report = MemoryDecayJob(lake, executor=RayExecutor()).run(NOW + 2 * DAY)
        assert len(opened) == 2
        assert report.version_before == opened[1]
        assert report.rows == 238


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("dies", [False, True])
def test_compaction_is_that_of_one_process(base: Path, tmp_path: Path, *, dies: bool) -> None:
    policy = CompactionPolicy(target_rows=80)
    executor: Any = RayExecutor()
    if dies:
        executor = killing(RayExecutor(), tmp_path / "marks", times=1, after=True)
    with copied(base, tmp_path / "one") as one, copied(base, tmp_path / "ray") as many:
        alone = episodic(CompactionJob(one, policy=policy))
        report = episodic(CompactionJob(many, policy=policy, executor=executor))
        assert report.rewrites == alone.rewrites
        assert (len(report.rewrites), report.left, report.fragments_after) == (3, 0, 3)
        assert report.version_after == alone.version_after
        assert stored(many).equals(stored(one))
        # The engine names these files: what the dead one wrote goes when it is old enough.
        tables = many.store.tables.values()
        orphans = [compaction.orphan_files(table, before=utc_now()) for table in tables]
        assert sum(map(len, orphans)) == int(dies)


@pytest.mark.usefixtures("cluster")
def test_a_rewrite_that_loses_is_made_again_and_the_others_stand(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with copied(base, tmp_path / "lake") as lake:
        guarded: list[int] = []
        guard = columns.guard

        def late(table: Any, dataset: Any) -> None:
            if table.name == "episodic":
                # A row of the second of three, before the first is committed: with that commit
                # the engine's handle moves on beyond it.
                if not guarded:
                    lake.memory("a").forget("m90")
                guarded.append(int(dataset.version))
            guard(table, dataset)

        monkeypatch.setattr(compaction, "guard", late)
        job = CompactionJob(
            lake, policy=CompactionPolicy(target_rows=80), executor=RayExecutor(width=3)
        )
        report = episodic(job)
        assert (len(report.rewrites), report.left) == (3, 0)
        # From one version, then the two that were left from a newer one.
        assert guarded[0] == guarded[1] < guarded[2] == guarded[3]
        assert lake.memory("a").count() == 236
        assert "m90" not in stored(lake)["chunk_id"].to_pylist()


OUT_OF_MEMORY = """
import sys, warnings
from datetime import UTC, datetime
warnings.simplefilter("ignore")
import ray
ray.init(
    address="local", _node_ip_address="127.0.0.1", num_cpus=2, include_dashboard=False,
    object_store_memory=80 * 2**20, logging_level="error", log_to_driver=False,
    _system_config={"memory_usage_threshold": 0.0001, "memory_monitor_refresh_ms": 50},
)
import ailake
from ailake.maintenance import MemoryDecayJob, RayExecutor
with ailake.connect(sys.argv[1], create=False) as lake:
    try:
        MemoryDecayJob(lake, executor=RayExecutor(retries=1)).run(datetime(2026, 2, 2, tzinfo=UTC))
    except ailake.WorkerDiedError as error:
        print(error)
"""


def test_workers_without_memory_end_the_run(base: Path, tmp_path: Path) -> None:
    """Ray itself kills them and begins again, without an end."""
    with copied(base, tmp_path / "lake") as lake:
        version = lake.table("episodic").version
        env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", OUT_OF_MEMORY, lake.uri],
            capture_output=True,
            text=True,
            env=env,
            check=False,
            timeout=300,
        )
        assert "failed 2 times because its worker died" in done.stdout, done.stderr
        assert lake.table("episodic").version == version


class Unsendable(HashingEmbedder):
    """Has what can't be pickled, as most models do."""

    def __init__(self) -> None:
        super().__init__(24)
        self.lock = Lock()


def embedded(lake: ailake.Lake) -> list[pa.Table]:
    return [
        lake.table(name).to_lance().to_table(columns=["chunk_id", column, "embedding"])
        for name, column in (("episodic", "chunk_text"), ("passages", "part"))
    ]


@pytest.mark.usefixtures("cluster", "small_shares")
@pytest.mark.parametrize("dies", ["never", "before the file", "after the file"])
def test_embedding_anew_is_that_of_one_process(base: Path, tmp_path: Path, dies: str) -> None:
    executor = dying(tmp_path / "marks", dies)
    with copied(base, tmp_path / "one") as one, copied(base, tmp_path / "ray") as many:
        for lake in (one, many):
            lake.memory("a").remember(LONG, id="long", now=NOW)
        options: Any = {"embedder": "hashing:24", "batch_size": 32}
        alone = ReembedJob(one, **options).run(NOW)
        report = ReembedJob(many, **options, executor=executor).run(NOW)
        assert report.embedded == alone.embedded > report.rows == 238
        assert (tmp_path / "marks" / "0").exists() == (dies != "never")
    with (
        ailake.connect(tmp_path / "one", create=False) as one,
        ailake.connect(tmp_path / "ray", create=False) as many,
    ):
        assert one.embedder_id == many.embedder_id == HashingEmbedder(24).id
        assert embedded(many) == embedded(one)
        assert many.verify() == ()
        for query in ("memory 100", "number 79"):
            found, wanted = (
                [(hit.text, hit.distance) for hit in lake.memory("a").recall(query, now=NOW)]
                for lake in (many, one)
            )
            assert found == wanted


@pytest.mark.usefixtures("cluster")
def test_an_embedder_that_can_not_be_sent_is_refused(base: Path, tmp_path: Path) -> None:
    with copied(base, tmp_path / "lake") as lake:
        job = ReembedJob(lake, embedder=Unsendable(), executor=RayExecutor())
        with pytest.raises(InvalidInputError, match="give embedders by name"):
            job.run(NOW)
        assert len(lake.memory("a").recall("memory 1", now=NOW)) > 0
    with copied(base, tmp_path / "other") as lake:
        job = ReembedJob(lake, embedder=HashingEmbedder(24), executor=RayExecutor())
        assert job.run(NOW).embedded == 237


@pytest.mark.parametrize("bad", [{"retries": -1}, {"cpus": 0}, {"width": 0}, {"width": True}])
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(InvalidInputError, match=f"{name}: got"):
        RayExecutor(**bad)
