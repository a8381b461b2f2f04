"""ingest: a JSONL file in bulk, once and only once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake.cli.ingest import check_file, ingest_file, read_items

WHEN = "2025-05-01T09:00:00+02:00"


def write(file: Path, items: list[Any]) -> Path:
    file.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), "utf-8")
    return file


def ingest(memory: ailake.Memory, file: Path) -> Any:
    lines = check_file(file)
    return ingest_file(memory, file, lines=lines, judge=True, progress=False, now=None)


def test_a_second_run_adds_nothing(memory: ailake.Memory, tmp_path: Path) -> None:
    items: list[Any] = [
        {"text": f"turn {n}", "event_time": WHEN, "speaker": "Ana"} for n in range(40)
    ]
    items += [
        {"text": "我对花生过敏", "metadata": {"topic": "health"}},
        {"text": "Turn 3", "speaker": "Ana"},
    ]
    file = write(tmp_path / "a.jsonl", items)
    first = ingest(memory, file)
    assert (first.lines, first.added, first.known, first.skipped) == (42, 41, 0, 1)
    second = ingest(memory, file)
    assert (second.lines, second.added, second.known, second.skipped) == (42, 0, 41, 1)
    record = next(m for m in memory.list() if m.text == "turn 0")
    assert record.event_time is not None
    assert record.event_time.isoformat() == "2025-05-01T07:00:00+00:00"


def test_a_file_that_has_grown_adds_what_is_new(memory: ailake.Memory, tmp_path: Path) -> None:
    items = [{"text": f"turn {n}"} for n in range(5)]
    ingest(memory, write(tmp_path / "a.jsonl", items))
    report = ingest(
        memory, write(tmp_path / "b.jsonl", [{"text": "before"}, *items, {"text": "after"}])
    )
    assert (report.added, report.known) == (2, 5)


def test_two_scopes_may_ingest_the_same_lines(lake: ailake.Lake, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"text": "ok"}, {"text": "fine"}])
    for user in ("u1", "u2"):
        assert ingest(lake.memory(agent_id="a", user_id=user), file).added == 2
    assert ingest(lake.memory(agent_id="a", user_id="u1"), file).added == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3: "),
        ("[1]", "line 3: line: got"),
        ('{"txt": "x"}', 'line 3: memory: .*wanted a key "text"'),
        ('{"text": "x", "importance": 2}', "line 3: importance: got 2"),
        ('{"text": "x", "event_time": "2025-05-01T09:00:00"}', "line 3: event_time"),
        ('{"text": "x", "event_time": "soon"}', "line 3: .*ISO 8601"),
        ('{"text": "x", "colour": "red"}', "line 3: memory field: got 'colour'"),
    ],
)
def test_a_bad_line_is_named_and_nothing_written(
    memory: ailake.Memory, tmp_path: Path, line: str, message: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"text": "fine"}}\n\n{line}\n', "utf-8")
    with pytest.raises(ailake.InvalidInputError, match=message):
        ingest(memory, file)
    assert memory.count() == 0


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(ailake.InvalidInputError, match="line 1"):
        list(read_items(tmp_path / "a.jsonl"))


@pytest.mark.slow
def test_a_killed_run_resumes(tmp_path: Path) -> None:
    file = write(tmp_path / "big.jsonl", [{"text": f"turn number {n}"} for n in range(60_000)])
    uri = str(tmp_path / "lake")
    command = [sys.executable, "-m", "ailake", "ingest", str(file), "--lake", uri, "--agent", "a"]
    command += ["--embedder", "hashing:16", "--json", "--no-progress"]
    killed = subprocess.Popen(command)
    while killed.poll() is None and len(list(Path(uri).glob("episodic.lance/data/*"))) < 2:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["added"] + report["known"] == report["lines"] == 60_000
    assert report["known"] >= 16_384
    with ailake.connect(uri, judge_rules=KEEP) as lake:
        assert lake.memory(agent_id="a").count() == 60_000
        assert lake.scan("episodic").select("chunk_text").collect().n_unique() == 60_000
