"""Indexes of a table: making those that it always has, and keeping all of them current."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import lance
import pyarrow.compute as pc

from ailake.core.indexing import (
    ALWAYS,
    KEYS,
    TEXT_OPTIONS,
    Coverage,
    IndexKind,
    IndexSpec,
    Upkeep,
    together,
    upkeep_of,
)
from ailake.core.vectors import IndexPolicy
from ailake.storage.vectors import measure_and_keep, vector_index

if TYPE_CHECKING:
    from ailake.storage.table import Table

_ALL_SEGMENTS = 1_000_000

_MADE_AS = {IndexKind.TEXT: "INVERTED", IndexKind.BITMAP: "BITMAP", IndexKind.KEY: "BTREE"}
_KINDS = {"Inverted": IndexKind.TEXT, "Bitmap": IndexKind.BITMAP}

# Both are kept by the engine for every row: they differ once the row was changed.
_CREATED, _CHANGED = "_row_created_at_version", "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index of one version of a table.

    Attributes:
        name: Its name, unique in the table.
        kind: What it does.
        type: The engine's name for how it does it.
        columns: What it is on.
        coverage: How much of the table it knows.
        bytes: Its size.
        lacks: Ids of the fragments that it knows nothing of.
    """

    name: str
    kind: IndexKind
    type: str
    columns: tuple[str, ...]
    coverage: Coverage
    bytes: int
    lacks: frozenset[int]


def indexes_of(dataset: lance.LanceDataset) -> list[TableIndex]:
    """Return the indexes of a version of a table, sorted by name."""
    described = sorted(dataset.describe_indices(), key=lambda index: str(index.name))
    return [_index(dataset, index) for index in described]


def text_index(dataset: lance.LanceDataset) -> bool:
    """Tell whether a version of a table has a full-text index of ``chunk_text``."""
    return any(
        _kind(index) is IndexKind.TEXT and index.field_names == ["chunk_text"]
        for index in dataset.describe_indices()
    )


def missing_indexes(table_name: str, dataset: lance.LanceDataset) -> list[IndexSpec]:
    """Return the indexes that a table is to have and this version has not.

    One that someone has made with other options counts.
    """
    wanted = ALWAYS.get(table_name, ())
    if not wanted:
        return []
    present = {(*index.field_names, _kind(index)) for index in dataset.describe_indices()}
    missing = [spec for spec in wanted if (spec.column, spec.kind) not in present]
    if not any(spec.least_rows for spec in missing):
        return missing
    rows = int(dataset.count_rows())
    return [spec for spec in missing if spec.least_rows <= rows]


def keep_current(table: "Table") -> bool:
    """Make the indexes that a table lacks, and bring up to date those that are too far behind.

    Safe beside any writer: what loses a race, or fails, is left to the next call.

    Returns:
        False where that is worth trying again soon.
    """
    made = table.upkeep(partial(_make_missing, table), is_due=lambda: bool(_missing(table)))
    return (
        table.upkeep(partial(_update, table), is_due=lambda: bool(_due(table.snapshot()))) and made
    )


def due_indexes(table: "Table") -> tuple[str, ...]:
    """Return the names of the indexes that ``keep_current`` would make or bring up to date."""
    behind = [name for names, _ in _due(table.snapshot()) for name in names]
    return tuple(sorted({*behind, *(spec.name for spec in _missing(table))}))


def boundaries(dataset: lance.LanceDataset) -> dict[int, frozenset[str]]:
    """Return for each fragment which parts of indexes cover it, by fragment id.

    The engine merges only neighbours that are covered by the same.
    """
    covered: dict[int, set[str]] = {}
    for index in dataset.describe_indices():
        for segment in index.segments:
            for fragment_id in segment.fragment_ids:
                covered.setdefault(fragment_id, set()).add(str(segment.uuid))
    return {fragment_id: frozenset(parts) for fragment_id, parts in covered.items()}


def _missing(table: "Table") -> list[IndexSpec]:
    return missing_indexes(table.name, table.snapshot())


def _make_missing(table: "Table") -> None:
    # Another process may have made some meanwhile.
    for spec in _missing(table):
        options = TEXT_OPTIONS if spec.kind is IndexKind.TEXT else {}
        made_as = _MADE_AS[spec.kind]
        table.fresh().create_scalar_index(spec.column, made_as, name=spec.name, **options)


def _update(table: "Table") -> None:
    # What was found in this version is done with this version: a row that moves meanwhile is
    # still where it was.
    dataset = table.fresh()
    index = vector_index(dataset)
    for names, what in _due(dataset):
        merged = 0 if what is Upkeep.APPEND else _ALL_SEGMENTS
        dataset.optimize.optimize_indices(index_names=names, num_indices_to_merge=merged)
        if index is not None and index.measured is not None and index.name in names:
            known = index.measured
            policy = IndexPolicy(recall=known.goal, limit=known.limit)
            measure_and_keep(table, policy)


def _due(dataset: lance.LanceDataset) -> list[tuple[list[str], Upkeep]]:
    """Return the names of indexes to bring up to date, those of one commit together, and how."""
    found = indexes_of(dataset)
    many = [[i for i in found if i.kind is kind] for kind in (IndexKind.BITMAP, IndexKind.KEY)]
    single = [index for index in found if not any(index in group for group in many)]
    groups = [*many, *([index] for index in single)]
    due = [
        ([index.name for index in group], together([_wanted(dataset, index) for index in group]))
        for group in groups
    ]
    return [(names, what) for names, what in due if what is not Upkeep.NOTHING]


def _wanted(dataset: lance.LanceDataset, index: TableIndex) -> Upkeep:
    wanted = upkeep_of(index.kind, index.coverage)
    if wanted is Upkeep.APPEND and _has_moved(dataset, index.lacks):
        return upkeep_of(index.kind, replace(index.coverage, has_moved=True))
    return wanted


def _has_moved(dataset: lance.LanceDataset, fragment_ids: Collection[int]) -> bool:
    fragments = [f for f in dataset.get_fragments() if f.fragment_id in fragment_ids]
    rows = dataset.scanner(columns=[_CREATED, _CHANGED], fragments=fragments).to_table()
    return bool(pc.any(pc.not_equal(rows[_CREATED], rows[_CHANGED])).as_py())


def _index(dataset: lance.LanceDataset, index: Any) -> TableIndex:
    covered = {number for segment in index.segments for number in segment.fragment_ids}
    present = {fragment.fragment_id for fragment in dataset.get_fragments()}
    indexed = int(index.num_rows_indexed)
    return TableIndex(
        name=str(index.name),
        kind=_kind(index),
        type=str(index.index_type),
        columns=tuple(index.field_names),
        coverage=Coverage(indexed, int(dataset.count_rows()) - indexed, len(index.segments)),
        bytes=int(index.total_size_bytes or 0),
        lacks=frozenset(present - covered),
    )


def _kind(index: Any) -> IndexKind:
    if index.index_type in _KINDS:
        return _KINDS[index.index_type]
    if index.index_type == "BTree" and KEYS.issuperset(index.field_names):
        return IndexKind.KEY
    return IndexKind.VECTOR if index.field_names == ["embedding"] else IndexKind.OTHER
