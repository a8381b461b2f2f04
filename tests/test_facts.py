"""Facts: asserted, found on both axes of time, retracted; one statement of the spec each."""

from pathlib import Path
from typing import Any

import pytest
from asserted import HOUR, NOW, at, works, year

import ailake
from ailake import EntityRef, FactTriple, InvalidInputError, NotFoundError
from ailake.core.fact_versions import FactKey


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return lake.facts(agent_id="ana-bot", user_id="ana")


def spans(facts: ailake.Facts, value: str) -> list[tuple[int, int | None]]:
    """Return the live intervals of an object, in years."""
    return [
        (v.valid_from.year, None if v.valid_to is None else v.valid_to.year)
        for v in sorted(facts.history("Ana", "works_at"), key=lambda v: v.valid_from)
        if v.retired_at is None and v.object == value
    ]


def test_append_stores_one_version(facts: ailake.Facts) -> None:
    (decision,) = facts.assert_([works("A", 2020)], now=NOW)
    assert (decision.kind, decision.loser_fact_id) == ("append", None)
    (found,) = facts.find(subject="ana.", predicate="works_at", now=NOW)
    assert found.fact_id == decision.fact_id
    assert (found.subject, found.object, found.valid_from, found.valid_to) == (
        "Ana", "A", year(2020), None,
    )  # fmt: skip
    assert (found.recorded_at, found.retired_at) == (NOW, None)
    assert at(facts, 2019, 2020) == [[], ["A"]]


def test_a_repetition_only_counts(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2020)], now=NOW)
    before = lake.table("facts").version
    (decision,) = facts.assert_([works("a.", 2021, 2022)], now=NOW + HOUR)
    assert decision.kind == "noop"
    assert lake.table("facts").version == before
    (entry,) = facts.history("Ana", "works_at")
    assert (entry.assertions, entry.object, entry.origin) == (2, "A", "asserted")


@pytest.mark.parametrize(("start", "end"), [(2021, 2025), (2022, 2025)])
def test_what_meets_is_joined(facts: ailake.Facts, start: int, end: int) -> None:
    facts.assert_([works("A", 2020, 2022)], now=NOW)
    facts.assert_([works("A", start, end)], now=NOW + HOUR)
    assert spans(facts, "A") == [(2020, 2025)]
    first, joined = facts.history("Ana", "works_at")
    assert (first.retired_at, joined.recorded_at) == (NOW + HOUR, NOW + HOUR)
    assert (joined.origin, joined.assertions) == ("extended", 2)
    assert at(facts, 2023, known_at=NOW) == [[]]


def test_one_interval_may_bridge_two(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010, 2012), works("A", 2014, 2016)], now=NOW)
    facts.assert_([works("A", 2012, 2015)], now=NOW)
    assert spans(facts, "A") == [(2010, 2016)]


def test_disjoint_intervals_of_a_fact_claim_no_gap(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010, 2012)], now=NOW)
    (again,) = facts.assert_([works("A", 2020)], now=NOW)
    assert again.kind == "noop"
    assert spans(facts, "A") == [(2010, 2012), (2020, None)]
    assert at(facts, 2011, 2015, 2021) == [["A"], [], ["A"]]
    assert len({v.fact_id for v in facts.history("Ana", "works_at")}) == 1


def test_supersede_closes_the_old_and_both_are_reachable(facts: ailake.Facts) -> None:
    """A contradiction arrives: elsewhere the old fact was deleted and the new one never added."""
    (old,) = facts.assert_([works("A", 2015)], now=NOW)
    (new,) = facts.assert_([works("B", 2020)], now=NOW + HOUR)
    assert (new.kind, new.loser_fact_id) == ("supersede", old.fact_id)
    assert at(facts, 2016, 2019, 2020, 2025) == [["A"], ["A"], ["B"], ["B"]]
    assert at(facts, 2025, known_at=NOW) == [["A"]]
    lost, winner, rest = facts.history("Ana", "works_at")
    assert (lost.object, lost.retired_at, lost.verdict) == ("A", NOW + HOUR, "supersede")
    assert (lost.lost_to, lost.reason) == (new.fact_id, "asserted later")
    assert (winner.object, winner.lost_to, winner.reason) == ("B", "", "")
    assert (rest.object, rest.origin, rest.valid_to) == ("A", "remainder", year(2020))


