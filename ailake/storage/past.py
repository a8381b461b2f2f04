"""Time travel: all tables of a lake as they were at a tag or a moment, read-only."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from ailake.core.instants import as_utc
from ailake.core.rows import nanoseconds
from ailake.core.schema import TABLES
from ailake.errors import InvalidInputError, NotFoundError
from ailake.storage.absent import AbsentTable
from ailake.storage.draining import LOGGED_AT_KEY, logged_at
from ailake.storage.holding import RESERVED, tags_of
from ailake.storage.identity import COLUMN, identity_of
from ailake.storage.journal import Journal
from ailake.storage.lake import connect_database
from ailake.storage.locks import DECAY, exclusive
from ailake.storage.measures import Version, versions
from ailake.storage.store import Store
from ailake.storage.table import Table

# A log that was left lying longer counts from its drain on.
_DRAINED_WITHIN = timedelta(seconds=10)

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def create_tag(store: Store, name: object) -> None:
    """Name the present state of all tables; a tagged version outlives every clean-up.

    ``episodic`` is tagged last and decides: a tag that was interrupted does not exist, and is
    completed by the next call.

    Raises:
        InvalidInputError: The name is malformed, or taken.
    """
    if not isinstance(name, str) or not _TAG.fullmatch(name):
        raise InvalidInputError.of(
            "tag", got=name, wanted="1 to 128 letters, digits, dots, dashes and underscores"
        )
    if name in tags(store):
        raise InvalidInputError.of("tag", got=name, wanted="a name that is not taken")
    root = store.location.root
    with exclusive(root, DECAY), store.committing():
        store.record_if_possible()
        for table_name in TABLES:
            table = store.tables[table_name]
            dataset = table.fresh()
            named = dataset.tags.update if name in tags_of(table) else dataset.tags.create
            named(name, dataset.version)


def tags(store: Store) -> dict[str, int]:
    """Return the tags of the lake, with the version of ``episodic`` that each names."""
    listed = tags_of(store.episodic)
    named = {name: tag for name, tag in sorted(listed.items()) if not name.startswith(RESERVED)}
    return {name: int(tag["version"]) for name, tag in named.items()}


def versions_at(store: Store, when: object) -> dict[str, int]:
    """Return the version of each table at a tag or a moment, without those not made by then.

    Raises:
        InvalidInputError: Neither a tag's name nor a timezone-aware datetime.
        NotFoundError: No such tag, or nothing is kept from that long ago.
    """
    if isinstance(when, str):
        if when not in tags(store):
            raise NotFoundError(f"no tag {when!r}; there are {', '.join(tags(store)) or 'none'}")
        found = {name: _tagged(table, when) for name, table in store.tables.items()}
    else:
        moment = as_utc(when, name="at")
        found = {name: _version_at(table, moment) for name, table in store.tables.items()}
    return {name: version for name, version in found.items() if version is not None}


def _tagged(table: Table, name: str) -> int | None:
    # A complete tag names every table that there was.
    listed = tags_of(table)
    return int(listed[name]["version"]) if name in listed else None


def _version_at(table: Table, moment: datetime) -> int | None:
    kept = versions(table)
    if isinstance(table, AbsentTable) or _made_later(table, kept[0], moment):
        return None
    before = [found.version for found in kept if found.created_at <= moment]
    after = {found.version for found in kept} | {kept[-1].version + 1}
    # Where the next version is gone, it may have been the one of that moment.
    if not before or before[-1] + 1 not in after:
        raise NotFoundError(
            f"table {table.name!r} no longer keeps how it was at {moment.isoformat()}; a tag would "
            "have kept it"
        )
    return before[-1]


def _made_later(table: Table, first: Version, moment: datetime) -> bool:
    # Without memories there was no lake.
    return table.name != "episodic" and first.version == 1 and first.created_at > moment


def logged_by(store: Store, version: int, moment: datetime) -> pa.Table:
    """Return the rows of memories that had been logged by a moment, and were drained later.

    They were kept, and their process saw them; only the table did not have them. The first drain
    after the moment may have begun before it, so that the next ones have some of them.

    Args:
        store: The lake.
        version: The last version of ``episodic`` at that moment.
        moment: When.
    """
    # A handle of its own: others can't read by one whose transactions are being read.
    dataset = store.episodic.fresh()
    late = [dataset.checkout_version(version).schema.empty_table()]
    vector = late[0].schema.field(COLUMN).type
    for found in versions(store.episodic):
        if found.version <= version or found.created_at > moment + _DRAINED_WITHIN:
            continue
        transaction = dataset.read_transaction(found.version)
        recorded = (transaction.transaction_properties or {}).get(LOGGED_AT_KEY)
        if recorded is None:
            continue
        in_time = logged_at(recorded) <= nanoseconds(moment)
        if in_time.any():
            drained = dataset.checkout_version(found.version)
            if drained.schema.field(COLUMN).type != vector:
                break  # Another embedder's from here on.
            rows = drained.to_table(filter=f"_row_created_at_version = {found.version:d}")
            late.append(rows.filter(pa.array(in_time)))
    return pa.concat_tables(late, promote_options="default")


def view(store: Store, at: Mapping[str, int], *, logged: pa.Table | None = None) -> Store:
    """Open the tables at fixed versions, those left out as empty; writing to them is an error.

    Args:
        store: The lake.
        at: A version of each table.
        logged: Rows that the log had then.
    """
    options = store.episodic.storage_options
    database = connect_database(store.location, options)
    episodic = store.episodic.snapshot().checkout_version(at["episodic"])
    identity = identity_of(episodic.schema)
    tables: dict[str, Table] = {}
    for name in TABLES:
        if name in at:
            handle = database.open_table(name)
            handle.checkout(at[name])
            tables[name] = Table(handle, storage_options=options, pinned=True)
        else:
            tables[name] = AbsentTable(name, dim=identity.dim, embedder_id=identity.id)
    journal = Journal(tables["accesses"])
    return Store(
        store.location,
        identity,
        tables,
        journal,
        read_only=True,
        recall_bytes=store.recall_bytes,
        drained_later=logged,
    )
