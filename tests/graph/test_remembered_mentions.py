"""What memories mention is in the graph with them, by whichever verb they came, whoever dies."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from graph_faults import failing
from hypothesis import given
from hypothesis import strategies as st
from kept import KEEP

import ailake
from ailake.cli import options
from ailake.cli.ingest import check_file, read_items
from ailake.core.drafts import Draft
from ailake.core.graph import entity_refs
from ailake.core.noting import noting, with_repeated
from ailake.core.remembering import duplicate_keys, plan_batch
from ailake.storage import draining
from ailake.storage.recording import Recorder
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEN = ailake.EntityRef("person", "Ben")


@pytest.fixture
def memory(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> ailake.Memory:
    """A memory whose log nobody drains in the background."""
    monkeypatch.setattr(draining, "VISIBLE_AFTER", float("inf"))
    lake.store.drainer.stop()
    return lake.memory("a")


def edges(lake: ailake.Lake) -> list[tuple[str, str, str]]:
    """Return each mention that is stored, as often as it is."""
    rows = lake.table("mentions").to_arrow().to_pylist()
    return sorted((one["fact_id"], one["entity_name"], one["entity_type"]) for one in rows)


def is_logged(lake: ailake.Lake) -> bool:
    return lake.store.log is not None and len(lake.store.log) > 0


def test_what_remember_is_told_is_there_after_a_flush(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    later = memory.remember("Ben leads Atlas", entities=[BEN, "Atlas"], now=NOW + HOUR)
    early = memory.remember("Atlas began", entities=("Atlas",), event_time=NOW, now=NOW + 2 * HOUR)
    memory.remember("nothing to note", entities=[], now=NOW)
    assert is_logged(lake)
    graph, scope = lake.graph(), memory.scope
    assert graph.neighbors(scope, ["Atlas"]) == []
    lake.flush()
    assert graph.neighbors(scope, ["atlas"]) == [later.id, early.id]
    assert graph.neighbors(scope, [BEN]) == [later.id, early.id]
    assert graph.neighbors(lake.memory("b").scope, [BEN]) == []
    # As graph.extract would say it: there is no news.
    assert graph.index(scope, later.id, [BEN, "Atlas"]) is False
    assert memory.forget(later.id).ids == (later.id,)
    assert graph.neighbors(scope, [BEN]) == []


def many(memory: ailake.Memory, items: list[dict[str, Any]], **options: Any) -> list[str]:
    return [one.id for one in memory.remember_many(items, now=NOW, **options)]


ITEMS: list[dict[str, Any]] = [
    {"text": "Ben leads Atlas", "entities": ["Ben", "Atlas"]},
    {"text": "It rains"},
    {"text": "Oslo is far", "entities": ["Oslo"]},
]
VECTORS = np.eye(3, 64, dtype=np.float32)


def frame(*, vectors: bool) -> pa.Table:
    table = pa.table({name: [one.get(name) for one in ITEMS] for name in ("text", "entities")})
    return table.append_column("vector", pa.array(list(VECTORS))) if vectors else table


WAYS: dict[str, Callable[[ailake.Memory], list[str]]] = {
    "dicts": lambda memory: many(memory, ITEMS),
    "unjudged, with vectors": lambda memory: many(
        memory,
        [{**one, "vector": v} for one, v in zip(ITEMS, VECTORS, strict=True)],
        judge=False,
    ),
    "with ids": lambda memory: many(
        memory, [{**one, "id": f"n{n}"} for n, one in enumerate(ITEMS)]
    ),
    "a frame": lambda memory: many(memory, frame(vectors=False)),
    "a frame with vectors": lambda memory: many(memory, frame(vectors=True), judge=False),
    "messages": lambda memory: [
        one.id
        for one in memory.add_messages(
            [
                {"role": "user", "content": one["text"], "entities": one.get("entities")}
                for one in ITEMS
            ],
            now=NOW,
        )
    ],
}


@pytest.mark.parametrize("way", WAYS)
def test_by_every_verb(lake: ailake.Lake, memory: ailake.Memory, way: str) -> None:
    ben, _, oslo = WAYS[way](memory)
    lake.flush()
    concept = "concept"
    assert edges(lake) == sorted(
        [(ben, "Ben", concept), (ben, "Atlas", concept), (oslo, "Oslo", concept)]
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("Ben", "entities"),
        (["Ben", 7], r"entities\[1\]"),
        (["  "], r"entities\[0\]"),
        ({"Ben": 1}, "entities"),
    ],
)
def test_wrong_entities_are_refused_before_anything_is_written(
    lake: ailake.Lake, memory: ailake.Memory, wrong: Any, named: str
) -> None:
    with pytest.raises(ailake.InvalidInputError, match=named):
        memory.remember("tea", entities=wrong)
    with pytest.raises(ailake.InvalidInputError, match=f"item 1: .*{named}"):
        memory.remember_many(
            [{"text": "milk", "entities": ["M"]}, {"text": "a", "entities": wrong}]
        )
    with pytest.raises(ailake.InvalidInputError, match=f"message 0: .*{named}"):
        memory.add_messages([{"role": "user", "content": "tea", "entities": wrong}])
    lake.flush()
    assert (memory.count(), edges(lake)) == (0, [])


def test_a_repetition_tells_more_of_what_is_stored(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    first = memory.remember("Ben likes tea", entities=["tea"], now=NOW)
    # Of what is only logged yet, too.
    again = memory.remember("ben likes tea.", entities=[BEN], now=NOW)
    assert (again.decision, again.id) == (ailake.Decision.SKIP, first.id)
    assert edges(lake) == [(first.id, "Ben", "person"), (first.id, "tea", "concept")]
    before = lake.store.tables["mentions"].version
    memory.remember("Ben likes tea", entities=[BEN, "Tea"], now=NOW)
    memory.remember("Ben likes tea", now=NOW)
    assert lake.store.tables["mentions"].version == before


def test_repetitions_within_a_batch_are_told_of_the_first(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    told = [{"role": "user", "content": "Tea!", "entities": [one]} for one in ("A", "B")]
    first, second = memory.add_messages(told, now=NOW)
    assert is_logged(lake)
    assert (second.decision, second.id) == (ailake.Decision.SKIP, first.id)
    memory.add_messages([{"role": "user", "content": "Milk", "entities": ["C"]}], now=NOW)
    lake.flush()
    assert {name for _, name, _ in edges(lake)} == {"A", "B", "C"}
    assert {name for one, name, _ in edges(lake) if one == first.id} == {"A", "B"}


def test_an_id_that_was_given_before_changes_nothing(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    for named in ("A", "B"):
        memory.remember("tea", id="x", entities=[named], now=NOW)
    lake.flush()
    memory.remember("tea", id="x", entities=["C"], now=NOW)
    memory.remember_many([{"text": "tea", "id": "x", "entities": ["D"]}], now=NOW)
    assert edges(lake) == [("x", "A", "concept")]


def test_what_is_deferred_is_noted(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16") as lake:
        memory = lake.memory("a")
        made = memory.remember("ok", entities=[BEN], now=NOW)
        assert made.decision is ailake.Decision.DEFER
        lake.flush()
        assert lake.graph().neighbors(memory.scope, [BEN]) == [made.id]


@pytest.mark.parametrize("logged", [True, False])
def test_a_failure_between_mentions_and_rows_is_made_good(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch, *, logged: bool
) -> None:
    """By the next drain, or by who gives the same id again."""
    real = Table.append

    def failing(table: Table, *arguments: Any, **options: Any) -> int:
        if table.name == "episodic":
            raise OSError("no space left")
        return real(table, *arguments, **options)

    def write() -> None:
        item = {"text": "Ben likes tea", "id": "x", "entities": [BEN, "tea"]}
        if logged:
            memory.add_messages(
                [{"role": "user", "content": item["text"], "id": "x", "entities": [BEN, "tea"]}]
            )
            lake.flush()
        else:
            memory.remember_many([item], now=NOW)

    with monkeypatch.context() as broken:
        broken.setattr(Table, "append", failing)
        with pytest.raises(OSError, match="no space"):
            write()
    write()
    assert edges(lake) == [("x", "Ben", "person"), ("x", "tea", "concept")]
    assert memory.count(now=NOW) == 1


def test_a_graph_that_fails_keeps_no_memory_out(
    lake: ailake.Lake,
    memory: ailake.Memory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with failing(monkeypatch, "append"):
        logged = memory.remember("Ben leads Atlas", entities=[BEN], now=NOW)
        assert is_logged(lake)
        again = memory.remember("Ben leads Atlas", entities=["Atlas"], now=NOW)
        assert (again.decision, again.id) == (ailake.Decision.SKIP, logged.id)
        (many,) = memory.remember_many([{"text": "Oslo is far", "entities": ["Oslo"]}], now=NOW)
        later = memory.remember("Carl drinks tea", entities=["Carl"], now=NOW)
        lake.flush()
    assert (memory.count(now=NOW), edges(lake)) == (3, [])
    for told in (logged, many, later):
        assert f"the graph was not told what these mention: {told.id}" in caplog.text
    # Of what was logged, its repetition, the batch, and what was logged last.
    assert lake.graph().failures == 4
    memory.remember("Dora is in Turku", id="d", entities=["Dora"], now=NOW)
    lake.flush()
    assert edges(lake) == [("d", "Dora", "concept")]
    assert lake.graph().failures == 4


def test_a_ledger_that_fails_loses_no_mention(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("Ben leads Atlas", id="b", entities=[BEN], now=NOW)

    def fail(*_: object, **__: object) -> None:
        raise OSError("the ledger can not be read")

    with monkeypatch.context() as broken:
        broken.setattr(Recorder, "end_removals", fail)
        with pytest.raises(OSError, match="the ledger"):
            lake.flush()
    lake.flush()
    assert edges(lake) == [("b", "Ben", "person")]
    assert lake.graph().failures == 0


def test_a_graph_that_can_not_be_read_keeps_no_repetition_out(
    lake: ailake.Lake, memory: ailake.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    first = memory.remember("Ben leads Atlas", entities=[BEN], now=NOW)
    lake.flush()
    for file in (Path(lake.uri) / "mentions.lance" / "data").iterdir():
        file.write_bytes(b"")
    with ailake.connect(lake.uri, embedder="hashing:64", judge_rules=KEEP) as opened:
        damaged = opened.memory("a")
        told = damaged.remember("Ben leads Atlas", entities=["Atlas"], now=NOW)
        (many,) = damaged.remember_many([{"text": "ben leads Atlas", "entities": ["B"]}], now=NOW)
        assert told.id == many.id == first.id
        assert opened.graph().failures == 2
        assert caplog.text.count(f"the graph was not told what these mention: {first.id}") == 2
        assert damaged.forget(first.id).ids == (first.id,)
        (problem,) = opened.verify()
        assert (problem.what, problem.examples) == ("a table can not be read", ("mentions",))


KILLED = """
import os, sys
import ailake
from ailake.storage import mentions
from ailake.storage.table import Table