def test_a_decision_that_was_never_applied_says_nothing(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    """Its writer died before its versions were stored; another one won at the same instant."""
    facts.assert_([works("A", 2015)], now=NOW)
    (new,) = facts.assert_([works("B", 2020), works("B", 2021)], now=NOW + HOUR)[:1]
    (lost,) = lake.table("verifications").to_arrow().to_pylist()
    other = {"winner_fact_id": "never stored", "verification_id": "x"}
    early = {"decided_at": NOW, "verification_id": "y", "reason": "not applied"}
    before = facts.history("Ana", "works_at")
    # As older releases told of repetitions.
    known = {**lost, "verdict": "noop", "loser_fact_id": "", "loser_version_id": ""}
    noop = {**known, **other, "verification_id": "z"}
    lake.table("verifications").add([{**lost, **other}, {**lost, **early}, noop])
    assert facts.history("Ana", "works_at") == before
    assert [v.lost_to for v in before if v.lost_to] == [new.fact_id]
    assert [v.assertions for v in before] == [1, 2, 1]
    lake.table("verifications").add([known, known])
    assert [v.assertions for v in facts.history("Ana", "works_at")] == [1, 3, 1]


def test_a_closed_winner_leaves_both_ends(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    facts.assert_([works("B", 2015, 2018)], now=NOW + HOUR)
    assert spans(facts, "A") == [(2010, 2015), (2018, None)]
    assert at(facts, 2014, 2016, 2019) == [["A"], ["B"], ["A"]]


def test_nothing_is_left_of_what_is_covered(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2015, 2017)], now=NOW)
    facts.assert_([works("B", 2010)], now=NOW + HOUR)
    assert spans(facts, "A") == []
    assert at(facts, 2016, known_at=NOW) == [["A"]]


def test_all_that_overlap_lose(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010, 2012), works("B", 2014, 2016)], now=NOW)
    (decision,) = facts.assert_([works("C", 2011)], now=NOW + HOUR)
    assert decision.kind == "supersede"
    assert at(facts, 2010, 2011, 2015) == [["A"], ["C"], ["C"]]
    assert {v.lost_to for v in facts.history("Ana", "works_at")} == {"", decision.fact_id}


