"""Measuring tables: rows, fragments, bytes, versions and indexes."""

from dataclasses import dataclass
from datetime import UTC, datetime

import lance

from ailake.core.indexing import Upkeep, upkeep_of
from ailake.storage.indexes import indexes_of
from ailake.storage.table import Table
from ailake.storage.vectors import vector_index

SMALL_FRAGMENT_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class IndexStats:
    """An index and how far it is behind the data.

    Attributes:
        table: The table that it is of.
        kind: The engine's name for it.
        indexed_rows: Rows in it.
        unindexed_rows: Rows that it lacks; searches look at them one by one.
        segments: Parts that it consists of.
        bytes: Its size.
        recall: Of an index of vectors the share of the truly nearest rows that a search lists;
            None where it was not measured.
        is_due: It is so far behind, or in so many parts, that upkeep has something to do.
    """

    table: str
    name: str
    kind: str
    columns: tuple[str, ...]
    indexed_rows: int
    unindexed_rows: int
    segments: int
    bytes: int
    recall: float | None
    is_due: bool


@dataclass(frozen=True, slots=True)
class TableStats:
    """Size and shape of one table.

    Attributes:
        small_fragments: Fragments of fewer than 10,000 rows; compaction merges them.
        bytes: Everything on disk, older versions and indexes included.
    """

    name: str
    schema_version: int
    version: int
    versions: int
    rows: int
    fragments: int
    small_fragments: int
    deleted_rows: int
    bytes: int
    indexes: tuple[IndexStats, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table that can still be read."""

    version: int
    created_at: datetime


def measure(table: Table) -> TableStats:
    """Measure one table at its latest version."""
    dataset = table.snapshot()
    fragments = dataset.get_fragments()
    return TableStats(
        name=table.name,
        schema_version=int(dataset.schema.metadata.get(b"ailake.schema_version", b"0")),
        version=int(dataset.version),
        versions=len(dataset.version_refs()),
        rows=dataset.count_rows(),
        fragments=len(fragments),
        small_fragments=sum(f.physical_rows < SMALL_FRAGMENT_ROWS for f in fragments),
        deleted_rows=sum(fragment.num_deletions for fragment in fragments),
        bytes=sum(dataset.all_files().read_all()["size_bytes"].to_pylist()),
        indexes=_index_stats(table.name, dataset),
    )


def _index_stats(table_name: str, dataset: lance.LanceDataset) -> tuple[IndexStats, ...]:
    vectors = vector_index(dataset)
    return tuple(
        IndexStats(
            table=table_name,
            name=index.name,
            kind=index.type,
            columns=index.columns,
            indexed_rows=index.coverage.indexed_rows,
            unindexed_rows=index.coverage.unindexed_rows,
            segments=index.coverage.segments,
            bytes=index.bytes,
            recall=vectors.recall if vectors is not None and vectors.name == index.name else None,
            is_due=upkeep_of(index.kind, index.coverage) is not Upkeep.NOTHING,
        )
        for index in indexes_of(dataset)
    )


def versions(table: Table) -> list[Version]:
    """Return the versions of a table that can still be read, oldest first."""
    # The engine gives local time without saying so.
    listed = [
        Version(int(found["version"]), found["timestamp"].astimezone(UTC))
        for found in table.snapshot().versions()
    ]
    return sorted(listed, key=lambda version: version.version)
