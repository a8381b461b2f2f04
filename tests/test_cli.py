"""The command line, as a person and as a script would use it."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import forked
import pytest

from ailake.core.schema import TABLES

NOW = "2026-01-31T12:00:00+00:00"


class Cli:
    """Runs commands against one lake, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.lake = str(folder / "lake")
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "COLUMNS": "200",
            "AILAKE_URI": self.lake,
            "AILAKE_AGENT": "ana-bot",
            "AILAKE_EMBEDDER": "hashing:64",
            "LANCEDB_LOG": "error",
            "LANCE_LOG": "error",
        }

    def run(self, *arguments: str, code: int = 0, **env: str) -> str:
        done = forked.run("ailake", *arguments, env={**self.env, **env})
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    made = Cli(tmp_path_factory.mktemp("filled"))
    made.run("remember", "the lake is there")
    return made


def test_a_day_with_it(cli: Cli) -> None:
    made = cli.json("remember", "Ana is allergic to [peanuts]", "--importance", "0.9", "--now", NOW)
    assert made["decision"] == "create"
    again = cli.json("remember", "ana is allergic to [peanuts].")
    assert (again["decision"], again["existing_id"]) == ("skip", made["id"])
    cli.run(
        "remember", "Bo 喝绿茶", "--speaker", "Bo", "--kind", "fact", "--event-time", NOW,
        "--metadata", '{"topic": "drinks"}',
    )  # fmt: skip
    found = cli.json("recall", "what is Ana allergic to?", "--limit", "1")
    assert [hit["id"] for hit in found["hits"]] == [made["id"]]
    assert found["hits"][0]["parts"]["score"] == found["hits"][0]["score"]
    assert found["exact"] is True
    assert "[peanuts]" in cli.run("recall", "peanuts", "--explain")
    listed = cli.json("list", "--where", '{"metadata.topic": "drinks"}')
    assert (listed["count"], listed["memories"][0]["text"]) == (1, "Bo 喝绿茶")
    since = '{"event_time": {"gte": "2026-01-31T13:00:00+01:00"}}'
    assert cli.json("list", "--where", since)["count"] == 1
    assert "喝绿茶" in cli.run("list")
    assert cli.json("get", made["id"])["access_count"] == 2
    assert made["id"] in cli.run("get", made["id"])
    planned = cli.json("forget", made["id"], "--dry-run")
    assert planned == {"count": 1, "ids": [made["id"]], "missing": [], "dry_run": True}
    assert cli.json("list")["count"] == 2
    assert "forgot 1 memories" in cli.run("forget", made["id"])
    assert cli.json("list")["count"] == 1


def test_decay_stats_and_doctor(cli: Cli) -> None:
    cli.run("remember", "green tea", "--now", NOW)
    planned = cli.json("decay", "--now", "2026-02-07T12:00:00+00:00", "--dry-run")
    assert (planned["dry_run"], planned["fragments_written"]) == (True, 1)
    done = cli.json("decay", "--now", "2026-02-07T12:00:00+00:00", "--half-life", "7")
    assert done["version_after"] == done["version_before"] + 1
    (record,) = cli.json("list")["memories"]
    assert record["recency_weight"] == pytest.approx(0.5)
    assert "bytes_written" in cli.run("decay", "--curve", "monthly")
    stats = cli.json("stats")
    assert {table["name"]: table["rows"] for table in stats["tables"]}["episodic"] == 1
    assert "chunk_text_idx" in cli.run("stats")
    findings = {finding["what"]: finding for finding in cli.json("doctor")}
    assert findings["lake"]["level"] == findings["engine"]["level"] == "ok"
    assert "1 rows in 1 fragments" in findings["episodic"]["found"]


def test_index(cli: Cli) -> None:
    cli.run("remember", "green tea")
    planned = cli.json("index", "--dry-run")
    assert [(one["table"], one["action"]) for one in planned["tables"]] == [
        ("episodic", "none"),
        ("passages", "none"),
    ]
    assert (planned["dry_run"], planned["tables"][0]["scope_rows"]) == (True, 1)
    assert "episodic" in cli.run("index", "--rebuild")
    script = Path(__file__).parents[1] / "jobs" / "index.py"
    command = [sys.executable, "-W", "error", str(script), "--rebuild", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=cli.env)
    told = {"job": "index", "tables": {"episodic": "none", "passages": "none"}}
    assert json.loads(done.stdout) == told


def test_doctor_mends_many_fragments(cli: Cli) -> None:
    import ailake

    with ailake.connect(cli.lake, embedder="hashing:64") as lake:
        lake.memory(agent_id="a").remember("green tea")
        table = lake.table("episodic")
        rows = table.to_arrow().to_pylist()
        for n in range(54):
            table.add([{**rows[0], "chunk_id": f"n{n}", "dedupe_key": f"{n}"}])
    warned = [f for f in cli.json("doctor") if f["level"] == "warning"]
    assert "55 small fragments" in warned[0]["found"]
    cli.run("doctor", "--fix")
    assert all(f["level"] == "ok" for f in cli.json("doctor"))


