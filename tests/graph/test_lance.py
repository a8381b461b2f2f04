"""What is the stored graph's own: other handles and processes, the past, upkeep."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ailake
from ailake.core.graph import IndexEntry
from ailake.core.indexing import ALWAYS, IndexKind, IndexSpec
from ailake.core.mention_rows import fresh_mentions, mention_rows
from ailake.storage import mentions
from ailake.storage.indexes import missing_indexes

ANA, BO = ailake.Scope("a", "ana"), ailake.Scope("a", "bo")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def other(lake: ailake.Lake) -> Iterator[ailake.Lake]:
    with ailake.connect(lake.uri, create=False) as opened:
        yield opened


def test_what_another_handle_writes_is_seen_at_once(lake: ailake.Lake, other: ailake.Lake) -> None:
    here, there = lake.graph(), other.graph()
    expected: list[str] = []
    for step in range(12):
        assert here.neighbors(ANA, ["tea"]) == expected
        there.index(ANA, f"f{step:02}", ["tea"], valid_from=NOW)
        expected.append(f"f{step:02}")
        if step % 4 == 3:
            there.forget(ANA, expected.pop(0))
        if step == 5:
            other.store.tables["mentions"].compact()
    assert here.neighbors(ANA, ["tea"]) == expected
    anew = mentions.HeldGraphs(lake.store.tables).of(ANA)
    assert here.subgraph(ANA, 100) == anew.view(100)


def test_a_write_elsewhere_reads_nothing_anew(lake: ailake.Lake) -> None:
    graph = lake.graph()
    graph.index(ANA, "f1", ["tea"])
    before = graph.scope_graph(ANA)
    graph.index(BO, "f1", ["tea", "milk"])
    assert graph.scope_graph(ANA) is before
    graph.index(ANA, "f2", ["tea"])
    assert graph.scope_graph(ANA) is not before


def test_the_same_edge_stored_twice_counts_once(lake: ailake.Lake) -> None:
    """As two writers on an object store leave it, who found the same state."""
    graph = lake.graph()
    graph.index(ANA, "f1", ["tea", "milk"], "Ana takes both", NOW, now=NOW)
    once = graph.subgraph(ANA, 10)
    entries = [IndexEntry("f1", ["tea", "milk"], "another wording", NOW)]
    rows = mention_rows(ANA, fresh_mentions(entries, None), recorded_at=NOW)
    mentions.append(lake.store, rows)
    assert lake.table("mentions").count_rows() == 4
    assert graph.subgraph(ANA, 10) == once
    assert graph.forget(ANA, "f1")
    assert lake.table("mentions").count_rows() == 0


def test_views_of_the_past_walk_what_was_known_then(lake: ailake.Lake) -> None:
    graph = lake.graph()
    graph.index(ANA, "f1", ["tea"], valid_from=NOW)
    lake.tag("before")
    graph.index(ANA, "f2", ["tea"], valid_from=NOW)
    graph.forget(ANA, "f1")
    with lake.at("before") as past:
        assert past.graph().neighbors(ANA, ["tea"]) == ["f1"]
        with pytest.raises(ailake.ReadOnlyError):
            past.graph().index(ANA, "f3", ["tea"])
        with pytest.raises(ailake.ReadOnlyError):
            past.graph().forget(ANA, "f1")
    assert graph.neighbors(ANA, ["tea"]) == ["f2"]


def test_a_closed_lake_has_no_graph_any_more(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:64") as lake:
        graph = lake.graph()
    with pytest.raises(ailake.InvalidInputError, match="closed"):
        graph.neighbors(ANA, ["tea"])
    with pytest.raises(ailake.InvalidInputError, match="closed"):
        graph.index(ANA, "f1", ["tea"])


def test_scopes_beyond_the_most_are_read_again(lake: ailake.Lake) -> None:
    held = mentions.HeldGraphs(lake.store.tables, most=3)
    for scope in (ANA, BO):
        lake.graph().index(scope, "f1", ["tea", "milk"])
    ana = held.of(ANA)
    assert held.of(ANA) is ana
    bo = held.of(BO)
    assert held.of(BO) is bo
    assert held.of(ANA) is not ana


def test_scope_columns_have_indexes_once_there_are_many(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [
        IndexSpec(name, IndexKind.BITMAP, least_rows=4)
        for name in ("agent_id", "user_id", "project_id")
    ]
    monkeypatch.setitem(ALWAYS, "mentions", tuple(few))
    graph, table = lake.graph(), lake.store.tables["mentions"]
    graph.index(ANA, "f1", ["tea", "milk", "sugar"], valid_from=NOW - timedelta(1))
    assert missing_indexes("mentions", table.snapshot()) == []
    graph.index(BO, "f1", ["tea"], valid_from=NOW)
    assert missing_indexes("mentions", table.snapshot()) == few
    lake.store.keep_indexes_current()
    assert missing_indexes("mentions", table.snapshot()) == []
    graph.index(ANA, "f2", ["tea"], valid_from=NOW)
    anew = mentions.HeldGraphs(lake.store.tables)
    tea = [ailake.EntityRef("concept", "tea")]
    for scope, expected in ((ANA, ["f2", "f1"]), (BO, ["f1"])):
        assert graph.neighbors(scope, ["tea"]) == expected
        assert anew.of(scope).neighbors(tea, max_hops=1) == expected


def test_entities_of_memories(lake: ailake.Lake) -> None:
    memory, graph = lake.memory("a", user_id="ana"), lake.graph()
    rules = ailake.RulesExtractor()
    memory.remember("Ben likes tea", id="new", now=NOW)
    memory.remember("Ben was in Oslo", id="old", event_time=NOW - timedelta(days=9), now=NOW)
    memory.remember("nothing to see", id="none", now=NOW)
    assert graph.extract(ANA, ["new", "none", "old"], extractor=rules) == ["new", "old"]
    assert graph.extract(ANA, ["old", "new"], extractor=rules) == []
    assert graph.neighbors(ANA, ["Ben"]) == ["new", "old"]
    assert graph.subgraph(ANA, 10).texts == {}
    for scope, ids in ((BO, ["new"]), (ANA, ["new", "never"])):
        with pytest.raises(ailake.NotFoundError):
            graph.extract(scope, ids, extractor=rules)


def test_a_memory_that_is_forgotten_meanwhile_is_not_mentioned(lake: ailake.Lake) -> None:
    memory = lake.memory("a", user_id="ana")
    for memory_id in ("gone", "kept"):
        memory.remember(f"I told Ben that it is {memory_id}", id=memory_id)

    class Slow(ailake.RulesExtractor):
        def extract(
            self, text: str, hints: Sequence[str | ailake.EntityRef] = ()
        ) -> list[ailake.EntityRef]:
            memory.forget("gone")
            return super().extract(text, hints)

    assert lake.graph().extract(ANA, ["gone", "kept"], extractor=Slow()) == ["kept"]
    assert lake.graph().neighbors(ANA, ["Ben"]) == ["kept"]
