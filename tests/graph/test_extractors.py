"""Entities read out of texts: by rules, by a model, and what the caller knew before."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from chat_server import ChatServer, Reply, said
from hypothesis import given
from hypothesis import strategies as st

from ailake import (
    EntityExtractor,
    EntityRef,
    FallbackExtractor,
    GraphAwareRecall,
    GraphEvidence,
    InvalidInputError,
    Lake,
    RulesExtractor,
)
from ailake.core.graph import entity_refs
from ailake.providers import ChatModel, OpenAIEntityExtractor

RULES = RulesExtractor(
    {
        "张三": "person", "腾讯": "organisation", "Löwe": "product",
        "New York": "place", "new york times": "organisation",
    }
)  # fmt: skip

EXAMPLES = {
    "Ana is allergic to peanuts.": ["concept Ana"],
    "Buying milk. However, the dog of Ana's aunt likes NASA.": ["concept Ana", "concept NASA"],
    "She met Dr. Smith and Ben Cole on Monday. I think I'm fine.": [
        "concept Smith", "concept Ben Cole",
    ],
    "Hearing Sterling sing? Sterling sang.": ["concept Sterling"],
    "It was Ludwig van Beethoven, of the Bank of England": [
        "concept Ludwig van Beethoven", "concept Bank of England",
    ],
    "PLEASE CALL ME ABOUT ABC-123": ["ticket ABC-123"],
    "an X-1 and abc-12 are none, AB1-22 is": ["concept X-1", "ticket AB1-22"],
    "修复ABC-123的问题，联系ana@example.com或@bob_1，见https://example.com/a?b=1。": [
        "ticket ABC-123", "other(email) ana@example.com", "other(handle) @bob_1",
        "other(url) https://example.com/a?b=1",
    ],
    "see (https://example.com/a).": ["other(url) https://example.com/a"],
    "https://a.org/Foo_(bar), [see (https://a.org/b_(c)_[d]).] https://a.org/e)(": [
        "other(url) https://a.org/Foo_(bar)", "other(url) https://a.org/b_(c)_[d]",
        "other(url) https://a.org/e)(",
    ],
    "on 7 May 2023, on May 7th, 2023, on 2023-05-07, 2023年5月7日; May 2023; 2023-02-30": [
        "other(date) 2023-05-07",
    ],
    '张三在腾讯工作，读了《三体》和「红楼梦」，去了“北京大学”和"清华"，说“你好，世界”': [
        "person 张三", "organisation 腾讯", "article 三体", "concept 红楼梦", "concept 北京大学",
        "concept 清华",
    ],
    'he said "hello there" in the NEW YORK TIMES, in new york, to a löwe': [
        "organisation new york times", "place New York", "product Löwe",
    ],
    "She moved to New Delhi, works at Home Depot and banks with Best Buy": [
        "concept New Delhi", "concept Home Depot", "concept Best Buy",
    ],
    "New Delhi is far. Best Buy, in the Old Town. Buying Best Buy": [
        "concept New Delhi", "concept Best Buy", "concept Old Town",
    ],
    "I love Will Smith, and I'm Ana. Will Ben come to The Home Depot? Will Smith will.": [
        "concept Will Smith", "concept Ana", "concept Ben", "concept Home Depot",
    ],
    "Well, it was So good at Home": [],
    "But Ana likes it. New to Ben. Dear Dr. Will Cole": [
        "concept Ana", "concept Ben", "concept Will Cole",
    ],
    "a löwenzahn is none": [],
    "": [],
}  # fmt: skip


@pytest.mark.parametrize("text", EXAMPLES)
def test_rules(text: str) -> None:
    assert [f"{ref.type} {ref.name}" for ref in RULES.extract(text)] == EXAMPLES[text]


names = st.sampled_from(["Ana", "ana.", "ABC-123", "张三", "https://a.b/c", "Ben"])
hints = st.lists(st.builds(EntityRef, st.sampled_from(["concept", "person"]), names) | names)


@given(st.text() | st.lists(names).map(" ".join), hints)
def test_hints_come_first_whatever_the_text(text: str, given: list[str | EntityRef]) -> None:
    found = RULES.extract(text, given)
    first = entity_refs(given)
    assert found[: len(first)] == list(first)
    assert [ref.name for ref in found[: len(first)]] == [ref.name for ref in first]
    assert len(set(found)) == len(found)
    assert set(RULES.extract(text)) <= set(found)


def test_words_are_concepts_where_they_are_asked_for() -> None:
    text = "Ben's sister paints the sea-side, and he doesn't; see a.b@c.org, OPS-17 喝茶"
    named = RulesExtractor().extract(text)
    found = RulesExtractor(words=True).extract(text)
    words = [ref.name for ref in found if ref not in named]
    assert words == ["sister", "paints", "sea-side"]
    assert [ref for ref in found if ref in named] == named
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("between", ["\n" * 200_000 + "/", "." * 200_000 + "/", "- " * 100_000])
def test_long_runs_without_words_are_passed_in_time(between: str) -> None:
    found = RulesExtractor().extract(f"we met Ana{between} Bob and Eve")
    assert [ref.name for ref in found] == ["Ana", "Bob", "Eve"]


def test_names_that_are_too_long_are_none() -> None:
    text = f"https://example.com/{'a' * 2_000} {'A' * 2_000} Ben " + "Some Long Heading " * 3
    assert [ref.name for ref in RULES.extract(f"at {text}")] == []


def test_a_hint_wins_over_what_is_found() -> None:
    assert [ref.name for ref in RULES.extract("the Ana", ["ANA"])] == ["ANA"]
    person = EntityRef("person", "Ana")
    assert RULES.extract("the Ana", [person]) == [person, EntityRef("concept", "Ana")]


def test_wrong_arguments_are_refused() -> None:
    for wrong in ({"": "person"}, {"Ana": "human"}, {"Ana": "person", "ana": "place"}, ["Ana"]):
        with pytest.raises(InvalidInputError):
            RulesExtractor(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="text"):
        RULES.extract(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="entities"):
        RULES.extract("Ana", [7])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", [None, "rules", RulesExtractor])
def test_who_can_not_extract_is_refused_at_once(lake: Lake, wrong: Any) -> None:
    memory, graph = lake.memory("a"), lake.graph()
    told = memory.remember("Ben leads Atlas")
    with pytest.raises(InvalidInputError, match="extractor: got"):
        graph.extract(memory.scope, [told.id], extractor=wrong)
    with pytest.raises(InvalidInputError, match="extractor: got"):
        GraphAwareRecall(memory, graph, wrong)
    with pytest.raises(InvalidInputError, match="extractor: got"):
        GraphEvidence(graph, wrong)
    for name, pair in (("primary", (wrong, RULES)), ("secondary", (RULES, wrong))):
        with pytest.raises(InvalidInputError, match=f"{name}: got"):
            FallbackExtractor(*pair)


class Fixed:
    """Answers what it was made with, and forgets the hints."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self.names, self.error, self.asked = names, error, 0

    def extract(self, text: str, hints: Sequence[str | EntityRef] = ()) -> list[EntityRef]:  # noqa: ARG002
        self.asked += 1
        if self.error is not None:
            raise self.error
        return list(entity_refs(self.names))


