"""What docs/graph.md shows runs as it stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ailake

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"
PRINTED = re.compile(r"# prints: (.*)")


def test_the_page(lake: ailake.Lake, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {
        "ailake": ailake,
        "lake": lake,
        "since": datetime(2025, 1, 1, tzinfo=UTC),
        "later": datetime(2025, 6, 1, tzinfo=UTC),
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 (the page is ours)
        assert capsys.readouterr().out.splitlines() == PRINTED.findall(block)
