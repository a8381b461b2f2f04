"""Facts read out of memories: checked one by one, and linked to their memory."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from chat_server import Ask, ChatServer, Reply, said, told

import ailake
from ailake import FactTriple, InvalidInputError
from ailake.core.usage import Usage
from ailake.providers import ChatModel, OpenAIFactExtractor

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SPRING = datetime(2025, 4, 1, tzinfo=UTC)


@pytest.fixture
def facts(lake: ailake.Lake) -> ailake.Facts:
    return lake.facts("ana-bot", user_id="ana")


def model(chat: ChatServer) -> OpenAIFactExtractor:
    return OpenAIFactExtractor(
        ChatModel("m", base_url=chat.url, api_key="x", retries=0, attempts=1)
    )


def stated(what: str = "Oslo", **fields: Any) -> dict[str, Any]:
    whole = {"subject": "Ana", "predicate": "lives_in", "object": what}
    return {**whole, "valid_from": None, "valid_to": None, **fields}


def test_each_triple_is_checked_by_itself(chat: ChatServer) -> None:
    bad = {
        "valid_from": stated(valid_from="2020-01-01"),
        "valid_to": stated(valid_to="soon"),
        "after valid_from": stated(
            valid_from="2020-01-01T00:00:00Z", valid_to="2019-01-01T00:00:00Z"
        ),
        "predicate": stated(predicate=" lives in "),
        "more to it": stated(subject="..."),
        "1,024": stated("x" * 2_000),
    }
    chat.script = [said(facts=[*bad.values(), stated(valid_from="2020-01-01T00:00:00+01:00")])]
    found = model(chat).extract("a text", SPRING)
    (fact,) = found
    assert (fact.object, fact.valid_from.isoformat()) == ("Oslo", "2019-12-31T23:00:00+00:00")
    assert [part in one.reason for part, one in zip(bad, found.refused, strict=True)] == [True] * 6
    assert all("Ana" in one.got or "..." in one.got for one in found.refused)
    assert (found.model, found.usage, found[:0]) == ("m", Usage(70, 30), ())
    assert json.loads(chat.contents[0]) == {"event_time": SPRING.isoformat(), "text": "a text"}
    with pytest.raises(InvalidInputError, match="event_time"):
        model(chat).extract("a text", datetime(2020, 1, 1))  # noqa: DTZ001 (that is refused)


def by_text(ask: Ask) -> Reply:
    text = json.loads(ask["messages"][-1]["content"])["text"]
    if "Rome" in text:
        return told("Rome!")
    return said(facts=[stated(), stated(valid_to="never")] if "Oslo" in text else [])


def test_facts_of_memories_name_them(
    lake: ailake.Lake, facts: ailake.Facts, chat: ChatServer
) -> None:
    chat.answer = by_text
    memory = lake.memory("ana-bot", user_id="ana")
    texts = ["Ana lives in Oslo", "Ana loves Rome", "Thank you all"]
    ids = [memory.remember(text, event_time=SPRING, now=NOW).id for text in texts]
    report = facts.extract(ids, extractor=model(chat), now=NOW, concurrency=2)
    first, last = report.memories
    assert (first.memory_id, [d.kind for d in first.decisions]) == (ids[0], ["append"])
    assert "never" in first.refused[0].reason
    assert (last.memory_id, last.decisions, last.refused) == (ids[2], (), ())
    assert [memory_id for memory_id, _ in report.failed] == [ids[1]]
    assert (report.usage, report.left, report.stopped) == (Usage(210, 90), (), "")
    (fact,) = facts.find(now=NOW)
    assert (fact.source_memory_id, fact.valid_from) == (ids[0], SPRING)
    again = facts.extract(ids[:1], extractor=model(chat), now=NOW)
    assert [d.kind for d in again.memories[0].decisions] == ["noop"]
    memory.forget(ids[:1])
    assert facts.find(now=NOW) == []


class Plain:
    """An extractor without a model."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, datetime]] = []

    def extract(self, text: str, event_time: datetime) -> Sequence[FactTriple]:
        self.asked.append((text, event_time))
        return [FactTriple("Ana", "said", text, event_time)]


