"""The weight list: kept current by reading what changed, and bounds that hold as time passes."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import KEEP

import ailake
from ailake.core.episodic import NANOSECONDS_PER_DAY
from ailake.core.rows import nanoseconds
from ailake.maintenance import MemoryDecayJob
from ailake.storage import weight_lists
from ailake.storage.coded import Aim
from ailake.storage.retries import StaleSnapshotError
from ailake.storage.row_vectors import Query, VectorCache, unit_vectors
from ailake.storage.scope_columns import ROW_ID, ColumnRows, Index, ScopeColumns
from ailake.storage.weights import Orders, Passages, WeightedRows

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIM = 16
SEED = ailake.ScoringPolicy.SEED
POLICIES = [ailake.ScoringPolicy(), SEED, ailake.ScoringPolicy(floor=1.0)]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as opened:
        yield opened


def rows_of(lake: ailake.Lake, *scopes: str) -> WeightedRows:
    view = lake.store.view()
    wanted = [ailake.Scope(name) for name in scopes or ("a",)]
    return view.weights.rows(wanted, view.dataset, view.passages, view.entries)


def weights(lake: ailake.Lake, *, now: datetime = NOW) -> dict[int, float]:
    """What every memory of the scope weighs under the pure formula, by row id."""
    rows, instant = rows_of(lake), nanoseconds(now)
    places = np.arange(rows.memories.count)
    places = places[rows.are_seen(places, instant)]
    found = rows.weights(places, SEED, instant)
    row_ids = rows.memories.columns[ROW_ID][places]
    return dict(zip(row_ids.tolist(), found.tolist(), strict=True))


def expected(lake: ailake.Lake, *, now: datetime = NOW) -> dict[int, float]:
    table = lake.table("episodic").to_lance().to_table(["chunk_id", "state"], with_row_id=True)
    row_ids = dict(zip(table["chunk_id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))
    listed = lake.memory(agent_id="a").list(limit=10_000, now=now)
    days = {one.id: (now - one.last_accessed_at) / timedelta(days=1) for one in listed}
    return {
        row_ids[one.id]: ailake.recency_weight(days[one.id], SEED.recency)
        * float(np.float32(one.importance_score))
        for one in listed
    }


@pytest.mark.usefixtures("short_lists")
def test_weighs_as_what_is_listed(lake: ailake.Lake) -> None:
    """After writes of every kind, with few rows out of order before all are numbered anew."""
    memory = lake.memory(agent_id="a")
    items = [
        {"id": f"m{n}", "text": f"m{n}", "importance": n / 40, "event_time": NOW - timedelta(n)}
        for n in range(40)
    ]
    memory.remember_many(items, judge=False, now=NOW)
    steps: list[Callable[[], object]] = [
        lambda: memory.touch(["m3", "m30"], now=NOW),
        lambda: memory.forget([f"m{n}" for n in range(5, 20)]),
        lambda: memory.update("m25", importance=1.0, now=NOW),
        lambda: memory.update("m26", text="other words", now=NOW),
        lambda: memory.remember_many([{"text": f"more {n}"} for n in range(9)], now=NOW),
        lambda: memory.touch([f"m{n}" for n in range(20, 40)], now=NOW),
        lambda: MemoryDecayJob(lake).run(NOW),
        lambda: memory.remember("gone tomorrow", expires_at=NOW + timedelta(1), now=NOW),
        lake.table("episodic").to_lance().optimize.compact_files,
    ]
    assert weights(lake) == pytest.approx(expected(lake))
    for step in steps:
        step()
        lake.flush()
        for now in (NOW, NOW + timedelta(2)):
            assert weights(lake, now=now) == pytest.approx(expected(lake, now=now))


@pytest.mark.usefixtures("short_lists")
def test_many_accesses_are_put_in_order(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    items = [{"id": f"m{n}", "text": f"m{n}", "event_time": NOW - timedelta(9)} for n in range(40)]
    memory.remember_many(items, judge=False, now=NOW)
    rows_of(lake)
    memory.touch(["m1", "m2", "m3"], now=NOW)
    assert len(rows_of(lake).met) == 3
    memory.touch([f"m{n}" for n in range(2, 9)], now=NOW)
    rows = rows_of(lake)
    assert len(rows.met) == 0
    assert sum(rows.memories.column("last") == nanoseconds(NOW)) == 8
    assert weights(lake) == pytest.approx(expected(lake))


def test_only_what_changed_is_read(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(50)], now=NOW)
    rows_of(lake)
    read: list[int] = []
    columns = ScopeColumns._columns

    def counted(self: ScopeColumns, found: pa.Table) -> Any:
        read.append(found.num_rows)
        return columns(self, found)

    monkeypatch.setattr(ScopeColumns, "_columns", counted)
    memory.touch(["m1"], now=NOW)
    memory.forget("m2")
    assert rows_of(lake).memories.living == 49
    assert read == []
    memory.remember("one more", now=NOW)
    lake.flush()
    assert rows_of(lake).memories.living == 50
    assert read == [1]


def test_what_was_handed_out_stays_as_it_was(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(9)], now=NOW)
    before = rows_of(lake)
    places = np.arange(9)
    seen, last = before.are_seen(places, nanoseconds(NOW)), before.last_access(places)
    memory.forget("m2")
    memory.touch(["m3"], now=NOW + timedelta(1))
    memory.remember_many([{"text": f"more {n}"} for n in range(100)], now=NOW)
    after = rows_of(lake)
    assert (after.memories.count, before.memories.count) == (109, 9)
    assert before.are_seen(places, nanoseconds(NOW)).tolist() == seen.tolist() == [True] * 9
    assert before.last_access(places).tolist() == last.tolist()
    assert after.are_seen(places, nanoseconds(NOW)).sum() == 8
    assert after.last_access(places).max() == nanoseconds(NOW + timedelta(1))


@pytest.mark.usefixtures("on_disk")
def test_a_list_too_large_is_made_anew_each_time(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        memory = lake.memory(agent_id=name)
        memory.remember_many([{"id": f"{name}{n}", "text": f"m{n}"} for n in range(99)], now=NOW)
    kept = rows_of(lake, "a").bytes
    monkeypatch.setattr(weight_lists, "BUDGET", kept * 3 // 2)
    for name in "aba":
        hits = lake.memory(agent_id=name).recall("m7", limit=500, now=NOW, touch=False)
        assert (len(hits), hits.exact) == (99, True)
        assert list(lake.store.weights._held) == [(ailake.Scope(name),)]
    monkeypatch.setattr(weight_lists, "BUDGET", -1)
    assert len(lake.memory(agent_id="a").recall("m7", limit=500, now=NOW, touch=False)) == 99
    assert lake.store.weights._held == {}


def test_a_read_that_fails_leaves_nothing_half_held(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = lake.memory(agent_id="a")
    for start in (0, 3):
        items = [{"id": f"m{n}", "text": f"m{n}"} for n in range(start, start + 3)]
        memory.remember_many(items, now=NOW)
    rows_of(lake)
    memory.forget(["m0", "m1", "m2", "m3"])
    scan = ScopeColumns._scan

    def failing(*_: object) -> Any:
        raise ConnectionError

    monkeypatch.setattr(ScopeColumns, "_scan", failing)
    with pytest.raises(ConnectionError):
        rows_of(lake)
    monkeypatch.setattr(ScopeColumns, "_scan", scan)
    assert rows_of(lake).memories.living == 2


def test_a_reader_that_is_behind_takes_a_newer_version(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(3)], now=NOW)
    behind = lake.store.view()
    memory.update("m1", importance=1.0, now=NOW)
    rows_of(lake)
    with pytest.raises(StaleSnapshotError):
        behind.weights.rows(memory.scopes, behind.dataset, behind.passages, behind.entries)


def test_a_table_that_was_restored(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"id": f"m{n}", "text": f"m{n}"} for n in range(3)], now=NOW)
    before = lake.table("episodic").version
    rows_of(lake)
    memory.forget("m1")
    assert rows_of(lake).memories.living == 2
    lake.table("episodic").restore(before)
    assert rows_of(lake).memories.living == 3


@given(
    st.lists(st.tuples(st.floats(-5, 3_650), st.floats(0, 1)), min_size=1, max_size=40),
    st.floats(0, 30),
    st.sampled_from(POLICIES),
)
def test_an_order_bounds_all_later_weights(
    rows: list[tuple[float, float]], later: float, policy: ailake.ScoringPolicy
) -> None:
    now = nanoseconds(NOW)
    last = np.array([now - int(days * NANOSECONDS_PER_DAY) for days, _ in rows], np.int64)
    importance = np.array([value for _, value in rows], np.float32)
    listed, orders = weighted(last, importance), Orders()
    order = orders.get(listed.memories, policy, now)
    assert order.at < now < order.until
    assert sorted(order.places.tolist()) == list(range(len(rows)))
    assert order.rest == -np.inf
    for at in (order.at, now, now + int(later * NANOSECONDS_PER_DAY)):
        assert (listed.weights(order.places, policy, at) <= order.weights).all()
    assert (np.diff(order.weights) <= 0).all()
    assert (order.weights <= 1.006 * listed.weights(order.places, policy, now)).all()
    assert orders.get(listed.memories, policy, order.until) is order
    assert orders.get(listed.memories, policy, order.until + 1) is not order
    assert orders.get(listed.memories, policy, now - 10**15) is not order


def weighted(last: Any, importance: Any) -> WeightedRows:
    count = len(last)
    ids = np.arange(count, dtype=np.uint64)
    columns = {ROW_ID: ids, "last": last, "importance": importance}
    memories = ColumnRows(count, columns, np.ones(count, np.bool_), count, Index.of(ids))
    none = ColumnRows(0, {"part": ids[:0]}, np.ones(0, np.bool_), 0, Index.of(ids[:0]))
    nobody = np.empty(0, np.int64)
    cache = VectorCache(room=1, dim=DIM)
    passages = Passages.of(none, nobody)
    return WeightedRows(memories, passages, nobody, nobody, cache, cache, Orders())


def test_the_heaviest_of_many_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ailake.storage.weights.ORDERED", 100)
    draw = np.random.default_rng(3)
    last = nanoseconds(NOW) - draw.integers(0, 365 * NANOSECONDS_PER_DAY, 5_000)
    listed = weighted(last, draw.random(5_000).astype(np.float32))
    order = listed.order(SEED, nanoseconds(NOW))
    assert len(order.places) == 5_000 // 16
    others = np.setdiff1d(np.arange(5_000), order.places)
    now = listed.weights(others, SEED, nanoseconds(NOW))
    assert order.weights[-1] >= order.rest >= now.max()
    assert listed.order(SEED, nanoseconds(NOW)) is order
    for number in range(9):
        policy = ailake.ScoringPolicy(floor=number / 10)
        listed.order(policy, nanoseconds(NOW))
    assert len(listed.orders._kept) == 4


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(0, 30), st.data())
def test_an_index_finds_the_last_that_is_alive(
    values: list[int], sorted_first: int, data: st.DataObject
) -> None:
    column = np.array(values, np.uint64)
    alive = np.array([data.draw(st.booleans()) for _ in values], np.bool_)
    # An older row of the same value is gone: that is how one comes to be there twice.
    for place, value in enumerate(values):
        if value in values[place + 1 :]:
            alive[place] = False
    index = Index.of(column[:sorted_first]).extended(column)
    wanted = np.arange(14, dtype=np.uint64)
    last = {value: place for place, value in enumerate(values) if alive[place]}
    assert index.find(wanted, alive).tolist() == [last.get(int(value), -1) for value in wanted]


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=9, unique=True), max_size=9),
    st.integers(1, 12),
)
def test_a_cache_knows_what_it_was_told(told: list[list[int]], room: int) -> None:
    cache = VectorCache(room=room, dim=2)
    everything = np.arange(23)
    for places in told:
        places_now = np.array(places, np.int64)
        cache.add(places_now, np.stack([places_now, places_now], axis=1).astype(np.float32))
        known, vectors = cache.get(everything)
        assert known.sum() <= room
        assert vectors[:, 0].tolist() == everything[known].tolist()
        assert known[places_now[:room]].all() or known.sum() == room
    kept = everything[::2]
    moved, vectors = cache.numbered_anew(kept).get(np.arange(len(kept)))
    known, _ = cache.get(kept)
    assert moved.tolist() == known.tolist()
    assert vectors[:, 0].tolist() == kept[known].tolist()


def test_passages_by_memory() -> None:
    owners = np.array([2, -1, 0, 2, 2, 5, 0], np.int64)
    ids = np.arange(7, dtype=np.uint64)
    part = np.array([1, 0, 0, 0, 2, 0, 1], np.int32)
    alive = np.array([True, True, True, True, True, False, True])
    rows = ColumnRows(7, {ROW_ID: ids, "part": part}, alive, 6, Index.of(ids))
    passages = Passages.of(rows, owners)
    memories = np.array([5, 2, 1, 0])
    assert passages.are_parted(memories).tolist() == [False, True, False, True]
    places, whose = passages.of_memories(memories)
    assert places.tolist() == [3, 0, 4, 2, 6]
    assert whose.tolist() == [1, 1, 1, 3, 3]


def test_equal_vectors_are_equally_far_in_any_company() -> None:
    draw = np.random.default_rng(1)
    halves = np.tile(draw.standard_normal(384).astype(np.float16), (1_000, 1))
    column = pa.FixedSizeListArray.from_arrays(pa.array(halves.ravel()), 384)
    # Nearly at right angles to them: what is summed up in another order shows.
    query = Query.of(Aim.at(draw.standard_normal(384).astype(np.float32)))
    found = [query.distances(unit_vectors(column.slice(0, size), 384)) for size in range(1, 1_000)]
    assert len(set(np.concatenate(found).tolist())) == 1


@given(st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_slack_covers_what_the_engine_rounds(seed: int, length: float) -> None:
    draw = np.random.default_rng(seed)
    vector = draw.standard_normal(24) * length
    stored = draw.standard_normal((50, 24)).astype(np.float16).astype(np.float64)
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    query = Query.of(Aim.at(vector.astype(np.float32)))
    rounded = query.aim.direction.astype(np.float16).astype(np.float64)
    told = 1 - stored @ rounded / np.linalg.norm(rounded)
    true = 1 - stored @ vector / np.linalg.norm(vector)
    unit = stored.astype(np.float32)
    assert (told - query.slack <= true).all()
    assert query.slack < 1e-3
    assert (query.floors(unit) <= query.distances(unit)).all()
    assert query.distances(unit) == pytest.approx(true, abs=2e-7)
