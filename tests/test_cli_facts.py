"""ailake facts, as a person and as a script would use it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ailake.cli import app
from ailake.errors import InvalidInputError

NOW = "2026-01-31T12:00:00+00:00"


class Facts:
    def __init__(self, folder: Path) -> None:
        self.env = {
            "AILAKE_URI": str(folder / "lake"),
            "AILAKE_AGENT": "ana-bot",
            "AILAKE_EMBEDDER": "hashing:16",
            "COLUMNS": "250",
        }

    def run(self, *arguments: str) -> str:
        done = CliRunner(env=self.env).invoke(app, ["facts", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(tmp_path)


def test_a_day_with_facts(facts: Facts) -> None:
    oslo = ("assert", "Ana", "lives_in", "[Oslo]", "--from", "2015-01-01T00:00:00+00:00")
    made = facts.json(*oslo, "--now", NOW)
    assert (made["kind"], made["loser_fact_id"]) == ("append", None)
    later = ("--from", "2020-01-01T00:00:00+00:00", "--now", "2026-02-01T12:00:00+00:00")
    assert f"lost: {made['fact_id']}" in facts.run("assert", "Ana", "lives_in", "奥斯陆", *later)
    (found,) = facts.json("find", "--subject", "ana")
    assert (found["object"], found["valid_to"]) == ("奥斯陆", None)
    assert "奥斯陆" in facts.run("find", "--predicate", "lives_in")
    then = facts.json("find", "--as-of", "2016-01-01T00:00:00+00:00")
    assert [one["object"] for one in then] == ["[Oslo]"]
    (believed,) = facts.json("find", "--known-at", NOW)
    assert believed["object"] == "[Oslo]"
    entries = facts.json("history", "Ana", "lives_in")
    assert [one["lost_to"] for one in entries] == [found["fact_id"], "", ""]
    assert "asserted later" in facts.run("history", "Ana", "lives_in")
    assert "[Oslo]" in facts.run("history", "Ana", "lives_in")
    assert "retired 1 versions" in facts.run("retract", found["fact_id"], "--reason", "a mistake")
    assert facts.json("find") == []
    assert facts.json("find", "--user", "ana") == []


def test_types_verifier_and_several_values(facts: Facts) -> None:
    since = ("--from", "2020-01-01T00:00:00+00:00", "--now", NOW)
    typed = ("--subject-type", "person", "--object-type", "other(drink)")
    facts.run("assert", "Ana", "likes", "tea", *since, *typed, "--multi-valued")
    assert facts.json("assert", "Ana", "likes", "milk", *since, *typed)["kind"] == "append"
    found = facts.json("find", "--subject", "Ana", "--subject-type", "person")
    assert sorted(one["object"]["name"] for one in found) == ["milk", "tea"]
    assert "tea (other(drink))" in facts.run("find")
    assert facts.json("find", "--subject", "Ana") == []
    facts.run("assert", "Bo", "lives_in", "Oslo", *since)
    early = ("--from", "2010-01-01T00:00:00+00:00", "--verifier", "latest_event", "--now", NOW)
    lost = facts.json("assert", "Bo", "lives_in", "Rome", *early)
    assert lost["loser_fact_id"] == lost["fact_id"]


def test_bad_usage(facts: Facts) -> None:
    with pytest.raises(InvalidInputError, match="--from: got 'yesterday', wanted an ISO 8601"):
        facts.run("assert", "Ana", "lives_in", "Oslo", "--from", "yesterday")
    with pytest.raises(InvalidInputError, match=r"--from: got '2020-01-01', .* an offset"):
        facts.run("assert", "Ana", "lives_in", "Oslo", "--from", "2020-01-01")