uri, step = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), 9)

def behind(real, is_due=lambda *_: True):
    def called(*arguments, **options):
        made = real(*arguments, **options)
        return die() if is_due(*arguments) else made
    return called

lake = ailake.connect(uri, embedder="hashing:16", judge_rules=ailake.JudgeRules(retention=None))
lake.store.drainer.stop()
memory = lake.memory("a")
memory.remember("Ben leads Atlas", id="x", entities=[ailake.EntityRef("person", "Ben"), "Atlas"])
memory.remember("Oslo is far", id="y", entities=["Oslo"])
print("told", flush=True)
if step == "mentions":
    mentions.note = behind(mentions.note)
elif step == "rows":
    Table.append = behind(Table.append, lambda table, *_: table.name == "episodic")
else:
    die()
lake.flush()
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["log", "mentions", "rows"])
def test_killed_behind_each_step_of_a_drain(tmp_path: Path, step: str) -> None:
    """Whoever opens the lake next, another process, finds all that was told, once."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "lake"), step]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.stdout, told.returncode) == ("told\n", -signal.SIGKILL), told.stderr
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        concept = "concept"
        assert edges(lake) == [
            ("x", "Atlas", concept),
            ("x", "Ben", "person"),
            ("y", "Oslo", concept),
        ]
        assert lake.graph().neighbors(lake.memory("a").scope, [BEN]) == ["x"]
        assert lake.verify() == ()


words = st.sampled_from(["tea", "milk", "rain", "snow"])
drafted = st.builds(
    Draft,
    text=words,
    id=st.none() | st.sampled_from(["i", "j"]),
    entities=st.lists(st.sampled_from("ABCD"), max_size=2, unique=True).map(entity_refs),
)


@given(drafts=st.lists(drafted, max_size=8), judge=st.booleans())
def test_each_draft_that_stands_for_something_is_told_of_it(
    *, drafts: list[Draft], judge: bool
) -> None:
    plan = plan_batch(
        drafts, duplicate_keys(drafts), fresh_ids=[f"f{n}" for n in range(len(drafts))],
        known_ids={}, known_keys={}, judge=judge, now=NOW,
    )  # fmt: skip
    noted = noting(plan, drafts, now=NOW)
    assert noted.stored == ()
    expected: dict[str, set[str]] = {one.outcome.id: set() for one in plan.additions}
    own = {one.position for one in plan.additions}
    for place, (draft, outcome) in enumerate(zip(drafts, plan.outcomes, strict=True)):
        if place in own or outcome.decision is ailake.Decision.SKIP:
            expected[outcome.id] |= {ref.name for ref in draft.entities}
    told = {
        one.outcome.id: {ref.name for ref in one.draft.entities}
        for one in with_repeated(plan.additions, noted)
    }
    assert told == expected


def test_the_command_line_reads_types() -> None:
    named = {
        "Ben:person": ("person", "Ben"),
        "Atlas": ("concept", "Atlas"),
        "https://x.org": ("concept", "https://x.org"),
        "A:other(kind)": ("other(kind)", "A"),
        ":person": ("concept", ":person"),
    }
    assert {one: (e.type, e.name) for one in named for e in [options.entity(one)]} == named


def test_lines_of_a_file_name_entities_with_or_without_a_type(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"

    def write(*named: object) -> None:
        lines = [json.dumps({"text": "tea", "entities": one}) for one in named]
        file.write_text("\n".join(lines))

    write(["Atlas", {"type": "person", "name": "Ben"}])
    ((_, item),) = read_items(file)
    assert item["entities"] == ["Atlas", BEN]
    wrong: list[object] = [[{"type": "man", "name": "Ben"}], [{"name": "Ben"}], "Ben", [3]]
    for one in wrong:
        write(["A"], one)
        with pytest.raises(ailake.InvalidInputError, match=r"lines.jsonl line 2: entit"):
            check_file(file)
