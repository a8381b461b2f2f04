"""ReviewJob: grey pairs decided by a reviewer, and never against a rule."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chat_server import Ask, ChatServer, Reply, said, told
from grey_pairs import NEW, OLD, grey

import ailake
from ailake import GreyCase, InvalidInputError, ReviewAnswer
from ailake.changing import Changer
from ailake.core.decisions import DecisionRecord, verdict_id
from ailake.core.usage import Usage
from ailake.maintenance import MemoryDecayJob, ReviewJob, ReviewReport
from ailake.providers import ChatModel, FileReviewer, OpenAIReviewer, export_pairs
from ailake.storage import decisions

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)


@dataclass
class Rule:
    """A reviewer that answers by a rule, and notes what it was shown."""

    answer: Callable[[GreyCase], str]
    id: str = "rule"
    seen: list[tuple[str, str]] = field(default_factory=list)

    def review(self, case: GreyCase) -> ReviewAnswer:
        self.seen.append((case.new.text, case.existing.text))
        verdict = ailake.ReviewVerdict(self.answer(case))
        return ReviewAnswer(verdict, "so", "m", Usage(3, 2))


def always(verdict: str) -> Rule:
    return Rule(lambda _: verdict)


def run(lake: ailake.Lake, reviewer: Any, **options: Any) -> ReviewReport:
    report = ReviewJob(lake, reviewer=reviewer, **options).run(LATER)
    lake.flush()
    assert lake.verify(now=LATER) == ()
    assert lake.ledger().verify() == ()
    return report


def answers(lake: ailake.Lake) -> list[dict[str, Any]]:
    rows = lake.table("decisions").to_arrow().to_pylist()
    return [row for row in rows if row["about"]]


def texts(memory: ailake.Memory) -> set[str]:
    return {record.text for record in memory.list()}


def test_without_a_reviewer_pairs_wait(lake: ailake.Lake, memory: ailake.Memory) -> None:
    new, old = grey(memory, OLD, NEW)
    lake.flush()
    before = [lake.table(name).version for name in ("episodic", "decisions")]
    for report in (
        run(lake, None),
        ReviewJob(lake, reviewer=always("merge")).run(LATER, dry_run=True),
    ):
        (case,) = report.waiting
        assert (case.new.id, case.existing.id, case.score) == (new, old, 0.75)
        assert (report.asked, report.merged) == (0, 0)
    assert before == [lake.table(name).version for name in ("episodic", "decisions")]


@pytest.mark.parametrize(
    ("verdict", "left"), [("merge", {OLD}), ("modify", {NEW}), ("keep", {OLD, NEW})]
)
def test_an_answer_is_applied_and_recorded(
    lake: ailake.Lake, memory: ailake.Memory, verdict: str, left: set[str]
) -> None:
    new, old = grey(memory, OLD, NEW)
    report = run(lake, always(verdict))
    assert texts(memory) == left
    counts = {"merge": report.merged, "modify": report.modified, "keep": report.kept}
    assert counts == {**dict.fromkeys(counts, 0), verdict: 1}
    assert (report.asked, report.usage, report.waiting) == (1, Usage(3, 2), ())
    (row,) = answers(lake)
    absorbed = {"merge": new, "modify": old, "keep": ""}[verdict]
    assert (row["decision"], row["absorbed_id"], row["about"]) == (
        verdict, absorbed, verdict_id(new),
    )  # fmt: skip
    assert (row["decided_by"], row["note"], row["tokens"]) == ("rule", "so", 5)
    assert (row["reason"], row["rules_version"]) == ("reviewed", "m")
    if absorbed:
        gone = memory.get(absorbed)
        assert (gone.state, gone.merged_into) == ("merged", ({new, old} - {absorbed}).pop())
        events = [entry.event for entry in lake.ledger().entries(memory.scope)]
        assert events.count("merged") == 1
    again = run(lake, always("merge"))
    assert (again.asked, again.resumed, texts(memory)) == (0, 0, left)


VETOED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "numeric": ("Ana has 2 dogs", "Ana has 3 brown dogs", {}),
    "temporal": ("Ana is in Oslo", "Ana is in Oslo today with Bo", {}),
    "low_confidence": (OLD, NEW, {"of_new": {"confidence": 0.2}}),
    "hard_gate": (OLD, NEW, {"of_new": {"role": "assistant"}}),
    "conflict": ("Ana likes tea", "Ana does not like tea", {}),
}


@pytest.mark.parametrize("veto", VETOED)
def test_a_veto_is_never_overturned(
    lake: ailake.Lake, memory: ailake.Memory, chat: ChatServer, veto: str
) -> None:
    """A model that merges whatever it is shown, and a pair that never was a grey one."""
    old, new, options = VETOED[veto]
    grey(memory, old, new, **options)
    chat.answer = lambda _: said(verdict="merge", reason="surely the same")
    report = run(lake, model(chat))
    assert (report.merged, texts(memory)) == (0, {old, new})
    assert (report.refused, report.waiting) == (1, ())
    (row,) = answers(lake)
    assert (row["decision"], row["reason"], row["veto"]) == (
        "keep", f"refused:merge:veto:{veto}", veto,
    )  # fmt: skip
    assert (row["absorbed_id"], row["note"], row["tokens"]) == ("", "surely the same", 100)


@pytest.mark.parametrize("verdict", ["merge", "modify"])
def test_what_the_rules_defer_is_not_merged(
    lake: ailake.Lake, memory: ailake.Memory, verdict: str
) -> None:
    grey(memory, OLD, "Thanks a lot!")
    report = run(lake, always(verdict), rules=ailake.JudgeRules())
    assert (report.refused, texts(memory)) == (1, {OLD, "Thanks a lot!"})
    assert answers(lake)[0]["reason"] == f"refused:{verdict}:t0_low_value"


def test_the_rules_are_those_that_the_lake_was_connected_with(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    assert lake.store.rules.retention is None
    grey(memory, OLD, "Thanks a lot!")
    report = run(lake, always("merge"))
    assert (report.merged, report.refused, texts(memory)) == (1, 0, {OLD})


CHANGES: dict[str, Callable[[ailake.Memory, GreyCase], object]] = {
    "the new one was forgotten": lambda m, case: m.forget([case.new.id]),
    "the existing one was rewritten": lambda m, case: m.update(
        case.existing.id, text="Bo", now=NOW
    ),
    "the existing one has expired": lambda m, case: m.update(
        case.existing.id, expires_at=LATER, now=NOW
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_answer_about_what_has_changed_is_not_applied(
    lake: ailake.Lake, memory: ailake.Memory, name: str
) -> None:
    grey(memory, OLD, NEW)
    then: list[set[str]] = []

    def answer(case: GreyCase) -> str:
        CHANGES[name](memory, case)
        then.append(texts(memory))
        return "merge"

    report = run(lake, Rule(answer))
    assert (report.changed, report.merged, report.waiting) == (1, 0, ())
    assert (texts(memory), answers(lake)) == (then[0], [])


def test_a_memory_is_merged_once(lake: ailake.Lake, memory: ailake.Memory) -> None:
    new, first = grey(memory, OLD, NEW)
    second = memory.remember("Ana is fond of mountains", judge=False, now=NOW).id
    decisions.append(
        memory.store,
        [
            DecisionRecord(
                id="another", scope=memory.scope, decided_at=NOW, decision="create",
                memory_id=new, grey=(second,),
            )
        ],
    )  # fmt: skip
    report = run(lake, always("merge"))
    assert (report.merged, report.changed) == (1, 1)
    assert memory.get(new).merged_into in {first, second}
    assert memory.count() == 2


def test_what_is_said_twice_lasts_and_counts_as_before(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    week = LATER + timedelta(days=7)
    new, old = grey(memory, OLD, NEW, of_old={"expires_at": week}, of_new={"importance": 1.0})
    memory.touch([new, old, new], now=NOW)
    memory.touch([new], now=NOW + timedelta(hours=1))
    run(lake, always("merge"))
    for _ in range(2):
        kept = memory.get(old)
        assert (kept.expires_at, kept.importance_score) == (None, 1.0)
        # All of them, also while some wait in the journal, and once.
        assert (kept.access_count, kept.last_accessed_at) == (3, NOW + timedelta(hours=1))
        MemoryDecayJob(lake).run(LATER)


def test_a_merge_can_be_undone_and_is_not_done_again(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    new, _ = grey(memory, OLD, NEW)
    run(lake, always("merge"))
    memory.restore(new)
    report = run(lake, always("merge"))
    assert (report.asked, report.resumed, texts(memory)) == (0, 0, {OLD, NEW})


def test_what_a_slower_clock_undid_is_not_done_again(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    new, _ = grey(memory, OLD, NEW)
    ReviewJob(lake, reviewer=always("merge")).run(NOW + timedelta(minutes=5))
    memory.restore(new, now=NOW)
    report = ReviewJob(lake, reviewer=always("merge")).run(NOW + timedelta(minutes=6))
    assert (report.asked, report.resumed, texts(memory)) == (0, 0, {OLD, NEW})


class DiedError(BaseException):
    """Stands for a kill: nobody catches it."""


@pytest.mark.parametrize(
    ("place", "step", "recorded"),
    [(decisions, "append", False), (Changer, "_row", True)],
)
def test_a_run_that_ends_between_the_steps_is_resumed(
    lake: ailake.Lake,
    memory: ailake.Memory,
    monkeypatch: pytest.MonkeyPatch,
    *,
    place: Any,
    step: str,
    recorded: bool,
) -> None:
    new, _ = grey(memory, OLD, NEW)

    def die(*_args: object, **_options: object) -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(place, step, die)
        with pytest.raises(DiedError):
            ReviewJob(lake, reviewer=always("merge")).run(NOW)
    assert texts(memory) == {OLD, NEW}
    assert len(answers(lake)) == int(recorded)
    second = always("merge")
    report = run(lake, second)
    # What was paid for is not asked again.
    assert (report.asked, report.resumed) == (int(not recorded), int(recorded))
    assert (texts(memory), len(answers(lake))) == ({OLD}, 1)
    assert memory.get(new).state == "merged"
    assert run(lake, always("merge")).resumed == 0


def model(chat: ChatServer, **options: Any) -> OpenAIReviewer:
    settings = {"base_url": chat.url, "api_key": "x", "retries": 0, "attempts": 1, **options}
    return OpenAIReviewer(ChatModel("m", **settings))


def by_text(ask: Ask) -> Reply:
    case = json.loads(ask["messages"][-1]["content"])
    assert set(case["new"]) == {"text", "speaker", "at"}
    if "music" in case["new"]["text"]:
        return told("the same")
    return said(verdict="merge" if "hills" in case["new"]["text"] else "keep", reason="so")


def test_a_model_reviews(lake: ailake.Lake, memory: ailake.Memory, chat: ChatServer) -> None:
    chat.answer = by_text
    pairs = [(OLD, NEW), ("Bo plays chess", "Bo enjoys games"), ("Cy sings", "Cy loves music")]
    for old, new in pairs:
        grey(memory, old, new)
    report = run(lake, model(chat), concurrency=2)
    assert (report.merged, report.kept, len(report.failed), report.asked) == (1, 1, 1, 3)
    assert [case.new.text for case in report.waiting] == ["Cy loves music"]
    assert texts(memory) == {text for pair in pairs for text in pair} - {NEW}
    assert {row["decided_by"] for row in answers(lake)} == {"openai:m"}
    grey(memory, "Di has a cat", "Di owns a pet")
    capped = run(lake, model(chat), max_tokens=1)
    assert (capped.asked, "tokens" in capped.stopped) == (1, True)
    assert 1 <= len(capped.waiting) <= 2  # The pair that fails each time, and perhaps the other.


def test_a_person_reviews_by_file(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    grey(memory, OLD, NEW)
    grey(memory, "Bo plays chess", "Bo enjoys games")
    file = tmp_path / "pairs.jsonl"
    assert export_pairs(run(lake, None).waiting, file) == 2
    with pytest.raises(InvalidInputError, match="new"):
        export_pairs([], file)
    # Nothing is answered yet.
    assert run(lake, FileReviewer(file)).asked == 2
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {(line["existing"], line["new"]) for line in lines} >= {(OLD, NEW)}
    for line in lines:
        if line["new"] == NEW:
            line.update(answer="merge", reason="同一件事")
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    report = run(lake, FileReviewer(file, name="Bo"))
    assert (report.merged, len(report.waiting), len(report.failed)) == (1, 1, 0)
    (row,) = answers(lake)
    assert (row["decided_by"], row["note"], row["tokens"]) == ("person:Bo", "同一件事", 0)


GOOD = {"pair_id": "p", "answer": "keep", "reason": "so"}
WRONG_LINES = {
    "no JSON": b"merge it",
    "no object": b"[]",
    "a field too many": json.dumps({**GOOD, "veto": "none"}).encode(),
    "no id": json.dumps({"answer": "keep", "reason": "so"}).encode(),
    "another verdict": json.dumps({**GOOD, "answer": "skip"}).encode(),
    "no reason": json.dumps({**GOOD, "reason": " "}).encode(),
    "no text": json.dumps({**GOOD, "answer": None}).encode(),
    "not UTF-8": b'{"pair_id": "\xff"}',
    "a pair twice": json.dumps({**GOOD, "pair_id": "first"}).encode(),
}


@pytest.mark.parametrize("name", WRONG_LINES)
def test_a_wrong_line_is_named(tmp_path: Path, name: str) -> None:
    file = tmp_path / "pairs.jsonl"
    first = json.dumps({**GOOD, "pair_id": "first"}).encode()
    file.write_bytes(first + b"\n\n" + WRONG_LINES[name] + b"\n")
    with pytest.raises(InvalidInputError, match=r"pairs\.jsonl, line 3: "):
        FileReviewer(file)


@pytest.mark.parametrize("wrong", [{"reviewer": "gpt"}, {"concurrency": 0}, {"max_tokens": 0}])
def test_wrong_arguments(lake: ailake.Lake, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        ReviewJob(lake, **wrong)


@pytest.mark.parametrize("wrong", [{"verdict": "skip"}, {"reason": ""}, {"model": 5}])
def test_wrong_answers(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        ReviewAnswer(**{"verdict": "keep", "reason": "so", **wrong})


@pytest.mark.parametrize("wrong", [None, "", 7])
def test_a_reviewer_without_an_id_is_refused_before_it_is_asked(
    lake: ailake.Lake, wrong: Any
) -> None:
    with pytest.raises(InvalidInputError, match="reviewer: id: got"):
        ReviewJob(lake, reviewer=Rule(lambda _: "merge", id=wrong))
