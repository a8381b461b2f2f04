"""``ailake purge`` and ``ailake reembed``, and their scripts: what is asked, told and refused."""

import json
import runpy
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

import ailake
from ailake.cli import main

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCRIPTS = Path(__file__).parents[1] / "jobs"
SCRIPT = SCRIPTS / "purge.py"

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(what: Callable[[], object], *arguments: str, code: int = 0, typed: str = "") -> str:
        monkeypatch.setattr(sys, "argv", ["ailake", *arguments])
        monkeypatch.setattr(sys, "stdin", StringIO(typed))
        ended: object = 0
        try:
            what()
        except SystemExit as end:
            ended = end.code or 0
        told = capsys.readouterr()
        assert ended == code, told.err
        return told.out + told.err

    monkeypatch.setenv("COLUMNS", "250")
    return call


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16") as lake:
        items = [{"text": f"tea {n}", "id": str(n)} for n in range(4)]
        lake.memory("a").remember_many(items, now=NOW)
        lake.tag("held")
    monkeypatch.setenv("AILAKE_URI", str(tmp_path / "lake"))
    return str(tmp_path / "lake")


def ids(uri: str) -> list[str]:
    with ailake.connect(uri) as lake:
        return [one.id for one in lake.memory("a").list(now=NOW)]


@pytest.mark.slow
def test_purge_on_the_command_line(run: Run, uri: str) -> None:
    plan = json.loads(run(main, "purge", "1", "--dry-run", "--json"))
    assert (plan["ids"], plan["tags"], plan["dry_run"]) == (["1"], ["held"], True)
    assert "mistyped, or erased before" in run(main, "purge", "nope", "--dry-run")
    assert "can't ask" in run(main, "purge", "1", "--json", code=2)
    assert "wanted scope or ids" in run(main, "purge", "--dry-run", code=2)
    assert "--user and --project want --agent" in run(main, "purge", "--user", "u", code=2)
    refused = run(main, "purge", "1", typed="yes\n", code=2)
    assert "purge (dry run)" in refused
    assert "tags that hold some of it: held" in refused
    assert "got 'yes', wanted 'purge'; nothing was changed" in refused
    assert "tags 'held' hold some" in run(main, "purge", "1", "--yes", code=2)
    assert ids(uri) == ["0", "1", "2", "3"]
    run(main, "purge", "1", "--confirm-tag", "held", typed="purge\n")
    assert ids(uri) == ["0", "2", "3"]
    done = json.loads(run(main, "purge", "--agent", "a", "--yes", "--json"))
    assert (done["scope"]["agent_id"], done["tables"][-1]["rows"]) == ("a", 3)
    assert ids(uri) == []


@pytest.mark.usefixtures("uri")
def test_the_script_of_a_purge(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def script() -> None:
        runpy.run_path(str(SCRIPT), run_name="__main__")

    tagged = ["--confirm-tag", "held"]
    for arguments in (["--dry-run"], tagged):
        done = json.loads(run(script, "--id", "1", *arguments))
        assert (done["job"], done["rows"]["episodic"], done["tags"]) == ("purge", 1, ["held"])
    assert json.loads(run(script, "--agent", "a"))["rows"]["episodic"] == 3
    monkeypatch.delenv("AILAKE_URI")
    assert "give the lake's URI" in run(script, code=2)
    assert len(SCRIPT.read_text().splitlines()) <= 40


def test_reembed_on_the_command_line(run: Run, uri: str) -> None:
    planned = json.loads(run(main, "reembed", "--embedder", "hashing:8", "--dry-run", "--json"))
    assert (planned["rows"], planned["dim_before"], planned["dim_after"]) == (4, 16, 8)
    told = run(main, "reembed", "--embedder", "hashing:8", "--no-progress")
    assert "reembed: 4 memories from hashing-v1-16 (16 dimensions) to hashing-v1-8 (8)" in told
    assert "batch_size: got 0" in run(
        main, "reembed", "--embedder", "hashing", "--batch-size", "0", code=2
    )
    script = SCRIPTS / "reembed.py"

    def call() -> None:
        runpy.run_path(str(script), run_name="__main__")

    done = json.loads(run(call, uri, "--embedder", "hashing:24"))
    assert done == {"job": "reembed", "rows": 4, "embedded": 4, "embedder": "hashing-v1-24"}
    assert len(script.read_text().splitlines()) <= 40
    assert ids(uri) == ["0", "1", "2", "3"]
