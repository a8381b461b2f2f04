"""ReembedJob: all vectors of a lake made anew by another embedder, of any dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ailake import clock
from ailake.core.drafts import Draft
from ailake.core.passages import Passage, split
from ailake.embed import Embedder, embed_documents, is_long, resolve_embedder, window_of
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import progress_bar
from ailake.storage.executing import Executor
from ailake.storage.identity import EmbedderIdentity
from ailake.storage.locks import JOBS, exclusive
from ailake.storage.reembedding import (
    Progress,
    count_lacking,
    count_missing,
    mend,
    stage_ahead,
    switch,
)
from ailake.storage.staging import Staging, remove_staged


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What a run did, or with ``dry_run`` would do.

    Attributes:
        now: When.
        embedder_before: Whose vectors the lake had.
        embedder_after: Whose vectors it has.
        dim_before: Their length before.
        dim_after: Their length after.
        rows: Memories that the lake has.
        embedded: Texts that were embedded, passages among them; those of a run that was killed
            are not embedded again.
        mended: Memories that had no vector of the lake's embedder, because they were logged
            before a switch and stored after it.
        version_before: Version of ``episodic`` that was found.
        version_after: Version at the end.
        seconds: Wall time.
        dry_run: True where nothing was changed.
    """

    now: datetime
    embedder_before: str
    embedder_after: str
    dim_before: int
    dim_after: int
    rows: int
    embedded: int
    mended: int
    version_before: int
    version_after: int
    seconds: float
    dry_run: bool


class ReembedJob:
    """Makes all vectors of a lake anew with another embedder, and switches over in one commit.

    Until then everything goes on with the old vectors: what is remembered, changed or forgotten
    meanwhile is caught up with at the switch, for which writers of a local lake wait. On an object
    store no lock can stop them: stop all writers first. A run that is killed is completed by the
    next with the same embedder, and embeds nothing twice; one that is killed after the switch is
    completed by whoever opens the lake for writing. Texts are cut into passages by the new
    embedder's window. Vectors that callers brought are replaced by those of their texts. Vector
    indexes that were built by policy are built anew, others on the vectors go; those of words stay.

    Every handle that was opened with the old embedder, this job's too, raises
    EmbedderMismatchError from the switch on: connect again. Old versions and tags keep the old
    vectors, and read with the old embedder.

    With the embedder that the lake has, it embeds what has no vector yet, and no more.

    Args:
        lake: The lake.
        embedder: What ``ailake.connect`` takes.
        batch_size: Texts that are embedded at once, and, in one process, at most lost by a kill.
        executor: Who embeds, and writes the new column at the switch; default: this process,
            which reads and cuts the texts in either case. Workers elsewhere make an embedder that
            was given by name for themselves; an object is sent to them, and has to be one that
            can be pickled.

    Raises:
        InvalidInputError: An argument is wrong.
        MissingExtraError: The embedder's package is not installed.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        embedder: str | Embedder,
        batch_size: int = 256,
        executor: Executor | None = None,
    ) -> None:
        given: object = batch_size
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise InvalidInputError.of("batch_size", got=given, wanted="a whole number >= 1")
        self._store = lake.store
        chosen = resolve_embedder(embedder)
        self._identity = EmbedderIdentity(chosen.id, chosen.dim)
        self._how = _How(chosen, batch_size, name=embedder if isinstance(embedder, str) else None)
        self._executor = executor
        self.options = {"dim": chosen.dim, "batch_size": batch_size}

    @recorded("reembed")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> ReembedReport:
        """Run once.

        Args:
            now: When, for the report, timezone-aware; default: the present.
            dry_run: Report what would be done, and change nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive, or the embedder's answer is no vectors.
            ReadOnlyError: The lake can't be written.
            EmbedderMismatchError: Another run has switched the lake over since it was opened.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        store, before = self._store, self._store.embedder
        if not dry_run:
            store.ensure_writable()
        store.settle()
        store.check_embedder()
        version, rows = store.episodic.version, store.episodic.snapshot().count_rows()
        done, mended = Progress(lambda _: None), 0
        if dry_run:
            mended, done.embedded = self._counted()
        else:
            with (
                exclusive(store.place, JOBS),
                progress_bar("embedding", total=rows, shown=progress) as done.advance,
            ):
                mended = self._apply(done)
        return ReembedReport(
            now=instant,
            embedder_before=before.id,
            embedder_after=self._identity.id,
            dim_before=before.dim,
            dim_after=self._identity.dim,
            rows=store.episodic.snapshot().count_rows(),
            embedded=done.embedded,
            mended=mended,
            version_before=version,
            version_after=store.episodic.version,
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )

    def _counted(self) -> tuple[int, int]:
        """Return how many memories lack a vector of the lake's embedder, and texts to embed."""
        store, dataset = self._store, self._store.episodic.snapshot()
        if self._identity == store.embedder:
            return count_lacking(dataset, self._identity, self._how)
        staging = Staging(store.location, store.episodic.storage_options, self._identity)
        return 0, count_missing(dataset, staging, self._how)

    def _apply(self, progress: Progress) -> int:
        store, since = self._store, 0
        options = store.episodic.storage_options
        if self._identity == store.embedder:
            remove_staged(store.location, options)
        else:
            staging = Staging(store.location, options, self._identity)
            stage_ahead(store, staging, self._how, executor=self._executor, progress=progress)
            since = store.episodic.version
            switch(
                store,
                staging,
                self._how,
                executor=self._executor,
                progress=progress,
                new_file_id=clock.new_id,
            )
        return mend(store, self._identity, self._how, since=since, progress=progress)


@dataclass(frozen=True, slots=True)
class _How:
    """How texts are cut and embedded by an embedder; pickled by its name where it was named."""

    embedder: Embedder
    batch_size: int
    name: str | None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return embed_documents(self.embedder, texts, batch_size=self.batch_size)

    def passages(self, draft: Draft) -> Sequence[Passage]:
        if not is_long(draft, self.embedder):
            return ()
        return split(draft.text, window=window_of(self.embedder))

    def __reduce__(self) -> tuple[Callable[..., "_How"], tuple[Any, ...]]:
        if self.name is None:
            return _How, (self.embedder, self.batch_size, None)
        return _named, (self.name, self.batch_size)


# A worker gets it anew with each piece, and must not load its model as often.
@lru_cache(maxsize=1)
def _named(name: str, batch_size: int) -> _How:
    return _How(resolve_embedder(name), batch_size, name)
