"""The mark of a backup that is being written: what bears it is no lake yet."""

from collections.abc import Mapping

from lance.file import LanceFileSession

from ailake.errors import InvalidInputError
from ailake.storage.location import Location

# In a folder it is a folder that the tables are copied into; on an object store, an object.
MARKER = "UNFINISHED-BACKUP"


def session(location: Location, storage_options: Mapping[str, str]) -> LanceFileSession:
    """Open the place for listing, reading and deleting single files, as the engine does."""
    return LanceFileSession(location.uri, storage_options=dict(storage_options) or None)


def entries(location: Location, storage_options: Mapping[str, str]) -> set[str]:
    """Return the names of what stands at a place, one level deep, hidden files aside."""
    if location.root is not None:
        return set(location.strangers())
    listed = session(location, storage_options).list_with_delimiter()
    paths = [*listed.common_prefixes, *listed.objects]
    return {path.strip("/").rpartition("/")[2] for path in paths}


def refuse_unfinished(location: Location, storage_options: Mapping[str, str]) -> None:
    """Refuse to open what a backup is writing, or wrote until it was killed.

    Raises:
        InvalidInputError: The mark is there.
    """
    if location.root is not None:
        # A folder's episodic table is moved into place whole, and last.
        marked = (location.root / MARKER).exists()
        unfinished = marked and not (location.root / "episodic.lance").exists()
    else:
        unfinished = session(location, storage_options).contains(MARKER)
    if unfinished:
        raise InvalidInputError(
            f"{location.uri} is an unfinished backup and no lake (it holds {MARKER}): wait for it "
            "to finish or, where it was killed, run it again to the same place"
        )
