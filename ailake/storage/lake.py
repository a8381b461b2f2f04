"""Opening, creating and migrating the tables of a lake."""

import errno
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa

from ailake.core.migrations import Step, steps_from
from ailake.core.schema import (
    TABLE_KEY,
    TABLES,
    VERSION_KEY,
    arrow_schema,
)
from ailake.errors import (
    InvalidInputError,
    LakeCorruptError,
    NotFoundError,
    ReadOnlyError,
    SchemaMismatchError,
)
from ailake.storage.absent import AbsentTable
from ailake.storage.draining import settle_if_possible
from ailake.storage.identity import EmbedderIdentity, identity_of
from ailake.storage.indexes import keep_current
from ailake.storage.journal import Buffer, Journal
from ailake.storage.location import Location
from ailake.storage.locks import FOLDER, WRITE, exclusive
from ailake.storage.log import SUPPORTED, log_of
from ailake.storage.shared import shared
from ailake.storage.store import Store
from ailake.storage.switching import complete_switch, refuse_half_switched
from ailake.storage.table import STABLE_ROW_IDS, Table
from ailake.storage.unfinished import refuse_unfinished

METADATA_CACHE_BYTES = 64 * 1024**2
INDEX_CACHE_BYTES = 256 * 1024**2


def connect_database(location: Location, storage_options: Mapping[str, str]) -> Any:
    """Open the LanceDB database; see ``Table`` for why it checks for news at every call."""
    return lancedb.connect(
        location.uri,
        read_consistency_interval=timedelta(0),
        # The defaults of 1 and 6 GiB fill up with manifests and row ids of versions that nobody
        # reads again.
        session=lancedb.Session(
            index_cache_size_bytes=INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=METADATA_CACHE_BYTES,
        ),
        storage_options=dict(storage_options) or None,
    )


def lake_exists(location: Location, storage_options: Mapping[str, str]) -> bool:
    """Tell whether a complete lake is there.

    Raises:
        InvalidInputError: A folder with other things in it, which a lake would mix with, or a
            backup that is not finished.
    """
    refuse_unfinished(location, storage_options)
    if location.root is not None:
        found = set(location.strangers())
        names = {f"{name}.lance" for name in TABLES}
        made = _is_made(location.root, "episodic")
        if found - names - {FOLDER} and not made:
            raise InvalidInputError(
                f"{location.uri} is not a lake: it holds {', '.join(sorted(found)[:3])}; wanted an "
                "empty or new folder, or one that ailake made"
            )
        return made
    return "episodic" in _table_names(connect_database(location, storage_options))


def _is_made(root: Path, name: str) -> bool:
    # The folder is there before the table's first manifest is.
    return any((root / f"{name}.lance" / "_versions").glob("*.manifest"))


def _present_tables(database: Any, location: Location) -> set[str]:
    names = set(_table_names(database))
    if location.root is None:
        return names
    return {name for name in names if _is_made(location.root, name)}


def _table_names(database: Any) -> list[str]:
    names: list[str] = []
    token = None
    while True:
        page = database.list_tables(page_token=token)
        names.extend(page.tables)
        token = page.page_token
        if not token:
            return names


def create_store(
    location: Location, embedder: EmbedderIdentity, storage_options: Mapping[str, str]
) -> None:
    """Create what is missing of a lake's tables.

    ``episodic`` comes last: a lake whose creation was interrupted has none and is completed by
    the next caller.

    Raises:
        ReadOnlyError: The folder can't be written.
        LakeCorruptError: A table has data and no manifest.
    """
    if location.root is not None:
        try:
            location.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                raise
            raise ReadOnlyError(f"{location.uri} can't be created: {error}") from error
        if not location.is_writable():
            raise ReadOnlyError(f"{location.uri} is read-only: no lake can be made there")
    with exclusive(location.root, WRITE):
        database = connect_database(location, storage_options)
        present = _present_tables(database, location)
        for name in TABLES:
            if name not in present:
                if location.root is not None:
                    _clear_half_made(location.root / f"{name}.lance")
                schema = arrow_schema(name, dim=embedder.dim, embedder_id=embedder.id)
                handle = database.create_table(
                    name, schema=schema, exist_ok=True, storage_options=STABLE_ROW_IDS
                )
                # While there are no rows; upkeep makes those that a killed creation lacks.
                keep_current(Table(handle, storage_options=storage_options, root=location.root))