def test_backup_and_restore(cli: Cli, tmp_path: Path) -> None:
    made = cli.json("remember", "green tea", "--now", NOW)
    backup, back = str(tmp_path / "backup"), str(tmp_path / "back")
    report = cli.json("backup", backup)
    assert (report["target"], report["rows"]) == (backup, 3)
    names = [table["name"] for table in report["tables"]]
    assert (sorted(names), names[-1]) == (sorted(TABLES), "episodic")
    assert "is not empty" in cli.run("backup", backup, code=2)
    told = cli.run("restore", backup, "--lake", back, "--progress")
    assert "restore of" in told
    assert cli.json("get", made["id"], "--lake", back)["text"] == "green tea"
    assert "no lake at" in cli.run("restore", str(tmp_path / "x"), "--lake", back, code=1)
    wrong = cli.run("backup", "s3://b/c", "--to-storage-option", "key", code=2)
    assert "--to-storage-option: got 'key', wanted key=value" in wrong


def test_doctor_mends_dead_backups(cli: Cli) -> None:
    import lance

    cli.run("remember", "green tea")
    lance.dataset(f"{cli.lake}/episodic.lance").tags.create("_backup.dead", 1)
    found = {finding["what"]: finding for finding in cli.json("doctor")}
    assert found["backups"]["level"] == "warning"
    cli.run("doctor", "--fix")
    assert "backups" not in {finding["what"] for finding in cli.json("doctor")}


def test_doctor_says_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    cli.run("doctor", "--lake", str(tmp_path / "nowhere"), code=1)


def test_the_job_script(cli: Cli) -> None:
    cli.run("remember", "green tea", "--event-time", "2020-01-01T00:00:00+00:00")
    script = Path(__file__).parents[1] / "jobs" / "decay.py"
    command = [sys.executable, "-W", "error", str(script)]

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=True, env=cli.env
        )
        return json.loads(done.stdout)

    before = run("--dry-run")["version"]
    assert run(cli.lake, "--half-life", "30") == {"job": "decay", "rows": 1, "version": before + 1}
    (record,) = cli.json("list")["memories"]
    assert record["recency_weight"] < 0.01
    bare = {name: value for name, value in cli.env.items() if name != "AILAKE_URI"}
    assert subprocess.run(command, env=bare, capture_output=True, check=False).returncode == 2


def test_schema(cli: Cli, tmp_path: Path) -> None:
    contracts = cli.json("schema")
    names = [contract["table"] for contract in contracts]
    assert names == sorted(TABLES)
    assert cli.json("schema", "episodic") == contracts[names.index("episodic")]
    assert "recency_weight" in cli.run("schema", "episodic")
    cli.run("schema", "--out", str(tmp_path / "out"))
    golden = Path(__file__).parents[1] / "schemas"
    for file in (tmp_path / "out").iterdir():
        assert file.read_bytes() == (golden / file.name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["recall"], 2, "Missing argument 'query'"),
        (["nonsense"], 2, "No such command"),
        (["remember", ""], 2, "text: got ''"),
        (["remember", "x", "--importance", "2"], 2, "importance: got 2.0"),
        (["remember", "x", "--event-time", "2026-01-31"], 2, "with an offset such as"),
        (["remember", "x", "--event-time", "soon"], 2, "an ISO 8601 instant"),
        (["remember", "x", "--metadata", "[1]"], 2, "wanted a JSON object"),
        (["remember", "x", "--storage-option", "key"], 2, "wanted key=value"),
        (["recall", "x", "--where", "kind = 'a'"], 2, "wanted a JSON object"),
        (["recall", "x", "--where", '{"nope": 1}'], 2, "nope"),
        (["get", "unknown"], 1, "NotFoundError"),
        (["forget"], 2, "got no term"),
        (["decay", "--lambda", "0"], 2, "lambda: got 0.0"),
        (["decay", "--lambda", "1", "--half-life", "2"], 2, "wanted one of them"),
        (["index", "--recall", "2"], 2, "recall: got 2.0"),
        (["decay", "--lake", "/nonexistent/lake"], 1, "no lake at"),
        (["recall", "x", "--embedder", "hashing:8"], 1, "EmbedderMismatchError"),
        (["schema", "nothing"], 1, "wanted one of accesses, assertions, decisions, episodic"),
        (["ingest", "missing.jsonl"], 2, "wanted an existing JSONL file"),
    ],
)
def test_exit_codes(filled: Cli, arguments: list[str], code: int, told: str) -> None:
    assert told in filled.run(*arguments, code=code)


def test_without_a_lake_or_an_agent(cli: Cli) -> None:
    assert "--lake" in cli.run("stats", code=2, AILAKE_URI="")
    assert "agent" in cli.run("list", code=2, AILAKE_AGENT="")


def test_in_an_interpreter_of_its_own(cli: Cli) -> None:
    command = [sys.executable, "-W", "error", "-m", "ailake"]
    for arguments, told in [
        (["--version"], version("ailake-memory")),
        (["remember", "green tea", "--now", NOW, "--json"], '"create"'),
        (["recall", "tea", "--now", NOW], "green tea"),
    ]:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=True, env=cli.env
        )
        assert told in done.stdout
        assert done.stderr == ""


HELP = [
    "demo", "remember", "recall", "list", "get", "forget", "ingest", "decay", "stats", "scopes",
    "schema", "doctor", "index", "maintain", "compact", "prune", "review", "verify-facts", "purge",
    "reembed", "backup", "restore", "facts", "ledger", "decisions", "graph", "schedule",
]  # fmt: skip


def test_every_command_is_in_help(cli: Cli) -> None:
    told = cli.run("--help")
    for command in HELP:
        assert f" {command} " in told
        assert "Usage" in cli.run(command, "--help")
    listed = [line.split()[1] for line in told.splitlines() if line.startswith("│ ")]
    assert [name for name in listed if not name.startswith("-")] == HELP
