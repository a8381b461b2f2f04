"""Recall among given memories only."""

import inspect
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake import InvalidInputError, Scope, ScoringPolicy
from ailake.core.filter_values import CheckedTexts
from ailake.core.filters import FALSE, MAX_SIZE, parse_where
from ailake.core.schema import filter_kinds
from ailake.reading import MemoryReader, RecallOptions
from ailake.storage.locks import WRITE, exclusive

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
QUERY = np.eye(64)[0]


def vector_at(angle: float) -> NDArray[np.float64]:
    """Return a vector that is farther from ``QUERY`` the larger the angle, in radians."""
    return np.array([np.cos(angle), np.sin(angle), *np.zeros(62)])


def fill(memory: ailake.Memory, count: int, **fields: Any) -> list[str]:
    """Store memories m0, m1, …, each farther from the query than the one before."""
    items = [
        {"text": f"note {n}", "id": f"m{n}", "vector": vector_at(n / count), **fields}
        for n in range(count)
    ]
    return [one.id for one in memory.remember_many(items, judge=False, now=NOW)]


def found(memory: MemoryReader, ids: Any, limit: int = 10, **options: Any) -> list[str]:
    options = {"now": NOW, "touch": False, **options}
    return [hit.id for hit in memory.recall_filtered(QUERY, limit, ids, **options)]


@pytest.fixture(params=["held", "on disk"], autouse=True)
def _place(request: pytest.FixtureRequest) -> None:
    if request.param == "on disk":
        request.getfixturevalue("on_disk")


def test_only_the_given_ones_and_before_the_top_k(memory: ailake.Memory) -> None:
    fill(memory, 1_500)
    hits = memory.recall_filtered(QUERY, 2, ["m1400", "m1450", "m1300"], now=NOW)
    assert [hit.id for hit in hits] == ["m1300", "m1400"]
    assert (hits.exact, hits.counted, hits.scored) == (True, True, 3)
    assert memory.get("m1300").access_count == 1


@pytest.mark.parametrize("shape", [list, tuple, set, iter, dict.fromkeys, np.array])
def test_any_collection_and_each_once(memory: ailake.Memory, shape: Any) -> None:
    fill(memory, 5)
    assert found(memory, shape(["m3", "m1", "m3", "m1"])) == ["m1", "m3"]


def test_what_recall_does_not_see_is_left_out(lake: ailake.Lake, memory: ailake.Memory) -> None:
    ids = fill(memory, 3)
    lake.memory(agent_id="other").remember("theirs", id="theirs", vector=QUERY, now=NOW)
    gone = {"vector": QUERY, "now": NOW - DAY}
    memory.remember("expired", id="expired", expires_at=NOW, **gone)
    memory.remember("forgotten", id="forgotten", **gone)
    memory.forget("forgotten")
    new = memory.update("m2", text="note two", now=NOW).id
    asked = [*ids, "theirs", "expired", "forgotten", "unknown", "' OR 1=1 --"]
    assert found(memory, asked) == ["m0", "m1"]
    assert found(memory, [new, "theirs"]) == [new]
    assert found(memory, ["theirs"]) == []
    both = lake.read([memory.scope, Scope("other")])
    assert found(both, ["theirs", "m1"]) == ["theirs", "m1"]


def test_what_is_only_logged_is_found(lake: ailake.Lake, memory: ailake.Memory) -> None:
    root = lake.store.location.root
    with exclusive(root, WRITE):
        for n in range(3):
            memory.remember(f"note {n}", id=f"m{n}", vector=vector_at(n / 3), now=NOW)
        assert memory.store.episodic.fresh().count_rows() == 0
        assert found(memory, ["m2", "m1", "unknown"]) == ["m1", "m2"]


REMEMBER = """
import os, sys, ailake
rules = ailake.JudgeRules(retention=None)
lake = ailake.connect(sys.argv[1], embedder="hashing:64", judge_rules=rules)
print(lake.memory("ana-bot", user_id="ana").remember("tea").id, flush=True)
os._exit(0)
"""


