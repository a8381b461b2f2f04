"""``ailake decisions``, as a person and as a script would use it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ailake
from ailake.cli import app
from ailake.errors import NotFoundError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with ailake.connect(tmp_path / "lake", embedder="hashing:64") as lake:
        memory = lake.memory("a")
        memory.remember("Ana has a small brown dog", id="old", now=NOW)
        memory.remember("Ana has a dog", id="new", now=NOW)
        memory.remember("Thanks!", id="thanks", now=NOW)
        memory.restore("new", now=NOW)
    return str(tmp_path / "lake")


def run(uri: str, *arguments: str) -> Result:
    options = {"AILAKE_URI": uri, "AILAKE_AGENT": "a"}
    return CliRunner().invoke(app, ["decisions", *arguments], env=options)


def test_list_and_its_filters(uri: str) -> None:
    def decided(*options: str) -> list[str]:
        done = run(uri, "list", "--json", *options)
        return [one["decision"] for one in json.loads(done.output)]

    assert sorted(decided()) == ["create", "defer", "merge", "restore"]
    assert decided("--decision", "merge") == decided("--reason", "fact_subset") == ["merge"]
    assert decided("--since", "2026-02-01T00:00:00+00:00") == []
    assert len(decided("--limit", "2")) == 2
    assert "t0_low_value" in run(uri, "list").output


def test_show_explains_one(uri: str) -> None:
    told = run(uri, "show", "new").output
    assert "merge: fact_subset" in told
    assert "memory   Ana has a dog  [new]" in told
    assert "existing Ana has a small brown dog  [old]" in told
    assert " embedding Ana has a small brown dog  [old]" in told
    assert "restore: restore" in told
    shown = json.loads(run(uri, "show", "thanks", "--json").output)
    assert [one["decision"] for one in shown["decisions"]] == ["defer"]
    assert shown["texts"] == {"thanks": "Thanks!"}


def test_show_of_what_nobody_decided(uri: str) -> None:
    assert isinstance(run(uri, "show", "nothing").exception, NotFoundError)
