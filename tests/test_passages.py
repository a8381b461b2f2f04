"""Passages: where long texts are cut, and what the table of them holds and finds."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ailake
from ailake import Scope
from ailake.core.passages import WINDOW, Passage, split
from ailake.core.rows import passage_rows
from ailake.core.schema import arrow_schema
from ailake.storage import passages

DIM = 64
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCOPE = Scope("ana-bot", "ana")
OTHER = Scope("other")
CHINESE = "今天天气很好。我们去公园散步吧！你觉得怎么样？"
JAPANESE = "東京は日本の首都です。人口は約1400万人。"
FAMILY = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}\u200d\N{BOY}"

PIECES = st.one_of(
    st.sampled_from(
        ["。", ". ", "\n\n", " " * 70, "\x1c", "\x1f" * 60, "\u3000", FAMILY, "e\u0301"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.sampled_from([CHINESE, JAPANESE, "x" * 150, "How are you? I am fine. "]),
)


def texts(text: str, window: int) -> list[str]:
    return [passage.of(text) for passage in split(text, window=window)]


@given(st.lists(PIECES, max_size=12).map("".join), st.integers(50, 120))
@example("x" * 200, 50)
@example(" " * 400, 50)
@example("\x1c" * 120 + "a", 50)
@example("e" + "\u0301" * 300, 50)
def test_every_visible_character_is_in_exactly_one_passage(text: str, window: int) -> None:
    found = split(text, window=window)
    assert found == split(text, window=window)
    if len(text) <= window:
        assert found == ()
        return
    ends = [0, *(passage.end for passage in found)]
    assert all(end <= passage.start for end, passage in zip(ends, found, strict=False))
    assert ends[-1] <= len(text)
    assert all(1 <= passage.end - passage.start <= window for passage in found)
    assert all(passage.of(text).strip() for passage in found)
    covered = {place for passage in found for place in range(passage.start, passage.end)}
    assert not "".join(char for place, char in enumerate(text) if place not in covered).strip()


def test_cut_at_sentences_and_paragraphs() -> None:
    text = "Ana moved to Oslo. She works there.\n\nBo stayed. He likes it."
    assert texts(text, 36) == [
        "Ana moved to Oslo. She works there.",
        "Bo stayed. He likes it.",
    ]
    assert texts(text, 25)[:2] == ["Ana moved to Oslo.", "She works there."]


def test_scripts_without_spaces_are_cut_at_sentences() -> None:
    assert texts(CHINESE, 20) == ["今天天气很好。我们去公园散步吧！", "你觉得怎么样？"]
    assert texts(JAPANESE, 20) == ["東京は日本の首都です。", "人口は約1400万人。"]
    assert all(part.endswith(("。", "！", "？")) for part in texts(CHINESE * 200, WINDOW))


def test_characters_stay_whole_where_they_fit() -> None:
    assert set(texts(FAMILY * 30, 50)) == {FAMILY * 7, FAMILY * 2}
    assert texts("x" * 130, 50) == ["x" * 50, "x" * 50, "x" * 30]


def test_what_fits_is_not_cut() -> None:
    assert split("x" * WINDOW, window=WINDOW) == ()
    assert split(" " * 5_000 + "tea", window=WINDOW) == (Passage(5_000, 5_003),)


def test_short_texts_do_not_load_the_splitter() -> None:
    code = (
        "import sys\nfrom ailake.core.passages import split\nsplit('tea', window=50)\n"
        "assert 'semantic_text_splitter' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def unit(angle: float) -> NDArray[np.float32]:
    """A vector at cosine distance 1 - cos(angle) from ``QUERY``."""
    vector = np.zeros(DIM, np.float32)
    vector[:2] = np.cos(angle), np.sin(angle)
    return vector


QUERY = unit(0)


def rows(angles: Mapping[str, Sequence[float]], scope: Scope = SCOPE) -> pa.Table:
    """Passages of ten characters, each memory's at the given angles from the query."""
    cut = {
        name: [Passage(10 * part, 10 * part + 10) for part in range(len(parts))]
        for name, parts in angles.items()
    }
    vectors = [unit(angle) for parts in angles.values() for angle in parts]
    return passage_rows(
        cut,
        np.array(vectors, np.float32).reshape(-1, DIM),
        scope=scope,
        embedder_id="hashing-v1-64",
    )


def dataset(lake: ailake.Lake) -> lance.LanceDataset:
    return lake.store.tables["passages"].snapshot()


def stored(lake: ailake.Lake) -> list[tuple[str, int]]:
    kept = lake.scan("passages").select("chunk_id", "part").collect()
    return sorted(kept.iter_rows())


def test_rows_are_what_the_schema_says() -> None:
    made = rows({"a": [0.1, 0.2], "ö'\\": [0.3]})
    schema = arrow_schema("passages", dim=DIM, embedder_id="hashing-v1-64")
    assert made.schema.equals(schema, check_metadata=True)
    assert made.drop_columns(["embedding", "project_id"]).slice(1).to_pydict() == {
        "chunk_id": ["a", "ö'\\"],
        "agent_id": ["ana-bot"] * 2,
        "user_id": ["ana"] * 2,
        "part": [1, 0],
        "start": [10, 0],
        "end": [20, 10],
    }
    assert made["embedding"][0].as_py() == unit(0.1).astype(np.float16).tolist()
    assert rows({}).num_rows == rows({"a": []}).num_rows == 0
    with pytest.raises(pa.ArrowInvalid):
        passage_rows(
            {"a": [Passage(0, 5)]}, np.ones((2, DIM), np.float32), scope=SCOPE, embedder_id=""
        )


