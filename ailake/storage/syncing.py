"""Syncing files to disk: the engine leaves that to the operating system, and a power cut."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import lance

from ailake import clock

# Manifests are named so that the newest comes first in a listing.
_NEWEST = 2**64 - 1

# What was written so many seconds ago the operating system has taken to disk by itself, half a
# minute later.
_WRITTEN_BACK_AFTER = 3_600


def sync_version(dataset: lance.LanceDataset, on_disk: Collection[str]) -> frozenset[str]:
    """Sync all that a version consists of; object stores do so themselves.

    Not only what its own commit wrote: with the manifest on disk, a file of an earlier commit that
    nobody synced, such as that of a merge of fragments or of a decay run, makes it unreadable.

    Args:
        dataset: The version.
        on_disk: What an earlier call returned.

    Returns:
        The version's files, by their paths within the table.
    """
    if "://" in dataset.uri:
        return frozenset()
    root = Path(dataset.uri)
    version = int(dataset.version)
    made_by = dataset.read_transaction(version)
    files = _files(dataset)
    written = {f"_transactions/{made_by.read_version}-{made_by.uuid}.txn"}
    # The manifest after what it names.
    manifest = f"_versions/{_NEWEST - version:020d}.manifest"
    for name in [*sorted((files | written) - set(on_disk)), manifest]:
        # Another process may have merged and cleaned it already.
        with suppress(FileNotFoundError):
            _sync_recent(root / name)
    for folder in ("data", "_deletions", "_transactions", "_versions"):
        if (root / folder).is_dir():
            sync(root / folder)
    return files


def _files(dataset: lance.LanceDataset) -> frozenset[str]:
    fragments = dataset.get_fragments()
    deletions = (fragment.deletion_file() for fragment in fragments)
    columns = (f"data/{file.path}" for one in fragments for file in one.metadata.files)
    return frozenset([*columns, *(path for path in deletions if path is not None)])


def _sync_recent(path: Path) -> None:
    if clock.utc_now().timestamp() - path.stat().st_mtime < _WRITTEN_BACK_AFTER:
        sync(path)


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's list of files, to disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows can't open a folder, and needs not: its journal orders the renames.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