def test_the_id_of_a_lost_race_stands_for_the_survivor(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    with exclusive(lake.store.location.root, WRITE):
        command = [sys.executable, "-c", REMEMBER, lake.uri]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        ids = [done.stdout.strip(), memory.remember("tea").id]
    lake.flush()
    (survivor,) = [record.id for record in memory.list()]
    assert survivor in ids
    assert ids[0] != ids[1]
    for asked in (ids, ids[:1], ids[1:]):
        assert [hit.id for hit in memory.recall_filtered("tea", 5, asked)] == [survivor]


def test_the_options_of_recall(memory: ailake.Memory) -> None:
    ids = fill(memory, 4, kind="note", session_id="s1")
    memory.remember("old", id="old", vector=QUERY, event_time=NOW - 900 * DAY, now=NOW)
    memory.remember("late", id="late", vector=QUERY, expires_at=NOW + DAY, now=NOW)
    ids += ["old", "late"]
    assert found(memory, ids, where={"kind": "note"}) == ["m0", "m1", "m2", "m3"]
    both = {"chunk_id": {"ne": "m0"}, "kind": "note"}
    assert found(memory, ids, where=both) == ["m1", "m2", "m3"]
    assert found(memory, ids, session_id="s1", limit=2) == ["m0", "m1"]
    assert "late" not in found(memory, ids, now=NOW + DAY)
    assert found(memory, ["m1", "m3"], max_distance=0.1) == ["m1"]
    exact = memory.recall_filtered(QUERY, 1, ids, exact=True, touch=False, now=NOW)
    assert exact.exact
    seed = memory.recall_filtered(
        QUERY, 9, ["m1", "old"], scoring=ScoringPolicy.SEED, touch=False, now=NOW
    )
    assert min(hit.parts["recency_part"] for hit in seed) < 1e-6
    assert not seed.counted
    assert memory.get("old", now=NOW).access_count == 0


def test_options_are_those_of_recall() -> None:
    named = inspect.signature(MemoryReader.recall).parameters.values()
    options = {one.name for one in named if one.kind is one.KEYWORD_ONLY}
    assert set(RecallOptions.__annotations__) == options - {"limit"}


def test_an_unknown_option_is_an_error_even_without_ids(memory: ailake.Memory) -> None:
    with pytest.raises(TypeError, match="no option scorring"):
        memory.recall_filtered("tea", 5, [], scorring=None)  # type: ignore[call-arg]


def test_thousands_of_ids(memory: ailake.Memory) -> None:
    count = 12_000
    ids = fill(memory, count)
    chosen = ids[1_500:]
    assert len(chosen) > MAX_SIZE
    asked = [*chosen, *(f"unknown {n}" for n in range(3_000))]
    assert found(memory, asked, limit=3) == ["m1500", "m1501", "m1502"]
    others = {"chunk_id": {"nin": ["m1500"]}}
    assert found(memory, asked, limit=2, where=others) == ["m1501", "m1502"]


class Counting:
    """An embedder that counts what it is asked."""

    id = "counting"
    dim = 64
    asked = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 64), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.asked += len(text)
        return np.ones(64, np.float32)


def test_no_ids_no_hits_and_nothing_is_read(tmp_path: Path) -> None:
    embedder = Counting()
    lake = ailake.connect(tmp_path / "lake", embedder=embedder, judge_rules=KEEP)
    memory = lake.memory(agent_id="a")
    memory.remember("tea")
    lake.close()
    nothing: list[Any] = [[], (), set(), iter(())]
    for empty in nothing:
        hits = memory.recall_filtered("tea", 3, empty)
        assert (len(hits), hits.exact, hits.scored, hits.counted) == (0, True, 0, False)
        assert hits.as_prompt() == ""
    assert embedder.asked == 0
    with pytest.raises(InvalidInputError, match="closed"):
        memory.recall_filtered("tea", 3, ["m1"])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("tea", 3, "m1"), {}, "candidate_ids: got 'm1', wanted a collection of ids"),
        (("tea", 3, None), {}, "candidate_ids: got None"),
        (("tea", 3, ["m1", 5]), {}, "candidate_ids: got 5, wanted a string"),
        (("tea", 3, ["m1", ""]), {}, "candidate_ids: got '', wanted a non-empty string"),
        (("tea", 0, ["m1"]), {}, "limit: got 0"),
        (("tea", 0, []), {}, "limit: got 0"),
        (("", 3, ["m1"]), {}, "text: got ''"),
        (("tea", 3, ["m1"]), {"where": {"nope": 1}}, "nope"),
        (("tea", 3, ["m1"]), {"where": "kind = 1"}, "where AND.*got 'kind = 1'"),
        (("tea", 3, ["m1"]), {"max_distance": 3}, "max_distance: got 3"),
    ],
)
def test_bad_arguments(
    memory: ailake.Memory, arguments: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        memory.recall_filtered(*arguments, **options)


def test_checked_texts_count_as_one_value_of_a_text_column() -> None:
    kinds = filter_kinds("episodic")
    many = CheckedTexts(f"m{n}" for n in range(MAX_SIZE + 1))
    assert "m7" in many
    assert "m" not in many
    parse_where({"chunk_id": {"in": many}}, kinds)
    assert parse_where({"chunk_id": {"in": CheckedTexts()}}, kinds) == FALSE
    for column in ("access_count", "metadata.topic"):
        with pytest.raises(InvalidInputError, match=r"more than 10,000 values|wanted an int"):
            parse_where({column: {"in": many}}, kinds)