def test_appended_found_removed(lake: ailake.Lake) -> None:
    odd = "it's \\' \" 字"
    passages.append(lake.store, rows({"a": [0.5, 0.1], odd: [0.3]}))
    passages.append(lake.store, rows({"a": [0.2]}, OTHER))
    before = lake.table("passages").version
    passages.append(lake.store, rows({}))
    assert lake.table("passages").version == before
    assert stored(lake) == [("a", 0), ("a", 0), ("a", 1), (odd, 0)]
    passages.remove(lake.store, SCOPE, [])
    passages.remove(lake.store, Scope("nobody"), ["a"])
    passages.remove(lake.store, SCOPE, ["nothing"])
    assert dataset(lake).count_rows() == 4
    passages.remove(lake.store, SCOPE, ["a"])
    assert stored(lake) == [("a", 0), (odd, 0)]
    passages.remove(lake.store, SCOPE, [odd])
    assert lake.scan("passages").collect()["agent_id"].to_list() == ["other"]


def test_removal_names_rows_and_never_values(lake: ailake.Lake) -> None:
    passages.append(lake.store, rows({"a-telling-id": [0.1]}))
    passages.remove(lake.store, SCOPE, ["a-telling-id"])
    changes = dataset(lake).get_transactions(1)
    assert "a-telling-id" not in repr(changes)


def test_an_empty_table_costs_no_write(lake: ailake.Lake) -> None:
    before = lake.table("passages").version
    passages.remove(lake.store, SCOPE, ["a"])
    assert lake.table("passages").version == before


@pytest.mark.parametrize("fixture", ["lake", "on_disk"])
def test_the_nearest_passage_is_what_matched(
    lake: ailake.Lake, memory: ailake.Memory, request: pytest.FixtureRequest, fixture: str
) -> None:
    """Of equals the first, and the whole where no passage is nearer."""
    request.getfixturevalue(fixture)
    text = "0123456789" * 3
    memory.remember_many(
        [
            {"id": name, "text": text + name, "vector": unit(angle)}
            for name, angle in {"a": 0.9, "b": 0.3, "c": 0.7, "d": 0.2}.items()
        ],
        judge=False,
        now=NOW,
    )
    passages.append(lake.store, rows({"a": [0.8, 0.1, 0.1], "b": [0.5, 0.4], "x": [0.0]}))
    hits = memory.recall(QUERY, now=NOW)
    assert [hit.id for hit in hits] == ["a", "d", "b", "c"]
    assert [hit.distance for hit in hits] == pytest.approx(
        [1 - np.cos(angle) for angle in (0.1, 0.2, 0.3, 0.7)], abs=1e-3
    )
    assert [hit.passage for hit in hits] == [text[10:20], text + "d", text + "b", text + "c"]


@pytest.mark.usefixtures("on_disk")
def test_found_by_what_is_said_in_the_middle(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """From a Chinese text to its passage."""
    needle = "王峰的女儿在挪威学小提琴。"
    text = CHINESE * 100 + needle + JAPANESE * 100
    (whole,) = lake.embedder.embed_documents([text])
    made = memory.remember(text, vector=whole, now=NOW)
    cut = {made.id: split(text, window=100)}
    vectors = lake.embedder.embed_documents([one.of(text) for one in cut[made.id]])
    passages.append(
        lake.store, passage_rows(cut, vectors, scope=SCOPE, embedder_id=lake.embedder_id)
    )
    lake.flush()
    (hit,) = memory.recall("谁在挪威学小提琴", mode="vector", now=NOW)
    assert needle in hit.passage
    assert len(hit.passage) <= 100


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_a_memory_behind_another_with_many_passages(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    """One that fills the list of passages hides no other, far as that is by its own vector."""
    near = [{"id": f"n{n}", "text": f"n{n}", "vector": unit(0.3 + n / 1_000)} for n in range(300)]
    far = [{"id": name, "text": name, "vector": unit(1.5)} for name in ("many", "one")]
    memory.remember_many([*near, *far], judge=False, now=NOW)
    passages.append(lake.store, rows({"many": [0.1] * 90, "one": [1.4, 0.15]}))
    hits = memory.recall(QUERY, limit=3, now=NOW)
    assert [hit.id for hit in hits] == ["many", "one", "n0"]
    assert hits.exact
    hits = memory.recall(QUERY, limit=200, now=NOW)
    assert [hit.id for hit in hits] == ["many", "one", *(f"n{n}" for n in range(198))]
    assert hits.scored == 302


@pytest.mark.usefixtures("on_disk", "short_lists")
def test_passages_that_are_numbered_anew(lake: ailake.Lake, memory: ailake.Memory) -> None:
    """Their vectors are kept in memory under their numbers."""
    angles = {f"m{n}": [1.4, 0.05 * n] for n in range(1, 20)}

    def found() -> dict[str, float]:
        hits = memory.recall(QUERY, limit=30, now=NOW)
        return {hit.id: round(float(np.arccos(1 - hit.distance)), 2) for hit in hits}

    far = [{"id": name, "text": name, "vector": unit(1.5)} for name in angles]
    memory.remember_many(far, judge=False, now=NOW)
    passages.append(lake.store, rows(angles))
    assert found() == {name: pytest.approx(near, abs=0.01) for name, (_, near) in angles.items()}
    gone = [f"m{n}" for n in range(3, 12)]
    memory.forget(gone)
    angles = {name: parts for name, parts in angles.items() if name not in gone}
    assert found() == {name: pytest.approx(near, abs=0.01) for name, (_, near) in angles.items()}
