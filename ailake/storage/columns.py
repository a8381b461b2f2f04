"""Rewriting whole columns without touching any other: one small file per fragment, one commit.

A fragment of Lance is a set of column files. The new values of a fragment go to a file of their
own; its metadata is copied with the columns' old places struck out, and one ``Update`` commits
all fragments at once. Text, vectors, row ids and the indexes on other columns stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime

import lance
from lance.file import LanceFileSession
from lance.fragment import DataFile, FragmentMetadata, LanceFragment

from ailake.storage.column_files import (
    ColumnWork,
    Compute,
    FragmentView,
    Piece,
    Snapshot,
    shares_of,
)
from ailake.storage.executing import Executor, Threads
from ailake.storage.fences import check_fences
from ailake.storage.retries import StaleSnapshotError, with_retries
from ailake.storage.table import Table

__all__ = [
    "Compute",
    "FragmentView",
    "Rewrite",
    "guard",
    "orphans",
    "rewrite_columns",
    "sweep_orphans",
]

# Tells our column files from the engine's, so that a later run knows which orphans are ours.
PREFIX = "ailake-"

# What one worker does in one go: enough that a scan and a task are worth their start.
_SHARE_ROWS = 1_048_576

_Signature = tuple[int, int, tuple[tuple[str, tuple[int, ...]], ...]]

# Lance's mark for a column whose values have moved to another file of the fragment.
_TOMBSTONE = -2


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a rewrite did.

    Attributes:
        rows: Live rows looked at.
        fragments: Fragments looked at.
        fragments_written: Fragments whose columns were rewritten.
        bytes_written: Size of the committed column files.
        version_before: Version that was read.
        version_after: Version that was made; equal to the former where nothing changed.
    """

    rows: int
    fragments: int
    fragments_written: int
    bytes_written: int
    version_before: int
    version_after: int


def rewrite_columns(
    table: Table,
    reads: Sequence[str],
    prepare: Callable[[lance.LanceDataset], Compute],
    *,
    new_file_id: Callable[[], str],
    properties: Mapping[str, str],
    on_rows: Callable[[int], None] = lambda _: None,
    commit: bool = True,
    executor: Executor | None = None,
) -> Rewrite:
    """Rewrite columns of every fragment where the new values differ, in one atomic commit.

    A lost race starts over on the new version; a file already written serves again where its
    fragment's data files are still the same.

    Args:
        table: The table.
        reads: Columns that every fragment's computation needs.
        prepare: Called with the version that is read; returns the computation of one fragment's
            new columns (one value per physical row), or None where they would not change.
        new_file_id: Makes a unique name for a file.
        properties: Recorded with the commit.
        on_rows: Told the number of rows of each fragment that is done.
        commit: False writes and commits nothing.
        executor: Who reads, computes and writes; default: threads of this process. Unless it is
            that, the computation can be pickled. The commit is always made here.

    Raises:
        ConflictError: Other writers won every retry; nothing was applied.
    """
    run = _Run(table, tuple(reads), prepare, new_file_id, executor or Threads(), commit)

    def attempt() -> Rewrite:
        dataset = table.snapshot()
        files = run.files(dataset, on_rows)
        changes = [(fragment, new) for fragment, new in files if new]
        version = int(dataset.version)
        if changes and commit:
            version = _commit(table, dataset, changes, properties)
        return Rewrite(
            rows=dataset.count_rows(),
            fragments=len(files),
            fragments_written=len(changes),
            bytes_written=sum(new.file_size_bytes or 0 for _, new in changes),
            version_before=int(dataset.version),
            version_after=version,
        )

    return with_retries(attempt, what=f"column rewrite of {table.name}")