def test_a_b_a(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    facts.assert_([works("B", 2015)], now=NOW + HOUR)
    (decision,) = facts.assert_([works("A", 2020)], now=NOW + 2 * HOUR)
    assert decision.kind == "noop"
    assert spans(facts, "A") == [(2010, 2015), (2020, None)]
    assert at(facts, 2012, 2017, 2022) == [["A"], ["B"], ["A"]]
    assert at(facts, 2022, known_at=NOW + HOUR) == [["B"]]
    lost = [v for v in facts.history("Ana", "works_at") if v.object == "B" and v.lost_to]
    assert [v.lost_to for v in lost] == [decision.fact_id]


def test_a_late_arrival_becomes_closed_history(facts: ailake.Facts) -> None:
    facts.assert_([works("Oslo", 2015)], now=NOW)
    (decision,) = facts.assert_([works("Rome", 2010, 2015)], now=NOW + HOUR)
    assert decision.kind == "append"
    assert at(facts, 2012, 2020) == [["Rome"], ["Oslo"]]


def test_latest_event_keeps_what_began_later(lake: ailake.Lake) -> None:
    facts = lake.facts("a", verifier={"works_at": "latest_event"})
    (oslo,) = facts.assert_([works("Oslo", 2015)], now=NOW)
    (rome,) = facts.assert_([works("Rome", 2010)], now=NOW + HOUR)
    assert (rome.kind, rome.loser_fact_id) == ("supersede", rome.fact_id)
    assert at(facts, 2012, 2020) == [["Rome"], ["Oslo"]]
    said = facts.history("Ana", "works_at")[1]
    assert (said.valid_to, said.lost_to, said.reason) == (None, oslo.fact_id, "began later")
    assert said.recorded_at == said.retired_at == NOW + HOUR
    (paris,) = facts.assert_([works("Paris", 2018, 2019)], now=NOW + 2 * HOUR)
    assert paris.loser_fact_id == oslo.fact_id
    assert at(facts, 2016, 2018, 2020) == [["Oslo"], ["Paris"], []]
    others = lake.facts("b", verifier={"lives_in": "latest_event"})
    others.assert_([works("Oslo", 2015)], now=NOW)
    others.assert_([works("Rome", 2010)], now=NOW)
    assert at(others, 2020) == [["Rome"]]


def test_multi_valued_predicates_are_kept_in_the_lake(tmp_path: Path) -> None:
    tea = [FactTriple("Ana", "likes", drink, year(2020)) for drink in ("tea", "milk", "tea")]
    with ailake.connect(tmp_path / "lake", embedder="hashing:8") as lake:
        facts = lake.facts("a", multi_valued={"likes"})
        assert [d.kind for d in facts.assert_(tea, now=NOW)] == ["append", "append", "noop"]
        lake.facts("a", multi_valued=["speaks"])
    with ailake.connect(tmp_path / "lake") as lake:
        facts = lake.facts("a")
        coffee = FactTriple("Ana", "likes", "coffee", year(2021))
        assert facts.assert_([coffee], now=NOW)[0].kind == "append"
        assert at(facts, 2022) == [["coffee", "milk", "tea"]]
        assert lake.verify() == ()
        before = lake.table("facts").version
        lake.facts("a", multi_valued={"likes", "speaks"})
        assert lake.table("facts").version == before


def test_retract(facts: ailake.Facts) -> None:
    (decision,) = facts.assert_([works("A", 2010, 2012)], now=NOW)
    facts.assert_([works("A", 2015)], now=NOW)
    gone = facts.retract(decision.fact_id, "she never worked there", now=NOW + HOUR)
    assert {v.retired_at for v in gone} == {NOW + HOUR}
    assert at(facts, 2011, 2016) == [[], []]
    assert at(facts, 2011, 2016, known_at=NOW) == [["A"], ["A"]]
    for entry in facts.history("Ana", "works_at"):
        assert (entry.verdict, entry.lost_to) == ("retract", "")
        assert entry.reason == "she never worked there"
    assert facts.retract(decision.fact_id, "again") == []
    with pytest.raises(NotFoundError, match="no fact 'nothing' in Scope"):
        facts.retract("nothing", "why")
    with pytest.raises(InvalidInputError, match="reason: got ' '"):
        facts.retract(decision.fact_id, " ")
    assert facts.assert_([works("A", 2015)], now=NOW + 2 * HOUR)[0].kind == "append"
    assert at(facts, 2016) == [["A"]]


def test_facts_of_a_batch_see_each_other_in_one_commit(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    before = lake.table("facts").version
    batch = [works("B", 2015), works("C", 2018), works("C", 2020), works("Bo", 2001, subject="Bo")]
    decisions = facts.assert_(batch, now=NOW + HOUR)
    assert [d.kind for d in decisions] == ["supersede", "supersede", "noop", "append"]
    assert decisions[1].loser_fact_id == decisions[0].fact_id
    assert lake.table("facts").version == before + 1
    assert at(facts, 2012, 2016, 2019) == [["A"], ["B"], ["C"]]
    assert facts.assert_([]) == []


def test_supersede_touches_only_its_own_key(lake: ailake.Lake) -> None:
    """Unrelated facts keep their windows: other scopes, subjects and predicates."""
    scopes = [
        lake.facts("a"), lake.facts("a", user_id="u"), lake.facts("a", project_id="u"),
        lake.facts("a'b"), lake.facts("ab"),
    ]  # fmt: skip
    for facts in scopes:
        facts.assert_(
            [
                works("A", 2010),
                works("A", 2010, subject="Anabel"),
                works("A", 2010, subject=EntityRef("person", "Ana")),
                works("A", 2010, predicate="Works_at"),
            ],
            now=NOW,
        )
    before = lake.scan("facts").collect()
    decision, _ = scopes[0].assert_([works("B", 2015), works("B", 2015)], now=NOW + HOUR)
    after = lake.scan("facts").collect()
    changed = after.join(before, on=before.columns, how="anti", nulls_equal=True)
    assert changed["key_id"].n_unique() == 1
    assert changed.height == 3
    for facts in scopes[1:]:
        assert {v.object for v in facts.find(now=NOW + HOUR)} == {"A"}
        assert all(v.fact_id != decision.fact_id for v in facts.find(now=NOW + HOUR))
        with pytest.raises(NotFoundError):
            facts.retract(decision.fact_id, "not mine")
    assert len({v.fact_id for facts in scopes for v in facts.find(now=NOW)}) == 20


def test_entities_come_back_as_given(facts: ailake.Facts) -> None:
    ana, oslo = EntityRef("person", "Ana"), EntityRef("other(city)", "Oslo ")
    facts.assert_([FactTriple(ana, "lives_in", oslo, year(2020))], now=NOW)
    facts.assert_([FactTriple("王芳。", "住在", "奥斯陆！", year(2020))], now=NOW)
    (found,) = facts.find(ana, now=NOW)
    assert (found.subject, found.object) == (ana, oslo)
    assert isinstance(found.object, EntityRef)
    assert found.object.name == "Oslo "
    (chinese,) = facts.find("王芳", "住在", now=NOW)
    assert (chinese.subject, chinese.object) == ("王芳。", "奥斯陆！")
    assert facts.assert_([FactTriple("王芳", "住在", "奥斯陆", year(2020))])[0].kind == "noop"
    assert facts.find("Ana", now=NOW) == []


def test_ids_are_deterministic(facts: ailake.Facts) -> None:
    (decision,) = facts.assert_([works("A", 2010)], now=NOW)
    key = FactKey(facts.scope, EntityRef("concept", "ana").id, "works_at")
    assert decision.fact_id == key.fact_id(EntityRef("concept", "a").id)


def test_belief_never_runs_backwards(facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2010)], now=NOW)
    facts.assert_([works("B", 2012)], now=NOW - HOUR)
    assert {v.recorded_at for v in facts.history("Ana", "works_at")} == {NOW}
    assert at(facts, 2015, known_at=NOW - HOUR) == [[]]
    assert at(facts, 2015, known_at=NOW) == [["B"]]


