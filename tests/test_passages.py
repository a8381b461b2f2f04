"""Passages: where long texts are cut, and what the table of them holds and finds."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ailake
from ailake import Scope
from ailake.core.filters import parse_where
from ailake.core.passages import WINDOW, Passage, split
from ailake.core.rows import passage_rows
from ailake.core.schema import arrow_schema, filter_kinds
from ailake.storage import passages
from ailake.storage.search import Nearest

DIM = 64
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


def nearest(
    lake: ailake.Lake, *, limit: int | None = 10, memory_ids: Sequence[str] | None = None
) -> Nearest:
    wall = parse_where({"agent_id": "ana-bot", "user_id": "ana"}, filter_kinds("passages"))
    ids = None if memory_ids is None else pa.array(memory_ids, pa.string())
    return passages.nearest_passages(dataset(lake), QUERY, wall, limit=limit, memory_ids=ids)


def places(found: Nearest) -> list[tuple[str, int]]:
    return [(row["chunk_id"], row["part"]) for row in found.columns.to_pylist()]


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
    found = nearest(lake)
    assert places(found) == [("a", 1), (odd, 0), ("a", 0)]
    assert (found.complete, found.true_distances) == (True, True)
    assert found.columns["_distance"].to_pylist() == pytest.approx(
        [1 - np.cos(angle) for angle in (0.1, 0.3, 0.5)], abs=1e-3
    )
    assert found.columns.column_names == [*passages.COLUMNS, "_distance", "_rowid"]
    passages.remove(lake.store, SCOPE, [])
    passages.remove(lake.store, Scope("nobody"), ["a"])
    passages.remove(lake.store, SCOPE, ["nothing"])
    assert dataset(lake).count_rows() == 4
    passages.remove(lake.store, SCOPE, ["a"])
    assert places(nearest(lake)) == [(odd, 0)]
    passages.remove(lake.store, SCOPE, [odd])
    assert lake.scan("passages").collect()["agent_id"].to_list() == ["other"]


def test_removal_names_rows_and_never_values(lake: ailake.Lake) -> None:
    passages.append(lake.store, rows({"a-telling-id": [0.1]}))
    passages.remove(lake.store, SCOPE, ["a-telling-id"])
    changes = dataset(lake).get_transactions(1)
    assert "a-telling-id" not in repr(changes)


def test_an_empty_table_costs_no_write_and_finds_nothing(lake: ailake.Lake) -> None:
    before = lake.table("passages").version
    passages.remove(lake.store, SCOPE, ["a"])
    assert lake.table("passages").version == before
    for found in (nearest(lake), nearest(lake, memory_ids=["a"]), nearest(lake, limit=None)):
        assert found.columns.num_rows == 0
        assert found.complete
        assert found.columns.column_names == [*passages.COLUMNS, "_distance", "_rowid"]


def test_the_list_is_cut_at_the_limit_and_says_so(lake: ailake.Lake) -> None:
    passages.append(lake.store, rows({"a": [0.1, 0.2, 0.3, 0.4]}))
    assert places(nearest(lake, limit=2))[:2] == [("a", 0), ("a", 1)]
    assert not nearest(lake, limit=2).complete
    assert nearest(lake, limit=4).complete
    assert len(places(nearest(lake, limit=None))) == 4


@pytest.mark.parametrize("few", [0, 2, 1_000])
@pytest.mark.parametrize("limit", [1, 3, None])
def test_chosen_memories_are_chosen_before_the_limit(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, few: int, limit: int | None
) -> None:
    """Rare ones are found behind any number of nearer ones, whichever way the search goes."""
    monkeypatch.setattr(passages, "_FEW", few)
    common = {f"m{n}": [0.001 * n + 0.01 * part for part in range(5)] for n in range(60)}
    rare = {"r1": [1.2, 0.9], "r2": [1.0], "r3": [1.1, 1.3]}
    passages.append(lake.store, rows(common))
    passages.append(lake.store, rows(rare))
    passages.append(lake.store, rows({"r4": [0.0]}, OTHER))
    found = nearest(lake, limit=limit, memory_ids=[*rare, "r4", "unknown"])
    wanted = [("r1", 1), ("r2", 0), ("r3", 0), ("r1", 0), ("r3", 1)]
    assert len(places(found)) >= min(limit or 5, 5)
    assert places(found) == wanted[: len(places(found))]
    assert found.complete == (len(places(found)) == 5)
    assert found.true_distances
    assert nearest(lake, limit=limit, memory_ids=[]).columns.num_rows == 0
    everything = nearest(lake, limit=limit, memory_ids=[*common, *rare])
    assert len(places(everything)) >= (limit or 305)


def test_best_of_takes_the_smallest_of_each_memory(lake: ailake.Lake) -> None:
    passages.append(lake.store, rows({"a": [0.5, 0.2, 0.4], "b": [0.9], "c": [0.3], "d": [0.1]}))
    own = np.array([0.9, 0.001, np.inf, 0.25], np.float32)
    best = passages.best_of(nearest(lake).columns, pa.array(["a", "b", "c", "e"]), own)
    assert best.distance.tolist() == pytest.approx(
        [1 - np.cos(0.2), 0.001, 1 - np.cos(0.3), 0.25], abs=1e-3
    )
    assert best.part.tolist() == [1, -1, 0, -1]
    assert best.start.tolist() == [10, -1, 0, -1]
    assert best.end.tolist() == [20, -1, 10, -1]


def test_best_of_needs_no_order_and_breaks_ties_by_place() -> None:
    hits = pa.table(
        {
            "chunk_id": ["a", "a", "b", "a"],
            "part": pa.array([7, 3, 0, 5], pa.uint32()),
            "start": pa.array([70, 30, 0, 50], pa.uint32()),
            "end": pa.array([80, 40, 9, 60], pa.uint32()),
            "_distance": pa.array([0.2, 0.2, 0.5, 0.4], pa.float32()),
        }
    )
    best = passages.best_of(hits, pa.array(["b", "a"]), np.array([0.5, 1.0]))
    # b's own vector is as near as its passage.
    assert best.part.tolist() == [-1, 3]
    assert best.start.tolist() == [-1, 30]
    none = passages.best_of(hits.slice(0, 0), pa.array(["b", "a"]), np.array([0.5, 1.0]))
    assert none.part.tolist() == [-1, -1]
    assert none.distance.tolist() == [0.5, 1.0]
    assert passages.best_of(hits, pa.array([], pa.string()), np.array([])).part.tolist() == []


@given(st.data())
def test_best_of_is_the_plain_minimum(data: Any) -> None:
    ids = [f"m{n}" for n in range(6)]
    hit = st.tuples(st.sampled_from(ids), st.integers(0, 9), st.sampled_from([0.0, 0.25, 0.5, 1.5]))
    drawn = data.draw(st.lists(hit, unique_by=lambda row: row[:2]))
    asked = data.draw(st.permutations(ids))[:4]
    own = np.array(data.draw(st.lists(st.sampled_from([0.25, 1.0]), min_size=4, max_size=4)))
    hits = pa.table(
        {
            "chunk_id": pa.array([row[0] for row in drawn], pa.string()),
            **{
                name: pa.array([row[1] for row in drawn], pa.uint32())
                for name in passages.COLUMNS[1:]
            },
            "_distance": pa.array([row[2] for row in drawn], pa.float32()),
        }
    )
    best = passages.best_of(hits, pa.array(asked), own)
    for place, name in enumerate(asked):
        candidates = [(own[place], -1), *((d, part) for i, part, d in drawn if i == name)]
        assert (best.distance[place], best.part[place]) == min(candidates)


def test_found_by_what_is_said_in_the_middle(lake: ailake.Lake) -> None:
    """From a Chinese text to its passage, by words alone."""
    needle = "王峰的女儿在挪威学小提琴。"
    text = CHINESE * 100 + needle + JAPANESE * 100
    cut = split(text, window=100)
    vectors = lake.embedder.embed_documents([passage.of(text) for passage in cut])
    passages.append(
        lake.store, passage_rows({"zh": cut}, vectors, scope=SCOPE, embedder_id=lake.embedder_id)
    )
    wall = parse_where({"agent_id": "ana-bot"}, filter_kinds("passages"))
    query = lake.embedder.embed_query("谁在挪威学小提琴")
    hits = passages.nearest_passages(dataset(lake), query, wall, limit=3).columns
    whole = lake.embedder.embed_documents([text])[0]
    own = np.array([1 - float(whole @ query)])
    best = passages.best_of(hits, pa.array(["zh"]), own)
    assert needle in text[best.start[0] : best.end[0]]
    assert best.distance[0] < own[0]


def test_an_index_does_not_change_the_distances(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "_FEW", 500)
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(2_000, DIM)).astype(np.float32)
    cut = {f"m{n}": [Passage(0, 5), Passage(5, 9)] for n in range(1_000)}
    passages.append(
        lake.store, passage_rows(cut, vectors, scope=SCOPE, embedder_id=lake.embedder_id)
    )
    plain = nearest(lake, limit=20)
    lake.table("passages").to_lance().create_index(
        "embedding", "IVF_SQ", metric="cosine", num_partitions=1
    )
    indexed = nearest(lake, limit=20)
    assert (plain.true_distances, indexed.true_distances) == (True, False)
    assert indexed.columns["_distance"].to_pylist()[:10] == pytest.approx(
        plain.columns["_distance"].to_pylist()[:10], abs=1e-3
    )
    half = nearest(lake, limit=600, memory_ids=[f"m{n}" for n in range(0, 1_000, 2)])
    assert half.columns.num_rows >= 600
    assert not half.true_distances
    assert nearest(lake, limit=5, memory_ids=["m1"]).true_distances
    assert nearest(lake, limit=None).true_distances
