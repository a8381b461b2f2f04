"""Facts beside everything else in a lake: in the past, in copies, in frames, once pruned."""

import re
import shutil
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from asserted import HOUR, NOW, at, works, year
from kept import KEEP

import ailake
from ailake import InvalidInputError
from ailake.clock import utc_now
from ailake.maintenance import ForgetJob
from ailake.storage.indexes import due_indexes, indexes_of

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return lake.facts(agent_id="ana-bot", user_id="ana")


def test_the_past_a_tag_and_a_backup(tmp_path: Path, lake: ailake.Lake) -> None:
    facts = lake.facts("a", multi_valued={"likes"})
    facts.assert_([works("A", 2010)], now=NOW)
    lake.tag("before")
    facts.assert_([works("B", 2015)], now=NOW + HOUR)
    then = lake.at("before").facts("a", multi_valued={"likes"})
    assert at(then, 2016) == [["A"]]
    for write in (
        lambda: then.assert_([works("C", 2016)]),
        lambda: then.retract(then.find(as_of=year(2016))[0].fact_id, "why"),
        lambda: lake.at("before").facts("a", multi_valued={"speaks"}),
    ):
        with pytest.raises(ailake.ReadOnlyError):
            write()
    lake.backup(tmp_path / "backup")
    with ailake.connect(tmp_path / "backup", judge_rules=KEEP) as copy:
        assert copy.facts("a").history("Ana", "works_at") == facts.history("Ana", "works_at")
        copy.facts("a").assert_([works("C", 2020)], now=NOW + 2 * HOUR)
        assert at(copy.facts("a"), 2012, 2016, 2021) == [["A"], ["B"], ["C"]]
    assert at(facts, 2021) == [["B"]]


def test_a_lake_without_the_tables_gets_them(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
        lake.tag("before")
    for name in ("facts", "verifications", "assertions"):
        shutil.rmtree(tmp_path / f"{name}.lance")
    with ailake.connect(tmp_path, judge_rules=KEEP) as lake:
        assert lake.facts("a").find() == []
        lake.facts("a").assert_([works("A", 2010)], now=NOW)
        assert at(lake.facts("a"), 2011) == [["A"]]
        assert lake.at("before").facts("a").find() == []
        assert lake.memory(agent_id="a").count() == 1


def test_polars_reads_them(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010), works("B", 2015)], now=NOW)
    live = lake.scan("facts").filter(pl.col("retired_at").is_null(), pl.col("valid_to").is_null())
    assert live.collect()["object"].to_list() == ["B"]
    assert {table.name: table.rows for table in lake.stats().tables}["facts"] == 3


def test_polars_sees_what_find_does_on_both_axes(lake: ailake.Lake, facts: ailake.Facts) -> None:
    other = lake.facts("other")
    facts.assert_([works("A", 2010), works("A", 2010, 2012, subject="Bo")], now=NOW)
    other.assert_([works("A", 2011)], now=NOW + HOUR)
    facts.assert_([works("B", 2015)], now=NOW + HOUR)
    for as_of in (year(2009), year(2010), year(2012), year(2015)):
        for known_at in (NOW - HOUR, NOW, NOW + HOUR, None):
            found = lake.facts_at(as_of=as_of, known_at=known_at).collect()
            wanted = [
                version.version_id
                for one in (facts, other)
                for version in one.find(as_of=as_of, known_at=known_at)
            ]
            assert sorted(found["version_id"]) == sorted(wanted)
    assert lake.facts_at(now=NOW).select("object").collect()["object"].to_list() == ["A"]
    with pytest.raises(InvalidInputError, match="known_at"):
        lake.facts_at(known_at=NOW.replace(tzinfo=None))


