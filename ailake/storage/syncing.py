"""Syncing files to disk: the engine leaves that to the operating system, and a power cut."""

import os
from contextlib import suppress
from pathlib import Path

import lance

# Manifests are named so that the newest comes first in a listing.
_NEWEST = 2**64 - 1


def sync_append(dataset: lance.LanceDataset) -> None:
    """Sync what the append that made this version wrote; object stores do so themselves."""
    if "://" in dataset.uri:
        return
    root = Path(dataset.uri)
    version = int(dataset.version)
    files = [root / "_versions" / f"{_NEWEST - version:020d}.manifest"]
    files += (root / "_transactions").glob(f"{version - 1}-*.txn")
    files += (root / "data" / file.path for file in dataset.get_fragments()[-1].data_files())
    for path in files:
        # Another process may have merged and cleaned it already.
        with suppress(FileNotFoundError):
            sync(path)
    for folder in ("data", "_transactions", "_versions"):
        sync(root / folder)


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's list of files, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
