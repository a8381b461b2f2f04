"""The mentions of a memory that was merged are those of the memory that lives on."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import KEEP

import ailake
from ailake.changing import Changer
from ailake.core.decisions import DecisionRecord
from ailake.core.merged_mentions import heirs, inherited
from ailake.core.records import MemoryRecord
from ailake.storage import draining, merged, shared
from ailake.storage.merged import MergedIds
from ailake.storage.table import Table
from ailake.storage.twins import merge_twins

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SMALL, WHOLE = "Ana has a dog", "Ana has a small brown dog"


@pytest.fixture
def memory(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> ailake.Memory:
    """A memory whose log nobody drains in the background."""
    monkeypatch.setattr(draining, "VISIBLE_AFTER", float("inf"))
    lake.store.drainer.stop()
    return lake.memory("a")


def named(lake: ailake.Lake, *entities: str) -> list[str]:
    """Return the facts of some entities, by a graph that is held and by one that is read anew."""
    scope = ailake.Scope("a")
    lake.flush()
    found = lake.graph().neighbors(scope, entities)
    paths = lake.graph().recall_paths(scope, entities)
    assert {one.fact_id for path in paths for one in path.hops} == set(found)
    with ailake.connect(lake.uri, create=False, storage_options=OPTIONS.get(lake.uri)) as anew:
        assert anew.graph().neighbors(scope, entities) == found
    return found


OPTIONS: dict[str, dict[str, str]] = {}


def test_update_of_the_text(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana", "Oslo"], now=NOW)
    assert named(lake, "Ana") == ["x"]
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    assert named(lake, "Ana") == named(lake, "Oslo") == [moved.id]
    again = memory.update(moved.id, text="Ana lives in Bonn", now=NOW)
    assert named(lake, "Ana") == [again.id]
    memory.restore("x", now=NOW + DAY)
    assert named(lake, "Ana") == ["x"]
    lake.graph().index(memory.scope, again.id, ["Bonn"], valid_from=NOW)
    assert (named(lake, "Bonn"), named(lake, "Oslo")) == ([again.id], ["x"])


@pytest.mark.parametrize(("first", "second"), [(SMALL, WHOLE), (WHOLE, SMALL)])
def test_what_the_judge_merges(
    lake: ailake.Lake, memory: ailake.Memory, first: str, second: str
) -> None:
    memory.remember(first, id="old", entities=["Ana", "dog"], now=NOW)
    assert named(lake, "dog") == ["old"]
    made = memory.remember(second, id="new", entities=["dog", "Bo"], now=NOW + DAY)
    gone, lives = ("old", "new") if made.decision is ailake.Decision.MODIFY else ("new", "old")
    assert made.decision in {ailake.Decision.MODIFY, ailake.Decision.MERGE}
    for entity in ("Ana", "dog", "Bo"):
        assert named(lake, entity) == [lives]
    counted = [one.count for one in lake.graph().subgraph(memory.scope, 9).edges]
    assert counted == [1] * 6  # Three mentions, three pairs, each in one fact.
    memory.restore(gone, now=NOW + 2 * DAY)
    assert named(lake, "dog") == ["new", "old"]
    assert (named(lake, "Ana"), named(lake, "Bo")) == (["old", "new"], ["new", "old"])


def test_what_a_review_merges(lake: ailake.Lake, memory: ailake.Memory) -> None:
    for name in ("old", "new"):
        memory.remember(f"tea is {name}", id=name, entities=[name, "tea"], judge=False, now=NOW)

    def decide(pair: tuple[MemoryRecord, MemoryRecord]) -> DecisionRecord:
        assert [one.id for one in pair] == ["new", "old"]
        return DecisionRecord(
            id="d", scope=memory.scope, decided_at=NOW, decision="merge", memory_id="new",
            existing_id="old", absorbed_id="new",
        )  # fmt: skip

    assert named(lake, "new") == ["new", "old"]
    Changer(lake.store, lake.embedder, memory.scope).review(("new", "old"), decide)
    assert named(lake, "new") == named(lake, "tea") == ["old"]


def test_who_lost_a_race(lake: ailake.Lake, memory: ailake.Memory) -> None:
    shared._shared.clear()
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        other.store.drainer.stop()
        first = memory.remember("Ana likes tea", entities=["Ana"], now=NOW)
        second = other.memory("a").remember("ana likes tea.", entities=["Bo"], now=NOW + DAY)
        assert first.id != second.id
        assert named(lake, "Ana") == named(lake, "Bo") == [first.id]
        assert other.graph().neighbors(memory.scope, ["Bo"]) == [first.id]


@pytest.mark.slow
def test_twins_on_an_object_store(s3: dict[str, str]) -> None:
    uri = "s3://lakes/merged-mentions"
    OPTIONS[uri] = s3
    with ailake.connect(uri, embedder="hashing:16", storage_options=s3, judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        memory.remember("Ana likes tea", id="first", entities=["Ana"], now=NOW)
        memory.remember("Ana likes tea", id="second", entities=["Bo"], judge=False, now=NOW + DAY)
        # As two writers leave them who could not see each other.
        raced = pa.table({"chunk_id": ["second"], "reason": ["no_contained_match"]})
        lake.store.change(raced)
        assert named(lake, "Bo") == ["second"]
        assert merge_twins(lake.store, now=NOW + DAY, dry_run=False) == 1
        assert named(lake, "Bo") == ["first"]


def test_what_a_merged_memory_said_is_not_said_by_its_heir(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("Ana lives in Oslo", id="x", now=NOW)
    lake.graph().index(memory.scope, "x", ["Ana"], "Ana lives in Oslo", NOW)
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    assert lake.graph().subgraph(memory.scope, 9).texts == {}
    # What is noted under the old id is no news, and forgotten with the heir.
    assert lake.graph().index(memory.scope, "x", ["Ana"]) is False
    assert lake.graph().forget(memory.scope, moved.id)
    assert named(lake, "Ana") == []
    assert lake.graph().index(memory.scope, "x", ["Ana"])


def test_forgetting_the_heir_leaves_no_mention(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    memory.forget(moved.id)
    assert lake.table("mentions").count_rows() == 0
    memory.remember("Bo is here", id="x", entities=["Ana"], now=NOW)
    assert named(lake, "Ana") == ["x"]


def test_an_id_that_was_forgotten_stands_for_itself_again(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    assert named(lake, "Ana") == [moved.id]
    memory.forget(moved.id)
    # No memory has the id, whose row would say that it is merged into nothing.
    lake.graph().index(memory.scope, "x", ["Ana"], valid_from=NOW)
    assert named(lake, "Ana") == ["x"]


def test_facts_and_other_scopes_keep_their_ids(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    lake.graph().index(ailake.Scope("b"), "x", ["Ana"])
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    assert named(lake, "Ana") == [moved.id]
    assert lake.graph().neighbors(ailake.Scope("b"), ["Ana"]) == ["x"]


def test_a_merge_elsewhere_reads_nothing_anew(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """Nor does any other write; of the table only what was written is looked at."""
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    memory.update("x", text="Ana lives in Rome", now=NOW)
    lake.flush()
    before = lake.graph().scope_graph(memory.scope)
    other = lake.memory("b")
    other.remember("Bo is in Oslo", id="y", now=NOW)
    other.update("y", text="Bo is in Rome", now=NOW)
    seen: list[int] = []
    real = merged._changed

    def watched(dataset: object, fragments: list[object], *, since: int) -> pa.Table:
        rows = real(dataset, fragments, since=since)
        seen.append(rows.num_rows)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged, "_changed", watched)
        for _ in range(2):
            assert lake.graph().scope_graph(memory.scope) is before
            assert seen == [2]


def test_the_past_names_what_lived_then(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    lake.tag("before")
    moved = memory.update("x", text="Ana lives in Rome", now=NOW)
    assert named(lake, "Ana") == [moved.id]
    with lake.at("before") as past:
        assert past.graph().neighbors(memory.scope, ["Ana"]) == ["x"]


@pytest.mark.parametrize("landed", [True, False])
def test_a_merge_that_dies_leaves_what_the_rows_say(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    """Behind its commit or before it."""
    memory.remember("Ana lives in Oslo", id="x", entities=["Ana"], now=NOW)
    lake.flush()
    real = Table.upsert

    def dying(table: Table, *arguments: pa.Table, **options: object) -> None:
        if landed:
            real(table, *arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Table, "upsert", dying)
        with pytest.raises(KeyboardInterrupt):
            memory.update("x", text="Ana lives in Rome", now=NOW)
    (living,) = memory.list(now=NOW)
    assert (living.id == "x") is not landed
    assert named(lake, "Ana") == [living.id]


def update(memory: ailake.Memory, ids: Sequence[str], step: int) -> None:
    memory.update(ids[step % len(ids)], text=f"text {step}", now=NOW)


def restore(memory: ailake.Memory, ids: Sequence[str], step: int) -> None:
    memory.restore(ids[step % len(ids)], now=NOW)


def forget(memory: ailake.Memory, ids: Sequence[str], step: int) -> None:
    memory.forget(ids[step % len(ids)])


def remember(memory: ailake.Memory, _: Sequence[str], step: int) -> None:
    memory.remember_many([{"text": f"one more {step}", "id": f"m{step % 5}"}], now=NOW)


def compact(memory: ailake.Memory, *_: object) -> None:
    memory.store.episodic.compact()


STEPS: list[Callable[[ailake.Memory, Sequence[str], int], None]] = [
    update, update, restore, forget, remember, compact,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 1_000])
@settings(max_examples=8)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), max_size=12))
def test_what_is_held_is_what_the_rows_say(
    tmp_path_factory: pytest.TempPathFactory,
    few: int,
    steps: list[tuple[Callable[[ailake.Memory, Sequence[str], int], None], int]],
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    with (
        pytest.MonkeyPatch.context() as patch,
        ailake.connect(folder / "lake", embedder="hashing:8", judge_rules=KEEP) as lake,
    ):
        memory = lake.memory("a")
        memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(3)], now=NOW)
        patch.setattr(merged, "_FEW", few)
        held = MergedIds(lake.store.episodic)
        for step, (take, number) in enumerate(steps):
            everything = {"state": {"in": ["active", "merged"]}}
            ids = sorted(one.id for one in memory.list(everything, now=NOW))
            try:
                take(memory, ids or ["none"], number * 20 + step)
            except (ailake.InvalidInputError, ailake.NotFoundError):
                continue
            rows = lake.table("episodic").to_arrow().to_pylist()
            there = {row["chunk_id"]: row["merged_into"] for row in rows}
            assert held.of(memory.scope) == {one: into for one, into in there.items() if into}


names = st.sampled_from("ABCDEF")


@given(facts=st.lists(names, unique=True), into=st.dictionaries(names, names))
def test_heirs_are_where_the_chain_ends(facts: list[str], into: Mapping[str, str]) -> None:
    found = heirs(facts, into)
    assert found.keys() == set(facts) & into.keys()
    for one, heir in found.items():
        chain = [one]
        while chain[-1] in into and into[chain[-1]] not in chain:
            chain.append(into[chain[-1]])
        assert heir == chain[-1]


def test_only_merged_ids_are_replaced() -> None:
    rows = pa.table({"fact_id": ["a", "b", "a", "c"], "text": ["A", "B", "", "C"]})
    told = inherited(rows, {"a": "c"}).to_pylist()
    assert [(one["fact_id"], one["text"]) for one in told] == [
        ("c", ""), ("b", "B"), ("c", ""), ("c", "C"),
    ]  # fmt: skip
