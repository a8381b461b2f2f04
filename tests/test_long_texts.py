"""Long texts: found by what is said anywhere in them, and recalled as one memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
FILLER = "The weather was grey and nothing else of note happened that day. "
CHINESE = "今天天气不好，没有什么特别的事情发生。"


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    return lake.memory(agent_id="a")


def long_text(needle: str, filler: str = FILLER) -> str:
    return filler * 40 + needle + " " + filler * 40


def passages(lake: ailake.Lake) -> list[str]:
    return lake.scan("passages").collect()["chunk_id"].to_list()


def test_what_is_said_deep_in_a_long_text_is_found(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    text = long_text("Ana keeps bees on the roof of the old brewery.")
    kept = memory.remember(text, now=NOW)
    memory.remember_many(
        [{"text": f"Note {n} says that the meeting was moved."} for n in range(30)], now=NOW
    )
    hits = memory.recall("Ana keeps bees on the roof of the old brewery", limit=3, now=NOW)
    assert hits[0].id == kept.id
    assert [hit.id for hit in hits].count(kept.id) == 1
    assert hits[0].text == text
    assert "bees on the roof" in hits[0].passage
    assert len(hits[0].passage) <= 700
    assert hits[0].passage in text
    (whole,) = lake.embedder.embed_documents([text])
    query = lake.embedder.embed_query("Ana keeps bees on the roof of the old brewery")
    assert hits[0].distance < 1.0 - float(whole @ query)
    assert "bees on the roof" in str(hits).splitlines()[0]
    assert hits.exact
    assert hits.scored == 31
    assert hits[1].passage == hits[1].text
    assert memory.count(now=NOW) == 31


def test_chinese(memory: ailake.Memory) -> None:
    kept = memory.remember(long_text("安娜在老酿酒厂的屋顶上养蜂。", CHINESE), now=NOW)
    memory.remember_many([{"text": f"第{n}条：会议改期了。"} for n in range(30)], now=NOW)
    hits = memory.recall("安娜在老酿酒厂的屋顶上养蜂", limit=1, now=NOW)
    assert hits[0].id == kept.id
    assert "屋顶上养蜂" in hits[0].passage


class Topics:
    """Counts two words, so that distances are known; reads 60 characters at once."""

    id = "topics"
    dim = 2
    window = 60

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = [[text.count("zebra"), text.count("weather")] for text in texts]
        return np.array(counts, np.float32) + np.float32(0.001)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        (vector,) = self.embed_documents([text])
        return np.asarray(vector)


@pytest.mark.usefixtures("on_disk")
def test_a_memory_far_by_its_own_vector_enters_the_list_by_a_passage(tmp_path: Path) -> None:
    """More memories than the list of the nearest has places, all nearer as a whole."""
    with ailake.connect(tmp_path / "topics", embedder=Topics(), judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        weather = "More weather came, and weather went. " * 20
        kept = memory.remember(
            weather + "A zebra saw a zebra, and another zebra saw a zebra. " + weather, now=NOW
        )
        near = [{"text": f"weather of zebra {n}"} for n in range(3_000)]
        memory.remember_many(near, judge=False, now=NOW)
        hits = memory.recall("zebra", limit=5, mode="vector", now=NOW)
        assert hits[0].id == kept.id
        assert "zebra" in hits[0].passage
        assert hits[0].distance < hits[1].distance
        assert hits.exact


@pytest.mark.parametrize("fixture", ["on_disk", "memory"])
def test_filters_come_before_the_search_for_passages(
    memory: ailake.Memory, request: pytest.FixtureRequest, fixture: str
) -> None:
    request.getfixturevalue(fixture)
    needle = "Ana keeps bees on the roof."
    memory.remember_many(
        [{"text": long_text(f"{needle} {n}"), "kind": "log"} for n in range(8)], now=NOW
    )
    kept = memory.remember(long_text("Ben sells honey."), kind="diary", now=NOW)
    gone = memory.remember(long_text(needle + " x"), kind="diary", expires_at=NOW, now=NOW)
    hits = memory.recall(needle, where={"kind": "diary"}, now=NOW)
    assert [hit.id for hit in hits] == [kept.id]
    assert gone.id not in {hit.id for hit in memory.recall(needle, now=NOW)}


def test_scopes(lake: ailake.Lake, memory: ailake.Memory) -> None:
    text = long_text("Ana keeps bees.")
    mine = memory.remember(text, now=NOW)
    other = lake.memory(agent_id="b").remember(text, now=NOW)
    assert [hit.id for hit in memory.recall("Ana keeps bees", now=NOW)] == [mine.id]
    both = lake.read([ailake.Scope("a"), ailake.Scope("b")]).recall("Ana keeps bees", now=NOW)
    assert {hit.id for hit in both} == {mine.id, other.id}


def test_update_and_forget_take_the_passages_along(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    old = memory.remember(long_text("Ana keeps bees on the roof."), now=NOW)
    new = memory.update(old.id, text=long_text("Ana keeps hens in the yard."), now=NOW)
    hits = memory.recall("Ana keeps hens in the yard", now=NOW)
    assert [hit.id for hit in hits] == [new.id]
    assert "hens in the yard" in hits[0].passage
    assert set(passages(lake)) == {old.id, new.id}
    short = memory.update(new.id, text="Ana keeps nothing.", now=NOW)
    assert [hit.id for hit in memory.recall("hens in the yard", now=NOW)] == [short.id]
    memory.forget(short.id)
    assert passages(lake) == []
    assert lake.verify() == ()


def test_short_texts_and_given_vectors_have_none(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("short", now=NOW)
    memory.remember(long_text("given"), vector=[1.0] + [0.0] * 63, now=NOW)
    assert passages(lake) == []


def test_a_repetition_is_known_and_embeds_nothing_twice(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    text = long_text("Ana keeps bees.")
    first = memory.remember(text, now=NOW)
    again = memory.remember(text, now=NOW + timedelta(hours=1))
    assert (again.decision, again.id) == (ailake.Decision.SKIP, first.id)
    assert set(passages(lake)) == {first.id}


def test_the_past(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    kept = memory.remember(long_text("Ana keeps bees on the roof."), now=NOW)
    lake.tag("then")
    memory.forget(kept.id)
    past = lake.at("then").memory(agent_id="a")
    assert "bees on the roof" in past.recall("Ana keeps bees on the roof", now=NOW)[0].passage
    assert not memory.recall("Ana keeps bees on the roof", now=NOW)


def test_an_embedder_says_how_much_it_reads(tmp_path: Path) -> None:
    wide = Topics()
    wide.window = 100_000
    with ailake.connect(tmp_path / "wide", embedder=wide, judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember(long_text("zebra"), now=NOW)
        assert passages(lake) == []


def test_too_long(memory: ailake.Memory) -> None:
    with pytest.raises(ailake.InvalidInputError, match="200,000"):
        memory.remember("x" * 200_001)
    assert memory.count() == 0
