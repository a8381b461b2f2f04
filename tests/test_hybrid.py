"""Recall by words, neighbours, speakers, dates and rerankers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

import ailake
from ailake.core.episodic import score
from ailake.errors import InvalidInputError
from ailake.storage.held import HeldScopes

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

PLAIN = ailake.ScoringPolicy(
    neighbour_weight=0, speaker_weight=0, date_weight=0, brevity_weight=0, importance_weight=0
)


def far_vectors(count: int, dim: int) -> NDArray[np.float32]:
    """Return vectors that nothing is near to."""
    vectors = np.zeros((count, dim), np.float32)
    vectors[:, 0] = -1
    vectors[np.arange(count), 1 + np.arange(count) % (dim - 1)] = 0.1
    return vectors


def remember(memory: ailake.Memory, texts: Sequence[str], **columns: list[object]) -> list[str]:
    vectors = far_vectors(len(texts), memory.embedder.dim)
    items = [
        {"text": text, "vector": vector, **{name: column[n] for name, column in columns.items()}}
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    return [one.id for one in memory.remember_many(items, judge=False, now=NOW)]


def nearest_to_all(memory: ailake.Memory) -> NDArray[np.float32]:
    vector = np.zeros(memory.embedder.dim, np.float32)
    vector[0] = 1
    return vector


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The certificate is called XK-4711.", "xk-4711"),
        ("She was running through the parks", "run park"),
        ("我喜欢吃北京烤鸭", "烤鸭"),
        ("東京に行きました", "東京"),
        ("그는 서울 에서 산다", "서울"),
        ("ＡＢＣ 全角", "abc"),
        ("un café noir", "cafe"),
        ("Wir fuhren nach München", "munchen"),
    ],
)
def test_a_far_memory_with_the_word_is_found(memory: ailake.Memory, text: str, query: str) -> None:
    (wanted, *_) = remember(memory, [text, *(f"filler number {n}" for n in range(300))])
    near = np.zeros((50, memory.embedder.dim), np.float32)
    near[:, 0] = 1
    memory.remember_many(
        [{"text": f"nearer {n}", "vector": vector} for n, vector in enumerate(near)], now=NOW
    )
    for mode in ("hybrid", "text"):
        hits = memory.recall(query, vector=None if mode == "text" else -near[0], mode=mode, now=NOW)
        assert hits[0].id == wanted
        assert hits.exact
    by_vector = memory.recall(query, vector=near[0], mode="vector", limit=50, now=NOW)
    assert wanted not in {hit.id for hit in by_vector}
    hybrid = memory.recall(query, vector=near[0], limit=100, now=NOW)
    assert wanted in {hit.id for hit in hybrid}


def test_what_was_said_just_now_is_found_by_its_words(memory: ailake.Memory) -> None:
    for n in range(5):
        kept = memory.remember(f"the code word is quetzal{n}", now=NOW)
        hits = memory.recall(f"quetzal{n}", mode="text", now=NOW)
        assert [hit.id for hit in hits] == [kept.id]
        assert hits.exact


def test_mode_text_is_words_alone(memory: ailake.Memory) -> None:
    remember(memory, ["tea in the morning", "coffee and tea and tea", "wine"])
    hits = memory.recall("Tea?", mode="text", scoring=PLAIN, now=NOW)
    assert {hit.text for hit in hits} == {"tea in the morning", "coffee and tea and tea"}
    for hit in hits:
        assert hit.distance == 1
        assert hit.parts["near"] == pytest.approx(1 - hit.parts["lexical"])
    assert list(memory.recall("nothing of this", mode="text", now=NOW)) == []


def test_scopes_and_filters_hold_for_words(memory: ailake.Memory, lake: ailake.Lake) -> None:
    remember(memory, ["the quetzal", "a quetzal too"], kind=["a", "b"])
    other = lake.memory(agent_id="another")
    remember(other, ["their quetzal"])
    assert len(memory.recall("quetzal", mode="text", now=NOW)) == 2
    assert [hit.kind for hit in memory.recall("quetzal", where={"kind": "b"}, now=NOW)] == ["b"]
    assert [hit.text for hit in other.recall("quetzal", now=NOW)] == ["their quetzal"]
    found = lake.read([memory.scope, other.scope]).recall("quetzal", mode="text", now=NOW)
    assert len(found) == 3


def test_forgotten_merged_and_expired_memories_match_no_word(memory: ailake.Memory) -> None:
    gone, old, late = remember(
        memory,
        ["a quetzal flew", "a quetzal sat", "a quetzal slept"],
        expires_at=[None, None, NOW + timedelta(days=1)],
    )
    memory.forget([gone])
    memory.update(old, text="a sparrow sat", now=NOW)
    assert [h.id for h in memory.recall("quetzal", mode="text", now=NOW)] == [late]
    assert list(memory.recall("quetzal", mode="text", now=NOW + timedelta(days=2))) == []


@pytest.mark.parametrize("scoring", [PLAIN, ailake.ScoringPolicy(recency=PLAIN.recency, floor=0.2)])
def test_hybrid_equals_brute_force_over_words(
    memory: ailake.Memory, scoring: ailake.ScoringPolicy
) -> None:
    """More rows than are matched one by one: the list of words is cut, and the answer exact."""
    rng = np.random.default_rng(5)
    names = [f"w{n}" for n in range(60)]
    texts = [" ".join(rng.choice(names, 8)) + f" n{n}" for n in range(6_000)]
    vectors = rng.normal(size=(len(texts), memory.embedder.dim)).astype(np.float32)
    importance = rng.random(len(texts))
    memory.remember_many(
        [
            {"text": t, "vector": v, "importance": float(i)}
            for t, v, i in zip(texts, vectors, importance, strict=True)
        ],
        judge=False,
        now=NOW,
    )
    scoring = replace(
        scoring,
        importance_weight=1.0,
        neighbour_weight=0,
        speaker_weight=0,
        date_weight=0,
        brevity_weight=0,
    )
    query, vector = "w1 w2 w3", rng.normal(size=memory.embedder.dim).astype(np.float32)
    words = {h.id: h for h in memory.recall(query, mode="text", limit=6_000, now=NOW)}
    rows = memory.recall(vector, mode="vector", limit=6_000, scoring=scoring, now=NOW, touch=False)
    expected = {}
    for row in rows:
        lexical = 0.0
        if row.id in words:
            share = words[row.id].parts["lexical"]
            lexical = scoring.lexical_weight * share
        near = max(row.distance - lexical, 0.0)
        expected[row.id] = float(score(np.array(near), np.array(row.parts["weight"])))
    best = sorted(expected.values())[:10]
    hits = memory.recall(query, vector=vector, limit=10, scoring=scoring, now=NOW, touch=False)
    assert hits.exact
    assert [hit.score for hit in hits] == pytest.approx(best)
    assert all(hit.score == pytest.approx(expected[hit.id]) for hit in hits)


def test_a_match_beyond_the_list_of_words_is_not_overlooked(memory: ailake.Memory) -> None:
    """Thousands match better, and are far; the one that wins is met by being near, too."""
    dim = memory.embedder.dim
    vectors = np.zeros((8_002, dim), np.float32)
    vectors[:, 0] = -1
    vectors[0, :2] = (0.70, np.sqrt(1 - 0.70**2))
    vectors[1, :2] = (0.74, np.sqrt(1 - 0.74**2))
    texts = ["quetzal " + " ".join(f"x{n}" for n in range(40)), "nothing of the kind"]
    texts += [f"{bird} {n}" for bird in ("quetzal", "sparrow") for n in range(4_000)]
    items = [{"text": t, "vector": v} for t, v in zip(texts, vectors, strict=True)]
    memory.remember_many(items, judge=False, now=NOW)
    near = nearest_to_all(memory)
    scoring = replace(PLAIN, lexical_weight=2.0, lexical_half=1.0)
    by_vector = memory.recall(near, limit=2, scoring=scoring, now=NOW, touch=False)
    assert [hit.text[:7] for hit in by_vector] == ["nothing", "quetzal"]
    (hit,) = memory.recall("quetzal", vector=near, limit=1, scoring=scoring, now=NOW, touch=False)
    assert hit.text == texts[0]
    assert hit.parts["lexical"] > 0


def test_the_turn_beside_a_match_comes_up(memory: ailake.Memory) -> None:
    texts = ["Which city is the quetzal exhibition in?", "It opens in Lisbon.", "I like soup."]
    kept = remember(
        memory, texts, session_id=["s", "s", "t"],
        event_time=[NOW - timedelta(minutes=9 - n) for n in range(3)],
    )  # fmt: skip
    hits = memory.recall("quetzal exhibition", vector=nearest_to_all(memory), now=NOW)
    assert [hit.id for hit in hits] == kept
    assert hits[1].parts["neighbour"] > 0
    assert hits[2].parts["neighbour"] == 0


def test_a_short_text_in_chinese_is_not_brief(memory: ailake.Memory) -> None:
    """Fifty characters say as much as a hundred and fifty of English."""
    remember(memory, ["我不吃香菜请助手记一下" * 5, "I eat no coriander"])
    hits = memory.recall("quetzal", vector=nearest_to_all(memory), now=NOW)
    brief = {hit.text[0]: hit.parts["brevity"] for hit in hits}
    assert brief["我"] == 0
    assert brief["I"] > 0


@pytest.mark.parametrize("agents", ["a", "ab"])
def test_turns_in_memory_and_on_disk_are_the_same(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, agents: str
) -> None:
    rng = np.random.default_rng(3)
    for agent in "ab":
        memory = lake.memory(agent_id=agent)
        items = [
            {
                "id": f"{agent}{n}",
                "text": f"turn {n} " + "of a longer kind " * int(rng.integers(20)),
                "session_id": str(rng.choice(["", "s", "t"])),
                "event_time": NOW - timedelta(minutes=int(rng.integers(20))),
                "speaker": str(rng.choice(["Ana", "Bo"])),
            }
            for n in range(150)
        ]
        memory.remember_many(items, judge=False, now=NOW)
        memory.recall("held before it changes", now=NOW, touch=False)
        memory.update(f"{agent}3", text="another turn", now=NOW)
        memory.forget([f"{agent}{n}" for n in range(30, 90)], now=NOW)
    reader = lake.read([ailake.Scope(agent) for agent in agents])

    def found() -> list[tuple[str, dict[str, float]]]:
        hits = reader.recall("what did Ana say of turn 7?", limit=10, now=NOW)
        assert hits.exact
        return [(hit.id, {**hit.parts}) for hit in hits]

    in_memory = found()
    assert sum(parts["neighbour"] > 0 for _, parts in in_memory) > 5
    monkeypatch.setattr("ailake.storage.held.BUDGET", -1)
    lake.store.held = HeldScopes(dim=reader.embedder.dim)
    for (memory_id, parts), (other_id, others) in zip(in_memory, found(), strict=True):
        assert memory_id == other_id
        assert parts == pytest.approx(others, abs=1e-5)


def test_memories_of_no_session_have_no_neighbours(memory: ailake.Memory) -> None:
    remember(memory, ["about the quetzal", "soup"])
    hits = memory.recall("quetzal", vector=nearest_to_all(memory), now=NOW)
    assert [hit.parts["neighbour"] for hit in hits] == [0, 0]


def test_speakers_and_dates_that_are_named(memory: ailake.Memory) -> None:
    day = NOW.replace(month=3, day=5)
    ana, bo = remember(
        memory, ["pears are fine", "plums are fine"], speaker=["Ana", "Bo"],
        event_time=[day, day.replace(month=4)],
    )  # fmt: skip
    near = nearest_to_all(memory)
    assert memory.recall("What does ana like?", vector=near, now=NOW)[0].id == ana
    assert memory.recall("What does Bo like?", vector=near, now=NOW)[0].id == bo
    march = memory.recall("What was said in March?", vector=near, now=NOW)
    assert (march[0].id, march[0].parts["date"], march[1].parts["date"]) == (ana, 0.3, 0)


class Length:
    """Prefers the longest text."""

    id = "length"

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        assert query == "anything at all"
        return np.array([min(len(text) / 100, 1) for text in texts])


class Wrong:
    id = "wrong"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:  # noqa: ARG002
        return np.array(self.answer)


def test_a_reranker_has_the_last_word(memory: ailake.Memory) -> None:
    remember(memory, ["x" * n for n in (10, 30, 20)])
    hits = memory.recall("anything at all", reranker=Length(), now=NOW)
    assert [len(hit.text) for hit in hits] == [30, 20, 10]
    for hit in hits:
        assert hit.parts["near"] == pytest.approx(1 - len(hit.text) / 100)
        assert hit.score == pytest.approx(hit.parts["near"] / hit.parts["weight"])
    assert hits.explain()["relevance"].to_list() == pytest.approx([0.3, 0.2, 0.1])
    assert list(memory.recall("anything at all", where={"kind": "no"}, reranker=Length())) == []


@pytest.mark.parametrize("answer", [[0.5], [0.1, 0.2, 1.5], [0.1, 0.2, float("nan")]])
def test_a_reranker_that_answers_nonsense_is_an_error(
    memory: ailake.Memory, answer: object
) -> None:
    remember(memory, ["one", "two", "three"])
    with pytest.raises(InvalidInputError, match="reranker 'wrong'"):
        memory.recall("anything", reranker=Wrong(answer), now=NOW)


def test_wrong_arguments(memory: ailake.Memory) -> None:
    vector = nearest_to_all(memory)
    with pytest.raises(InvalidInputError, match=r"hybrid \| vector \| text"):
        memory.recall("x", mode="fast")
    with pytest.raises(InvalidInputError, match="mode text"):
        memory.recall(vector, mode="text")
    with pytest.raises(InvalidInputError, match="mode text"):
        memory.recall("x", mode="text", max_distance=0.5)
    with pytest.raises(InvalidInputError, match="a vector already"):
        memory.recall(vector, vector=vector)
    with pytest.raises(InvalidInputError, match="a Reranker"):
        memory.recall("x", reranker=object())  # type: ignore[arg-type]
    for query, mode in ((vector, "hybrid"), ("x", "vector")):
        with pytest.raises(InvalidInputError, match="reads texts"):
            memory.recall(query, mode=mode, reranker=Length())


@pytest.mark.parametrize(
    "query",
    ['"a phrase"', "a AND (b OR", "x:y^2~", "'; DROP TABLE", "!!!", "the of and", "w " * 9_000],
)
def test_queries_are_words_and_never_a_language(memory: ailake.Memory, query: str) -> None:
    remember(memory, ["a phrase of one's own", "nothing"])
    assert len(memory.recall(query, now=NOW)) == 2
    assert memory.recall(query, mode="text", now=NOW).exact