HOSTILE = ["'; DROP TABLE facts; --", "a%b_c", "\\'", 'x" OR 1=1', "x' OR '1'='1", "\\\\' --"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(lake: ailake.Lake, text: str) -> None:
    mine, other = lake.facts(text, user_id=text), lake.facts("x")
    lake.memory(agent_id=text, user_id=text).remember(text, id=text, now=NOW)
    other.assert_([works("other", 2010)], now=NOW)
    (decision,) = mine.assert_(
        [FactTriple(text, text, text, year(2010), source_memory_id=text)], now=NOW
    )
    (found,) = mine.find(text, text, now=NOW)
    assert (found.subject, found.predicate, found.object) == (text, text, text)
    assert mine.retract(decision.fact_id, text)
    assert mine.history(text, text)[0].reason == text
    assert len(other.find(now=NOW)) == 1
    lake.memory(agent_id=text, user_id=text).forget(text)
    assert mine.history(text, text) == []


def test_facts_know_their_memory_and_go_with_it(lake: ailake.Lake, facts: ailake.Facts) -> None:
    memory = lake.memory(agent_id="ana-bot", user_id="ana")
    told, later = (memory.remember(f"Ana works at {place}", now=NOW) for place in ("B", "C"))
    facts.assert_([works("A", 2010), works("B", 2015, source_memory_id=told.id)], now=NOW)
    facts.assert_([works("C", 2020)], source_memory_id=later.id, now=NOW)
    assert [v.source_memory_id for v in facts.find(as_of=year(2016), now=NOW)] == [told.id]
    assert [v.source_memory_id for v in facts.find(now=NOW)] == [later.id]
    memory.forget(told.id)
    assert "B" not in lake.scan("facts").collect()["object"].to_list()
    for name in ("facts", "verifications", "assertions"):
        assert told.id not in lake.scan(name).collect()["source_memory_id"].to_list()
    assert at(facts, 2012, 2016, 2021) == [["A"], ["A"], ["C"]]
    assert lake.verify() == ()


BAD: list[tuple[Any, str]] = [
    (None, "facts: got None, wanted a list of FactTriple"),
    ("fact", "facts: got 'fact'"),
    (works("A", 2010), "facts: got FactTriple"),
    ([works("A", 2010), ("Ana", "works_at", "A")], "fact 1: got .*wanted a FactTriple"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_bad_input_writes_nothing(
    lake: ailake.Lake, facts: ailake.Facts, bad: Any, message: str
) -> None:
    before = [lake.table(name).version for name in ("facts", "verifications")]
    with pytest.raises(InvalidInputError, match=message):
        facts.assert_(bad)
    naive = NOW.replace(tzinfo=None)
    for call in (
        lambda: facts.assert_([works("A", 2010)], now=naive),
        lambda: facts.find(as_of=naive),
        lambda: facts.find(known_at=naive),
        lambda: facts.find(now=naive),
        lambda: facts.retract("f", "why", now=naive),
    ):
        with pytest.raises(InvalidInputError, match="naive"):
            call()
    assert [lake.table(name).version for name in ("facts", "verifications")] == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verifier": "a model"}, "verifier: got 'a model', wanted one of latest_assertion, lat"),
        ({"verifier": {"x": None}}, "verifier: got None"),
        ({"multi_valued": "likes"}, "multi_valued: got 'likes', wanted a collection"),
        ({"multi_valued": [""]}, "predicate: got ''"),
        ({"agent_id": ""}, "agent_id: got ''"),
    ],
)
def test_bad_options(lake: ailake.Lake, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        lake.facts(**{"agent_id": "a", **options})
