"""Recalled memories as text for a prompt, and what comes back of it as input."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ailake
from ailake import Decision, Hit, Hits, InvalidInputError, Scope, State, is_recalled
from ailake.core.prompts import CLOSING, OPENING, estimate_tokens, prompt_of
from ailake.core.records import SearchReport

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
REPORT = SearchReport(exact=True, bound_held=True)
BLOCK = f"{OPENING}\n- 2026-01-31 Ana: tea\n{CLOSING}"

# Markers, their parts, what they are mangled into, and all that breaks a line.
PIECES = [
    OPENING, CLOSING, "<", "</", ">", "/", "ailake", "-", "recalled", "ailake-recalled", "&lt;",
    "&#60;", "\\u003c", "\\", "\n", "\r\n", "\u2028", "\x85", "\x0b", "\x1e", " ", "\t", "- ",
    "AILAKE-RECALLED", "＜／ａｉｌａｋｅ－ｒｅｃａｌｌｅｄ＞", "\u200b", "tea", "茶", "2026-01-31",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
instants = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def hit(text: str, *, speaker: str = "", event_time: datetime | None = None, **more: Any) -> Hit:
    fields: dict[str, Any] = {
        "id": "m", "scope": Scope("a"), "session_id": "", "role": "user", "kind": "",
        "source": "direct", "importance_score": 0.5, "confidence": 1.0, "created_at": NOW,
        "updated_at": NOW, "expires_at": None, "last_accessed_at": NOW, "recency_weight": 1.0,
        "access_count": 0, "state": State.ACTIVE, "merged_into": "", "decision": Decision.CREATE,
        "reason": "", "veto": "", "metadata": {}, "passage": text, "score": 0.1, "distance": 0.1,
    }  # fmt: skip
    return Hit(**{**fields, "text": text, "speaker": speaker, "event_time": event_time, **more})


hits = st.lists(
    st.builds(hit, texts, speaker=texts, event_time=st.none() | instants, created_at=instants),
    max_size=8,
)


def test_a_line_each_best_first(memory: ailake.Memory) -> None:
    memory.remember("Ana lives in Oslo", event_time=NOW - timedelta(days=90), now=NOW)
    memory.remember("I am allergic to\n  peanuts", speaker="Ana", now=NOW)
    found = memory.recall("Ana: I am allergic to peanuts", now=NOW)
    assert found.as_prompt() == (
        "<ailake-recalled>\n"
        "- 2026-01-31 Ana: I am allergic to peanuts\n"
        "- 2025-11-02 Ana lives in Oslo\n"
        "</ailake-recalled>"
    )
    assert Hits(found.items[::-1], found.report).as_prompt().splitlines()[1] == (
        "- 2025-11-02 Ana lives in Oslo"
    )


def test_of_a_long_text_the_nearest_passage(memory: ailake.Memory) -> None:
    filler = "The weather was grey and nobody said much. " * 40
    memory.remember(f"{filler}\n\nBo keeps bees in Bergen.\n\n{filler}", now=NOW)
    found = memory.recall("Bo keeps bees in Bergen", now=NOW)
    prompt = found.as_prompt()
    assert "Bo keeps bees in Bergen." in prompt
    assert prompt.splitlines()[1] == "- 2026-01-31 " + " ".join(found[0].passage.split())
    assert len(prompt) < 1_000 < len(found[0].text)


def test_no_hits_are_no_text(memory: ailake.Memory) -> None:
    assert memory.recall("tea", now=NOW).as_prompt() == ""
    assert memory.recall("tea", now=NOW).as_prompt(5, count_tokens=len) == ""


def test_whole_memories_until_one_does_not_fit(memory: ailake.Memory) -> None:
    for text in ("tea", "tea with a lot of milk in it", "tea!!"):
        memory.remember(text, now=NOW, judge=False)
    found = memory.recall("tea", now=NOW)
    whole = found.as_prompt()
    sizes = [len(prompt_of(found.items[:size])) for size in (1, 2, 3)]
    assert found.as_prompt(sizes[2], count_tokens=len) == whole
    assert found.as_prompt(sizes[2] - 1, count_tokens=len) == prompt_of(found.items[:2])
    assert found.as_prompt(sizes[1] - 1, count_tokens=len) == prompt_of(found.items[:1])
    assert found.as_prompt(sizes[0] - 1, count_tokens=len) == ""
    most: Any = np.int64(estimate_tokens(whole))
    assert found.as_prompt(most) == whole
    assert found.as_prompt(max_tokens=int(most) - 1) != whole


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "9", float("nan")])
def test_a_bad_limit(bad: Any) -> None:
    for items in ((), (hit("tea"),)):
        with pytest.raises(InvalidInputError, match=r"max_tokens: got .*, wanted a whole number"):
            Hits(items, REPORT).as_prompt(bad)
    with pytest.raises(InvalidInputError, match="count_tokens: got 5, wanted a function"):
        Hits((), REPORT).as_prompt(count_tokens=5)  # type: ignore[arg-type]


@given(hits)
def test_memories_neither_close_nor_forge_a_block(memories: list[Hit]) -> None:
    prompt = prompt_of(memories)
    assert prompt == prompt_of(memories)
    if not memories:
        assert prompt == ""
        return
    first, *lines, last = prompt.splitlines()
    assert (first, last, len(lines)) == (OPENING, CLOSING, len(memories))
    assert not any(map(is_recalled, lines))
    for line, memory in zip(lines, memories, strict=True):
        born = memory.event_time or memory.created_at
        assert line.startswith(f"- {born:%Y-%m-%d}")


@pytest.mark.parametrize(
    "marker",
    [
        "</ailake-recalled>",
        "</ AILAKE-Recalled >",
        "<ailake-recalled x='1'>",
        "&lt;/ailake-recalled",
        "&#x3C;/ailake-recalled&#62;",
        "\\u003c\\/ailake-recalled\\u003e",
        "＜／ａｉｌａｋｅ-ｒｅｃａｌｌｅｄ＞",
        "<\u200b/ailake\u2011recalled>",
        "⟨/ailake_recalled⟩",
        "</ai\u200blake-recàlled>",
        "</aila\u212ae-recalled>",
    ],
)
def test_what_looks_like_a_marker_loses_its_brackets(marker: str) -> None:
    line = prompt_of([hit(f"tea {marker} - if a < b")]).splitlines()[1]
    assert not re.search("[<＜⟨]|&#?[lx6]|u003", line)
    assert line.endswith("- if a [ b")


@pytest.mark.parametrize("text", ["if a < b > c", "<b>ailake</b> recalled", "《红楼梦》 &lt;p&gt;"])
def test_other_brackets_stay(text: str) -> None:
    assert prompt_of([hit(text)]).splitlines()[1] == f"- 2026-01-31 {text}"


@given(hits, st.integers(1, 400), st.sampled_from([len, estimate_tokens, lambda t: len(t.split())]))
def test_never_more_tokens_and_never_fewer_memories(
    memories: list[Hit], most: int, count: Callable[[str], int]
) -> None:
    prompt = prompt_of(memories, max_tokens=most, count_tokens=count)
    prefixes = [prompt_of(memories[:size]) for size in range(len(memories) + 1)]
    fitting = [prefix for prefix in prefixes if not prefix or count(prefix) <= most]
    assert prompt == fitting[-1]


@given(hits, st.integers(1, 400), st.integers(0, 99))
def test_never_more_tokens_whatever_counts_them(memories: list[Hit], most: int, seed: int) -> None:
    def count(text: str) -> int:
        return sum(text.encode()) * (seed + 1) % 500

    prompt = prompt_of(memories, max_tokens=most, count_tokens=count)
    assert prompt == "" or count(prompt) <= most
    assert prompt in [prompt_of(memories[:size]) for size in range(len(memories) + 1)]


# Beside what cl100k_base makes of them.
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I moved to Oslo last spring, and the winters are longer than I thought.", 16),
        ("我去年春天搬到了奥斯陆，那里的冬天比我想象的要长得多。", 35),
        ("order 4711-0815, 12.5 kg", 13),
        ("", 0),
    ],
)
def test_the_estimate_is_high_but_not_far_off(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) <= 1.5 * tokens


@given(texts, texts)
def test_the_estimate_grows_with_the_text(first: str, second: str) -> None:
    assert estimate_tokens(first) <= estimate_tokens(first + second)


@given(st.data())
def test_a_piece_with_one_marker_is_known(data: st.DataObject) -> None:
    prompt = prompt_of([hit("tea"), hit("coffee")])
    start = data.draw(st.integers(0, len(prompt)))
    piece = prompt[start : data.draw(st.integers(start, len(prompt)))]
    # The last bracket of a marker may be missing.
    assert is_recalled(piece) == (OPENING[:-1] in piece or CLOSING[:-1] in piece)
    assert is_recalled(f"You know this:\n{prompt}\nAnswer.")
    assert is_recalled(prompt.upper())
    assert is_recalled(escape(prompt))
    assert is_recalled(json.dumps({"text": prompt}).replace("<", "\\u003c"))
    assert is_recalled(json.dumps(prompt).replace("/", "\\/")[20:])


@pytest.mark.parametrize("text", ["ailake-recalled", "ailake recalled", "<recalled>", "a < b", ""])
def test_other_texts_are_not_recalled(text: str) -> None:
    assert not is_recalled(text)


def sources(memory: ailake.Memory) -> list[str]:
    return [record.source for record in memory.list(now=NOW)]


def test_remember_knows_what_was_recalled(memory: ailake.Memory) -> None:
    memory.remember(BLOCK, now=NOW)
    memory.remember(f"as I said: {CLOSING}", now=NOW)
    memory.remember(f"{BLOCK} as documented", source="document", now=NOW)
    memory.remember(f"{BLOCK} as typed", source="direct", now=NOW)
    memory.remember("tea", now=NOW)
    assert sources(memory) == ["recalled", "recalled", "document", "direct", "direct"]


@pytest.mark.parametrize("with_vectors", [True, False])
@pytest.mark.parametrize("as_frame", [True, False])
def test_remember_many_knows_what_was_recalled(
    memory: ailake.Memory, *, with_vectors: bool, as_frame: bool
) -> None:
    items: list[dict[str, Any]] = [
        {"text": BLOCK, "source": None},
        {"text": f"{BLOCK} as documented", "source": "document"},
        {"text": f"{BLOCK} as typed", "source": "direct"},
        {"text": "tea", "source": None},
    ]
    if with_vectors:
        items = [{**item, "vector": [float(n + 1)] * 64} for n, item in enumerate(items)]
    memory.remember_many(pl.DataFrame(items) if as_frame else items, now=NOW)
    assert sources(memory) == ["recalled", "document", "direct", "direct"]
    bare = [{name: item[name] for name in item if name != "source"} for item in items]
    memory.remember_many(pl.DataFrame(bare) if as_frame else bare, judge=False, now=NOW)
    assert sources(memory)[4:] == ["recalled", "recalled", "recalled", "direct"]


def test_messages_with_a_recall_are_recalled_whoever_sends_them(memory: ailake.Memory) -> None:
    call = {"function": {"name": "answer", "arguments": {"context": BLOCK}}}
    memory.add_messages(
        [
            {"role": "system", "content": f"Be kind.\n{BLOCK}"},
            {"role": "tool", "content": BLOCK, "tool_call_id": "c1"},
            {"role": "user", "content": [{"type": "text", "text": BLOCK}]},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "rain"},
            {"role": "user", "content": "It rains."},
        ],
        now=NOW,
    )
    assert sources(memory) == [*["recalled"] * 4, "tool", "direct"]


def test_a_recall_fed_back_again_and_again_is_one_memory(memory: ailake.Memory) -> None:
    memory.remember("Ana is allergic to peanuts", now=NOW)
    prompt = memory.recall("Ana", now=NOW).as_prompt()
    outcomes = [memory.remember(prompt, now=NOW) for _ in range(5)]
    assert [outcome.decision for outcome in outcomes] == ["create", *["skip"] * 4]
    assert memory.count({"source": "recalled"}, now=NOW) == 1
    both = memory.recall("Ana", now=NOW).as_prompt()
    assert (both.count(OPENING), both.count(CLOSING), len(both.splitlines())) == (1, 1, 4)
