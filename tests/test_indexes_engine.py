"""What the engine does to indexes: pinned, and the same answers with them as without."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import MatchQuery

import ailake
from ailake.core import indexing
from ailake.maintenance import MemoryDecayJob
from ailake.storage.indexes import indexes_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WORDS = ("tea", "coffee", "milk", "sugar", "bread")
STATES = ("active", "merged", "deferred")
COLUMNS = ["chunk_id", "chunk_text", "agent_id", "user_id", "state"]


@dataclass
class Changes:
    """Random writes of every kind that a lake's tables see."""

    lake: ailake.Lake
    chance: random.Random
    written: int = 0
    kinds: list[Callable[[], object]] = field(init=False)

    def __post_init__(self) -> None:
        table = self.lake.store.episodic
        self.kinds = [
            self.append, self.append, self.append_one, self.set_some, self.set_whole, self.delete,
            self.decay, self.update, table.tidy, lambda: table.compact(target_rows=64),
            lambda: table.clean(older_than=timedelta(0)), self.lake.store.keep_indexes_current,
            self.lake.store.keep_indexes_current,
        ]  # fmt: skip

    def make(self) -> None:
        self.chance.choice(self.kinds)()

    def append(self) -> None:
        self._write([self._note() for _ in range(6)])

    def append_one(self) -> None:
        self._write([self._note()])

    def set_some(self) -> None:
        ids = self._ids(3)
        states = self.chance.choices(STATES, k=len(ids))
        rows = pa.table({"chunk_id": ids, "state": states})
        self.lake.store.episodic.upsert(rows)

    def set_whole(self) -> None:
        listed = ", ".join(f"'{name}'" for name in self._ids(3))
        rows = self.lake.store.episodic.fresh().to_table(filter=f"chunk_id IN ({listed})")
        place = rows.schema.get_field_index("state")
        states = pa.array(self.chance.choices(STATES, k=rows.num_rows), pa.string())
        rows = rows.set_column(place, rows.schema.field(place), states)
        self.lake.store.episodic.upsert(rows)

    def delete(self) -> None:
        rows = self.lake.store.episodic.fresh().to_table(columns=["chunk_id"], with_row_id=True)
        gone = self.chance.sample(rows["_rowid"].to_pylist()[1:], 1)
        self.lake.store.episodic.delete_rows(gone)

    def decay(self) -> None:
        MemoryDecayJob(self.lake).run(NOW + timedelta(days=self.chance.randrange(90)))

    def update(self) -> None:
        (memory_id,) = self._ids(1)
        state = self.chance.choice(STATES)
        self.lake.table("episodic").update(
            where=f"chunk_id = '{memory_id}'", values={"state": state}
        )

    def _ids(self, count: int) -> list[str]:
        rows = self.lake.store.episodic.fresh().to_table(columns=["chunk_id"])
        listed = rows["chunk_id"].to_pylist()
        return self.chance.sample(listed, min(count, len(listed)))

    def _note(self) -> dict[str, Any]:
        self.written += 1
        words = " ".join(self.chance.choices(WORDS, k=3))
        return {"text": f"{words} {self.written}", "id": f"n{self.written}"}

    def _write(self, notes: list[dict[str, Any]]) -> None:
        user = self.chance.choice(["u", "v"])
        self.lake.memory(self.chance.choice("ab"), user_id=user).remember_many(notes, now=NOW)


def assert_filters(dataset: lance.LanceDataset) -> None:
    """Filters pass what looking at every row passes."""
    rows = dataset.to_table(columns=COLUMNS, with_row_id=True).to_pylist()
    near = {"column": "embedding", "q": np.ones(64, np.float32), "k": 10_000}
    for state, user in product(STATES, "uv"):
        where = f"state = '{state}' AND agent_id IN ('a', 'c') AND user_id = '{user}'"
        scope = (state, "a", user)
        ids = sorted(
            row["_rowid"]
            for row in rows
            if (row["state"], row["agent_id"], row["user_id"]) == scope
        )
        options = {"filter": where, "prefilter": True}
        assert found(dataset, columns=["chunk_id"], **options) == ids
        assert found(dataset, columns=["_distance"], nearest=near, **options) == ids
        assert dataset.count_rows(filter=where) == len(ids)


def assert_words(dataset: lance.LanceDataset) -> None:
    """Words are found in every row that has them, each row once."""
    rows = dataset.to_table(columns=COLUMNS, with_row_id=True).to_pylist()
    for state, word in product(STATES[:2], WORDS[:3]):
        having = sorted(
            row["_rowid"]
            for row in rows
            if row["state"] == state and word in row["chunk_text"].split()
        )
        assert texts_found(dataset, word, f"state = '{state}'") == having


def found(dataset: lance.LanceDataset, **options: Any) -> list[int]:
    rows = dataset.scanner(with_row_id=True, **options).to_table()
    return sorted(rows["_rowid"].to_pylist())


