"""The scheduler: jobs at their times, one after another, until it is told to stop."""

import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from ran import runs

import ailake
from ailake.cli import main
from ailake.cli.scheduling import _told, _until_signalled
from ailake.clock import utc_now
from ailake.core.job_runs import RunStatus
from ailake.core.schedule import Entry
from ailake.maintenance import MaintainJob, ReembedJob, ReviewJob
from ailake.maintenance.runs import record_skipped
from ailake.maintenance.schedule import ANOTHER_RUNS, STILL_RUNS, TOO_LATE, Scheduler
from ailake.storage.locks import DECAY, JOBS, REVIEW, exclusive, is_held

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
YEARLY = "0 3 1 1 *"
PATIENCE = 120.0


class StopAfter(logging.Handler):
    """Stops a scheduler as soon as so many runs have ended, or were skipped for a reason."""

    def __init__(self, count: int, why: str = "") -> None:
        super().__init__()
        self.left, self.why, self.stop = count, why, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "run_id") and self.why in {"", vars(record)["error"]}:
            self.left -= 1
            if not self.left:
                self.stop.set()


@pytest.fixture
def stopping() -> Iterator[Any]:
    handlers: list[StopAfter] = []
    logger = logging.getLogger("ailake.maintenance.runs")
    logger.setLevel(logging.INFO)

    def after(count: int, why: str = "") -> threading.Event:
        handlers.append(StopAfter(count, why))
        logger.addHandler(handlers[-1])
        return handlers[-1].stop

    yield after
    logger.setLevel(logging.NOTSET)
    for handler in handlers:
        logger.removeHandler(handler)


Stopping = Callable[..., threading.Event]


def due(lake: ailake.Lake, *entries: Entry, at: datetime | None = None) -> Scheduler:
    """A scheduler whose jobs are due at once, in this order."""
    scheduler = Scheduler(lake, entries)
    moment = utc_now() if at is None else at
    for n, entry in enumerate(entries):
        first = DateTrigger(moment + n * timedelta(milliseconds=1))
        scheduler._triggers[entry.job] = OrTrigger([first, scheduler._triggers[entry.job]])
    return scheduler


