"""Schedules as they are written: cron expressions, TOML, flags, and what is refused."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ailake
from ailake.core.cron import cron_fields
from ailake.core.schedule import (
    DEFAULT,
    Entry,
    Parameter,
    schedule_from_flags,
    schedule_from_toml,
)
from ailake.maintenance.registry import JOBS, make_job, parameters
from ailake.maintenance.schedule import upcoming

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    first, last = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    step = draw(st.integers(1, 3))
    several = st.lists(st.integers(low, high), min_size=1, max_size=3, unique=True)
    forms = ["*", "*/2", str(first), ",".join(map(str, draw(several)))]
    if last - first >= step:
        forms += [f"{first}-{last}", f"{first}-{last}/{step}"]
    return draw(st.sampled_from(forms))


weekdays = fields(0, 7) | st.sampled_from([*NAMES, "mon-fri", "TUE,SAT", "1-3,sun"])


@settings(max_examples=50)
@given(
    st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), weekdays),
    st.integers(0, 10**6),
)
def test_times_are_those_of_cron(parts: tuple[str, ...], after: int) -> None:
    """Another library that reads crontabs agrees, Sundays included."""
    assume(parts[2].startswith("*") or parts[4].startswith("*"))
    expression = " ".join(parts)
    start = NOW + timedelta(minutes=after)
    (found,) = upcoming([Entry("decay", expression)], now=start, count=4)
    # Ours may be now, theirs is later.
    theirs = croniter(
        expression, start - timedelta(seconds=1), implement_cron_bug=True, day_or=False
    )
    assert list(found.at) == [theirs.get_next(datetime) for _ in found.at]


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", "sun"), ("7", "sun"), ("1-5", "mon,tue,wed,thu,fri"), ("5-7", "sun,fri,sat"),
        ("fri-sun", "sun,fri,sat"), ("*/3", "sun,wed,sat"), ("4/2", "thu,sat"), ("Mon", "mon"),
    ],
)  # fmt: skip
def test_weekdays_have_the_numbers_of_cron(field: str, days: str) -> None:
    assert cron_fields(f"0 3 * * {field}", name="x")["day_of_week"] == days


TOML = """
[jobs.maintain]
cron = "0 3 * * *"
half_life = 30
keep = 10000
policy = "seed"

