"""When an index is brought up to date, as a pure rule."""

from hypothesis import given
from hypothesis import strategies as st

from ailake.core.indexing import (
    ALWAYS,
    MOST_BEHIND,
    MOST_SEGMENTS,
    Coverage,
    IndexKind,
    Upkeep,
    together,
    upkeep_of,
)
from ailake.core.schema import TABLES

LIGHT = st.sampled_from([IndexKind.TEXT, IndexKind.BITMAP, IndexKind.KEY])
COVERAGES = st.builds(
    Coverage,
    st.integers(0, 2_000_000),
    st.integers(0, 2_000_000),
    st.integers(1, 20),
    st.booleans(),
)


def test_examples() -> None:
    def text(indexed: int, behind: int, parts: int, *, has_moved: bool = False) -> Upkeep:
        return upkeep_of(IndexKind.TEXT, Coverage(indexed, behind, parts, has_moved))

    assert text(0, 0, 1) is Upkeep.NOTHING
    assert text(0, 1_000, 1) is Upkeep.NOTHING
    assert text(0, 1_001, 1) is Upkeep.MERGE
    assert text(50_000, 1_000, 8) is Upkeep.NOTHING
    assert text(50_000, 1_001, 8) is Upkeep.APPEND
    assert text(50_000, 1_001, 1, has_moved=True) is Upkeep.MERGE
    assert text(50_000, 0, 9) is Upkeep.MERGE


def test_bitmaps_stay_in_one_part() -> None:
    def bitmap(indexed: int, behind: int, parts: int) -> Upkeep:
        return upkeep_of(IndexKind.BITMAP, Coverage(indexed, behind, parts))

    assert bitmap(0, 1_000, 1) is Upkeep.NOTHING
    assert bitmap(50_000, 1_001, 1) is Upkeep.MERGE
    assert bitmap(50_000, 0, 2) is Upkeep.MERGE


def test_vectors_wait_for_ten_thousand_or_a_tenth() -> None:
    def vectors(indexed: int, behind: int, parts: int) -> Upkeep:
        return upkeep_of(IndexKind.VECTOR, Coverage(indexed, behind, parts))

    assert vectors(0, 10_000, 1) is Upkeep.NOTHING
    assert vectors(0, 10_001, 1) is Upkeep.MERGE
    assert vectors(1_000_000, 100_000, 1) is Upkeep.NOTHING
    assert vectors(1_000_000, 100_001, 1) is Upkeep.MERGE


@given(LIGHT, COVERAGES)
def test_nothing_is_far_behind_once_upkeep_ran(kind: IndexKind, coverage: Coverage) -> None:
    wanted = upkeep_of(kind, coverage)
    if wanted is Upkeep.NOTHING:
        assert coverage.unindexed_rows <= MOST_BEHIND
        assert coverage.segments <= MOST_SEGMENTS


@given(LIGHT, COVERAGES)
def test_what_has_moved_is_never_appended(kind: IndexKind, coverage: Coverage) -> None:
    if coverage.has_moved:
        assert upkeep_of(kind, coverage) is not Upkeep.APPEND


@given(LIGHT, COVERAGES)
def test_one_call_is_enough(kind: IndexKind, coverage: Coverage) -> None:
    rows = coverage.indexed_rows + coverage.unindexed_rows
    wanted = upkeep_of(kind, coverage)
    if wanted is Upkeep.APPEND:
        after = Coverage(rows, 0, coverage.segments + 1)
        assert upkeep_of(kind, after) is not Upkeep.APPEND
    if wanted is Upkeep.MERGE:
        assert upkeep_of(kind, Coverage(rows, 0, 1)) is Upkeep.NOTHING


def test_the_most_is_done_for_all() -> None:
    assert together([]) is Upkeep.NOTHING
    assert together([Upkeep.NOTHING, Upkeep.APPEND]) is Upkeep.APPEND
    assert together([Upkeep.APPEND, Upkeep.MERGE, Upkeep.NOTHING]) is Upkeep.MERGE


def test_indexes_are_on_columns_that_exist() -> None:
    for table, specs in ALWAYS.items():
        assert {spec.column for spec in specs} <= {column.name for column in TABLES[table].columns}
        assert len({spec.name for spec in specs}) == len(specs)