def test_jobs_run_and_a_failing_one_does_not_stop_the_others(
    lake: ailake.Lake, stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ailake.maintenance.decay.rewrite_columns", fail)
    entries = [
        Entry("decay", YEARLY),
        Entry("prune", YEARLY, options={"keep": 7}),
        Entry("index", YEARLY),
    ]
    due(lake, *entries).run(stopping(3))
    found = {run.job: run for run in runs(lake)}
    assert {job: run.status.value for job, run in found.items()} == {
        "decay": "failed",
        "prune": "done",
        "index": "done",
    }
    assert "No space left" in found["decay"].error
    assert found["prune"].options["retention"]["keep"] == 7


def test_a_job_is_skipped_while_another_process_runs_one(
    lake: ailake.Lake, stopping: Stopping
) -> None:
    with exclusive(lake.store.location.root, JOBS):
        due(lake, Entry("decay", YEARLY)).run(stopping(1))
    (run,) = runs(lake)
    assert (run.job, run.status, run.error) == ("decay", RunStatus.SKIPPED, ANOTHER_RUNS)


def test_a_job_is_skipped_where_it_is_too_late(lake: ailake.Lake, stopping: Stopping) -> None:
    late = due(lake, Entry("decay", YEARLY, grace=1), at=utc_now() - timedelta(hours=1))
    late.run(stopping(1))
    (run,) = runs(lake)
    assert (run.status, run.error) == (RunStatus.SKIPPED, TOO_LATE)
    due(lake, Entry("decay", YEARLY), at=utc_now() - timedelta(minutes=30)).run(stopping(1))
    assert runs(lake)[-1].status is RunStatus.DONE


def test_a_job_does_not_overlap_itself(
    lake: ailake.Lake, stopping: Stopping, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(lake, [Entry("decay", YEARLY)])
    scheduler._triggers["decay"] = CronTrigger(second="*", timezone=UTC)
    stop = stopping(1, why=STILL_RUNS)
    with exclusive(lake.store.location.root, DECAY):
        thread = threading.Thread(target=scheduler.run, args=(stop,), daemon=True)
        thread.start()
        assert stop.wait(PATIENCE)
    thread.join()
    assert "instances reached (1)" in caplog.text
    found = [run for run in runs(lake) if run.status is not RunStatus.SKIPPED]
    assert [run.status for run in found] == [RunStatus.DONE]


def test_a_running_job_is_waited_for_and_what_is_due_is_not_begun(lake: ailake.Lake) -> None:
    root = lake.store.location.root
    assert root is not None
    stop = threading.Event()
    scheduler = due(lake, Entry("decay", YEARLY), Entry("index", YEARLY))
    thread = threading.Thread(target=scheduler.run, args=(stop,), daemon=True)
    with exclusive(root, DECAY):
        thread.start()
        while not is_held(root, JOBS):
            assert thread.is_alive()
            sleep(0.01)
        stop.set()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()
    assert [(run.job, run.status) for run in runs(lake)] == [("decay", RunStatus.DONE)]


def test_the_lock_of_jobs_is_held_again_by_its_thread_alone(lake: ailake.Lake) -> None:
    root = lake.store.location.root
    assert root is not None
    entered = threading.Event()

    def enter() -> None:
        with exclusive(root, JOBS):
            entered.set()

    with exclusive(root, JOBS), exclusive(root, JOBS, wait=False):
        thread = threading.Thread(target=enter, daemon=True)
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(PATIENCE)
    thread.join()
    assert not is_held(root, JOBS)


def test_a_review_runs_beside_the_other_jobs(lake: ailake.Lake, stopping: Stopping) -> None:
    root = lake.store.location.root
    with exclusive(root, JOBS):
        due(lake, Entry("review", YEARLY)).run(stopping(1))
    with exclusive(root, REVIEW):
        due(lake, Entry("review", YEARLY)).run(stopping(1))
    assert [(run.status, run.error) for run in runs(lake)] == [
        (RunStatus.DONE, ""),
        (RunStatus.SKIPPED, ANOTHER_RUNS),
    ]


def test_other_jobs_run_while_a_review_waits(lake: ailake.Lake, stopping: Stopping) -> None:
    decayed = stopping(1)
    scheduler = due(lake, Entry("review", YEARLY), Entry("decay", YEARLY))
    waited: list[bool] = []

    class Waiting(ReviewJob):
        def run(self, *_: object, **__: object) -> Any:
            waited.append(decayed.wait(PATIENCE))

    scheduler._jobs["review"] = Waiting(lake)
    scheduler.run(decayed)
    assert waited == [True]
    assert [(run.job, run.status) for run in runs(lake)] == [("decay", RunStatus.DONE)]


def test_a_scheduler_ends_where_the_lake_has_got_another_embedder(
    lake: ailake.Lake, stopping: Stopping
) -> None:
    scheduler = due(lake, Entry("maintain", YEARLY))
    with ailake.connect(lake.uri, create=False) as other:
        ReembedJob(other, embedder="hashing:24").run(NOW)
    with pytest.raises(ailake.EmbedderMismatchError, match="connect again"):
        scheduler.run(stopping(9))
    with ailake.connect(lake.uri, create=False) as again:
        assert runs(again)[-1].status is RunStatus.FAILED


def test_a_schedule_that_is_wrong_is_refused_at_once(lake: ailake.Lake) -> None:
    for entries, told in [
        ([Entry("prune", YEARLY, options={"min_weight": 2.0})], r"jobs\.prune\.min_weight: got 2"),
        ([Entry("decay", "61 3 * * *")], r"jobs\.decay\.cron"),
        ([Entry("decay", "0 3 31 2 *")], r"some day"),
        ([Entry("decay", YEARLY, options={"curve": "daily", "half_life": 3.0})], "no curve"),
        ([], "at least one"),
        ([Entry("decay", YEARLY)] * 2, "each once"),
    ]:
        with pytest.raises(ailake.InvalidInputError, match=told):
            Scheduler(lake, entries)
    assert runs(lake) == []
    # What is later than any date.
    with pytest.raises(ailake.InvalidInputError, match=r"jobs\.decay\.jitter.* \(a year\)"):
        Entry("decay", YEARLY, jitter=10**14)
    with pytest.raises(ailake.InvalidInputError, match=r"jobs\.decay\.grace.* \(a year\)"):
        Entry("decay", YEARLY, grace=10**14)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_and_the_second_does_what_it_always_does(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    with _until_signalled() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


def ailake_says(
    patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str]:
    patch.setattr(sys, "argv", ["ailake", *arguments])
    patch.setenv("COLUMNS", "200")
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    told = capture.readouterr()
    return code, told.out + told.err


def test_schedule_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schedule.toml"
    file.write_text("[jobs.prune]\ncron = '30 4 * * sun'\nkeep = 3\n")
    at = ["--now", NOW.isoformat()]
    code, told = ailake_says(
        monkeypatch, capsys, "schedule", "show", "--file", str(file), "--json", *at
    )
    assert code == 0
    times = [f"2026-02-{day}T04:30:00+00:00" for day in ("01", "08", "15")]
    assert json.loads(told) == [{"job": "prune", "cron": "30 4 * * sun", "at": times}]
    code, told = ailake_says(monkeypatch, capsys, "schedule", "show", "--count", "1", *at)
    assert "maintain" in told
    assert "2026-02-01 03:00" in told
    latin = tmp_path / "latin.toml"
    latin.write_bytes("# täglich".encode("latin-1"))
    for wrong, message in [
        (["--file", str(latin)], "wanted a file in UTF-8"),
        (["--file", str(file), "--job", "decay=0 3 * * *"], "wanted one of them"),
        (["--file", "nothing.toml"], "wanted an existing TOML file"),
        (["--job", "nothing=0 3 * * *"], "got 'nothing'"),
        (["--job", "decay=99 3 * * *"], "jobs.decay.cron"),
    ]:
        code, told = ailake_says(monkeypatch, capsys, "schedule", "show", *wrong)
        assert (code, message in told) == (2, True)


def test_runs_as_lines_of_json(lake: ailake.Lake, capsys: pytest.CaptureFixture[str]) -> None:
    with _told(as_json=True):
        MaintainJob(lake).run(NOW)
        record_skipped(lake.store, "decay", {"recency": None}, why=ANOTHER_RUNS)
        logging.getLogger("ailake.storage.table").warning("something else")
    done, skipped = map(json.loads, capsys.readouterr().out.splitlines())
    assert (done["job"], done["status"], done["report"]["decay"]["rows"]) == ("maintain", "done", 0)
    assert skipped["error"] == ANOTHER_RUNS
    assert [run.id for run in runs(lake)] == [done["run_id"], skipped["run_id"]]


@pytest.mark.slow
def test_schedule_run_ends_well_with_a_signal(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:8"):
        pass
    command = [sys.executable, "-W", "error", "-m", "ailake", "schedule", "run"]
    options = ["--lake", str(tmp_path / "lake"), "--job", f"decay={YEARLY}"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert f"INFO running decay at {YEARLY}" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.stderr.read() == ""
