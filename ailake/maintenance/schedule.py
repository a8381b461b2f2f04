"""Scheduler: the jobs of one lake, each at its times, in one process."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from ailake import clock
from ailake.core.cron import cron_fields
from ailake.core.instants import as_utc
from ailake.core.schedule import DEFAULT, Entry
from ailake.errors import EmbedderMismatchError, InvalidInputError, MissingExtraError
from ailake.lake import Lake
from ailake.maintenance.registry import RunnableJob, make_job
from ailake.maintenance.runs import record_skipped
from ailake.storage.locks import JOBS, REVIEW, VERIFY, LockedError, exclusive

if TYPE_CHECKING:
    from apscheduler.schedulers.background import BackgroundScheduler

ANOTHER_RUNS = "another process is running a job of this lake"
STILL_RUNS = "the run before has not ended"
TOO_LATE = "its time was missed by more than its grace"

# These ask a model, for hours perhaps: the others don't wait for them.
_OWN_LOCKS = {"review": REVIEW, "verify-facts": VERIFY}


@dataclass(frozen=True, slots=True)
class Upcoming:
    """When a job runs next, its jitter aside."""

    job: str
    cron: str
    at: tuple[datetime, ...]


def upcoming(
    entries: Iterable[Entry] = DEFAULT, *, now: datetime | None = None, count: int = 1
) -> list[Upcoming]:
    """Return the next ``count`` times of each job, in UTC.

    Raises:
        InvalidInputError: ``now`` is naive, or an expression is wrong or never comes.
        MissingExtraError: The extra ``schedule`` is not installed.
    """
    instant = clock.resolve_now(now)
    return [Upcoming(one.job, one.cron, _times(one, instant, count)) for one in entries]


class Scheduler:
    """Runs jobs of one lake at their times, in UTC, one after another.

    Only ``review`` and ``verify-facts``, which may wait hours for a model, run beside the others.

    A job that fails is logged, recorded in ``job_runs`` and does not keep the others from
    running. A job is recorded as skipped, and waits for its next time, where another process is
    running a job of the lake (for ``review`` and ``verify-facts``: the same one), where its own run
    before has not ended, and where it would begin later than its grace. What was due while no
    scheduler ran is not made up for.

    Args:
        lake: The lake; it stays open for as long as the scheduler runs.
        entries: The jobs; default: ``maintain`` every night at three.

    Raises:
        InvalidInputError: An option or an expression is wrong; the message names its key.
        ReadOnlyError: The lake can't be written.
        MissingExtraError: The extra ``schedule`` is not installed.
    """

    def __init__(self, lake: Lake, entries: Iterable[Entry] = DEFAULT) -> None:
        lake.store.ensure_writable()
        self._store = lake.store
        self._entries = tuple(entries)
        names = [entry.job for entry in self._entries]
        if not names or len(set(names)) < len(names):
            raise InvalidInputError.of("jobs", got=names, wanted="at least one, each once")
        self._jobs = {one.job: make_job(one.job, lake, one.options) for one in self._entries}
        self._triggers = {one.job: _trigger(one) for one in self._entries}
        # Refuses what never comes: the library would drop it.
        upcoming(self._entries)
        self._outlived: EmbedderMismatchError | None = None

    def run(self, stop: Event) -> None:
        """Run until ``stop`` is set; a job that is running then is waited for.

        Args:
            stop: Set it from anywhere, such as a handler of signals.

        Raises:
            EmbedderMismatchError: The lake was switched over to another embedder meanwhile, which
                no job of this handle can do without: connect again.
        """
        scheduler = _scheduler()
        for entry in self._entries:
            scheduler.add_job(
                partial(self._run_due, self._jobs[entry.job], entry.job, stop),
                self._triggers[entry.job],
                id=entry.job,
                executor=entry.job if entry.job in _OWN_LOCKS else "default",
                name=entry.job,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=entry.grace,
            )
        scheduler.add_listener(self._on_skipped, _skipping_events())
        scheduler.start()
        try:
            stop.wait()
        finally:
            stop.set()
            scheduler.shutdown(wait=True)
        if self._outlived is not None:
            raise self._outlived

    def _run_due(self, job: RunnableJob, name: str, stop: Event) -> None:
        if stop.is_set():
            return
        with ExitStack() as held:
            try:
                lock = _OWN_LOCKS.get(name, JOBS)
                held.enter_context(exclusive(self._store.place, lock, wait=False))
            except LockedError:
                record_skipped(self._store, name, job.options, why=ANOTHER_RUNS)
                return
            try:
                job.run()
            except EmbedderMismatchError as error:
                self._outlived = error
                stop.set()
                raise

    def _on_skipped(self, event: Any) -> None:
        from apscheduler.events import EVENT_JOB_MISSED  # noqa: PLC0415 (an extra)

        why = TOO_LATE if event.code == EVENT_JOB_MISSED else STILL_RUNS
        options = self._jobs[event.job_id].options
        record_skipped(self._store, event.job_id, options, why=why)


def _scheduler() -> "BackgroundScheduler":
    from apscheduler.executors.pool import ThreadPoolExecutor  # noqa: PLC0415 (an extra)
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    # One thread: jobs of one lake exclude each other, and who is second here has to wait, not to
    # be skipped.
    executors = {name: ThreadPoolExecutor(1) for name in ("default", *_OWN_LOCKS)}
    return BackgroundScheduler(executors=executors, timezone=UTC)


def _skipping_events() -> int:
    from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED  # noqa: PLC0415

    return int(EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)


def _trigger(entry: Entry, *, jitter: int | None = None) -> Any:
    try:
        from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtraError.of("a schedule", extra="schedule") from error
    name = f"jobs.{entry.job}.cron"
    fields = cron_fields(entry.cron, name=name)
    chance = entry.jitter if jitter is None else jitter
    try:
        return CronTrigger(**fields, timezone=UTC, jitter=chance or None)
    except ValueError as error:
        raise InvalidInputError(f"{name}: got {entry.cron!r}: {error}") from error


def _times(entry: Entry, now: datetime, count: int) -> tuple[datetime, ...]:
    trigger = _trigger(entry, jitter=0)
    times: list[datetime] = []
    while len(times) < count:
        last = times[-1] if times else None
        found = trigger.get_next_fire_time(last, last or now)
        if found is None:
            wanted = "an expression that comes some day"
            raise InvalidInputError.of(f"jobs.{entry.job}.cron", got=entry.cron, wanted=wanted)
        times.append(as_utc(found, name="time"))
    return tuple(times)