[jobs.compact]
cron = "30 4 * * sun"
jitter = 300
grace = 60
"""


def test_a_schedule_in_toml() -> None:
    assert schedule_from_toml(TOML, jobs=parameters()) == (
        Entry(
            "maintain",
            "0 3 * * *",
            options={"half_life": 30.0, "keep": 10_000, "policy": "seed"},
        ),
        Entry("compact", "30 4 * * sun", jitter=300, grace=60),
    )
    flags = ["maintain=0 3 * * *", "prune=*/5 * * * *"]
    assert schedule_from_flags(flags, jobs=parameters()) == (
        *DEFAULT,
        Entry("prune", "*/5 * * * *"),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs", "schedule: not TOML"),
        ("", "jobs: got None, wanted a table such as"),
        ("jobs = 3", "jobs: got 3"),
        ("[job.maintain]", "schedule: got 'job', wanted one of jobs"),
        ("[jobs.mantain]", "jobs: got 'mantain', wanted one of compact, decay, index, maintain"),
        ("jobs.decay = '0 3 * * *'", "jobs.decay: got '0 3 * * *', wanted a table"),
        ("[jobs.decay]", "jobs.decay.cron: got none"),
        ("[jobs.decay]\ncron = 3", "jobs.decay.cron: got 3, wanted five fields"),
        ("[jobs.decay]\ncron = '0 3 * *'", "jobs.decay.cron: got '0 3 * *', wanted five fields"),
        ("[jobs.decay]\ncron = '0 3 1 * mon'", "jobs.decay.cron: got '0 3 1 * mon', wanted days"),
        ("[jobs.decay]\ncron = '0 3 * * 8'", "jobs.decay.cron: got '8', wanted days of the week"),
        ("[jobs.decay]\ncron = '0 3 * * *'\nkeep = 3", "jobs.decay: got 'keep', wanted one of cr"),
        ("[jobs.prune]\ncron = '0 3 * * *'\nkeep = 3.5", "jobs.prune.keep: got 3.5, wanted a whol"),
        ("[jobs.prune]\ncron = '0 3 * * *'\nkeep = true", "jobs.prune.keep: got True"),
        ("[jobs.prune]\ncron = '0 3 * * *'\nmin_weight = '1'", "min_weight: got '1', wanted a num"),
        ("[jobs.prune]\ncron = '0 3 * * *'\npolicy = 'x'", "got 'x', wanted 'default' or 'seed'"),
        ("[jobs.index]\ncron = '0 3 * * *'\nrebuild = 1", "rebuild: got 1, wanted true or false"),
        ("[jobs.decay]\ncron = '0 3 * * *'\njitter = -1", "jobs.decay.jitter: got -1"),
        ("[jobs.decay]\ncron = '0 3 * * *'\ngrace = 0", "jobs.decay.grace: got 0"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(ailake.InvalidInputError) as error:
        schedule_from_toml(text, jobs=parameters())
    assert told in str(error.value)


@pytest.mark.parametrize("flag", ["maintain", "mantain=0 3 * * *", "maintain=0 3 * *"])
def test_wrong_flags(flag: str) -> None:
    with pytest.raises(ailake.InvalidInputError):
        schedule_from_flags([flag], jobs=parameters())
    with pytest.raises(ailake.InvalidInputError, match="each job once"):
        schedule_from_flags(["decay=0 3 * * *"] * 2, jobs=parameters())


def test_what_the_library_refuses_is_named_too() -> None:
    for wrong, told in (("61 3 * * *", "61"), ("0 3 31 2 *", "some day"), ("x 3 * * *", "x")):
        with pytest.raises(ailake.InvalidInputError, match=r"jobs\.decay\.cron") as error:
            upcoming([Entry("decay", wrong)], now=NOW)
        assert told in str(error.value)
    with pytest.raises(ailake.InvalidInputError, match="timezone-aware"):
        upcoming(now=NOW.replace(tzinfo=None))


def test_the_options_of_jobs_are_those_that_a_file_can_hold() -> None:
    models = {"review", "verify-facts"}
    assert set(parameters()) == models | {"compact", "decay", "index", "maintain", "prune"}
    assert parameters()["prune"] == {
        "min_weight": Parameter(float),
        "keep": Parameter(int),
        "policy": Parameter(str, ("default", "seed")),
    }


class Sweep:
    """A job with options that a file can hold, and one that it can't."""

    def __init__(
        self,
        lake: ailake.Lake,
        *,
        days: float = 1.0,
        deep: bool = False,
        scopes: Sequence[ailake.Scope] | None = None,
    ) -> None:
        self.options = {"lake": lake, "days": days, "deep": deep, "scopes": scopes}


def test_a_job_is_one_line_in_the_registry(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBS, "sweep", Sweep)
    assert parameters()["sweep"] == {"days": Parameter(float), "deep": Parameter(bool)}
    text = "[jobs.sweep]\ncron = '0 3 * * *'\ndays = 3"
    (entry,) = schedule_from_toml(text, jobs=parameters())
    made = make_job(entry.job, lake, entry.options)
    assert made.options == {"lake": lake, "days": 3.0, "deep": False, "scopes": None}


def test_the_documented_schedule() -> None:
    told = (Path(__file__).parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", told, re.DOTALL)
    entries = schedule_from_toml(toml, jobs=parameters())
    assert [entry.job for entry in entries] == ["maintain", "prune"]
    for job, known in parameters().items():
        (row,) = re.findall(rf"^\| `{job}` \|([^|]*)\|$", told, re.MULTILINE)
        named = set(re.findall(r"`(\w+)`", row)) - set(parameters())
        assert named == ({"keep_versions"} if job == "maintain" else set(known))


def test_a_scheduled_review_asks_the_model_that_is_named(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    text = """
        [jobs.review]
        cron = "0 4 * * *"
        model = "m"
        base_url = "http://127.0.0.1:1"

        [jobs.verify-facts]
        cron = "0 5 * * *"
    """
    review, verify = schedule_from_toml(text, jobs=parameters())
    asking = make_job(review.job, lake, review.options)
    assert asking.options["reviewed"]
    assert not make_job(verify.job, lake, verify.options).options["verified"]
