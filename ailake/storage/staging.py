"""Vectors of another embedder, kept beside the tables until a lake is switched over to it.

They are found by what was embedded: what is embedded already is not embedded again, whoever died
in between, and a memory that was changed meanwhile has none.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata, write_fragments
from numpy.typing import NDArray

from ailake.storage.column_files import Snapshot
from ailake.storage.identity import EmbedderIdentity, named_in
from ailake.storage.locks import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ailake.storage.location import Location

PLACE = f"{FOLDER}/reembed"
_DIGEST = pa.binary(16)

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def digests_of(texts: Iterable[str]) -> pa.Array:
    """Return what each text is found by, binary(16)."""
    found = (blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return pa.array(list(found), _DIGEST)


@dataclass(frozen=True, slots=True)
class StagedVectors:
    """The vectors of texts, as far as they are made; it can be pickled.

    Attributes:
        snapshot: The table of vectors, None where there is none yet.
        digests: Of the texts of its rows, in order.
        dim: Length of a vector.
    """

    snapshot: Snapshot | None
    digests: pa.Array
    dim: int

    def of(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return the vectors of texts, float16 (n, dim); zeros where there is none yet."""
        found = np.zeros((len(texts), self.dim), np.float16)
        places = pc.index_in(digests_of(texts), value_set=self.digests)
        there = places.is_valid().to_numpy(zero_copy_only=False)
        if there.any():
            assert self.snapshot is not None  # noqa: S101 (the digests were read from it)
            wanted, back = np.unique(places.drop_null().to_numpy(), return_inverse=True)
            taken = self.snapshot.dataset.take(wanted, columns=["vector"])
            vectors = taken["vector"].combine_chunks().flatten().to_numpy()
            found[there] = vectors.reshape(len(wanted), -1)[back]
        return found


@dataclass(frozen=True, slots=True)
class EmbedWork:
    """Embeds texts and writes their vectors. Done here, or by a worker elsewhere."""

    uri: str
    schema: pa.Schema
    storage_options: dict[str, str] | None
    embed: Embed

    def __call__(self, texts: Sequence[str]) -> list[FragmentMetadata]:
        """Return the rows of the texts, in order: written, and in no version yet."""
        vectors = self.embed(texts).astype(np.float16)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        rows = pa.table([digests_of(texts), column], schema=self.schema)
        made: list[FragmentMetadata] = write_fragments(
            rows, self.uri, schema=self.schema, mode="append", storage_options=self.storage_options
        )
        return made


class Staging:
    """The vectors that one embedder has made so far.

    What another embedder has left there is removed by the first who writes.

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
        self._options = dict(storage_options)
        self._schema = pa.schema(
            [("digest", _DIGEST), ("vector", pa.list_(pa.float16(), identity.dim))],
            metadata=identity.metadata(),
        )
        self._location = location
        self._dataset = existing(self._uri, storage_options)
        self._is_of_another = False
        if self._dataset is not None and named_in(self._dataset.schema) != self._named:
            self._dataset, self._is_of_another = None, True
        self._known = self._read()

    @property
    def _named(self) -> tuple[str, str]:
        return self.identity.id, str(self.identity.dim)

    @property
    def made(self) -> StagedVectors:
        """What is there now."""
        snapshot = self._dataset and Snapshot(self._dataset, storage_options=self._options)
        return StagedVectors(snapshot, self._known, self.identity.dim)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vector yet, each once, in order."""
        places = pc.index_in(digests_of(texts), value_set=self._known).to_pylist()
        return list(
            dict.fromkeys(text for text, at in zip(texts, places, strict=True) if at is None)
        )

    def work(self, embed: Embed) -> EmbedWork:
        """Return what makes rows for ``add``."""
        options = self._options or None
        if self._is_of_another:
            remove_staged(self._location, self._options)
            self._is_of_another = False
        if self._dataset is None:
            empty = self._schema.empty_table()
            self._dataset = lance.write_dataset(empty, self._uri, storage_options=options)
        return EmbedWork(self._uri, self._schema, options, embed)

    def add(self, texts: Sequence[str], rows: Sequence[FragmentMetadata]) -> None:
        """Keep what the work has made of texts, in one commit."""
        assert self._dataset is not None  # noqa: S101 (who wrote rows has had it made)
        self._dataset = lance.LanceDataset.commit(
            self._dataset,
            lance.LanceOperation.Append(list(rows)),
            read_version=self._dataset.version,
            storage_options=self._options or None,
        )
        self._known = pa.concat_arrays([self._known, digests_of(texts)])

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