def _clear_half_made(folder: Path) -> None:
    """Remove what a killed creation left: a folder without a manifest, and never one with rows.

    Raises:
        LakeCorruptError: There is data, so the manifests were lost or can't be read.
    """
    if any((folder / "data").glob("*")):
        raise LakeCorruptError(
            f"{folder} holds data but no manifest that this process can read; check its "
            "permissions, or restore its _versions folder"
        )
    shutil.rmtree(folder, ignore_errors=True)


def open_store(
    location: Location,
    storage_options: Mapping[str, str],
    *,
    migrate: bool = False,
    recall_bytes: int | None = None,
) -> Store:
    """Open an existing lake.

    Raises:
        NotFoundError: There is none.
        SchemaMismatchError: It is newer than this release, or older and ``migrate`` is False.
        LakeCorruptError: A table lacks a column of its version, or stable row ids.
    """
    if not lake_exists(location, storage_options):
        raise NotFoundError(f"no lake at {location.uri}; remembering there makes one")
    database = connect_database(location, storage_options)
    identity = identity_of(database.open_table("episodic").schema)
    read_only = not location.is_writable()
    present = _present_tables(database, location) & set(TABLES)
    for name in sorted(present):
        # Before anything is written: what is too new is left alone.
        steps_from(name, schema_version(database.open_table(name).schema))
    if not read_only and set(TABLES) - present:
        create_store(location, identity, storage_options)
        present = set(TABLES)
    tables: dict[str, Table] = {
        name: Table(database.open_table(name), storage_options=storage_options, root=location.root)
        if name in present
        else AbsentTable(name, dim=identity.dim, embedder_id=identity.id)
        for name in TABLES
    }
    if read_only:
        schemas = {name: table.handle.schema for name, table in tables.items()}
        refuse_half_switched(schemas, location.uri)
    else:
        complete_switch(tables, location, storage_options)
        # Another process may have been switching over until just now.
        identity = identity_of(tables["episodic"].handle.schema)
    for table in tables.values():
        _bring_up_to_date(table, location, migrate=migrate and not read_only)
        _check_columns(table, identity)
    log = None
    if location.root is not None and SUPPORTED and not read_only:
        log = log_of(location.root)
    buffer = shared(Buffer, location.root, Buffer) if location.root is not None else None
    journal = Journal(tables["accesses"], buffer=buffer)
    store = Store(location, identity, tables, journal, read_only, log, recall_bytes)
    settle_if_possible(store)
    store.record_if_possible()
    return store


def schema_version(schema: pa.Schema) -> int:
    """Return the schema version in a table's metadata; 0 where it predates them."""
    return int((schema.metadata or {}).get(VERSION_KEY.encode(), b"0"))


def _bring_up_to_date(table: Table, location: Location, *, migrate: bool) -> None:
    version = schema_version(table.handle.schema)
    steps = steps_from(table.name, version)
    if steps and not migrate:
        raise SchemaMismatchError(
            f"table {table.name!r} has schema version {version}, this release writes "
            f"{steps[-1].version}: open it once with ailake.connect(uri, migrate=True), or run "
            "ailake doctor --fix"
        )
    if steps:
        with exclusive(location.root, WRITE):
            # Another process may have taken them meanwhile.
            for step in steps_from(table.name, schema_version(table.handle.schema)):
                _apply(table, step)


def _apply(table: Table, step: Step) -> None:
    present = set(table.handle.schema.names)

    def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = step.fill(batch)
        return pa.RecordBatch.from_pydict(
            {name: column for name, column in columns.items() if name not in present}
        )

    if set(_filled_names(table, step)) - present:
        table.fresh().add_columns(fill, read_columns=list(step.reads))
    # Last, so that an interrupted step is taken again.
    table.fresh().update_schema_metadata({TABLE_KEY: step.table, VERSION_KEY: str(step.version)})


def _filled_names(table: Table, step: Step) -> list[str]:
    schema = pa.schema([table.handle.schema.field(name) for name in step.reads])
    return list(step.fill(pa.RecordBatch.from_pylist([], schema=schema)))


def _check_columns(table: Table, identity: EmbedderIdentity) -> None:
    wanted = arrow_schema(table.name, dim=identity.dim, embedder_id=identity.id)
    got = table.handle.schema
    wrong = [
        f"{field.name}: {field.type}"
        for field in wanted
        if field.name not in got.names or got.field(field.name).type != field.type
    ]
    if wrong:
        raise LakeCorruptError(f"table {table.name!r} lacks or mistypes {', '.join(wrong)}")
    if not table.snapshot().has_stable_row_ids:
        raise LakeCorruptError(
            f"table {table.name!r} was made without stable row ids; copy its rows into a new lake"
        )
