"""What all jobs share: each run is recorded in ``job_runs`` and logged, in this one place."""

import logging
import os
import platform
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ailake import clock
from ailake.core.job_runs import JobRun, RunStatus, error_text, figures
from ailake.errors import AilakeError, InvalidInputError, ReadOnlyError
from ailake.storage.job_runs import append_run
from ailake.storage.store import Store
from ailake.telemetry import Operation, Told, operation

logger = logging.getLogger(__name__)

_LEVELS = {
    RunStatus.DONE: logging.INFO,
    RunStatus.SKIPPED: logging.WARNING,
    RunStatus.FAILED: logging.ERROR,
}

# The jobs that another one consists of leave no rows of their own.
_is_within: ContextVar[bool] = ContextVar("_is_within", default=False)


class Job(Protocol):
    """What a job has beside ``run``."""

    _store: Store

    @property
    def options(self) -> Mapping[str, object]:
        """What it was made with; kept as ``figures`` has it."""


J = TypeVar("J", bound=Job)
P = ParamSpec("P")
R = TypeVar("R")
_Run = Callable[Concatenate[J, P], R]


def recorded(name: str) -> Callable[[_Run[J, P, R]], _Run[J, P, R]]:
    """Return a decorator of a job's ``run``: each run leaves a row in ``job_runs`` as it ends.

    A dry run leaves none, nor does a job that is part of another one, nor what was refused: bad
    input, a lake that can't be written. Where the row can't be written, that is logged as an
    error, and the outcome of the run stays what it is.
    """

    def decorate(run: _Run[J, P, R]) -> _Run[J, P, R]:
        @wraps(run)
        def record(job: J, /, *args: P.args, **kwargs: P.kwargs) -> R:
            is_dry = bool(kwargs.get("dry_run"))
            with operation(f"ailake.job.{name}") as traced:
                begun = _Begun(job._store, name, job.options, traced, is_dry=is_dry)  # noqa: SLF001
                token = _is_within.set(True)
                try:
                    report = run(job, *args, **kwargs)
                except (InvalidInputError, ReadOnlyError):
                    raise
                except BaseException as error:
                    begun.end(RunStatus.FAILED, error=error_text(error))
                    raise
                finally:
                    _is_within.reset(token)
                begun.end(RunStatus.DONE, report=figures(report))
            return report

        return record

    return decorate


def record_skipped(store: Store, name: str, options: Mapping[str, object], *, why: str) -> None:
    """Record that a job was due and did not begin."""
    with operation(f"ailake.job.{name}") as traced:
        _Begun(store, name, options, traced).end(RunStatus.SKIPPED, error=why)


@dataclass(slots=True)
class _Begun:
    """A run that has begun."""

    store: Store
    job: str
    options: Mapping[str, object]
    traced: Operation
    is_dry: bool = False
    is_part: bool = field(default_factory=_is_within.get)
    started_at: datetime = field(default_factory=clock.utc_now)

    def end(
        self, status: RunStatus, *, report: Mapping[str, Any] | None = None, error: str = ""
    ) -> None:
        run = JobRun(
            id=clock.new_id(),
            job=self.job,
            status=status,
            started_at=self.started_at,
            finished_at=clock.utc_now(),
            options=figures(self.options),
            report=report or {},
            error=error,
            host=platform.node(),
            pid=os.getpid(),
        )
        if not (self.is_dry or self.is_part):
            _append_if_possible(self.store, run)
        self.traced.tell(_told(run, is_dry=self.is_dry))
        self._log(run)

    def _log(self, run: JobRun) -> None:
        fields = {
            "run_id": run.id, "job": run.job, "status": run.status.value, "seconds": run.seconds,
            "dry_run": self.is_dry, "options": run.options, "report": run.report,
            "error": run.error,
        }  # fmt: skip
        level = logging.DEBUG if self.is_part else _LEVELS[run.status]
        told = f": {run.error}" if run.error else ""
        logger.log(
            level, "job %s %s in %.3f s%s", run.job, run.status, run.seconds, told, extra=fields
        )


def _told(run: JobRun, *, is_dry: bool) -> Told:
    labels = {"ailake.status": run.status.value, "ailake.dry_run": is_dry}
    numbers = {
        f"ailake.report.{name}": value
        for name, value in run.report.items()
        if isinstance(value, int | float)
    }
    return Told(labels, {"ailake.run_id": run.id, **numbers})


def _append_if_possible(store: Store, run: JobRun) -> None:
    try:
        append_run(store, run)
    except (OSError, RuntimeError, ValueError, AilakeError):
        logger.exception("the run of %s could not be recorded", run.job)
