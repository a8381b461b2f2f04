"""Which jobs run when: schedules as they are written in TOML or as flags, checked. Pure."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Self

from ailake.core.cron import cron_fields
from ailake.errors import InvalidInputError

_TIMING = ("cron", "jitter", "grace")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option that a job takes.

    Attributes:
        type: bool, int, float or str; an int is a float, too, and a bool is neither.
        choices: The texts that it can be; empty for any.
    """

    type: type
    choices: tuple[str, ...] = ()

    def check(self, value: object, *, name: str) -> Any:
        """Return the value as this type.

        Raises:
            InvalidInputError: It is of another one.
        """
        if self.type is float and type(value) is int:
            return float(value)
        if isinstance(value, float) and not isfinite(value):
            raise InvalidInputError.of(name, got=value, wanted="a finite number")
        if type(value) is not self.type or (self.choices and value not in self.choices):
            wanted = " or ".join(map(repr, self.choices)) or _WORDS[self.type]
            raise InvalidInputError.of(name, got=value, wanted=wanted)
        return value


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_SECONDS = Parameter(int)
_MOST_SECONDS = 366 * 86_400

Parameters = Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class Entry:
    """When one job runs, and with what options; all of it in UTC.

    Attributes:
        job: Its name, such as ``maintain``.
        cron: Minute, hour, day of the month, month and day of the week, as in a crontab.
        jitter: It runs up to so many seconds later, by chance; in seconds.
        grace: It still runs so late, where the machine slept or another job took long; later than
            that it is skipped; in seconds.
        options: What it is made with.

    Raises:
        InvalidInputError: A value is wrong; the message names its key.
    """

    job: str
    cron: str
    jitter: int = 0
    grace: int = 3_600
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        key = f"jobs.{self.job}"
        cron_fields(self.cron, name=f"{key}.cron")
        for name, least in (("jitter", 0), ("grace", 1)):
            seconds = getattr(self, name)
            if not least <= _SECONDS.check(seconds, name=f"{key}.{name}") <= _MOST_SECONDS:
                wanted = f"seconds from {least} to {_MOST_SECONDS} (a year)"
                raise InvalidInputError.of(f"{key}.{name}", got=seconds, wanted=wanted)

    @classmethod
    def of(cls, job: str, table: object, *, known: Parameters) -> Self:
        """Read the table ``[jobs.<job>]`` of a schedule.

        Args:
            job: The job.
            table: Its keys: ``cron``, ``jitter``, ``grace``, and options of the job.
            known: The options that the job takes.

        Raises:
            InvalidInputError: A key is unknown or missing, or a value is wrong.
        """
        key = f"jobs.{job}"
        if not isinstance(table, Mapping):
            raise InvalidInputError.of(key, got=table, wanted="a table such as cron = '0 3 * * *'")
        if "cron" not in table:
            raise InvalidInputError(f"{key}.cron: got none, wanted one such as '0 3 * * *'")
        _refuse_unknown(table, (*_TIMING, *sorted(known)), name=key)
        options = {
            name: known[name].check(value, name=f"{key}.{name}")
            for name, value in table.items()
            if name not in _TIMING
        }
        timing = {name: table[name] for name in _TIMING if name in table}
        return cls(job, **timing, options=options)


# What a lake needs where nobody says otherwise.
DEFAULT = (Entry("maintain", "0 3 * * *"),)


def schedule_from_toml(text: str, *, jobs: Mapping[str, Parameters]) -> tuple[Entry, ...]:
    """Read a schedule: a table ``[jobs.<job>]`` for each job that is to run.

    Args:
        text: The file's text.
        jobs: The jobs that there are, each with the options that it takes.

    Raises:
        InvalidInputError: Not TOML, no job, or a key or value of one is wrong.
    """
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"schedule: not TOML: {error}") from error
    _refuse_unknown(read, ("jobs",), name="schedule")
    tables = read.get("jobs")
    if not isinstance(tables, dict) or not tables:
        raise InvalidInputError.of("jobs", got=tables, wanted="a table such as [jobs.maintain]")
    _refuse_unknown(tables, sorted(jobs), name="jobs")
    return tuple(Entry.of(job, table, known=jobs[job]) for job, table in tables.items())


def schedule_from_flags(
    flags: Iterable[str], *, jobs: Mapping[str, Parameters]
) -> tuple[Entry, ...]:
    """Read a schedule of flags such as ``maintain=0 3 * * *``.

    Raises:
        InvalidInputError: Not of that form, no such job, one named twice, or a wrong expression.
    """
    tables: dict[str, object] = {}
    for flag in flags:
        job, sign, cron = flag.partition("=")
        if not sign or job in tables:
            wanted = "JOB=CRON such as 'maintain=0 3 * * *', each job once"
            raise InvalidInputError.of("--job", got=flag, wanted=wanted)
        tables[job] = {"cron": cron}
    _refuse_unknown(tables, sorted(jobs), name="--job")
    return tuple(Entry.of(job, table, known={}) for job, table in tables.items())


def _refuse_unknown(table: Mapping[str, object], known: Iterable[str], *, name: str) -> None:
    for key in table:
        if key not in known:
            raise InvalidInputError.of(name, got=key, wanted=f"one of {', '.join(known)}")
