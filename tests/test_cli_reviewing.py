"""ailake verify-facts and its script, against a real local server."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, said, told
from typer.testing import CliRunner

import ailake
from ailake.cli import app

NOW = "2026-01-31T12:00:00+00:00"
JOBS = Path(__file__).parents[1] / "jobs"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A lake in which one case waits."""
    since = datetime(2020, 1, 1, tzinfo=UTC)
    place = tmp_path / "lake"
    with ailake.connect(place, embedder="hashing:16") as lake:
        facts = lake.facts("ana-bot", verifier="queued")
        pair = [ailake.FactTriple("Ana", "works_at", name, since) for name in ("Acme", "[Beta]")]
        facts.assert_(pair, now=datetime.fromisoformat(NOW))
    return str(place)


def run(uri: str, *arguments: str, code: int = 0, **env: str) -> str:
    known = {"AILAKE_URI": uri, "COLUMNS": "200", "OPENAI_API_KEY": "x", **env}
    done = CliRunner(env=known).invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def test_without_a_model_it_reports(uri: str) -> None:
    assert "[Beta]" in run(uri, "verify-facts")
    report = json.loads(run(uri, "verify-facts", "--dry-run", "--json"))
    assert [case["known"]["object"] for case in report["waiting"]] == ["Acme"]


def test_a_model_is_asked(uri: str, chat: ChatServer) -> None:
    server = ("--model", "m", "--base-url", chat.url, "--retries", "0", "--api-key-env", "KEY")
    chat.answer = lambda _: told("no idea")
    assert "no JSON" in run(uri, "verify-facts", *server, code=1, KEY="sk")
    assert chat.keys == {"Bearer sk"}
    chat.answer = lambda _: said(verdict="supersede", reason="so")
    assert "1 superseded" in run(uri, "verify-facts", *server, "--now", NOW, KEY="sk")
    (row,) = json.loads(run(uri, "facts", "find", "--agent", "ana-bot", "--json"))
    assert row["object"] == "[Beta]"


def test_bad_usage(uri: str) -> None:
    with pytest.raises(ailake.InvalidInputError, match="NO_SUCH_KEY"):
        run(uri, "verify-facts", "--model", "m", "--api-key-env", "NO_SUCH_KEY")


@pytest.mark.slow
def test_the_script(uri: str, chat: ChatServer) -> None:
    chat.script = [said(verdict="keep_both", reason="so")]
    command = [sys.executable, str(JOBS / "verify_facts.py"), uri, "--model", "m"]
    env = {**os.environ, "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": chat.url}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    told_: dict[str, Any] = json.loads(done.stdout)
    assert told_ == {"job": "verify_facts", "asked": 1, "failed": 0, "waiting": 0, "tokens": 100}
