"""Adding rows and removing others in one commit, which no other such commit can pass.

The engine lets appends pass each other. So the table's last fragment is named, unchanged, where
nothing of it is removed: whoever was second gets a conflict, reads anew and plans again. On a
local disk a lock keeps writers from getting that far.
"""

from collections.abc import Iterable, Iterator, Mapping

import lance
import pyarrow as pa
from lance.commit import CommitConflictError
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata, write_fragments

from ailake.storage.columns import guard
from ailake.storage.table import Table

# The upper half of a row's address is its fragment's number.
_FRAGMENT_BITS = 32


def exchange(
    table: Table,
    dataset: lance.LanceDataset,
    rows: pa.Table,
    *,
    removed: Iterable[int] = (),
    properties: Mapping[str, str] | None = None,
) -> int:
    """Append rows to this version and remove some of its own; return the version it made.

    Args:
        table: The table.
        dataset: Its version that was read.
        rows: What is added.
        removed: The addresses of rows of that version.
        properties: Recorded with the commit.

    Raises:
        CommitConflictError: Others have changed the table since; nothing was.
    """
    added = write_fragments(rows, dataset, mode="append") if rows.num_rows else []
    guard(table, dataset)
    operation = _operation(dataset, added, removed)
    transaction = lance.Transaction(
        read_version=dataset.version,
        operation=operation,
        transaction_properties=dict(properties or {}),
    )
    # A first commit has no fragment to name: it must find no other at all.
    attempts = {} if dataset.get_fragments() else {"max_retries": 0}
    options = table.storage_options or None
    try:
        made = lance.LanceDataset.commit(
            dataset.uri, transaction, storage_options=options, **attempts
        )
    except CommitConflictError:
        session = LanceFileSession(dataset.uri, storage_options=options)
        for path in _files(added):
            session.delete_file(path)
        raise
    table.sync(int(made.version))
    return int(made.version)


def _operation(
    dataset: lance.LanceDataset,
    added: list[FragmentMetadata],
    removed: Iterable[int],
) -> lance.LanceOperation.BaseOperation:
    fragments = dataset.get_fragments()
    if not fragments:
        # Takes the indexes away, which upkeep makes again.
        return lance.LanceOperation.Overwrite(dataset.schema, added)
    by_fragment: dict[int, list[int]] = {}
    for address in removed:
        by_fragment.setdefault(address >> _FRAGMENT_BITS, []).append(address)
    left = {
        one.fragment_id: one.delete(f"_rowaddr IN ({','.join(map(str, gone))})")
        for one in fragments
        if (gone := by_fragment.get(one.fragment_id))
    }
    updated = [metadata for metadata in left.values() if metadata is not None]
    if fragments[-1].fragment_id not in left:
        updated.append(fragments[-1].metadata)
    return lance.LanceOperation.Update(
        removed_fragment_ids=[number for number, metadata in left.items() if metadata is None],
        updated_fragments=updated,
        new_fragments=added,
        fields_modified=[],
        # All of them: otherwise indexes take what is added for rows that they know already.
        fields_for_preserving_frag_bitmap=[one.id() for one in dataset.lance_schema.fields()],
        update_mode="rewrite_rows",
    )


def _files(fragments: list[FragmentMetadata]) -> Iterator[str]:
    return (f"data/{file.path}" for fragment in fragments for file in fragment.files)
