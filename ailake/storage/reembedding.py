"""Embedding all memories of a lake with another embedder, beside what reads and writes it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ailake.core.drafts import Draft
from ailake.core.passages import Passage
from ailake.core.reembedding import are_to_be_embedded, drafts_of
from ailake.core.rows import passage_rows
from ailake.core.schema import SCOPE_COLUMNS, arrow_schema
from ailake.storage import passages
from ailake.storage.draining import committing
from ailake.storage.executing import Executor, Threads
from ailake.storage.identity import COLUMN, EmbedderIdentity
from ailake.storage.locks import DECAY, exclusive
from ailake.storage.memories import scope_of
from ailake.storage.rebuilding import rebuild_own
from ailake.storage.retries import reading_again
from ailake.storage.staging import Staging, digests_of
from ailake.storage.switching import EMBEDDED, finish_switch, stage_passages, switch_vectors
from ailake.storage.vectors import vector_index

if TYPE_CHECKING:
    from ailake.storage.store import Store

_BATCH_ROWS = 1_024

# For each worker at a time, so that those that are done early have more.
_BATCHES = 4

# What is written while all is embedded is embedded in further passes; the last, under the locks,
# has no more to embed than what one of them leaves.
_PASSES = 3

_KEYS = ("chunk_id", *SCOPE_COLUMNS)


class Embedding(Protocol):
    """What a job brings: how texts are cut and embedded."""

    @property
    def batch_size(self) -> int:
        """Most texts per call."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector per text, float32 (n, dim)."""
        ...

    def passages(self, draft: Draft) -> Sequence[Passage]:
        """Return the passages of a text, none where it is short."""
        ...


@dataclass(slots=True)
class Progress:
    """What a run has done so far.

    Attributes:
        advance: Told the number of rows that are looked at.
        embedded: Texts that were embedded, passages among them.
    """

    advance: Callable[[int], None]
    embedded: int = 0


def stage_all(
    dataset: lance.LanceDataset,
    staging: Staging,
    how: Embedding,
    *,
    executor: Executor | None,
    progress: Progress,
) -> int:
    """Embed what has no vector yet of one version; return how many texts that were."""
    before = progress.embedded
    # Not every embedder is safe for several threads.
    workers = executor or Threads(1)
    most = _BATCHES * workers.width * how.batch_size
    for texts, rows in _missing(dataset, staging, how, most=most):
        pieces = [
            texts[start : start + how.batch_size] for start in range(0, len(texts), how.batch_size)
        ]
        if pieces:
            with closing(workers.map(staging.work(how.embed), pieces)) as made:
                for piece, written in zip(pieces, made, strict=True):
                    staging.add(piece, written)
                    progress.embedded += len(piece)
        progress.advance(rows)
    return progress.embedded - before


def _missing(
    dataset: lance.LanceDataset, staging: Staging, how: Embedding, *, most: int
) -> Iterator[tuple[list[str], int]]:
    """Yield texts without a vector, about ``most`` at a time, and of how many rows they are."""
    found: dict[str, None] = {}
    looked_at = 0
    for rows in _rows(dataset, EMBEDDED):
        texts = [text for draft in drafts_of(rows) for text in _texts(draft, how)]
        found |= dict.fromkeys(staging.missing(texts))
        looked_at += rows.num_rows
        if len(found) >= most:
            yield list(found), looked_at
            found, looked_at = {}, 0
    yield list(found), looked_at


def count_missing(dataset: lance.LanceDataset, staging: Staging, how: Embedding) -> int:
    """Return how many texts of one version have no vector yet, each counted once."""
    missing: set[bytes] = set()
    for rows in _rows(dataset, EMBEDDED):
        texts = [text for draft in drafts_of(rows) for text in _texts(draft, how)]
        missing.update(digests_of(staging.missing(texts)).to_pylist())
    return len(missing)


def count_lacking(
    dataset: lance.LanceDataset, identity: EmbedderIdentity, how: Embedding
) -> tuple[int, int]:
    """Return how many memories have zeros for a vector, and of how many texts they are."""
    drafts = [draft for rows in _lacking(dataset, identity) for draft in drafts_of(rows)]
    return len(drafts), sum(len(_texts(draft, how)) for draft in drafts)


def stage_ahead(
    store: "Store",
    staging: Staging,
    how: Embedding,
    *,
    executor: Executor | None,
    progress: Progress,
) -> None:
    """Embed while others write, until little is left."""
    for _ in range(_PASSES):
        store.settle()
        done = reading_again(
            lambda: stage_all(
                store.episodic.snapshot(), staging, how, executor=executor, progress=progress
            )
        )
        if done <= how.batch_size:
            return


