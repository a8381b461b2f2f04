"""New column files of some fragments: read, compute, write. Done here, or by a worker elsewhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from lance.fragment import DataFile, LanceFragment

from ailake.errors import LakeCorruptError

# Eight times the engine's own: fewer and larger steps, where a row is a few bytes.
_NARROW_BATCH_ROWS = 65_536


class Snapshot:
    """One version of a table; pickled as where it is, and opened by who gets it."""

    def __init__(self, dataset: lance.LanceDataset, *, storage_options: Mapping[str, str]) -> None:
        """Wrap a version.

        Args:
            dataset: The version.
            storage_options: Of its object store; they may hold keys.
        """
        self.storage_options = dict(storage_options) or None
        self._where = (dataset.uri, int(dataset.version))
        self._dataset: lance.LanceDataset | None = dataset

    @property
    def dataset(self) -> lance.LanceDataset:
        """The version. Opened at the first use: what fails then is the work's own error."""
        if self._dataset is None:
            uri, version = self._where
            self._dataset = lance.dataset(
                uri, version=version, storage_options=self.storage_options
            )
        return self._dataset

    def __getstate__(self) -> dict[str, Any]:
        """Leave the opened version out."""
        return {**self.__dict__, "_dataset": None}


@dataclass(frozen=True, slots=True)
class FragmentView:
    """One fragment as a rewrite sees it: every physical row, deleted ones included.

    Attributes:
        columns: The columns that the rewrite asked for.
    """

    dataset: lance.LanceDataset
    fragment: LanceFragment
    columns: pa.Table

    @property
    def id(self) -> int:
        """The fragment's id."""
        return int(self.fragment.fragment_id)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read further columns of this fragment, row for row beside ``columns``."""
        (view,) = _views(self.dataset, [self.fragment], names)
        return view.columns


Compute = Callable[[FragmentView], Mapping[str, pa.Array] | None]


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment whose columns are to be computed.

    Attributes:
        fragment: Its number.
        rows: Its physical rows.
        file: Name of the file to write. It is given and not made up by who writes it: whoever
            does the same piece again, after a worker died, replaces the same file by the same.
    """

    fragment: int
    rows: int
    file: str


@dataclass(frozen=True, slots=True)
class ColumnWork:
    """What is done with pieces of one version.

    Attributes:
        snapshot: The version.
        reads: Columns that every fragment's computation needs.
        compute: Returns one fragment's new columns (one value per physical row), or None where
            they would not change.
        write: False computes and writes nothing.
    """

    snapshot: Snapshot
    reads: tuple[str, ...]
    compute: Compute
    write: bool

    def __call__(self, share: Sequence[Piece]) -> list[DataFile | None]:
        """Return each piece's new file, None where nothing changes.

        Without ``write`` it has no name, and is not there.
        """
        dataset = self.snapshot.dataset
        fragments = [dataset.get_fragment(piece.fragment) for piece in share]
        fields = {known.name(): known.id() for known in dataset.lance_schema.fields()}
        files: list[DataFile | None] = []
        for piece, view in zip(share, _views(dataset, fragments, self.reads), strict=True):
            values = self.compute(view)
            if not values or not self.write:
                files.append(DataFile("", []) if values else None)
                continue
            files.append(self._written(values, [fields[name] for name in values], piece.file))
        return files

    def _written(
        self, values: Mapping[str, pa.Array], fields: Sequence[int], name: str
    ) -> DataFile:
        version = self.snapshot.dataset.data_storage_version
        batch = pa.table(dict(values))
        writer = LanceFileWriter(
            f"{self.snapshot.dataset.uri}/data/{name}",
            schema=batch.schema,
            version=version,
            storage_options=self.snapshot.storage_options,
        )
        writer.write_batch(batch)
        writer.close()
        major, minor = (int(part) for part in version.split("."))
        places = list(range(len(values)))
        return DataFile(name, list(fields), places, major, minor, writer.size_bytes)


def shares_of(pieces: Sequence[Piece], *, rows: int) -> Iterator[tuple[Piece, ...]]:
    """Cut pieces into shares of at most so many rows; a larger piece is a share of its own."""
    share: list[Piece] = []
    have = 0
    for piece in pieces:
        if share and have + piece.rows > rows:
            yield tuple(share)
            share, have = [], 0
        share.append(piece)
        have += piece.rows
    if share:
        yield tuple(share)


def _views(
    dataset: lance.LanceDataset, fragments: Sequence[LanceFragment], names: Sequence[str]
) -> Iterator[FragmentView]:
    """Read the fragments in one scan (a scan per fragment is seven times slower)."""
    if not fragments:
        return
    batches = _batches(dataset, fragments, names)
    buffered: list[pa.RecordBatch] = []
    have = 0
    queue = iter(fragments)
    fragment = next(queue)
    wanted = fragment.physical_rows
    for batch in batches:
        rest = batch
        while rest.num_rows:
            take = min(rest.num_rows, wanted - have)
            buffered.append(rest.slice(0, take))
            have += take
            rest = rest.slice(take)
            if have == wanted:
                yield _view(dataset, fragment, buffered, names)
                buffered, have = [], 0
                fragment = next(queue, fragment)
                wanted = fragment.physical_rows
    if have:
        raise LakeCorruptError(
            f"fragment {fragment.fragment_id}: read {have} rows, wanted {wanted}"
        )


def _batches(
    dataset: lance.LanceDataset, fragments: Sequence[LanceFragment], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    narrow = all(pa.types.is_primitive(dataset.schema.field(name).type) for name in names)
    deleted = any(fragment.metadata.deletion_file is not None for fragment in fragments)
    options = {"with_row_id": True, "include_deleted_rows": True} if deleted else {}
    scanner = dataset.scanner(
        columns=list(names),
        fragments=list(fragments),
        with_row_address=True,
        scan_in_order=True,
        batch_size=_NARROW_BATCH_ROWS if narrow else None,
        **options,
    )
    return iter(scanner.to_batches())


def _view(
    dataset: lance.LanceDataset,
    fragment: LanceFragment,
    batches: Sequence[pa.RecordBatch],
    names: Sequence[str],
) -> FragmentView:
    table = pa.Table.from_batches(batches)
    addresses = table["_rowaddr"].drop_null()
    if len(addresses) and addresses[0].as_py() >> 32 != fragment.fragment_id:
        raise LakeCorruptError(
            f"fragment {fragment.fragment_id}: the scan returned rows of another fragment"
        )
    return FragmentView(dataset, fragment, table.select(list(names)))
