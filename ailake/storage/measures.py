"""Measuring tables: rows, fragments, bytes, versions and indexes."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ailake.storage.table import Table

SMALL_FRAGMENT_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class IndexStats:
    """An index and how far it is behind the data."""

    name: str
    kind: str
    columns: tuple[str, ...]
    unindexed_rows: int


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
    indexes = []
    for index in table.handle.list_indices():
        stats = table.handle.index_stats(index.name)
        indexes.append(
            IndexStats(index.name, index.index_type, tuple(index.columns), stats.num_unindexed_rows)
        )
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
        indexes=tuple(indexes),
    )


def versions(table: Table) -> list[Version]:
    """Return the versions of a table that can still be read, oldest first."""
    # The engine gives local time without saying so.
    listed = [
        Version(int(found["version"]), found["timestamp"].astimezone(UTC))
        for found in table.snapshot().versions()
    ]
    return sorted(listed, key=lambda version: version.version)
