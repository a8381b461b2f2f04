"""Words: the memories whose text matches a query best, by BM25 over the table's text index.

The index cuts words by the rules of ICU, so that those of Chinese, Japanese and Korean are found
too, lowers their case, folds full width and accents, stems English ones and drops English stop
words. Its statistics are the whole table's. Rows that are not in it yet are scored all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import lance
import numpy as np
import pyarrow as pa
from lance.query import MatchQuery
from numpy.typing import NDArray

from ailake.core.episodic import Floats
from ailake.core.filters import Predicate
from ailake.storage.table import row_ids_in, select

TEXT = "chunk_text"

# A query is cut there: what follows would cost more than it tells.
MAX_QUERY = 1_000


@dataclass(frozen=True, slots=True)
class Lexical:
    """The best matches of a query's words, best first.

    Attributes:
        row_ids: Where they are, uint64 (m,).
        bm25: Their scores, > 0, float64 (m,).
        complete: No other memory that satisfies the filter has any of the words.
        columns: What else was asked for, with ``_rowid``.
    """

    row_ids: NDArray[np.uint64]
    bm25: Floats
    complete: bool
    columns: pa.Table

    @property
    def bound(self) -> float:
        """The most that a memory which is not listed can have."""
        return 0.0 if self.complete else float(self.bm25[-1])

    def of(self, row_ids: NDArray[np.uint64]) -> Floats:
        """Return the scores of some rows, 0 for those that are not listed."""
        if not len(self.row_ids):
            return np.zeros(len(row_ids))
        order = np.argsort(self.row_ids)
        listed = self.row_ids[order]
        places = np.minimum(np.searchsorted(listed, row_ids), len(listed) - 1)
        return np.where(listed[places] == row_ids, self.bm25[order][places], 0.0)

    def among(self, row_ids: NDArray[np.uint64]) -> "Lexical":
        """Return those of the matches that are among some rows."""
        kept = np.isin(self.row_ids, row_ids)
        columns = self.columns.filter(pa.array(kept))
        return Lexical(self.row_ids[kept], self.bm25[kept], self.complete, columns)

    def joined(self, other: "Lexical") -> "Lexical":
        """Return the matches of both; complete, where ``other`` is all that was in doubt."""
        new = ~np.isin(other.row_ids, self.row_ids)
        row_ids = np.concatenate([self.row_ids, other.row_ids[new]])
        bm25 = np.concatenate([self.bm25, other.bm25[new]])
        order = np.argsort(-bm25, kind="stable")
        return Lexical(row_ids[order], bm25[order], other.complete, self.columns)


def best_by_words(
    dataset: lance.LanceDataset,
    text: str,
    where: Predicate,
    *,
    limit: int | None,
    columns: Sequence[str] = (),
) -> Lexical:
    """Return at least the ``limit`` memories that match the words of ``text`` best.

    Args:
        dataset: A version of ``episodic`` that has a text index.
        text: The query.
        where: Applied before the search.
        limit: Length of the list; None lists all.
        columns: What else to read of them.
    """
    return _search(dataset, text, select(dataset, where), limit=limit, columns=columns)


def bm25_of(
    dataset: lance.LanceDataset, text: str, where: Predicate, row_ids: NDArray[np.uint64]
) -> Lexical:
    """Return those of the given rows that have any of the words; ``complete`` is among them.

    They score as in ``best_by_words`` with the same ``where``. For rows that are not in the index
    yet the engine counts words among those of them that pass the filter, so that asked for by
    themselves they would score otherwise.
    """
    late = unindexed(dataset)
    if not late:
        return _search(dataset, text, row_ids_in(row_ids.tolist()), limit=None, columns=())
    rows = dataset.scanner(columns=[], fragments=late, with_row_id=True).to_table()
    are_late = np.isin(row_ids, rows["_rowid"].to_numpy())
    chosen = row_ids_in(row_ids[~are_late].tolist())
    found = _search(dataset, text, chosen, limit=None, columns=())
    if not are_late.any():
        return found
    chosen = select(dataset, where)
    others = _search(dataset, text, chosen, limit=None, columns=(), fragments=late)
    return found.joined(others.among(row_ids))


def unindexed(dataset: lance.LanceDataset) -> list[lance.LanceFragment]:
    """Return the fragments that the text index lacks."""
    covered = {
        number
        for index in dataset.describe_indices()
        if index.index_type == "Inverted" and TEXT in index.field_names
        for segment in index.segments
        for number in segment.fragment_ids
    }
    return [one for one in dataset.get_fragments() if one.fragment_id not in covered]


def _search(
    dataset: lance.LanceDataset,
    text: str,
    chosen: str,
    *,
    limit: int | None,
    columns: Sequence[str],
    fragments: Sequence[lance.LanceFragment] | None = None,
) -> Lexical:
    wanted = max(dataset.count_rows(), 1) if limit is None else limit + 1
    found = dataset.scanner(
        columns=[*columns, "_score"],
        # A query of one's own: as plain text, quotation marks would ask for phrases.
        full_text_query=MatchQuery(_words(text), TEXT),
        filter=chosen,
        prefilter=True,
        limit=wanted,
        with_row_id=True,
        fragments=fragments,
    ).to_table()
    found = found.sort_by([("_score", "descending"), ("_rowid", "ascending")])
    return Lexical(
        found["_rowid"].to_numpy(),
        found["_score"].to_numpy().astype(np.float64),
        complete=limit is None or found.num_rows < wanted,
        columns=found.drop_columns("_score"),
    )


def _words(text: str) -> str:
    """Return the query with each word once: a repeated one would count, and cost, again."""
    return " ".join(dict.fromkeys(text[:MAX_QUERY].split()))
