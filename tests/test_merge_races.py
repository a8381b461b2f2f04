"""On an object store: what a new memory is merged into changes before the merge is committed."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from kept import KEEP

import ailake
from ailake.storage import decisions
from ailake.storage.decisions import append

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SMALL, WHOLE, OTHER = "Ana has a dog", "Ana has a small brown dog", "Ana has a large white cat"


def race(
    lake: ailake.Lake,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[ailake.Memory], object],
) -> ailake.Memory:
    """Remember what is merged into "old", and do something else between decision and commit."""
    memory = lake.memory("a")
    memory.remember(WHOLE, id="old", now=NOW)

    def recorded(*args: Any, **options: Any) -> None:
        append(*args, **options)
        with monkeypatch.context() as patch:
            patch.setattr(decisions, "append", append)
            meanwhile(memory)

    with monkeypatch.context() as patch:
        patch.setattr(decisions, "append", recorded)
        told = memory.remember(SMALL, id="new", now=NOW)
    assert (told.decision, told.existing_id) == ("merge", "old")
    assert lake.verify(now=NOW) == ()
    return memory


@pytest.mark.slow
def test_it_is_merged_into_a_third(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "s3://lakes/merges/third"
    with ailake.connect(uri, embedder="hashing:64", storage_options=s3, judge_rules=KEEP) as lake:
        memory = race(lake, monkeypatch, lambda one: one.update("old", text=OTHER, now=NOW))
        (left,) = memory.list(now=NOW)
        assert left.text == OTHER
        assert [one.id for one in memory.history("new")] == ["new", "old", left.id]


@pytest.mark.slow
def test_it_is_forgotten(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "s3://lakes/merges/forgotten"
    with ailake.connect(uri, embedder="hashing:64", storage_options=s3, judge_rules=KEEP) as lake:
        memory = race(lake, monkeypatch, lambda one: one.forget("old"))
        assert [one.id for one in memory.list(now=NOW)] == ["new"]