def test_verify_names_broken_facts(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    rows = lake.table("facts").to_arrow().to_pylist()
    again = {**rows[0], "object_id": "b", "ordinal": 1}
    lake.table("facts").add([again, {**again, "version_id": "w", "valid_to": year(2009)}])
    found = {problem.what: problem.examples for problem in lake.verify()}
    assert found["two versions of facts have the same id"] == (rows[0]["version_id"],) * 2
    assert found["an interval of a fact ends before it begins"] == ("w",)
    assert "two live facts contradict each other" in found


def test_a_closed_lake_says_so(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        facts = lake.facts("a")
    for call in (facts.find, lambda: facts.assert_([works("A", 2010)])):
        with pytest.raises(InvalidInputError, match="is closed"):
            call()


def test_facts_of_pruned_memories_go_with_them(lake: ailake.Lake, facts: ailake.Facts) -> None:
    memory = lake.memory(agent_id="ana-bot", user_id="ana")
    told = memory.remember("Ana works at A", expires_at=NOW + HOUR, now=NOW)
    facts.assert_([works("A", 2010, source_memory_id=told.id)], now=NOW)
    kept = memory.remember("Bo works at B", now=NOW)
    facts.assert_([works("B", 2020, subject="Bo", source_memory_id=kept.id)], now=NOW)
    ForgetJob(lake).run(NOW + 2 * HOUR)
    assert facts.history("Ana", "works_at") == []
    assert [version.object for version in facts.find("Bo", now=NOW)] == ["B"]
    assert lake.verify() == ()


@pytest.mark.parametrize("how", ["prune", "forget"])
def test_facts_that_a_killed_removal_left_go_with_the_next_opening(
    lake: ailake.Lake, facts: ailake.Facts, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    memory = lake.memory(agent_id="ana-bot", user_id="ana")
    told = memory.remember("Ana works at A", expires_at=NOW + HOUR, now=NOW)
    facts.assert_([works("A", 2010, source_memory_id=told.id)], now=NOW)

    def die(*_: Any, **__: Any) -> None:
        # The lake's own thread, which completes removals, does not get there either.
        raise KeyboardInterrupt if current_thread() is main_thread() else OSError("killed")

    with monkeypatch.context() as killed:
        killed.setattr("ailake.storage.fact_removal.remove", die)
        removal: Callable[[], object] = {
            "prune": lambda: ForgetJob(lake).run(NOW + 2 * HOUR),
            "forget": lambda: memory.forget(where={"agent_id": "ana-bot"}, now=NOW),
        }[how]
        with pytest.raises(KeyboardInterrupt):
            removal()
    with ailake.connect(lake.uri, judge_rules=KEEP) as other:
        other.flush()
        assert other.facts("ana-bot", user_id="ana").history("Ana", "works_at") == []
        assert other.ledger().verify() == ()


def test_what_is_believed_now_is_found_whatever_clocks_say(facts: ailake.Facts) -> None:
    ahead = utc_now() + HOUR
    facts.assert_([works("A", 2010)], now=ahead)
    facts.assert_([works("B", 2015)])
    assert [version.object for version in facts.find("Ana")] == ["B"]
    assert facts.find("Ana", known_at=ahead - HOUR) == []


def test_a_fact_that_comes_back_names_who_lost(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010), works("B", 2015)], now=NOW)
    (lost,) = facts.find("Ana", now=NOW)
    (again,) = facts.assert_([works("A", 2020)], now=NOW)
    assert (again.kind, again.loser_fact_id) == ("noop", lost.fact_id)
    assert [version.object for version in facts.find("Ana", now=NOW)] == ["A"]


def test_many_facts_are_found_by_indexes_that_are_kept_current(
    lake: ailake.Lake, memory: ailake.Memory, facts: ailake.Facts
) -> None:
    many = [works("A", 2010, subject=f"person {n}") for n in range(1_100)]
    facts.assert_(many, now=NOW)
    lake.flush()
    made = {
        name: indexes_of(lake.store.tables[name].snapshot()) for name in ("facts", "assertions")
    }
    assert {name: [one.name for one in some] for name, some in made.items()} == {
        "facts": ["fact_id_idx", "key_id_idx", "source_memory_id_idx", "subject_id_idx"],
        "assertions": ["key_id_idx", "source_memory_id_idx"],
    }
    # Some that the indexes know, and some that they lack.
    (decision,) = facts.assert_([works("B", 2015, subject="person 7")], now=NOW + HOUR)
    assert decision.kind == "supersede"
    for known in ("person 7", "person 8"):
        found = facts.find(known, as_of=year(2012), now=NOW + HOUR)
        assert [version.object for version in found] == ["A"]
    lake.table("facts").optimize()
    assert [v.object for v in facts.find("person 7", "works_at", now=NOW + HOUR)] == ["B"]
    assert len(facts.history("person 7", "works_at")) == 3
    assert len(facts.retract(decision.fact_id, "wrong", now=NOW + HOUR)) == 1
    facts.assert_([works("C", 2020, subject=person.subject) for person in many], now=NOW + HOUR)
    lake.flush()
    assert due_indexes(lake.store.tables["facts"]) == ()
    plan = lake.store.tables["facts"].snapshot().scanner(filter="key_id = 'x'").explain_plan()
    assert "ScalarIndexQuery" in plan
    assert len(facts.find(as_of=year(2012), now=NOW + HOUR)) == 1_100
    memory.remember("tea", id="m", now=NOW)
    facts.assert_([works("D", 2021, subject="person 7")], source_memory_id="m", now=NOW + HOUR)
    for name in ("facts", "assertions"):
        scanner = lake.store.tables[name].snapshot().scanner(filter="source_memory_id = 'm'")
        read = [int(rows) for rows in re.findall(r"rows_scanned=(\d+),", scanner.analyze_plan())]
        assert 1 <= sum(read) < 10
    memory.forget("m", now=NOW + HOUR)
    assert [v.object for v in facts.find("person 7", "works_at", now=NOW + HOUR)] == ["C"]
    assert lake.verify() == ()
