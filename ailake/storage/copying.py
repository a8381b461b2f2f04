"""Copying one version of a table: same version number, row ids, row versions and indexes."""

from collections.abc import Mapping
from dataclasses import dataclass

from ailake.core.schema import TABLES
from ailake.errors import InvalidInputError, LakeCorruptError, NotFoundError
from ailake.storage.holding import Source
from ailake.storage.lake import connect_database, lake_exists
from ailake.storage.location import Location
from ailake.storage.table import Table
from ailake.storage.unfinished import entries

_SUFFIX = ".lance"


@dataclass(frozen=True, slots=True)
class TableCopy:
    """What was copied of one table.

    Attributes:
        name: The table.
        version: The version that was copied; the copy's is the same.
        rows: Live rows.
        files: Files written.
        bytes: Size of all of them.
    """

    name: str
    version: int
    rows: int
    files: int
    bytes: int


def copy_table(
    table: Table, version: int, uri: str, storage_options: Mapping[str, str]
) -> TableCopy:
    """Copy one version of a table to a new place, in any store; its manifest is written last.

    The version number has to stay: rows of ``episodic`` say up to which version of ``accesses``
    they are counted.

    Args:
        table: The table.
        version: Which version; older ones are not copied.
        uri: The new place.
        storage_options: The engine's, for the new place.

    Raises:
        LakeCorruptError: The copy is not what was copied.
    """
    source = table.fresh()
    rows = source.checkout_version(version).count_rows()
    copy = source.deep_clone(uri, version, storage_options=dict(storage_options))
    sizes = copy.all_files().read_all()["size_bytes"].to_pylist()
    made = TableCopy(table.name, int(copy.version), copy.count_rows(), len(sizes), sum(sizes))
    if (made.version, made.rows) != (version, rows):
        raise LakeCorruptError(
            f"the copy of table {table.name!r} has version {made.version} with {made.rows} rows, "
            f"wanted version {version} with {rows}"
        )
    return made


def open_source(location: Location, storage_options: Mapping[str, str]) -> Source:
    """Open a lake to be copied as it is, whatever its schema version; nothing is written to it.

    Raises:
        NotFoundError: There is none.
        InvalidInputError: An unfinished backup, or no lake.
    """
    if not lake_exists(location, storage_options):
        raise NotFoundError(f"no lake at {location.uri}")
    database = connect_database(location, storage_options)
    present = entries(location, storage_options)
    tables = {
        name: Table(database.open_table(name), storage_options=storage_options)
        for name in sorted(TABLES)
        if name + _SUFFIX in present
    }
    return Source(location, tables, committing=None)


def other_tables(source: Source) -> list[str]:
    """Return the tables at the same place that are none of the lake's and are not copied."""
    found = {
        entry.removesuffix(_SUFFIX)
        for entry in entries(source.location, source.storage_options)
        if entry.endswith(_SUFFIX)
    }
    return sorted(found - set(source.tables))


def refuse_overlap(source: Source, target: Location, storage_options: Mapping[str, str]) -> None:
    """Refuse to copy a lake onto or into itself.

    Raises:
        InvalidInputError: The target is the lake's place or within it, or an address that nothing
            can be copied to.
    """
    if target.uri.startswith("s3+ddb://"):
        raise InvalidInputError.of(
            "target", got=target.uri, wanted="the same place as s3://, which is safe for one writer"
        )
    here, there = _path(source.location), _path(target)
    same_store = target.root is not None or _endpoint(source.storage_options) == _endpoint(
        storage_options
    )
    if same_store and f"{there}/".startswith(f"{here}/"):
        raise InvalidInputError.of(
            "target", got=target.uri, wanted=f"a place outside the lake {source.location.uri}"
        )


def _path(location: Location) -> str:
    return location.uri.rstrip("/") if location.root is None else location.root.resolve().as_posix()


def _endpoint(storage_options: Mapping[str, str]) -> set[tuple[str, str]]:
    return {item for item in storage_options.items() if "endpoint" in item[0].lower()}
