"""Facts of forgotten memories: gone, while what others said of the same stays or comes back."""

import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asserted import HOUR, NOW, at, works, year

import ailake
from ailake import EntityRef, FactTriple, InvalidInputError, Scope
from ailake.core.fact_versions import FactKey, StoredVersion
from ailake.core.forgetting import forgotten
from ailake.core.superseding import KeyPlanner
from ailake.storage import fact_removal

if TYPE_CHECKING:
    from ailake.core.assertions import Assertion


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    memory = lake.memory(agent_id="ana-bot")
    memory.remember_many([{"text": f"text of {name}", "id": name} for name in ("m1", "m2", "m3")])
    return lake.facts(agent_id="ana-bot")


def forget(lake: ailake.Lake, name: str, hours: int) -> None:
    lake.memory(agent_id="ana-bot").forget(name, now=NOW + hours * HOUR)
    assert lake.verify() == ()
    for table in ("facts", "verifications", "assertions"):
        rows = lake.scan(table).collect().to_dicts()
        assert not any(name in row.values() for row in rows)


def test_what_another_memory_repeated_stays_in_its_words(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    ana, anna = EntityRef("person", "Ana"), EntityRef("person", "ANA")
    facts.assert_([works("A", 2010, subject=ana)], source_memory_id="m1", now=NOW)
    facts.assert_([works("a", 2010, subject=anna)], source_memory_id="m2", now=NOW + HOUR)
    forget(lake, "m1", 2)
    (found,) = facts.find(ana, now=NOW + 3 * HOUR)
    assert (repr(found.subject), found.object, found.source_memory_id) == (repr(anna), "a", "m2")
    assert found.recorded_at == NOW + HOUR
    assert facts.find(ana, known_at=NOW) == []
    assert len(facts.find(ana, known_at=NOW + HOUR)) == 1
    assert [entry.assertions for entry in facts.history(ana, "works_at")] == [1]
    forget(lake, "m2", 4)
    assert lake.scan("facts").collect().height == 0
    assert lake.scan("assertions").collect().height == 0


def test_what_nobody_s_memory_said_stays(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    facts.assert_([works("A", 2012)], now=NOW + HOUR)
    forget(lake, "m1", 2)
    assert at(facts, 2011, 2013) == [[], ["A"]]


def test_a_loser_has_its_window_again_from_now_on(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    facts.assert_([works("B", 2015)], source_memory_id="m2", now=NOW + HOUR)
    forget(lake, "m2", 2)
    assert at(facts, 2012, 2016) == [["A"], ["A"]]
    assert at(facts, 2012, 2016, known_at=NOW + HOUR) == [["A"], []]
    assert at(facts, 2012, 2016, known_at=NOW) == [["A"], ["A"]]
    entries = facts.history("Ana", "works_at")
    assert [entry.retired_at for entry in entries] == [NOW + HOUR, NOW + 2 * HOUR, None]
    assert {(entry.verdict, entry.lost_to) for entry in entries} == {("", "")}


@pytest.mark.parametrize(("gone", "left"), [("m1", [[], ["A"], ["A"]]), ("m2", [["A"], ["A"], []])])
def test_a_joined_window_shrinks(
    lake: ailake.Lake, facts: ailake.Facts, gone: str, left: list[list[str]]
) -> None:
    facts.assert_([works("A", 2010, 2014)], source_memory_id="m1", now=NOW)
    facts.assert_([works("A", 2012, 2018)], source_memory_id="m2", now=NOW + HOUR)
    forget(lake, gone, 2)
    assert at(facts, 2011, 2013, 2016) == left
    assert at(facts, 2011, 2013, 2016, known_at=NOW + HOUR) == left


def test_what_was_decided_of_others_is_still_told(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    facts.assert_([works("A", 2010)], source_memory_id="m2", now=NOW + HOUR)
    (new,) = facts.assert_([works("B", 2015)], source_memory_id="m3", now=NOW + 2 * HOUR)
    forget(lake, "m1", 3)
    (lost,) = [entry for entry in facts.history("Ana", "works_at") if entry.lost_to]
    assert (lost.object, lost.recorded_at, lost.lost_to) == ("A", NOW + HOUR, new.fact_id)


def test_what_was_retracted_does_not_come_back(lake: ailake.Lake, facts: ailake.Facts) -> None:
    (told,) = facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    facts.assert_([works("A", 2010)], source_memory_id="m2", now=NOW + HOUR)
    facts.retract(told.fact_id, "wrong", now=NOW + 2 * HOUR)
    forget(lake, "m1", 3)
    assert at(facts, 2011) == [[]]
    (entry,) = facts.history("Ana", "works_at")
    assert (entry.recorded_at, entry.retired_at) == (NOW + HOUR, NOW + 2 * HOUR)


def test_each_is_decided_as_it_was_then(lake: ailake.Lake, facts: ailake.Facts) -> None:
    """Whoever forgets has declared nothing."""
    strict = lake.facts("ana-bot", verifier="latest_event")
    strict.assert_([works("A", 2015)], source_memory_id="m1", now=NOW)
    strict.assert_([works("B", 2012)], source_memory_id="m2", now=NOW + HOUR)
    facts.assert_([works("C", 2013, 2014)], source_memory_id="m3", now=NOW + 2 * HOUR)
    forget(lake, "m3", 3)
    assert at(facts, 2013, 2016) == [["B"], ["A"]]
    forget(lake, "m1", 4)
    assert at(facts, 2013, 2016) == [["B"], ["B"]]


def test_ids_are_never_given_twice(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    first = {version.version_id for version in facts.history("Ana", "works_at")}
    forget(lake, "m1", 1)
    facts.assert_([works("B", 2010)], now=NOW + 2 * HOUR)
    assert first.isdisjoint(version.version_id for version in facts.history("Ana", "works_at"))


@pytest.mark.parametrize("step", ["exchange", "_forget_words"])
def test_a_removal_that_died_is_done_again(
    lake: ailake.Lake, facts: ailake.Facts, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    facts.assert_([works("A", 2012)], source_memory_id="m2", now=NOW + HOUR)
    facts.assert_([works("B", 2015)], source_memory_id="m3", now=NOW + 2 * HOUR)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    # Otherwise the step may be its thread's.
    lake.store.drainer.stop()
    with monkeypatch.context() as killed:
        killed.setattr(fact_removal, step, die)
        with pytest.raises(KeyboardInterrupt):
            lake.memory(agent_id="ana-bot").forget("m1", now=NOW + 3 * HOUR)
    with ailake.connect(lake.uri) as other:
        other.flush()
        facts = other.facts("ana-bot")
        assert at(facts, 2011, 2013, 2016) == [[], ["A"], ["B"]]
        assert [entry.assertions for entry in facts.history("Ana", "works_at")] == [1, 1, 1]
        forget(other, "m3", 4)
        assert at(facts, 2011, 2013, 2016) == [[], ["A"], ["A"]]


def test_versions_speak_for_what_was_never_written_down(tmp_path: Path) -> None:
    """A lake of an older release has no assertions, and repetitions among the decisions."""
    with ailake.connect(tmp_path, embedder="hashing:8") as lake:
        lake.memory(agent_id="ana-bot").remember("x", id="m1")
        lake.memory(agent_id="ana-bot").remember("y", id="m2")
        facts = lake.facts("ana-bot")
        facts.assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
        facts.assert_([works("B", 2015)], source_memory_id="m2", now=NOW + HOUR)
        (last,) = facts.find("Ana", now=NOW + HOUR)
        facts.retract(last.fact_id, "wrong", now=NOW + 2 * HOUR)
        (lost, *_) = lake.table("verifications").to_arrow().to_pylist()
        noop = {"verdict": "noop", "loser_version_id": "", "loser_fact_id": "", "verifier": ""}
        noop |= {
            "source_memory_id": "m1",
            "winner_version_id": lost["loser_version_id"],
            "verification_id": "noop",
        }
        lake.table("verifications").add(
            [{**lost, **noop, "winner_fact_id": lost["loser_fact_id"], "decided_at": NOW}]
        )
    shutil.rmtree(tmp_path / "assertions.lance")
    with ailake.connect(tmp_path) as lake:
        facts = lake.facts("ana-bot")
        assert [v.assertions for v in facts.history("Ana", "works_at")] == [2, 1, 2]
        assert at(facts, 2011, 2016) == [["A"], []]
        forget(lake, "m2", 3)
        assert at(facts, 2011, 2016) == [["A"], ["A"]]
        forget(lake, "m1", 4)
        assert facts.history("Ana", "works_at") == []


def test_a_link_to_no_memory_of_the_scope_is_refused(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    lake.memory(agent_id="ana-bot", user_id="bo").remember("other scope", id="m9")
    before = lake.table("facts").version, lake.table("assertions").version
    for wrong in ("m9", "nothing"):
        with pytest.raises(InvalidInputError, match=f"source_memory_id: got '{wrong}', wanted the"):
            facts.assert_([works("A", 2010), works("B", 2012, source_memory_id=wrong)])
    assert (lake.table("facts").version, lake.table("assertions").version) == before
    with ailake.connect(lake.uri) as other:
        other.memory(agent_id="ana-bot").remember("just now", id="m4")
        facts.assert_([works("A", year(2010).year)], source_memory_id="m4", now=NOW)


def test_a_call_that_is_tried_again_counts_once(lake: ailake.Lake, facts: ailake.Facts) -> None:
    for _ in range(2):
        facts.assert_([works("A", 2010), works("A", 2011), works("A", 2011)], now=NOW)
    assert sorted(lake.scan("assertions").collect()["version_id"] != "") == [False, False, True]
    assert [entry.assertions for entry in facts.history("Ana", "works_at")] == [3]
    facts.assert_([works("A", 2011)], now=NOW + HOUR)
    assert [entry.assertions for entry in facts.history("Ana", "works_at")] == [4]


def calls_to_forget_one_of(count: int) -> int:
    """Return how many functions are called to forget who said the first of many status changes."""
    server, status = EntityRef("concept", "server"), [EntityRef("concept", s) for s in "abcde"]
    key = FactKey(Scope("ana-bot"), server.id, "status")
    versions: dict[str, StoredVersion] = {}
    said: list[Assertion] = []
    for day in range(count):
        planner = KeyPlanner(key, list(versions.values()), now=NOW + day * HOUR)
        new, source = status[day % 5], "" if day else "m1"
        valid_from = year(2020) + timedelta(days=day)
        planner.take(FactTriple(server, "status", new, valid_from, None, source), new.id)
        plan = planner.plan()
        versions |= {one.version_id: one for one in (*plan.retired, *plan.inserted)}
        said += plan.assertions
    calls = 0

    def called(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(called)
    try:
        left = forgotten(key, list(versions.values()), said[1:], {"m1"}, now=NOW + count * HOUR)
    finally:
        sys.setprofile(None)
    assert len(left.gone) == 2
    return calls


def test_a_memory_of_a_key_with_many_versions_is_forgotten_soon() -> None:
    few, many = calls_to_forget_one_of(50), calls_to_forget_one_of(200)
    assert many < 8 * few, (few, many)
