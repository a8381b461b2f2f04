"""Vectors of another embedder, kept beside the tables until a lake is switched over to it.

They are found by what was embedded: what is embedded already is not embedded again, whoever died
in between, and a memory that was changed meanwhile has none.
"""

import shutil
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileSession
from numpy.typing import NDArray

from ailake.storage.identity import EmbedderIdentity, named_in
from ailake.storage.locks import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ailake.storage.location import Location

PLACE = f"{FOLDER}/reembed"
_DIGEST = pa.binary(16)


def digests_of(texts: Iterable[str]) -> pa.Array:
    """Return what each text is found by, binary(16)."""
    found = (blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return pa.array(list(found), _DIGEST)


class Staging:
    """The vectors that one embedder has made so far.

    What another embedder has left there is removed.

    Args:
        location: The lake's.
        storage_options: Of its object store.
        identity: The embedder's.
    """

    def __init__(
        self,
        location: "Location",
        storage_options: "Mapping[str, str]",
        identity: EmbedderIdentity,
    ) -> None:
        self.identity = identity
        self.passages_uri = f"{location.uri.rstrip('/')}/{PLACE}/passages.lance"
        self._uri = f"{location.uri.rstrip('/')}/{PLACE}/vectors.lance"
        self._options = dict(storage_options) or None
        self._schema = pa.schema(
            [("digest", _DIGEST), ("vector", pa.list_(pa.float16(), identity.dim))],
            metadata=identity.metadata(),
        )
        self._dataset = existing(self._uri, storage_options)
        if self._dataset is not None and named_in(self._dataset.schema) != self._named:
            remove_staged(location, storage_options)
            self._dataset = None
        self._known = self._read()

    @property
    def _named(self) -> tuple[str, str]:
        return self.identity.id, str(self.identity.dim)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vector yet, each once, in order."""
        places = pc.index_in(digests_of(texts), value_set=self._known).to_pylist()
        return list(
            dict.fromkeys(text for text, at in zip(texts, places, strict=True) if at is None)
        )

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors of texts, float32 (n, dim), in one commit."""
        digests = digests_of(texts)
        flat = pa.array(vectors.astype(np.float16).ravel())
        rows = pa.table(
            [digests, pa.FixedSizeListArray.from_arrays(flat, self.identity.dim)],
            schema=self._schema,
        )
        self._dataset = lance.write_dataset(
            rows,
            self._uri if self._dataset is None else self._dataset,
            mode="create" if self._dataset is None else "append",
            storage_options=self._options,
        )
        self._known = pa.concat_arrays([self._known, digests])

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return the vectors of texts, float16 (n, dim); zeros where there is none yet."""
        found = np.zeros((len(texts), self.identity.dim), np.float16)
        places = pc.index_in(digests_of(texts), value_set=self._known)
        there = places.is_valid().to_numpy(zero_copy_only=False)
        if there.any():
            assert self._dataset is not None  # noqa: S101 (what is known was read from it)
            wanted, back = np.unique(places.drop_null().to_numpy(), return_inverse=True)
            taken = self._dataset.take(wanted, columns=["vector"])["vector"].combine_chunks()
            found[there] = taken.flatten().to_numpy().reshape(len(wanted), -1)[back]
        return found

    def _read(self) -> pa.Array:
        if self._dataset is None:
            return pa.array([], _DIGEST)
        column = self._dataset.to_table(["digest"])["digest"]
        return pa.concat_arrays([pa.array([], _DIGEST), *column.chunks])


def existing(uri: str, storage_options: "Mapping[str, str]") -> lance.LanceDataset | None:
    """Open a dataset, None where there is none."""
    try:
        return lance.dataset(uri, storage_options=dict(storage_options) or None)
    except ValueError as error:
        if "not found" not in str(error).lower():
            raise
        return None


def remove_staged(location: "Location", storage_options: "Mapping[str, str]") -> None:
    """Remove what any embedder has left there."""
    if location.root is not None:
        if (location.root / PLACE).exists():
            shutil.rmtree(location.root / PLACE)
        return
    session = LanceFileSession(location.uri, storage_options=dict(storage_options) or None)
    for path in session.list(PLACE):
        session.delete_file(path)
