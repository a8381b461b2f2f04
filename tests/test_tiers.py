"""Small fragments stay few, rows move rarely, and no merge goes on for ever."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ailake
from ailake.core.tiers import MAX_SMALL_FRAGMENTS, TIERS, merge_target, merged

LARGE = TIERS[-1]

# Of each of four tiers up to six, as long as nothing large lies between them.
MOST_FRAGMENTS = 4 * MAX_SMALL_FRAGMENTS
# How often a row of 3,000 commits is moved: 8.3 times where every commit has a single row, for it
# takes five merges to make 64 of them; 3 to 5 times otherwise.
MOST_MOVES = 9

Sizes = Iterator[int]


def like(chance: random.Random, sizes: list[int]) -> Sizes:
    while True:
        yield chance.choice(sizes)


def uniform(chance: random.Random, least: int, most: int) -> Sizes:
    while True:
        yield chance.randint(least, most)


def bursts(chance: random.Random) -> Sizes:
    while True:
        yield from [1] * chance.randint(1, 30)
        yield chance.randint(500, 2_000)


WRITERS: dict[str, Callable[[random.Random], Sizes]] = {
    "singles": lambda chance: like(chance, [1]),
    "few": lambda chance: uniform(chance, 1, 30),
    "any": lambda chance: uniform(chance, 1, 2_000),
    "just below a tier": lambda chance: like(chance, [63, 1_023]),
    "just at a tier": lambda chance: like(chance, [64, 1_024]),
    "single and batch": lambda chance: like(chance, [1, 100]),
    "single and large batch": lambda chance: like(chance, [1, 1_500]),
    "bursts": bursts,
    "half a tier and more": lambda chance: like(chance, [40, 600]),
}


def tidied(sizes: list[int], moved: list[int]) -> list[int]:
    """Return the sizes after one round of upkeep, noting how many rows it moved."""
    target = merge_target(sizes, most=MAX_SMALL_FRAGMENTS)
    if target is None:
        return sizes
    after = list(merged(sizes, target))
    assert after != sizes
    assert sum(after) == sum(sizes)
    small = [size for size in sizes if size < target]
    moved.append(sum(small))
    return after


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("writer", WRITERS)
def test_fragments_stay_few_and_rows_move_rarely(writer: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (no secret)
    sizes: list[int] = []
    moved: list[int] = []
    for size in islice(WRITERS[writer](chance), 3_000):
        sizes = tidied([*sizes, size], moved)
        assert sum(one < LARGE for one in sizes) <= MOST_FRAGMENTS
    assert sum(moved) <= MOST_MOVES * sum(sizes)
    assert len(moved) < 3_000 / 2


@given(st.lists(st.integers(1, 2 * LARGE) | st.integers(1, 2_000), max_size=60), st.integers(1, 64))
def test_upkeep_comes_to_an_end(sizes: list[int], most: int) -> None:
    """Whatever it finds: each merge leaves fewer small fragments, and soon there is none to do."""
    for _ in range(len(sizes) + 1):
        target = merge_target(sizes, most=most)
        if target is None:
            return
        after = list(merged(sizes, target))
        assert sum(after) == sum(sizes)
        assert sum(one < target for one in after) < sum(one < target for one in sizes)
        sizes = after
    pytest.fail("it goes on and on")


@given(st.lists(st.integers(1, 2_000), max_size=60), st.sampled_from(TIERS[1:]))
def test_a_merge_moves_only_what_is_smaller(sizes: list[int], target: int) -> None:
    after = list(merged(sizes, target))
    assert [size for size in sizes if size > target] == [size for size in after if size > target]
    assert sum(after) == sum(sizes)
    assert len(after) <= len(sizes) + 1


@pytest.mark.parametrize(
    ("sizes", "target"),
    [
        ([], None),
        ([1] * 6, None),
        ([1] * 7, 64),
        ([60] * 7, 1_024),
        ([1_000] * 7, 16_384),
        ([64] * 7, 1_024),
        ([200] * 6 + [1] * 6, None),
        ([LARGE] * 100, None),
        ([100_000] * 7, LARGE),
        # Apart between larger ones: merged with them, or left alone.
        ([1, 100] * 7, 1_024),
        ([1, 2_000] * 7, 16_384),
        ([1, LARGE] * 7, None),
        ([1, LARGE] * 7 + [100] * 7, 1_024),
    ],
)
def test_examples(sizes: list[int], target: int | None) -> None:
    assert merge_target(sizes, most=MAX_SMALL_FRAGMENTS) == target


@pytest.mark.parametrize("seed", range(6))
def test_the_engine_merges_as_foreseen(tmp_path: Path, seed: int) -> None:
    """It leaves no more fragments than that, nor more small ones."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    choice = [1, 2, 30, 63, 64, 65, 100, 500, 1_023, 1_024, 2_000, 9_000]
    sizes = chance.choices(choice, k=chance.randint(2, 25))
    target = TIERS[1 + seed % 3]
    path = str(tmp_path / "table.lance")
    for size in sizes:
        rows = pa.table({"n": [0] * size})
        lance.write_dataset(rows, path, mode="append", enable_stable_row_ids=True)
    dataset = lance.dataset(path)
    dataset.optimize.compact_files(target_rows_per_fragment=target, materialize_deletions=False)
    real = [fragment.physical_rows for fragment in dataset.get_fragments()]
    foreseen = list(merged(sizes, target))
    assert len(real) <= len(foreseen)
    assert sum(one < target for one in real) <= sum(one < target for one in foreseen)


def fragments(lake: ailake.Lake) -> list[int]:
    return [fragment.physical_rows for fragment in lake.store.episodic.snapshot().get_fragments()]


@pytest.mark.parametrize("batch", [1, 70])
def test_a_real_lake_of_tiny_commits(lake: ailake.Lake, batch: int) -> None:
    """A single memory and a few at once in turn, each in a commit of its own."""
    memory = lake.memory("a")
    for turn in range(60):
        memory.remember(f"single {turn}")
        memory.remember_many([{"text": f"many {turn} {n}"} for n in range(batch)])
        assert len(fragments(lake)) <= 2 * MAX_SMALL_FRAGMENTS + 2
    assert sum(fragments(lake)) == memory.count() == 60 * (1 + batch)
    kept = lake.store.episodic.version
    lake.store.episodic.tidy()
    lake.store.episodic.tidy()
    assert lake.store.episodic.version <= kept + 1
