"""schedule run, schedule show."""

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import plain, print_json, print_table
from ailake.core.schedule import DEFAULT, schedule_from_flags, schedule_from_toml
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from types import FrameType

    from ailake.core.schedule import Entry

_FIELDS = ("run_id", "job", "status", "seconds", "options", "report", "error")

schedule = typer.Typer(no_args_is_help=True, help="Run the jobs of a lake on cron expressions.")

ScheduleFile = Annotated[
    Path | None,
    typer.Option("--file", help="TOML with a table [jobs.JOB] each; default: maintain at 3:00."),
]
JobAt = Annotated[
    list[str] | None,
    typer.Option("--job", help="Instead: JOB=CRON such as 'maintain=0 3 * * *', repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    schedule.command()(run)
    schedule.command()(show)
    app.add_typer(schedule, name="schedule")


def run(
    *,
    lake: o.LakeUri,
    file: ScheduleFile = None,
    job: JobAt = None,
    storage_option: o.StorageOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON line on standard output for each run.")
    ] = False,
) -> None:
    """Run jobs at their times, in UTC, until SIGTERM or SIGINT; a running job is waited for.

    A second signal ends the process at once, which leaves the lake as the last commit made it.
    """
    from ailake.maintenance.schedule import Scheduler  # noqa: PLC0415

    entries = _entries(file, job)
    with o.opened_lake(lake, storage_options=storage_option) as opened, _told(as_json=as_json):
        scheduler = Scheduler(opened, entries)
        with _until_signalled() as stop:
            logging.getLogger(__name__).info(
                "running %s", "; ".join(f"{one.job} at {one.cron}" for one in entries)
            )
            scheduler.run(stop)


def show(
    *,
    file: ScheduleFile = None,
    job: JobAt = None,
    count: Annotated[int, typer.Option(min=1, max=1_000, help="Runs of each job.")] = 3,
    now: o.Now = None,
    as_json: o.AsJson = False,
) -> None:
    """Show when each job runs next, in UTC."""
    from ailake.maintenance.schedule import upcoming  # noqa: PLC0415

    found = upcoming(_entries(file, job), now=o.instant(now, name="--now"), count=count)
    if as_json:
        print_json(found)
    else:
        rows = [(one.job, one.cron, at) for one in found for at in one.at]
        print_table("schedule, in UTC", ("job", "cron", "next"), rows)


def _entries(file: Path | None, flags: list[str] | None) -> "tuple[Entry, ...]":
    from ailake.maintenance.registry import parameters  # noqa: PLC0415

    if file is not None and flags:
        raise InvalidInputError("got both --file and --job, wanted one of them")
    if flags:
        return schedule_from_flags(flags, jobs=parameters())
    if file is None:
        return DEFAULT
    if not file.is_file():
        raise InvalidInputError.of("--file", got=str(file), wanted="an existing TOML file")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError.of("--file", got=str(file), wanted="a file in UTF-8") from error
    return schedule_from_toml(text, jobs=parameters())


@contextmanager
def _until_signalled() -> Iterator[Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; the second does what it always does."""
    stop = Event()
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: "FrameType | None") -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()


@contextmanager
def _told(*, as_json: bool) -> Iterator[None]:
    """Show what the package logs: on standard error, or the runs on standard output as JSON."""
    logger = logging.getLogger("ailake")
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    if as_json:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(_Lines())
        handler.addFilter(lambda record: hasattr(record, "run_id"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Lines(logging.Formatter):
    """A run as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the fields of the record that tell of a run."""
        found = {name: getattr(record, name) for name in _FIELDS}
        return json.dumps(plain(found), ensure_ascii=False)
