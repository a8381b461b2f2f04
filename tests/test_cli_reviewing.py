"""ailake review, ailake verify-facts and their scripts, against a real local server."""

import json
import runpy
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chat_server import ChatServer, said, told
from grey_pairs import NEW, OLD, grey
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


@pytest.fixture
def pairs(uri: str) -> str:
    """The same lake, and a pair that waits."""
    with ailake.connect(uri) as lake:
        grey(lake.memory("ana-bot"), OLD, NEW)
    return uri


def test_a_person_reviews_by_file(pairs: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    assert NEW in run(pairs, "review", "--export", str(file))
    line = json.loads(file.read_text(encoding="utf-8"))
    assert (line["existing"], line["new"], line["answer"]) == (OLD, NEW, "")
    file.write_text(json.dumps({**line, "answer": "modify", "reason": "more"}), encoding="utf-8")
    assert "do not wait" not in run(pairs, "review", "--import", str(file), "--dry-run")
    assert "1 modified" in run(pairs, "review", "--import", str(file), "--reviewer", "Bo")
    again = run(pairs, "review", "--import", str(file))
    assert f"1 answers are of pairs that do not wait: {line['pair_id']}" in again
    with ailake.connect(pairs) as lake:
        assert [record.text for record in lake.memory("ana-bot").list()] == [NEW]


def test_a_model_reviews(pairs: str, chat: ChatServer) -> None:
    server = ("--model", "m", "--base-url", chat.url, "--retries", "0")
    chat.answer = lambda _: said(verdict="keep", reason="two")
    report = json.loads(run(pairs, "review", *server, "--dry-run", "--json"))
    assert (report["asked"], len(report["waiting"]), chat.asked) == (0, 1, [])
    assert json.loads(run(pairs, "review", *server, "--json"))["kept"] == 1
    with pytest.raises(ailake.InvalidInputError, match="one at most"):
        run(pairs, "review", *server, "--export", "pairs.jsonl")


@pytest.mark.parametrize(
    ("job", "answer", "wanted"),
    [
        ("verify_facts", "keep_both", {"asked": 1, "failed": 0, "waiting": 0, "tokens": 100}),
        ("review", "merge", {"merged": 1, "failed": 0, "waiting": 0, "tokens": 100}),
    ],
)
def test_the_scripts(
    pairs: str,
    chat: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    job: str,
    answer: str,
    wanted: dict[str, int],
) -> None:
    chat.script = [said(verdict=answer, reason="so")]
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
    script = str(JOBS / f"{job}.py")
    monkeypatch.setattr(sys, "argv", [script, pairs, "--model", "m"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == {"job": job, **wanted}
