"""One table of a lake: a LanceDB handle for writing, a Lance snapshot for reading."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.filter_eval import engine_part, matches, touches_metadata
from ailake.core.filters import METADATA, Predicate, columns_of
from ailake.core.rows import to_pylist
from ailake.core.tiers import MANY_SMALL_FRAGMENTS, TIERS, merge_target
from ailake.errors import ConflictError
from ailake.storage.filters import to_sql
from ailake.storage.indexes import boundaries
from ailake.storage.locks import LockedError, exclusive
from ailake.storage.retries import ATTEMPTS, is_conflict, is_lost_race, reading_again, with_retries
from ailake.storage.sighting import Sighting
from ailake.storage.streams import Stream, whole
from ailake.storage.syncing import sync_version

log = logging.getLogger(__name__)

IN_LIST = 1_000
STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}

# Versions older than this are removed, tagged ones aside: what `lake.at` can go back to.
KEPT = timedelta(days=1)
CLEAN_EVERY = 200


class Table:
    """A table, always read at its latest version.

    The LanceDB connection has a consistency interval of zero. That is not a matter of freshness
    alone: a stale handle does not see conflicts with versions that were cleaned up since, and its
    next write would bring deleted rows back.

    Attributes:
        incarnation: How often another table was found in its place: a lake that was moved away,
            and another one put there.
    """

    def __init__(
        self,
        handle: Any,
        *,
        storage_options: Mapping[str, str],
        root: Path | None = None,
        pinned: bool = False,
    ) -> None:
        """Wrap a handle.

        Args:
            handle: The LanceDB table.
            storage_options: Of its object store.
            root: The lake's folder, where it is local.
            pinned: It stays at the version that it was checked out at.
        """
        self.handle = handle
        self.name: str = handle.name
        self.storage_options = dict(storage_options)
        self._root = root
        self._pinned = pinned
        self._lock = Lock()
        self._snapshot: lance.LanceDataset | None = None
        self._version = 0
        self._sighting = Sighting(self.folder)
        self.incarnation = 0
        self._cleaned_at = int(handle.version)
        self._on_disk: frozenset[str] = frozenset()

    @property
    def version(self) -> int:
        """The latest committed version."""
        return int(self.snapshot().version)

    @property
    def folder(self) -> Path | None:
        """Where its files are, None on an object store."""
        return None if self._root is None else self._root / f"{self.name}.lance"

    def snapshot(self) -> lance.LanceDataset:
        """Return the table at its latest version, as one immutable dataset."""
        with self._lock:
            known = self._snapshot
            if known is None or not (self._pinned or self._sighting.is_latest(self._version)):
                known = self._snapshot = self._asked(known)
                self._version = int(known.version)
            return known

    def _asked(self, known: lance.LanceDataset | None) -> lance.LanceDataset:
        glance = self._sighting.glance()
        if known is not None and self._sighting.is_replaced(glance):
            self.incarnation += 1
            known = None
        if known is None:
            latest = self.fresh()
        elif known.latest_version == known.version:
            latest = known
        else:
            latest = reading_again(lambda: _latest(known))
        self._sighting.note(glance, int(latest.version))
        return latest

    def fresh(self) -> lance.LanceDataset:
        """Return the latest version as a dataset of one's own, for what changes the dataset."""
        # Again where that version was cleaned up before it was opened.
        return reading_again(self.handle.to_lance)

    def append(
        self, rows: pa.Table | Stream, *, properties: Mapping[str, str] | None = None
    ) -> int:
        """Append rows in one commit and return the version it made.

        Columns that someone else has added to the table are left null.

        Args:
            rows: What to append.
            properties: Recorded with the commit.
        """
        stream = self.completed(rows if isinstance(rows, Stream) else whole(rows))

        def add() -> lance.LanceDataset:
            recorded = dict(properties or {})
            return lance.write_dataset(
                stream.read(), self.fresh(), mode="append", transaction_properties=recorded
            )

        with self.appending():
            added = with_retries(add, what=f"append to {self.name}", retry_on=is_conflict)
        return int(added.version)

    def completed(self, rows: Stream) -> Stream:
        """Return rows with the columns that someone else has added to the table, as nulls."""
        return rows.mapped(partial(_with_all, schema=self.handle.schema))

    def appending(self) -> AbstractContextManager[None]:
        """Hold the lock under which rows are appended, where the lake has locks.

        Not every append is under the lake's write lock, and a purge must not take the file that
        one has written and not committed yet for a stray one.
        """
        return exclusive(self._root, f"append-{self.name}")

    def sync(self, version: int) -> None:
        """Sync to disk all that a version consists of."""
        dataset = self.snapshot().checkout_version(version)
        self._on_disk = sync_version(dataset, self._on_disk)

    def upsert(self, rows: pa.Table, *, at: lance.LanceDataset | None = None) -> None:
        """Write rows over those with the same ``chunk_id`` and add the others, in one commit.

        Rows may hold some of the columns only, where all of them are stored already.

        Args:
            rows: The rows.
            at: The version that they were read at: where others have changed them since, the
                engine's conflict is raised, for the caller to read again.
        """
        schema = self.handle.schema
        whole = len(rows.schema) == len(schema)
        # The engine wants a key that may not be null of the rows, too.
        rows = rows.cast(pa.schema([schema.field(name) for name in rows.schema.names]))
        if at is not None:
            # A handle of its own: one that other threads read with can't be written with.
            own = at.checkout_version(at.version)
            once = own.merge_insert("chunk_id").conflict_retries(0).when_matched_update_all()
            (once.when_not_matched_insert_all() if whole else once).execute(rows)
            return

        def merge() -> None:
            merge = self.handle.merge_insert("chunk_id").when_matched_update_all()
            (merge.when_not_matched_insert_all() if whole else merge).execute(rows)

        with_retries(merge, what=f"change of {self.name}")

    def read(self, columns: Sequence[str], where: Predicate, **options: Any) -> pa.Table:
        """Return the columns of the rows that satisfy ``where``, at the latest version."""
        return reading_again(lambda: read_rows(self.snapshot(), columns, where, **options))

    def delete_rows(self, row_ids: Sequence[int]) -> None:
        """Delete rows by their stable row ids, in one commit.

        A predicate over values would stay readable in the table's transaction files.
        """
        if not row_ids:
            return
        chosen = row_ids_in(row_ids)
        with_retries(lambda: self.handle.delete(chosen), what=f"removal of rows of {self.name}")

    def compact(self, *, target_rows: int = 1_048_576, attempts: int = ATTEMPTS) -> None:
        """Merge fragments of fewer than ``target_rows`` rows; row ids and values stay."""
        with_retries(
            lambda: self.fresh().optimize.compact_files(
                target_rows_per_fragment=target_rows,
                # Otherwise a large fragment with deletions is rewritten, and cut to this size.
                materialize_deletions=False,
            ),
            what=f"compaction of {self.name}",
            attempts=attempts,
        )

    def tidy(self, *, most: int = MANY_SMALL_FRAGMENTS) -> None:
        """Merge small fragments where more than ``most`` of about one size have come together.

        What is left of old versions is removed now and then, too.
        """
        snapshot = self.snapshot()
        target = merge_target(_sizes(snapshot), most=most)
        if target is not None:
            self.upkeep(lambda: self.compact(target_rows=target, attempts=1))
        if snapshot.version // CLEAN_EVERY != self._cleaned_at // CLEAN_EVERY:
            self.upkeep(lambda: self.clean(older_than=KEPT))
            self._cleaned_at = int(snapshot.version)

    def clean(self, *, older_than: timedelta) -> None:
        """Remove versions older than ``older_than``; tagged ones stay."""
        # Again where a backup's tag is deleted while the engine reads the tags.
        reading_again(
            lambda: self.fresh().cleanup_old_versions(
                older_than, error_if_tagged_old_versions=False
            )
        )

    def alone(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Hold the lock of this table's upkeep, where the lake has locks.

        Args:
            wait: False gives up at once, with a LockedError, where another holds it.
        """
        return exclusive(self._root, f"upkeep-{self.name}", wait=wait)

    def upkeep(
        self, action: Callable[[], object], *, is_due: Callable[[], bool] = lambda: True
    ) -> bool:
        """Do what only saves work, if it is due: where it fails, the next write tries again.

        Returns:
            False where another was busy or first, so that it is worth trying again soon.
        """
        try:
            if is_due():
                # Two at once would do the same, and who is second leaves its files behind.
                with self.alone(wait=False):
                    action()
        except (LockedError, ConflictError):
            log.debug("another is busy with %s", self.name)
            return False
        except (OSError, RuntimeError, ValueError) as error:
            lost = is_lost_race(error)
            level = logging.DEBUG if lost else logging.WARNING
            log.log(level, "upkeep of %s failed", self.name, exc_info=True)
            return not lost
        return True


def _sizes(dataset: lance.LanceDataset) -> list[int]:
    """Return the sizes of the fragments, those that the engine would not merge kept apart."""
    parts = boundaries(dataset)
    sizes: list[int] = []
    last = None
    for fragment in dataset.get_fragments():
        covered = parts.get(fragment.fragment_id, frozenset())
        if sizes and covered != last:
            sizes.append(TIERS[-1])
        sizes.append(fragment.physical_rows)
        last = covered
    return sizes


def _latest(known: lance.LanceDataset) -> lance.LanceDataset:
    return known.checkout_version(known.latest_version)


def _with_all(rows: pa.Table, *, schema: pa.Schema) -> pa.Table:
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


Signature = tuple[int, tuple[str, ...]]


def fragments_by_signature(
    dataset: lance.LanceDataset, names: Collection[str]
) -> dict[Signature, lance.LanceFragment]:
    """Return the fragments by their number and the files that hold the named columns.

    As long as that stays, so do the columns' values: rewritten weights leave it as it was.
    """
    fields = {field.id() for field in dataset.lance_schema.fields() if field.name() in names}
    return {
        (
            one.fragment_id,
            tuple(f.path for f in one.metadata.files if not fields.isdisjoint(f.fields)),
        ): one
        for one in dataset.get_fragments()
    }


def read_rows(
    dataset: lance.LanceDataset, columns: Sequence[str], where: Predicate, **options: Any
) -> pa.Table:
    """Return the columns of the rows of one version that satisfy ``where``.

    ``options`` are the engine scanner's.
    """
    chosen = select(dataset, where)
    return dataset.scanner(columns=list(columns), filter=chosen, **options).to_table()


def count_rows(dataset: lance.LanceDataset, where: Predicate) -> int:
    """Return the number of rows of one version that satisfy ``where``."""
    if touches_metadata(where):
        # The engine's count fails on a filter that names row ids.
        return len(_passing(dataset, where))
    return int(dataset.count_rows(filter=to_sql(where)))


def payload(
    dataset: lance.LanceDataset, row_ids: NDArray[np.uint64], names: tuple[str, ...]
) -> pa.Table:
    """Return columns of the given rows of this version, in the given order.

    The engine's take neither keeps the order nor says what it did not find: rows are aligned by
    their ids.
    """
    rows = dataset._take_rows(  # noqa: SLF001 (the only take by row id)
        row_ids.tolist(), columns=[*names, "_rowid"]
    )
    place = {int(row_id): index for index, row_id in enumerate(rows["_rowid"].to_pylist())}
    order = [place[int(row_id)] for row_id in row_ids if int(row_id) in place]
    return rows.take(pa.array(order, pa.int64()))


def select(dataset: lance.LanceDataset, where: Predicate) -> str:
    """Return the engine's filter for the rows that satisfy ``where``, in this version.

    The engine can't look into metadata, which is JSON text: rows that pass the rest of the filter
    are looked at one by one, and the filter names those that pass it all.
    """
    if not touches_metadata(where):
        return to_sql(where)
    return row_ids_in(_passing(dataset, where))


def row_ids_in(row_ids: Sequence[int]) -> str:
    """Return the engine's filter for rows by their stable row ids; none make it false."""
    listed = ",".join(str(int(row_id)) for row_id in row_ids)
    return f"_rowid IN ({listed})" if listed else "false"


def _passing(dataset: lance.LanceDataset, where: Predicate) -> list[int]:
    rows = dataset.scanner(
        columns=[*sorted(columns_of(where)), METADATA],
        filter=to_sql(engine_part(where)),
        with_row_id=True,
    ).to_table()
    return [row["_rowid"] for row in to_pylist(rows) if matches(where, row)]


def in_lists(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut values into lists short enough for one filter."""
    for start in range(0, len(values), IN_LIST):
        yield values[start : start + IN_LIST]
