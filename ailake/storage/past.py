"""Time travel: all tables of a lake as they were at a tag or a moment, read-only."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from ailake.core.instants import as_utc
from ailake.core.rows import nanoseconds
from ailake.errors import InvalidInputError, NotFoundError
from ailake.storage.draining import LOGGED_AT_KEY, logged_at
from ailake.storage.journal import Journal
from ailake.storage.lake import connect_database
from ailake.storage.locks import DECAY, exclusive
from ailake.storage.measures import versions
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
        for table in sorted(store.tables.values(), key=lambda table: table.name):
            dataset = table.fresh()
            named = dataset.tags.update if name in dataset.tags.list() else dataset.tags.create
            named(name, dataset.version)


def tags(store: Store) -> dict[str, int]:
    """Return the tags of the lake, with the version of ``episodic`` that each names."""
    listed = store.episodic.snapshot().tags.list()
    return {name: int(tag["version"]) for name, tag in sorted(listed.items())}


def versions_at(store: Store, when: object) -> dict[str, int]:
    """Return the version of each table at a tag or a moment.

    Raises:
        InvalidInputError: Neither a tag's name nor a timezone-aware datetime.
        NotFoundError: No such tag, or nothing is kept from that long ago.
    """
    if isinstance(when, str):
        if when not in tags(store):
            raise NotFoundError(f"no tag {when!r}; there are {', '.join(tags(store)) or 'none'}")
        return {
            table.name: int(table.snapshot().tags.list()[when]["version"])
            for table in store.tables.values()
        }
    moment = as_utc(when, name="at")
    return {table.name: _version_at(table, moment) for table in store.tables.values()}


def _version_at(table: Table, moment: datetime) -> int:
    kept = versions(table)
    before = [found.version for found in kept if found.created_at <= moment]
    after = {found.version for found in kept} | {kept[-1].version + 1}
    # Where the next version is gone, it may have been the one of that moment.
    if not before or before[-1] + 1 not in after:
        raise NotFoundError(
            f"table {table.name!r} no longer keeps how it was at {moment.isoformat()}; a tag would "
            "have kept it"
        )
    return before[-1]


def logged_by(store: Store, version: int, moment: datetime) -> pa.Table:
    """Return the rows of memories that had been logged by a moment, and were drained later.

    They were kept, and their process saw them; only the table did not have them. The first drain
    after the moment took them all.

    Args:
        store: The lake.
        version: The last version of ``episodic`` at that moment.
        moment: When.
    """
    dataset = store.episodic.snapshot()
    for found in versions(store.episodic):
        if found.version <= version or found.created_at > moment + _DRAINED_WITHIN:
            continue
        transaction = dataset.read_transaction(found.version)
        recorded = (transaction.transaction_properties or {}).get(LOGGED_AT_KEY)
        if recorded is not None:
            drained = dataset.checkout_version(found.version)
            rows = drained.to_table(filter=f"_row_created_at_version = {found.version:d}")
            return rows.filter(pa.array(logged_at(recorded) <= nanoseconds(moment)))
    return dataset.schema.empty_table()


def view(store: Store, at: Mapping[str, int], *, logged: pa.Table | None = None) -> Store:
    """Open the tables at fixed versions; writing to them is an error.

    Args:
        store: The lake.
        at: A version of each table.
        logged: Rows that the log had then.
    """
    any_table = next(iter(store.tables.values()))
    database = connect_database(store.location, any_table.storage_options)
    tables = {}
    for name, version in at.items():
        handle = database.open_table(name)
        handle.checkout(version)
        tables[name] = Table(handle, storage_options=any_table.storage_options, pinned=True)
    journal = Journal(tables["accesses"])
    return Store(
        store.location, store.embedder, tables, journal, read_only=True, drained_later=logged
    )
