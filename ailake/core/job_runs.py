"""Runs of jobs: what is kept of each, as values and as rows. Pure."""

import dataclasses
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any

import pyarrow as pa

from ailake.core.records import Scope
from ailake.core.rows import nanoseconds
from ailake.core.schema import arrow_schema, table_spec
from ailake.errors import AilakeError, InvalidInputError, NotFoundError, ProviderError

COLUMNS = tuple(column.name for column in table_spec("job_runs").columns)

# Strings that say what a figure is about. No other is kept: it could be of a memory.
_NAMES = frozenset({"table", "kind"})
_MOST_ERROR = 500
_LEFT_OUT = object()

# Where the engine's errors come from: its packages, and what calls its compiled parts.
_ENGINE = ("lance.", "lancedb.", "pyarrow.", "ailake.storage.", "ailake.maintenance.")
# It hands on the errors of workers elsewhere, whose frames are lost on the way.
_HANDED_ON = "ailake.maintenance.distributed"


class RunStatus(StrEnum):
    """How a run ended; one that is killed leaves no row.

    ``skipped`` is for what a scheduler did not begin: another process was running a job, the run
    before had not ended, or its time was missed by more than the grace.
    """

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job.

    Attributes:
        id: Its id.
        job: The job, such as ``decay``.
        status: How it ended.
        started_at: When it began, by the clock of its machine.
        finished_at: When it ended.
        options: What the job was told; figures and the names of enums alone.
        report: What it did, the same way; empty unless done.
        error: Why it failed or was skipped; empty where done.
        host: The machine.
        pid: The process.
    """

    id: str
    job: str
    status: RunStatus
    started_at: datetime
    finished_at: datetime
    options: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    host: str = ""
    pid: int = 0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.finished_at - self.started_at).total_seconds()


def figures(value: object) -> dict[str, Any]:
    """Return what JSON can hold of options or a report, without what belongs to a memory.

    Numbers, instants (ISO 8601), durations (seconds), enums and the names of tables and kinds
    stay; dataclasses become objects of what stays in them. Of lists of strings, of lists with
    something of a scope in them, and of mappings whose keys are no enums only the length stays.
    Other strings, and scopes, are left out: they could be texts, ids or people. So a row may
    outlive every erasure.

    Args:
        value: A dataclass, or a mapping by the names of options.
    """
    kept = _object(value) if isinstance(value, Mapping) else _kept(value)
    return kept if isinstance(kept, dict) else {}


def _kept(value: object) -> Any:
    for kind, convert in _PLAIN.items():
        if isinstance(value, kind):
            return convert(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Scope):
        return _object({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
    if isinstance(value, list | tuple | set | frozenset):
        return _list(list(value))
    return _LEFT_OUT


def _object(values: Mapping[Any, object]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        kept = value if name in _NAMES and isinstance(value, str) else _kept(value)
        if kept is not _LEFT_OUT:
            found[name.rstrip("_")] = kept
    return found


# In this order: enums of texts and of numbers are texts and numbers, too.
_PLAIN: dict[Any, Callable[[Any], Any]] = {
    Enum: lambda value: value.value,
    datetime: datetime.isoformat,
    timedelta: timedelta.total_seconds,
    bool | int | float | None: lambda value: value,
    Mapping: lambda value: _object(value) if _by_enum(value) else len(value),
}


def _by_enum(values: Mapping[Any, object]) -> bool:
    return all(isinstance(key, Enum) for key in values)


def _list(values: Sequence[object]) -> Any:
    kept = [_kept(value) for value in values]
    if any(one is _LEFT_OUT for one in kept) or any(map(_is_scoped, values)):
        return len(values)
    return kept


def _is_scoped(value: object) -> bool:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    return any(isinstance(getattr(value, one.name), Scope) for one in dataclasses.fields(value))


def error_text(error: BaseException) -> str:
    """Return an error's kind and message, at most 500 characters.

    Only the kind where it may quote a memory: where it shows a value that was given, or where
    neither this package, the system nor the engine has raised it, but a model, for example. Of a
    provider's it is the message without what the provider said.
    """
    kind = type(error).__name__
    if isinstance(error, ProviderError):
        return f"{kind}: {error.args[0]}"[:_MOST_ERROR]
    return f"{kind}: {error}"[:_MOST_ERROR] if _quotes_nothing(error) else kind


def _quotes_nothing(error: BaseException) -> bool:
    if isinstance(error, AilakeError):
        return not isinstance(error, InvalidInputError | NotFoundError)
    if isinstance(error, OSError) and error.errno is not None:
        return True
    return type(error) in {OSError, RuntimeError} and _is_of_the_engine(error)


def _is_of_the_engine(error: BaseException) -> bool:
    """Tell it by who has raised it, or called what has no Python frame."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raised_in = frames[-1].f_globals.get("__name__", "") if frames else ""
    if raised_in == _HANDED_ON:
        return False
    return f"{raised_in}.".startswith(_ENGINE)


def run_rows(runs: Sequence[JobRun], *, dim: int, embedder_id: str) -> pa.Table:
    """Return runs as rows of ``job_runs``."""
    schema = arrow_schema("job_runs", dim=dim, embedder_id=embedder_id)
    return pa.Table.from_pylist([_row(run) for run in runs], schema=schema)


def _row(run: JobRun) -> dict[str, object]:
    return {
        "run_id": run.id,
        "job": run.job,
        "status": run.status.value,
        "started_at": nanoseconds(run.started_at),
        "finished_at": nanoseconds(run.finished_at),
        "options": json.dumps(run.options),
        "report": json.dumps(run.report),
        "error": run.error,
        "host": run.host,
        "pid": run.pid,
    }