def switch(
    store: "Store",
    staging: Staging,
    how: Embedding,
    *,
    executor: Executor | None,
    progress: Progress,
    new_file_id: Callable[[], str],
) -> None:
    """Embed what is left, and switch the lake over, while nobody else can write.

    Vector indexes that were measured are built anew over the new vectors.
    """
    options = store.episodic.storage_options
    measured = {}
    for name in ("episodic", "passages"):
        index = vector_index(store.tables[name].snapshot())
        if index is not None and index.measured is not None:
            measured[name] = index.measured
    with ExitStack() as held:
        held.enter_context(exclusive(store.location.root, DECAY))
        held.enter_context(store.committing())
        for name in ("episodic", "passages"):
            held.enter_context(store.tables[name].alone())
        dataset = store.episodic.snapshot()
        stage_all(dataset, staging, how, executor=executor, progress=progress)
        stage_passages(staging, _passages(dataset, staging, how), options)
        switch_vectors(store.episodic, staging, executor=executor, new_file_id=new_file_id)
        finish_switch(store.tables, store.location, options)
    for name, known in measured.items():
        with store.tables[name].alone():
            rebuild_own(store.tables[name], known)


def mend(
    store: "Store", identity: EmbedderIdentity, how: Embedding, *, since: int, progress: Progress
) -> int:
    """Embed the memories that have zeros for a vector: those logged before, drained after a switch.

    Args:
        store: The lake, switched over.
        identity: Its embedder.
        how: The embedder.
        since: Only rows that are newer than that version of ``episodic``.
        progress: What the run has done.

    Returns:
        How many there were.
    """
    mended = 0
    with committing(store):
        newer = f"_row_created_at_version > {since:d}"
        for rows in _lacking(store.episodic.snapshot(), identity, where=newer):
            _mend(store, identity, how, rows, progress=progress)
            mended += rows.num_rows
    return mended


def _lacking(
    dataset: lance.LanceDataset, identity: EmbedderIdentity, *, where: str | None = None
) -> Iterator[pa.Table]:
    for rows in _rows(dataset, tuple(dataset.schema.names), where=where):
        lacking = rows.filter(pa.array(are_to_be_embedded(rows[COLUMN], identity.dim)))
        if lacking.num_rows:
            yield lacking


def _mend(
    store: "Store",
    identity: EmbedderIdentity,
    how: Embedding,
    rows: pa.Table,
    *,
    progress: Progress,
) -> None:
    drafts = list(drafts_of(rows))
    for draft, row in zip(drafts, rows.select(_KEYS).to_pylist(), strict=True):
        parts = how.passages(draft)
        if parts:
            vectors = how.embed(_texts(draft, how)[1:])
            made = passage_rows(
                {row["chunk_id"]: parts}, vectors, scope=scope_of(row), embedder_id=identity.id
            )
            passages.remove(store, scope_of(row), [row["chunk_id"]])
            passages.append(store, made)
            progress.embedded += len(parts)
    vectors = how.embed([draft.embedded_text for draft in drafts])
    progress.embedded += len(drafts)
    place = rows.schema.get_field_index(COLUMN)
    flat = pa.array(vectors.astype(np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(flat, identity.dim)
    # Whole rows: whoever holds vectors finds them by where rows are, not by what is in them.
    store.change(rows.set_column(place, rows.schema.field(COLUMN), column))


def _texts(draft: Draft, how: Embedding) -> list[str]:
    """Return all texts of a memory that are embedded: the whole, then its passages."""
    parts = (replace(draft, text=part.of(draft.text)) for part in how.passages(draft))
    return [draft.embedded_text, *(part.embedded_text for part in parts)]


def _passages(dataset: lance.LanceDataset, staging: Staging, how: Embedding) -> Iterator[pa.Table]:
    identity = staging.identity
    yield arrow_schema("passages", dim=identity.dim, embedder_id=identity.id).empty_table()
    made = staging.made
    for rows in _rows(dataset, (*_KEYS, *EMBEDDED)):
        drafts, keys = list(drafts_of(rows)), rows.select(_KEYS).to_pylist()
        cut = [_texts(draft, how)[1:] for draft in drafts]
        vectors = made.of([text for texts in cut for text in texts])
        start = 0
        for draft, row, texts in zip(drafts, keys, cut, strict=True):
            if texts:
                yield passage_rows(
                    {row["chunk_id"]: how.passages(draft)},
                    vectors[start : start + len(texts)],
                    scope=scope_of(row),
                    embedder_id=identity.id,
                )
            start += len(texts)


def _rows(
    dataset: lance.LanceDataset, columns: Sequence[str], *, where: str | None = None
) -> Iterator[pa.Table]:
    scan = dataset.scanner(columns=list(columns), filter=where, batch_size=_BATCH_ROWS)
    for batch in scan.to_batches():
        yield pa.Table.from_batches([batch])
