"""What docs/providers.md shows runs as it stands, against a local server."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chat_server import Ask, ChatServer, Reply, said
from grey_pairs import NEW, OLD, grey

import ailake

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
PRINTED = re.compile(r"# prints: (.*)")


def examples() -> Iterator[str]:
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        yield str(block)


LIVES = {"subject": "Ana", "predicate": "lives_in", "object": "Oslo"}


def answer(ask: Ask) -> Reply:
    shape = ask["response_format"]["json_schema"]["name"]
    if shape == "PairJudgement":
        return said(verdict="merge", reason="so")
    if shape == "StatedFacts":
        return said(facts=[{**LIVES, "valid_from": None, "valid_to": None}])
    return said(verdict="supersede", reason="so")


def test_the_page(
    lake: ailake.Lake,
    chat: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    chat.answer = answer
    grey(lake.memory("ana-bot"), OLD, NEW)
    names: dict[str, Any] = {
        "ailake": ailake,
        "lake": lake,
        "since": datetime(2015, 1, 1, tzinfo=UTC),
        "later": datetime(2020, 1, 1, tzinfo=UTC),
        "server": chat.url,
        "key": "x",
    }
    for block in examples():
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 (the page is ours)
        assert capsys.readouterr().out.splitlines() == PRINTED.findall(block)
    careful: ailake.FactVerifier = names["Careful"]()
    short: ailake.Reviewer = names["Short"]()
    assert (careful.id, short.id) == ("careful", "short")