def test_the_second_is_asked_where_the_first_finds_nothing_more() -> None:
    second = Fixed("tea")
    assert isinstance(FallbackExtractor(Fixed(), second), EntityExtractor)
    found = FallbackExtractor(Fixed("milk"), second).extract("", ["Ana"])
    assert [ref.name for ref in found] == ["Ana", "milk"]
    assert second.asked == 0
    for first in (Fixed(), Fixed("ana")):
        found = FallbackExtractor(first, second).extract("", ["Ana"])
        assert [ref.name for ref in found] == ["Ana", "tea"]
    with pytest.raises(RuntimeError, match="broken"):
        FallbackExtractor(Fixed(error=RuntimeError("broken")), second).extract("", ["Ana"])
    assert second.asked == 2


def test_a_model_names_entities(chat: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    model = OpenAIEntityExtractor(
        ChatModel("m", base_url=chat.url, api_key="x", retries=0, attempts=1)
    )
    stated = [
        {"type": "person", "name": "Ana"}, {"type": "river", "name": "Oder"},
        {"type": "person", "name": "..."}, {"type": "", "name": "Bo"},
        {"type": "person", "name": "ana"},
    ]  # fmt: skip
    chat.script = [said(entities=stated), said(entities=[{"name": "Ana"}]), Reply(status=401)]
    found = model.extract("a text", ["tea"])
    assert [(ref.type, ref.name) for ref in found] == [
        ("concept", "tea"), ("person", "Ana"), ("other(river)", "Oder"),
    ]  # fmt: skip
    assert chat.contents == ['{"text": "a text"}']
    with caplog.at_level(logging.WARNING, "ailake"):
        assert model.extract("a text", ["tea"]) == [EntityRef("concept", "tea")]
        assert FallbackExtractor(model, RULES).extract("the Ana", ["tea"]) == [
            EntityRef("concept", "tea"), EntityRef("concept", "Ana"),
        ]  # fmt: skip
    assert model.failures == len(caplog.records) == 2
