"""``ailake ledger``, as a person and as a script would use it."""

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import ailake
from ailake.cli import app
from ailake.maintenance import MemoryDecayJob

SCOPE = ailake.Scope("助理")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with ailake.connect(tmp_path / "lake", embedder="hashing:8") as lake:
        lake.memory("助理").remember("茶", id="t")
        lake.memory("助理").update("t", importance=1.0)
        lake.memory("b").remember("coffee", id="c")
    return str(tmp_path / "lake")


def run(uri: str, *arguments: str, **env: str) -> Result:
    options = {"AILAKE_URI": uri, "COLUMNS": "200", **env}
    return CliRunner().invoke(app, ["ledger", *arguments], env=options)


def tampered(uri: str) -> None:
    dataset = lance.dataset(f"{uri}/ledger.lance")
    rows: list[dict[str, Any]] = dataset.to_table().to_pylist()
    for row in rows:
        if row["subject_id"] == "t" and row["sequence"] == 1:
            row["event"] = "create"
    table = pa.Table.from_pylist(rows, schema=dataset.schema)
    lance.write_dataset(table, dataset.uri, mode="overwrite", enable_stable_row_ids=True)


def test_list(uri: str) -> None:
    shown = run(uri, "list", "--agent", "助理").output
    assert "create" in shown
    assert "update" in shown
    assert "茶" not in shown
    with ailake.connect(uri) as lake:
        entries = lake.ledger().entries(SCOPE)
    found = json.loads(run(uri, "list", "--json", AILAKE_AGENT="助理").output)
    assert [one["hash"] for one in found] == [entry.hash for entry in entries]
    assert found[1]["parents"] == [entries[0].id]
    assert found[0]["scope"] == {"agent_id": "助理", "user_id": "", "project_id": ""}
    part = run(uri, "list", "--agent", "助理", "--start", "1", "--limit", "1", "--json").output
    assert json.loads(part) == found[1:]
    assert json.loads(run(uri, "list", "--agent", "b", "--subject", "t", "--json").output) == []


def test_head_and_verify(uri: str) -> None:
    pinned = run(uri, "head", "--agent", "助理").output.strip()
    with ailake.connect(uri) as lake:
        head = lake.ledger().head(SCOPE)
    assert head is not None
    assert pinned == f"1:{head.hash}"
    assert head.hash in run(uri, "head", "--agent", "助理", "--json").output
    assert run(uri, "head", "--agent", "nobody").output == "no entry yet\n"
    assert run(uri, "head", "--agent", "nobody", "--json").output == "null\n"
    for arguments in ([], ["--all"], ["--head", pinned]):
        done = run(uri, "verify", *arguments, AILAKE_AGENT="助理")
        assert (done.exit_code, done.output) == (0, "the ledger holds\n")
    assert '"holds": true' in run(uri, "verify", "--json").output


def test_the_chain_of_the_lake_itself(uri: str) -> None:
    assert run(uri, "head", "--runs").output == "no entry yet\n"
    with ailake.connect(uri) as lake:
        MemoryDecayJob(lake).run()
    (entry,) = json.loads(run(uri, "list", "--runs", "--json", AILAKE_AGENT="助理").output)
    assert (entry["event"], entry["scope"]["agent_id"]) == ("job_run", "")
    pinned = run(uri, "head", "--runs").output.strip()
    assert pinned == f"0:{entry['hash']}"
    assert run(uri, "verify", "--runs", "--head", pinned).output == "the ledger holds\n"
    dataset = lance.dataset(f"{uri}/job_runs.lance")
    dataset.update({"status": "'failed'"})
    told = f"broken: the lake itself, entry 0 ({entry['id']}): its run was changed in job_runs\n"
    for arguments in ([], ["--runs"], ["--runs", "--all"]):
        done = run(uri, "verify", *arguments)
        assert (done.exit_code, done.output) == (1, told)
    assert run(uri, "verify", "--agent", "b").exit_code == 0
    error = run(uri, "head").exception
    assert isinstance(error, ailake.InvalidInputError)
    assert "neither --agent nor --runs" in str(error)


def test_a_broken_chain_is_named(uri: str) -> None:
    pinned = run(uri, "head", "--agent", "助理").output.strip()
    tampered(uri)
    done = run(uri, "verify")
    assert done.exit_code == 1
    assert "entry 1 (" in done.output
    assert "its hash is not that of its content" in done.output
    assert run(uri, "verify", "--agent", "b").exit_code == 0
    assert run(uri, "verify", "--all", "--json", AILAKE_AGENT="b").exit_code == 1
    assert run(uri, "verify", "--agent", "助理", "--head", pinned).exit_code == 1


def test_a_chain_that_was_cut_off_is_told_by_its_head(uri: str) -> None:
    done = run(uri, "verify", "--agent", "b", "--head", f"4:{'0' * 64}")
    assert done.exit_code == 1
    assert "entry 1: it is missing" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--head", f"0:{'0' * 64}"], "wanted the scope"),
        (["--agent", "a", "--head", "zero"], "wanted SEQUENCE:HASH"),
        (["--agent", "a", "--head", "²:00"], "wanted SEQUENCE:HASH"),
        (["--agent", "a", "--head", "1:00"], "64 hexadecimal digits"),
    ],
)
def test_a_wrong_head_is_refused(uri: str, arguments: list[str], told: str) -> None:
    error = run(uri, "verify", *arguments).exception
    assert isinstance(error, ailake.InvalidInputError)
    assert told in str(error)