def test_a_plain_list_will_do(lake: ailake.Lake, facts: ailake.Facts) -> None:
    memory = lake.memory("ana-bot", user_id="ana")
    told_ = memory.remember("Oslo is cold", now=NOW)
    extractor = Plain()
    facts.extract([told_.id, told_.id], extractor=extractor, now=NOW)
    assert extractor.asked == [("Oslo is cold", NOW)]
    assert [v.object for v in facts.find(now=NOW)] == ["Oslo is cold"]
    facts.assert_(extractor.extract("Rome is warm", SPRING), now=NOW)


def test_a_memory_that_is_forgotten_while_it_is_read_is_left_out(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    memory = lake.memory("ana-bot", user_id="ana")
    ids = [memory.remember(f"{place} is cold", now=NOW).id for place in ("Oslo", "Bern", "Rome")]

    class Forgetting(Plain):
        def extract(self, text: str, event_time: datetime) -> Sequence[FactTriple]:
            if "Bern" in text:
                memory.forget(ids[1])
            return super().extract(text, event_time)

    report = facts.extract(ids, extractor=Forgetting(), now=NOW)
    assert [one.memory_id for one in report.memories] == [ids[0], ids[2]]
    assert (report.forgotten, report.failed, report.left) == ((ids[1],), (), ())
    found = {v.source_memory_id for v in facts.history("Ana", "said")}
    assert found == {ids[0], ids[2]}


def test_facts_of_another_memory_that_is_not_there_are_refused(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    told_ = lake.memory("ana-bot", user_id="ana").remember("Oslo is cold", now=NOW)

    class Linking(Plain):
        def extract(self, text: str, event_time: datetime) -> Sequence[FactTriple]:
            return [FactTriple("Ana", "said", text, event_time, source_memory_id="none")]

    with pytest.raises(InvalidInputError, match="source_memory_id: got 'none'"):
        facts.extract([told_.id], extractor=Linking(), now=NOW)


def test_nobody_is_asked_where_a_memory_is_missing(lake: ailake.Lake, facts: ailake.Facts) -> None:
    memory = lake.memory("ana-bot", user_id="ana")
    old = memory.remember("Ana lives in Oslo", now=NOW)
    memory.update(old.id, text="Ana lives in Oslo now", now=NOW)
    elsewhere = lake.memory("bo-bot").remember("Bo lives in Oslo", now=NOW)
    extractor = Plain()
    for ids, error in (
        ([old.id], InvalidInputError), ([elsewhere.id], ailake.NotFoundError),
        (["none"], ailake.NotFoundError), ("none", InvalidInputError), ([1], InvalidInputError),
        ([[old.id]], InvalidInputError),
    ):  # fmt: skip
        with pytest.raises(error):
            facts.extract(ids, extractor=extractor, now=NOW)  # type: ignore[arg-type]
    assert extractor.asked == []


def test_a_cap_leaves_the_rest(lake: ailake.Lake, facts: ailake.Facts, chat: ChatServer) -> None:
    chat.answer = by_text
    memory = lake.memory("ana-bot", user_id="ana")
    ids = [memory.remember(f"Oslo has {n} parks", now=NOW).id for n in range(3)]
    report = facts.extract(ids, extractor=model(chat), now=NOW, max_tokens=150)
    assert (report.left, "tokens" in report.stopped) == ((ids[2],), True)


def test_what_is_no_extractor_or_answers_no_facts_is_refused(
    lake: ailake.Lake, facts: ailake.Facts
) -> None:
    told_ = lake.memory("ana-bot", user_id="ana").remember("Oslo is cold", now=NOW)

    class Odd:
        def extract(self, _text: str, _event_time: datetime) -> Any:
            return None

    for ids in ([told_.id], []):
        with pytest.raises(InvalidInputError, match="extractor: got None, wanted a FactExtractor"):
            facts.extract(ids, extractor=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="answer: got None, wanted a list of FactTriple"):
        facts.extract([told_.id], extractor=Odd())
    wrong: Any
    for wrong in ([1], [None], [""]):
        with pytest.raises(InvalidInputError, match="memory_ids: got"):
            lake.graph().extract(facts.scope, wrong, extractor=ailake.RulesExtractor())
