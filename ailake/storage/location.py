"""Where a lake lives: a local folder or an object store, and whether it may be written."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ailake.errors import InvalidInputError

OBJECT_STORES = ("s3", "s3+ddb", "gs", "az", "abfs", "abfss")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A lake's place on an object store.

    Attributes:
        uri: The address.
        storage_options: What the engine needs to get there, keys among it: never shown.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Location:
    """The address of a lake.

    Attributes:
        uri: What the engine is given.
        root: The folder of a local lake, None for an object store.
    """

    uri: str
    root: Path | None

    @classmethod
    def of(cls, uri: object) -> "Location":
        """Read an address.

        Raises:
            InvalidInputError: Not a path or a supported URI, or a file instead of a folder.
        """
        if not isinstance(uri, (str, os.PathLike)) or not str(uri).strip():
            raise InvalidInputError.of("uri", got=uri, wanted="a folder or s3://bucket/prefix")
        text = os.fspath(uri)
        scheme, separator, _ = text.partition("://")
        if separator and scheme in OBJECT_STORES:
            return cls(text, None)
        if separator and scheme != "file":
            wanted = f"a folder, or one of {', '.join(f'{name}://' for name in OBJECT_STORES)}"
            raise InvalidInputError.of("uri", got=text, wanted=wanted)
        root = Path(text.removeprefix("file://")).expanduser().absolute()
        if "?" in str(root):
            raise InvalidInputError.of(
                "uri", got=text, wanted="a path without '?', where the engine would cut it"
            )
        if root.exists() and not root.is_dir():
            raise InvalidInputError.of("uri", got=text, wanted="a folder, and this is a file")
        return cls(str(root), root)

    def is_writable(self) -> bool:
        """Tell whether this process may write there; object stores say so only when asked to."""
        return self.root is None or not self.root.exists() or os.access(self.root, os.W_OK)

    def strangers(self) -> list[str]:
        """Return what stands in a local folder, hidden files aside."""
        if self.root is None or not self.root.exists():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if entry.name[0] != ".")