def texts_found(dataset: lance.LanceDataset, word: str, where: str | None = None) -> list[int]:
    # Without a column that is stored, rows that were deleted may be found, too.
    columns = ["chunk_id", "_score"]
    query = MatchQuery(word, "chunk_text")
    options = {"columns": columns, "full_text_query": query, "prefilter": True}
    return found(dataset, filter=where, **options)


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_indexes_never_change_an_answer(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, *, seed: int, others: bool
) -> None:
    """Where LanceDB's own upkeep is called, too, words may be found twice, but filters hold."""
    monkeypatch.setattr(indexing, "MOST_BEHIND", 5)
    monkeypatch.setattr(indexing, "MOST_SEGMENTS", 3)
    lake.store.drainer.stop()
    changes = Changes(lake, random.Random(seed))  # noqa: S311 (no secret)
    if others:
        changes.kinds += 3 * [lake.table("episodic").optimize]
    changes.append()
    for _ in range(40):
        changes.make()
        dataset = lake.store.episodic.fresh()
        assert_filters(dataset)
        if not others:
            assert_words(dataset)


@pytest.fixture
def kept(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> ailake.Lake:
    """A lake of 20 rows, all indexed, without upkeep."""
    monkeypatch.setattr(indexing, "MOST_BEHIND", 10)
    lake.memory("a").remember_many([{"text": f"tea {n}", "id": f"n{n}"} for n in range(20)])
    lake.flush()
    lake.store.drainer.stop()
    assert coverage(lake) == {"text": (20, 0, 1), "bitmap": (20, 0, 1)}
    return lake


def coverage(lake: ailake.Lake) -> dict[str, tuple[int, int, int]]:
    covered: dict[str, tuple[int, int, int]] = {}
    for index in indexes_of(lake.store.episodic.fresh()):
        c = index.coverage
        assert covered.setdefault(str(index.kind), (c.indexed_rows, c.unindexed_rows, c.segments))
    return covered


STATE_CHANGE = pa.table({"chunk_id": ["n3", "n4"], "state": ["merged", "merged"]})


def test_what_writes_take_out_of_indexes(kept: ailake.Lake) -> None:
    """No write drops an index; rows that are written anew fall out of all of them."""
    table = kept.store.episodic
    table.upsert(STATE_CHANGE)
    assert coverage(kept) == {"text": (18, 2, 1), "bitmap": (18, 2, 1)}
    MemoryDecayJob(kept).run(NOW)
    assert coverage(kept) == {"text": (18, 2, 1), "bitmap": (18, 2, 1)}
    table.compact()
    assert coverage(kept) == {"text": (18, 2, 1), "bitmap": (18, 2, 1)}
    table.delete_rows([0, 1])
    assert coverage(kept) == {"text": (16, 2, 1), "bitmap": (16, 2, 1)}
    kept.table("episodic").add_columns({"mine": "1"})
    assert coverage(kept) == {"text": (16, 2, 1), "bitmap": (16, 2, 1)}
    # An update of a column keeps its row in the indexes of the others.
    kept.table("episodic").update(where="chunk_id = 'n9'", values={"kind": "x"})
    assert coverage(kept)["text"] == (16, 2, 1)


def test_appending_a_row_that_moved_finds_it_twice(kept: ailake.Lake) -> None:
    """The engine's fault that upkeep goes around; once it is mended, this test says so."""
    table = kept.store.episodic
    table.upsert(STATE_CHANGE)
    optimize(table.fresh(), merged=0)
    assert (words_found(table.fresh()), active_found(table.fresh())) == (22, 20)
    # A later merge keeps what is wrong.
    optimize(table.fresh(), merged=100)
    assert words_found(table.fresh()) == 22


def test_merging_all_parts_finds_a_row_that_moved_once(kept: ailake.Lake) -> None:
    table = kept.store.episodic
    table.upsert(STATE_CHANGE)
    optimize(table.fresh(), merged=100)
    assert (words_found(table.fresh()), active_found(table.fresh())) == (20, 18)


def test_a_row_that_moves_while_an_index_is_appended_to_is_found_once(kept: ailake.Lake) -> None:
    """The engine appends what the version that it was given had, whatever came since."""
    table = kept.store.episodic
    kept.memory("a").remember_many([{"text": f"tea more {n}"} for n in range(20)])
    stale = table.fresh()
    table.upsert(STATE_CHANGE)
    optimize(stale, merged=0)
    assert (words_found(table.fresh()), active_found(table.fresh())) == (40, 38)


def optimize(dataset: lance.LanceDataset, *, merged: int) -> None:
    names = ["chunk_text_idx", "state_idx"]
    dataset.optimize.optimize_indices(index_names=names, num_indices_to_merge=merged)


def words_found(dataset: lance.LanceDataset) -> int:
    return len(texts_found(dataset, "tea"))


def active_found(dataset: lance.LanceDataset) -> int:
    return len(found(dataset, columns=["chunk_id"], filter="state = 'active'"))
