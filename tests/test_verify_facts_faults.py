"""Decisions about facts that are interrupted, or outlive what they were about."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import forked
import pytest
from contested import LATER, NOW, always, believed, lake_rows, queued, run, works, year

import ailake
from ailake import FactTriple
from ailake.maintenance import FactVerifyJob
from ailake.storage import facts as stored
from ailake.storage.table import Table


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return queued(lake)


@pytest.fixture
def contested(lake: ailake.Lake, facts: ailake.Facts) -> ailake.Facts:
    """Acme since 2015, and Beta since 2020, which waits."""
    facts.assert_([works("Acme", 2015)], now=NOW)
    (decision,) = facts.assert_([works("Beta", 2020)], now=NOW)
    assert (decision.kind, decision.loser_fact_id) == ("supersede", lake_rows(facts)[0]["fact_id"])
    assert lake.verify() == ()
    return facts


KILLED = """
import os, sys
from datetime import UTC, datetime
import ailake
from ailake.core.verifying import FactAnswer
from ailake.maintenance import FactVerifyJob
from ailake.storage import facts as stored

class Rule:
    id = "rule"

    def verify(self, case):
        return FactAnswer("reject_new", "so")

with ailake.connect(sys.argv[1]) as lake:
    stored.exchange = lambda *args, **options: os.kill(os.getpid(), 9)
    FactVerifyJob(lake, verifier=Rule()).run(datetime(2026, 2, 1, 12, tzinfo=UTC))
"""


class DiedError(BaseException):
    """Stands for a kill: nobody catches it."""


@pytest.mark.parametrize(
    ("place", "step", "verdict"),
    [
        (Table, "append", "supersede"),
        (Table, "append", "keep_both"),
        (Table, "sync", "reject_new"),
        (Table, "sync", "keep_both"),
        (stored, "exchange", "supersede"),
        (stored, "exchange", "reject_new"),
    ],
)
def test_a_run_that_ends_between_the_steps_is_resumed(
    contested: ailake.Facts, monkeypatch: pytest.MonkeyPatch, *, place: Any, step: str, verdict: str
) -> None:
    def die(*_args: object, **_options: object) -> None:
        raise DiedError

    lake = ailake.connect(contested.store.location.uri)
    for store in (lake.store, contested.store):
        # Otherwise the step may be its thread's.
        store.drainer.stop()
    with monkeypatch.context() as patched:
        patched.setattr(place, step, die)
        with pytest.raises(DiedError):
            FactVerifyJob(lake, verifier=always(verdict)).run(LATER)
    resumed(lake, contested)
    lake.close()


def resumed(lake: ailake.Lake, facts: ailake.Facts) -> None:
    """Another run decides what the one that died did not, and once."""
    assert lake.verify() == ()
    before = len(run(lake, None).waiting)
    later = FactVerifyJob(lake, verifier=always("supersede"))
    assert later.run(LATER + timedelta(days=1)).asked == before
    assert later.run(LATER + timedelta(days=2)).asked == 0
    assert lake.verify() == ()
    entries = facts.history("Ana", "works_at")
    assert len([v for v in entries if v.lost_to]) == before
    assert len(believed(facts)) == 2


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize(
    ("verdict", "then"),
    [
        ("supersede", [("Acme", 2015, 2020), ("Gamma", 2020, None)]),
        ("reject_new", [("Acme", 2015, None)]),
        ("keep_both", [("Acme", 2015, None), ("Gamma", 2020, None)]),
    ],
)
def test_what_was_decided_outlives_a_memory_that_said_the_same(
    lake: ailake.Lake,
    facts: ailake.Facts,
    monkeypatch: pytest.MonkeyPatch,
    *,
    dies: bool,
    verdict: str,
    then: list[tuple[object, int, int | None]],
) -> None:
    """Whether or not the decision was written down with what was said."""
    facts.assert_([works("Acme", 2015), works("Gamma", 2020)], now=NOW)
    again = FactTriple("Ana", "works_at", "Acme", year(2016), source_memory_id="m-Beta")
    facts.assert_([again], now=NOW)
    if dies:

        def die(*_args: object, **_options: object) -> None:
            raise DiedError

        with monkeypatch.context() as patched:
            patched.setattr(stored, "write_down", die)
            with pytest.raises(DiedError):
                run(lake, always(verdict))
    else:
        run(lake, always(verdict))
    assert believed(facts) == then
    lake.memory("ana-bot").forget("m-Beta", now=LATER)
    assert believed(facts) == then
    assert lake.verify() == ()
    # Without the winner the decision is none.
    lake.memory("ana-bot").forget("m-Acme", now=LATER)
    assert believed(facts) == [("Gamma", 2020, None)]


@pytest.mark.slow
def test_killed_between_the_steps(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        queued(lake).assert_([works("Acme", 2015), works("Beta", 2020)], now=NOW)
    done = forked.run(KILLED, tmp_path)
    assert done.returncode == -9, done.stderr
    with ailake.connect(tmp_path) as lake:
        assert len(run(lake, None).waiting) == 1
        resumed(lake, lake.facts("ana-bot"))


def test_a_lake_of_the_first_schema_version_is_brought_up_to_date(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        queued(lake)
        lake.facts("ana-bot").assert_([works("Acme", 2015), works("Beta", 2020)], now=NOW)
        lake.tag("then")
        table = lake.table("verifications")
        table.drop_columns(["model", "input_tokens", "output_tokens"])
        table.to_lance().update_schema_metadata({"ailake.schema_version": "1"})
        lake.tag("before")
    with pytest.raises(ailake.SchemaMismatchError, match="migrate=True"):
        ailake.connect(tmp_path)
    with ailake.connect(tmp_path, migrate=True) as lake:
        facts = lake.facts("ana-bot", verifier="queued")
        facts.assert_([works("Gamma", 2022)], now=LATER)
        assert run(lake, always("supersede")).superseded == 1
        past = lake.at("before").facts("ana-bot")
        assert [v.lost_to != "" for v in past.history("Ana", "works_at")] == [True, False, False]