@dataclass(slots=True)
class _Run:
    """The column files of all attempts, by what they were computed from."""

    table: Table
    reads: tuple[str, ...]
    prepare: Callable[[lance.LanceDataset], Compute]
    new_file_id: Callable[[], str]
    executor: Executor
    write: bool
    written: dict[_Signature, DataFile | None] = field(default_factory=dict)

    def files(
        self, dataset: lance.LanceDataset, on_rows: Callable[[int], None]
    ) -> list[tuple[LanceFragment, DataFile | None]]:
        """Return each fragment of this version with its new file, those written before included."""
        fragments = {_signature(one): one for one in dataset.get_fragments()}
        compute = self.prepare(dataset)
        todo = {self._piece(known): known for known in fragments if known not in self.written}
        snapshot = Snapshot(dataset, storage_options=self.table.storage_options)
        work = ColumnWork(snapshot, self.reads, compute, self.write)
        shares = list(shares_of(list(todo), rows=_SHARE_ROWS))
        with closing(self.executor.map(work, shares)) as done:
            for share, files in zip(shares, done, strict=True):
                for piece, file in zip(share, files, strict=True):
                    self.written[todo[piece]] = file
                    on_rows(piece.rows)
        return [(one, self.written[known]) for known, one in fragments.items()]

    def _piece(self, known: _Signature) -> Piece:
        fragment, rows, _ = known
        return Piece(fragment, rows, f"{PREFIX}{self.new_file_id()}.lance")


def _signature(fragment: LanceFragment) -> _Signature:
    # What the new values depend on: a delete changes neither, a compaction or update does.
    files = tuple((file.path, tuple(file.fields)) for file in fragment.data_files())
    return (int(fragment.fragment_id), int(fragment.physical_rows), files)


def _commit(
    table: Table,
    dataset: lance.LanceDataset,
    changes: Sequence[tuple[LanceFragment, DataFile]],
    properties: Mapping[str, str],
) -> int:
    modified = sorted({column for _, file in changes for column in file.fields})
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[],
        updated_fragments=[_with_file(fragment.metadata, file) for fragment, file in changes],
        new_fragments=[],
        fields_modified=modified,
        fields_for_preserving_frag_bitmap=[],
        update_mode="rewrite_columns",
    )
    transaction = lance.Transaction(
        read_version=dataset.version,
        operation=operation,
        transaction_properties=dict(properties),
    )
    guard(table, dataset)
    # By URI: given a dataset handle, the engine skips its check for a missing manifest.
    committed = lance.LanceDataset.commit(
        dataset.uri, transaction, storage_options=table.storage_options or None
    )
    return int(committed.version)


def _with_file(metadata: FragmentMetadata, new: DataFile) -> FragmentMetadata:
    moved = set(new.fields)
    files = []
    for old in metadata.files:
        fields = [_TOMBSTONE if column in moved else column for column in old.fields]
        if any(column != _TOMBSTONE for column in fields):
            files.append(
                DataFile(
                    old.path,
                    fields,
                    old.column_indices,
                    old.file_major_version,
                    old.file_minor_version,
                    old.file_size_bytes,
                    old.base_id,
                )
            )
    metadata.files = [*files, new]
    return metadata


def guard(table: Table, dataset: lance.LanceDataset) -> None:
    """Refuse to commit across a cleaned-up version, or without the lease that this thread held.

    The engine checks conflicts only against versions that still exist: without this, a delete
    whose version was cleaned meanwhile would be undone.
    """
    check_fences()
    latest = table.snapshot()
    existing = {int(ref["version"]) for ref in latest.version_refs()}
    needed = range(int(dataset.version) + 1, int(latest.version) + 1)
    if not existing.issuperset(needed):
        raise StaleSnapshotError(f"a version after {dataset.version} was cleaned up")


def orphans(table: Table, *, before: datetime) -> list[str]:
    """Return the column files of ours that no version refers to, by path within the table.

    Args:
        table: The table.
        before: Only files last written before this instant. While a rewrite of this table runs,
            its files are among them.
    """
    dataset = table.snapshot()
    files = dataset.all_files().read_all()
    ours = {
        path
        for path, written in zip(
            files["path"].to_pylist(), files["last_modified"].to_pylist(), strict=True
        )
        if path.startswith(f"data/{PREFIX}") and written < before
    }
    if not ours:
        return []
    tracked = dataset.tracked_files().read_all()["path"].to_pylist()
    return sorted(ours.difference(tracked))


def sweep_orphans(table: Table, *, before: datetime) -> list[str]:
    """Delete column files of ours that no version refers to; return their paths.

    Only safe while no other rewrite of this table can be writing what is older than ``before``:
    hold the job's lock, or leave a day.
    """
    found = orphans(table, before=before)
    check_fences()
    session = LanceFileSession(table.snapshot().uri, storage_options=table.storage_options or None)
    for path in found:
        session.delete_file(path)
    return found
