"""FactVerifyJob: facts that wait, decided by a verifier; real lakes, and a real local server."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from chat_server import Ask, ChatServer, Reply, said, told
from contested import (
    LATER,
    NOW,
    Rule,
    always,
    believed,
    decided,
    lake_rows,
    queued,
    run,
    works,
    year,
)

import ailake
from ailake import FactTriple, InvalidInputError, ProviderError
from ailake.core.usage import Usage
from ailake.core.verifying import CasePlanner, FactAnswer, FactCase, FactVerdict
from ailake.maintenance import FactVerifyJob
from ailake.providers import ChatModel, OpenAIFactVerifier


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return queued(lake)


@pytest.fixture
def contested(lake: ailake.Lake, facts: ailake.Facts) -> ailake.Facts:
    """Acme since 2015, and Beta since 2020, which waits."""
    facts.assert_([works("Acme", 2015)], now=NOW)
    (decision,) = facts.assert_([works("Beta", 2020)], now=NOW)
    assert (decision.kind, decision.loser_fact_id) == ("supersede", lake_rows(facts)[0]["fact_id"])
    assert lake.verify() == ()
    return facts


def test_both_hold_until_a_verifier_was_asked(lake: ailake.Lake, contested: ailake.Facts) -> None:
    before = lake.table("verifications").version, lake.table("facts").version
    for report in (
        run(lake, None),
        FactVerifyJob(lake, verifier=always("defer")).run(dry_run=True),
    ):
        (case,) = report.waiting
        assert (case.new.object, case.known.object) == ("Beta", "Acme")
        assert (case.new.valid_from, case.known.valid_to) == (year(2020), None)
        assert case.scope == contested.scope
        assert (report.asked, report.usage) == (0, Usage())
    assert before == (lake.table("verifications").version, lake.table("facts").version)
    assert [v.object for v in contested.find(now=LATER)] == ["Acme", "Beta"]
    assert [v.verdict for v in contested.history("Ana", "works_at")] == ["", ""]


@pytest.mark.parametrize(
    ("verdict", "left"),
    [
        ("supersede", [("Acme", 2015, 2020), ("Beta", 2020, None)]),
        ("keep_both", [("Acme", 2015, None), ("Beta", 2020, None)]),
        ("reject_new", [("Acme", 2015, None)]),
        ("defer", [("Acme", 2015, None), ("Beta", 2020, None)]),
    ],
)
def test_an_answer_is_applied_and_recorded(
    lake: ailake.Lake, contested: ailake.Facts, verdict: str, left: list[object]
) -> None:
    report = run(lake, always(verdict))
    assert believed(contested) == left
    (row,) = decided(lake, verdict)
    assert (row["reason"], row["verifier"]) == ("as the rule says", "rule")
    assert (row["model"], row["input_tokens"], row["output_tokens"]) == ("m", 3, 2)
    assert (row["decided_at"], row["source_memory_id"]) == (LATER, "m-Beta")
    counts = [report.superseded, report.kept_both, report.rejected, report.deferred]
    assert counts == [int(verdict == one) for one in FactVerdict]
    assert (report.asked, report.usage, len(report.waiting)) == (1, Usage(3, 2), verdict == "defer")
    again = run(lake, always(verdict))
    assert again.asked == (verdict == "defer")
    assert believed(contested) == left
    # What was believed before can still be read.
    assert [v.object for v in contested.find(known_at=NOW, now=LATER)] == ["Acme", "Beta"]


def test_history_says_who_lost_and_why(lake: ailake.Lake, contested: ailake.Facts) -> None:
    run(lake, always("reject_new"))
    known, new = contested.history("Ana", "works_at")
    assert (new.verdict, new.lost_to, new.reason) == (
        "reject_new", known.fact_id, "as the rule says",
    )  # fmt: skip
    assert (known.verdict, known.retired_at) == ("", None)


def test_several_overlaps_are_cases_of_their_own(lake: ailake.Lake, facts: ailake.Facts) -> None:
    facts.assert_([works("A", 2000, 2005), works("B", 2005, 2010)], now=NOW)
    facts.assert_([works("C", 2003, 2007)], now=NOW)
    rule = Rule(lambda case: "supersede" if case.known.object == "A" else "defer")
    run(lake, rule)
    assert rule.seen == [("C", "A"), ("C", "B")]
    assert believed(facts) == [("A", 2000, 2003), ("B", 2005, 2010), ("C", 2003, 2007)]
    second = always("supersede")
    run(lake, second)
    # The one that has lost is not named again.
    assert second.seen == [("C", "B")]
    assert believed(facts) == [("A", 2000, 2003), ("B", 2007, 2010), ("C", 2003, 2007)]


def test_what_is_left_of_a_loser_is_asked_about_anew(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    for fact in (works("A", 2000), works("B", 2002), works("C", 2010)):
        facts.assert_([fact], now=NOW)
    rule = Rule(lambda case: "supersede" if case.new.object == "C" else "defer")
    report = run(lake, rule)
    # A and B lost to C, and what is left of them still contradicts each other.
    assert rule.seen == [("B", "A"), ("C", "A"), ("C", "B"), ("B", "A")]
    assert (report.stale, report.superseded) == (1, 2)
    assert believed(facts) == [("A", 2000, 2010), ("B", 2002, 2010), ("C", 2010, None)]
    run(lake, always("supersede"))
    assert believed(facts) == [("A", 2000, 2002), ("B", 2002, 2010), ("C", 2010, None)]


def test_an_extension_that_contradicts_is_rejected_alone(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    facts.assert_([works("A", 2000, 2005), works("B", 2005, 2010)], now=NOW)
    facts.assert_([works("A", 2003, 2007)], now=NOW)
    # Nothing that waits is joined to anything.
    facts.assert_([works("A", 1999, 2007)], now=NOW)
    assert believed(facts) == [("A", 1999, 2005), ("A", 2005, 2007), ("B", 2005, 2010)]
    run(lake, always("reject_new"))
    assert believed(facts) == [("A", 1999, 2005), ("B", 2005, 2010)]


Change = Callable[[ailake.Facts, FactCase], object]
CHANGES: dict[str, Change] = {
    "the new one was retracted": lambda f, case: f.retract(case.new.fact_id, "no", now=NOW),
    "the known one was retracted": lambda f, case: f.retract(case.known.fact_id, "no", now=NOW),
    "another one won": lambda f, _: f.assert_([works("Gamma", 2010)], now=NOW),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("verdict", ["supersede", "reject_new", "keep_both"])
def test_an_answer_about_what_has_changed_is_not_applied(
    lake: ailake.Lake, contested: ailake.Facts, name: str, verdict: str
) -> None:
    inline = lake.facts("ana-bot")
    then: list[object] = []

    def answer(case: FactCase) -> str:
        CHANGES[name](inline, case)
        then.extend(believed(contested))
        return verdict

    report = run(lake, Rule(answer))
    assert believed(contested) == then
    assert (report.stale, report.waiting) == (1, ())
    assert [row for row in decided(lake) if row["verifier"] == "rule"] == []


def test_a_case_that_was_closed_meanwhile_is_left_alone(
    lake: ailake.Lake, contested: ailake.Facts
) -> None:
    """As on an object store, where nobody can lock out another."""
    other = FactVerifyJob(lake, verifier=always("keep_both"))

    def answer(_: FactCase) -> str:
        other._ask_all(always("keep_both"), _done(), LATER, progress=False)
        return "reject_new"

    def _done() -> Any:
        from ailake.maintenance.verify import _Done

        return _Done()

    run(lake, Rule(answer))
    assert len(believed(contested)) == 2
    assert [row["verdict"] for row in decided(lake, "keep_both", "reject_new")] == ["keep_both"]


def test_what_was_forgotten_waits_no_more(lake: ailake.Lake, facts: ailake.Facts) -> None:
    memory = lake.memory("ana-bot")
    ids = [memory.remember(f"Ana works at {name}", now=NOW).id for name in ("Acme", "Beta")]
    for name, since, source in (("Acme", 2015, ids[0]), ("Beta", 2020, ids[1])):
        fact = FactTriple("Ana", "works_at", name, year(since), source_memory_id=source)
        facts.assert_([fact], now=NOW)
    assert len(run(lake, None).waiting) == 1
    memory.forget([ids[0]])
    report = run(lake, always("supersede"))
    assert (report.asked, report.waiting) == (0, ())
    assert believed(facts) == [("Beta", 2020, None)]


def test_a_mapping_queues_one_predicate_alone(lake: ailake.Lake) -> None:
    facts = lake.facts("ana-bot", verifier={"works_at": "queued"})
    for place in ("Oslo", "Rome"):
        home = FactTriple("Ana", "lives_in", place, year(2020))
        facts.assert_([home, works(place, 2020)], now=NOW)
    assert len(run(lake, None).waiting) == 1
    assert len(facts.find(predicate="lives_in", now=NOW)) == 1


def test_a_later_inline_assertion_settles_what_waits(
    lake: ailake.Lake, contested: ailake.Facts
) -> None:
    lake.facts("ana-bot").assert_([works("Gamma", 2010)], now=NOW)
    report = run(lake, always("supersede"))
    assert (report.asked, report.stale) == (0, 1)
    assert believed(contested) == [("Gamma", 2010, None)]


@pytest.mark.parametrize(
    "wrong", [{"verifier": "gpt"}, {"concurrency": 0}, {"max_tokens": -1}]
)  # fmt: skip
def test_wrong_arguments(lake: ailake.Lake, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        FactVerifyJob(lake, **wrong)
    with pytest.raises(InvalidInputError, match="now"):
        FactVerifyJob(lake).run(datetime(2026, 1, 1))  # noqa: DTZ001 (that is what is refused)


@pytest.mark.parametrize(
    "wrong", [{"verdict": "merge"}, {"reason": " "}, {"reason": "x" * 2_000}, {"model": None}]
)
def test_wrong_answers(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        FactAnswer(**{"verdict": FactVerdict.DEFER, "reason": "so", **wrong})


def test_a_verifier_that_answers_something_else(lake: ailake.Lake, contested: ailake.Facts) -> None:
    class Odd:
        id = "odd"

        def verify(self, _case: FactCase) -> Any:
            return "supersede"

    with pytest.raises(InvalidInputError, match="FactAnswer"):
        FactVerifyJob(lake, verifier=Odd()).run(LATER)
    assert len(believed(contested)) == 2


@pytest.mark.parametrize("wrong", [None, "", 7])
def test_a_verifier_without_an_id_is_refused_before_it_is_asked(
    lake: ailake.Lake, contested: ailake.Facts, wrong: Any
) -> None:
    rule = Rule(lambda _: "supersede", id=wrong)
    with pytest.raises(InvalidInputError, match="verifier: id: got"):
        FactVerifyJob(lake, verifier=rule).run(LATER)
    assert rule.seen == []
    assert len(believed(contested)) == 2


def model(chat: ChatServer, **options: Any) -> OpenAIFactVerifier:
    settings = {"base_url": chat.url, "api_key": "x", "retries": 0, "attempts": 2, **options}
    return OpenAIFactVerifier(ChatModel("m", **settings))


def by_object(ask: Ask) -> Reply:
    """Answer from what is asked: the new object names the verdict."""
    case = json.loads(ask["messages"][-1]["content"])
    assert case["known"]["object"] == "A"
    assert case["new"]["valid_to"] is None
    if case["new"]["object"] == "malformed":
        return told("supersede, of course")
    return said(verdict=case["new"]["object"], reason="it\nsays so")


def test_a_model_decides(lake: ailake.Lake, chat: ChatServer) -> None:
    chat.answer = by_object
    facts = lake.facts("ana-bot", verifier="queued")
    names = ["supersede", "malformed", "keep_both", "reject_new", "burn", "defer"]
    for place, name in enumerate(names):
        subject = f"person {place}"
        pair = [FactTriple(subject, "at", value, year(2020)) for value in ("A", name)]
        facts.assert_(pair, now=NOW)
    report = FactVerifyJob(lake, verifier=model(chat), concurrency=3).run(LATER)
    assert lake.verify() == ()
    assert (report.asked, report.superseded, report.kept_both) == (6, 1, 1)
    assert (report.rejected, report.deferred, len(report.failed)) == (1, 1, 2)
    waiting = {case.new.object for case in report.waiting}
    assert waiting == {"burn", "defer", "malformed"}
    assert report.usage == Usage(70 * 8, 30 * 8)
    held = {(v.subject, v.object) for v in facts.find(now=LATER)}
    assert ("person 0", "A") not in held
    assert held >= {("person 4", "A"), ("person 4", "burn"), ("person 2", "keep_both")}
    (row,) = decided(lake, "supersede")
    assert (row["verifier"], row["model"], row["reason"]) == ("openai:m", "m", "it says so")
    assert (row["input_tokens"], row["output_tokens"]) == (70, 30)


def test_the_cap_stops_a_run_and_the_next_goes_on(
    lake: ailake.Lake, facts: ailake.Facts, chat: ChatServer
) -> None:
    chat.answer = lambda _: said(verdict="supersede", reason="so")
    for place in range(3):
        pair = [FactTriple(f"p{place}", "at", value, year(2020)) for value in ("A", "B")]
        facts.assert_(pair, now=NOW)
    job = FactVerifyJob(lake, verifier=model(chat), max_tokens=150)
    first, second = job.run(LATER), job.run(LATER)
    assert (first.superseded, len(first.waiting)) == (2, 1)
    assert "tokens" in first.stopped
    assert (second.superseded, second.waiting, second.stopped) == (1, (), "")


def test_a_refused_key_ends_the_run(
    lake: ailake.Lake, contested: ailake.Facts, chat: ChatServer
) -> None:
    chat.script = [Reply(status=401)]
    with pytest.raises(ProviderError, match="401"):
        FactVerifyJob(lake, verifier=model(chat)).run(LATER)
    assert (len(chat.asked), len(believed(contested))) == (1, 2)


def told_of_answers(lake: ailake.Lake) -> list[str]:
    entries = lake.ledger().entries(lake.memory("ana-bot").scope)
    told_ = [str(one.event) for one in entries if one.event.startswith("fact_")]
    assert lake.ledger().verify() == ()
    return [event for event in told_ if event != "fact_assert"]


@pytest.mark.usefixtures("contested")
@pytest.mark.parametrize(
    ("verdict", "event"),
    [
        ("supersede", "fact_supersede"), ("keep_both", "fact_keep_both"),
        ("reject_new", "fact_reject"), ("defer", "fact_defer"),
    ],
)  # fmt: skip
def test_every_answer_is_in_the_ledger(lake: ailake.Lake, verdict: str, event: str) -> None:
    run(lake, always(verdict))
    assert told_of_answers(lake) == [event]
    FactVerifyJob(lake, verifier=always(verdict)).run(LATER + timedelta(hours=1))
    # What goes on waiting is answered again.
    assert told_of_answers(lake) == [event] * (2 if verdict == "defer" else 1)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "of an older release"])
@pytest.mark.parametrize("verdict", ["keep_both", "defer"])
def test_an_answer_is_told_once(
    lake: ailake.Lake,
    facts: ailake.Facts,
    monkeypatch: pytest.MonkeyPatch,
    *,
    verdict: str,
    is_written: bool,
) -> None:
    facts.assert_([works("Oslo Ltd", 2015), works("Rome Ltd", 2020)], now=NOW)
    with monkeypatch.context() as older:
        if not is_written:
            older.setattr(CasePlanner, "_say", lambda *_: None)
        run(lake, always(verdict))
    assert told_of_answers(lake) == ([f"fact_{verdict}"] if is_written else [])
    for name in ("Acme", "Beta"):
        facts.assert_([works(name, 2001, 2002)], now=LATER)
        lake.memory("ana-bot").forget(f"m-{name}", now=LATER)
        assert told_of_answers(lake) == [f"fact_{verdict}"]
    # Two that end a removal at once may write it down twice, as the same.
    rows = lake.table("assertions").to_arrow().to_pylist()
    assert len({row["assertion_id"] for row in rows if row["kind"] == verdict}) == 1
