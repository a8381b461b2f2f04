"""The recipes of docs/reading.md run as they stand, and agree with the SDK."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kept import KEEP

import ailake
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PAGE = (Path(__file__).parents[1] / "docs" / "reading.md").read_text(encoding="utf-8")
RECIPES = {
    title: re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL)[0]
    for title, body in re.findall(
        r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE
    )
}
EXPECTED = {
    "Lance and pyarrow": "3 memories",
    "DuckDB": "[('green tea', 3), ('black tea', 2), ('black coffee', 1)]",
    "polars": "drinks",
    "pandas": "Bo     1",
    "Accesses that are not folded yet": "6 accesses in all",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    with ailake.connect(folder / "my-lake", embedder="hashing:16", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        made = memory.remember_many(
            [
                {"text": "green tea", "speaker": "Ana", "metadata": {"topic": "drinks"}},
                {"text": "black tea", "speaker": "Ana", "metadata": {"topic": "drinks"}},
                {"text": "black coffee", "speaker": "Bo"},
            ],
            now=NOW,
        )
        ids = [outcome.id for outcome in made]
        memory.touch(ids, now=NOW)
        MemoryDecayJob(lake).run(NOW)
        memory.touch(ids[:2], now=NOW)
        memory.touch(ids[0], now=NOW)
        assert sum(record.access_count for record in memory.list(now=NOW)) == 6
    return folder


def test_every_recipe_is_tried() -> None:
    assert set(RECIPES) == set(EXPECTED)


@pytest.mark.parametrize("title", sorted(EXPECTED))
def test_recipe(folder: Path, title: str) -> None:
    assert "ailake" not in RECIPES[title]
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", RECIPES[title]],
        capture_output=True, text=True, check=False, cwd=folder, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert EXPECTED[title] in done.stdout
