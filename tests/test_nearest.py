"""The nearest of many vectors by blocks, against a look at every pair."""

import numpy as np
import pytest

from ailake.core.nearest import Nearest, directions

# More queries than one block has.
COUNT, MOST, LEAST = 600, 3, 0.4


@pytest.mark.parametrize("authors", [1, 3])
@pytest.mark.parametrize("before", [True, False])
def test_blocks_find_what_a_look_at_every_pair_finds(authors: int, *, before: bool) -> None:
    rng = np.random.default_rng(1)
    vectors = directions(rng.normal(size=(COUNT, 6)))
    groups = rng.integers(0, authors, COUNT)
    nearest = Nearest(vectors, groups, most=MOST, least=LEAST)
    nearest.look_at(vectors, groups, start=0, before=before)
    similar = vectors @ vectors.T
    for row in range(COUNT):
        seen = [
            (-similar[row, place], place)
            for place in range(row if before else COUNT)
            if groups[place] == groups[row] and similar[row, place] >= LEAST
        ]
        assert [place for place, _ in nearest.of(row)] == [p for _, p in sorted(seen)[:MOST]]


def test_a_group_of_its_own_finds_nothing() -> None:
    vectors = directions(np.ones((2, 3)))
    nearest = Nearest(vectors[:1], np.array([1]), most=MOST, least=LEAST)
    nearest.look_at(vectors, np.array([2, 2]), start=0, before=False)
    assert list(nearest.of(0)) == []
