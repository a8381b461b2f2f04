"""Distances of vectors that are held: within bounds, and exact for whichever rows are asked."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ailake.storage import coded
from ailake.storage import kernel as kernels
from ailake.storage.coded import Aim, Vectors
from ailake.storage.kernel import Kernel, NumKongKernel, NumpyKernel, best_kernel

Singles = NDArray[np.float32]

KERNELS = ["numpy", "numkong"]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    if request.param == "numkong":
        pytest.importorskip("numkong")
    chosen: Kernel = NumpyKernel() if request.param == "numpy" else NumKongKernel()
    monkeypatch.setattr(coded, "best_kernel", lambda: chosen)
    monkeypatch.setattr(coded, "_CHUNK", 16)
    return chosen


def drawn(draw: st.DataObject) -> tuple[NDArray[np.float16], Singles]:
    """Return vectors of any kind, and a query."""
    dim = draw.draw(st.one_of(st.integers(1, 3), st.integers(1, 400)))
    count = draw.draw(st.integers(1, 60))
    rng = np.random.default_rng(draw.draw(st.integers(0, 2**32)))
    kind = draw.draw(st.sampled_from(["normal", "spiky", "flat", "tiny", "huge", "whole"]))
    found = rng.standard_normal((count, dim)).astype(np.float32)
    match kind:
        case "spiky":
            found[:, 0] *= 1_000
        case "flat":
            found[:] = 1
        case "tiny":
            found *= np.float32(1e-7)
        case "huge":
            found *= 60_000 / np.abs(found).max()
        case "whole":
            found = np.rint(found)
    halves = found.astype(np.float16)
    for place in draw.draw(st.lists(st.integers(0, count - 1), max_size=4)):
        halves[place] = draw.draw(st.sampled_from([halves[0], np.zeros(dim, np.float16)]))
    query = rng.standard_normal(dim).astype(np.float32)
    like = halves[rng.integers(count)].astype(np.float32)
    if like.any() and draw.draw(st.booleans()):
        query = like + np.float32(draw.draw(st.sampled_from([0, 1e-3]))) * query
    elif draw.draw(st.booleans()):
        # Its own codes leave nothing out.
        query = np.eye(dim, dtype=np.float32)[rng.integers(dim)]
    return halves, query * np.float32(draw.draw(st.sampled_from([1, 1e-3, 1e3])))


def exact(halves: NDArray[np.float16], query: Singles) -> NDArray[np.float64]:
    rows, asked = halves.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
    return np.asarray(1 - (rows @ asked) / np.where(lengths > 0, lengths, 1))


any_kernel = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@any_kernel
@given(st.data())
def test_bounds_contain_the_distance(kernel: Kernel, data: st.DataObject) -> None:
    halves, query = drawn(data)
    places = st.one_of(st.integers(0, len(halves)), st.sampled_from([16, 32, 48]))
    cuts = sorted(data.draw(st.lists(places, max_size=3)))
    held = Vectors.none(halves.shape[1])
    older: list[tuple[Vectors, Any]] = []
    for part in np.split(halves, cuts):
        held = held.extended(part)
        older.append((held, held.bounds(Aim.at(query)).low))
    assert held.kernel is kernel
    bounds = held.bounds(Aim.at(query))
    found = held.distances_at(np.arange(len(halves)), Aim.at(query))
    assert (bounds.low <= found).all()
    assert (found <= bounds.high).all()
    assert (bounds.low <= exact(halves, query)).all()
    assert (exact(halves, query) <= bounds.high).all()
    assert found == pytest.approx(exact(halves, query), abs=1e-5)
    for earlier, low in older:
        assert np.array_equal(earlier.bounds(Aim.at(query)).low, low)
        assert np.array_equal(bounds.low[: earlier.count], low)


@any_kernel
@given(st.data())
def test_a_distance_is_the_same_whatever_else_is_asked_for(
    kernel: Kernel, data: st.DataObject
) -> None:
    halves, query = drawn(data)
    held = Vectors.none(halves.shape[1]).extended(halves)
    assert held.kernel is kernel
    whole = held.distances_at(np.arange(len(halves)), Aim.at(query))
    places = data.draw(st.lists(st.integers(0, len(halves) - 1), max_size=20))
    assert np.array_equal(
        held.distances_at(np.array(places, np.intp), Aim.at(query)), whole[places]
    )
    for place in places:
        assert held.distances_at(np.array([place]), Aim.at(query))[0] == whole[place]
        twins = (halves == halves[place]).all(axis=1)
        assert set(whole[twins]) == {whole[place]}
    kept = np.array(sorted(set(places)), np.intp)
    assert np.array_equal(
        held.taken(kept).distances_at(np.arange(len(kept)), Aim.at(query)), whole[kept]
    )


def test_bounds_are_narrow(kernel: Kernel) -> None:
    draw = np.random.default_rng(1)
    held = Vectors.none(384).extended(draw.standard_normal((500, 384)).astype(np.float16))
    bounds = held.bounds(Aim.at(draw.standard_normal(384).astype(np.float32)))
    assert kernel is held.kernel
    assert (bounds.high - bounds.low).max() < 0.05


def test_what_is_no_number_is_always_looked_at(kernel: Kernel) -> None:
    halves = np.ones((4, 8), np.float16)
    halves[1, 2], halves[2, 3] = np.nan, np.inf
    held = Vectors.none(8).extended(halves)
    bounds = held.bounds(Aim.at(np.ones(8, np.float32)))
    assert kernel is held.kernel
    assert np.isneginf(bounds.low[1:3]).all()
    assert np.isposinf(bounds.high[1:3]).all()
    found = held.distances_at(np.arange(4), Aim.at(np.ones(8, np.float32)))
    assert np.isnan(found[1:3]).all()
    assert found[[0, 3]] == pytest.approx(0, abs=1e-6)


def test_what_is_held_is_counted() -> None:
    held = Vectors.none(32)
    for count in (1, 100, 5_000):
        held = held.extended(np.ones((count, 32), np.float16))
    arrays = (held.halves, held.lengths, held.steps, held.rests)
    rows = sum(array[: held.count].nbytes for array in arrays)
    assert held.bytes == rows + held.count * 32 + held.tail.nbytes
    assert held.tail.nbytes == (5_101 % coded._CHUNK) * 32


@pytest.mark.parametrize("name", KERNELS)
@settings(deadline=None)
@given(data=st.data())
def test_dot_products_of_bytes(name: str, data: st.DataObject) -> None:
    if name == "numkong":
        pytest.importorskip("numkong")
    kernel = NumpyKernel() if name == "numpy" else NumKongKernel()
    dim, count = data.draw(st.integers(1, 1_040)), data.draw(st.integers(1, 600))
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codes = draw.integers(-127, 128, (count, dim)).astype(np.int8)
    if data.draw(st.booleans()):
        codes[:] = data.draw(st.sampled_from([-127, 127]))
    query = codes[0].copy()
    wanted = codes.astype(np.int64) @ query.astype(np.int64)
    assert np.array_equal(kernel.dots(kernel.pack(codes), query), wanted)


def test_a_library_that_is_wrong_or_missing_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numkong", None)
    best_kernel.cache_clear()
    assert isinstance(best_kernel(), NumpyKernel)

    class Saturating(NumpyKernel):
        def dots(self, packed: Any, query: Any) -> Any:
            return np.minimum(super().dots(packed, query), 32_767)

    monkeypatch.setattr(kernels, "NumKongKernel", Saturating)
    best_kernel.cache_clear()
    assert type(best_kernel()) is NumpyKernel
    best_kernel.cache_clear()


def test_the_fast_library_is_used_where_it_is_installed() -> None:
    pytest.importorskip("numkong")
    best_kernel.cache_clear()
    assert isinstance(best_kernel(), NumKongKernel)
