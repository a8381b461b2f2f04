"""The stored memories that a new one is judged beside: the nearest of its author in its scope."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ailake.core.judging import Near
from ailake.core.nearest import Nearest, Singles, directions
from ailake.core.records import MemoryRecord, Scope
from ailake.core.rows import RECORD_COLUMNS, nanoseconds, record_of, to_pylist
from ailake.core.standing import standing_of
from ailake.storage.filters import to_sql
from ailake.storage.held import HeldRows, author_of
from ailake.storage.memories import predicate, visible
from ailake.storage.search import nearest_rows
from ailake.storage.vectors import vector_index
from ailake.storage.view import ReadView

# Similarity decides nothing: it only keeps what is looked at to a few, and leaves out the far.
MOST = 8
LEAST = 0.4

_CHUNK = 4_096


@dataclass(frozen=True, slots=True)
class Sought:
    """n new memories of one scope, whose neighbours are looked for.

    Attributes:
        scope: The scope.
        authors: Role, speaker and source of each.
        directions: Their vectors at length 1, float32 (n, dim).
        now: What has expired by then is not there.
    """

    scope: Scope
    authors: Sequence[tuple[str, str, str]]
    directions: Singles
    now: datetime


def stored_near(view: ReadView, sought: Sought) -> list[list[Near]]:
    """Return for each new memory up to eight stored ones, and what is logged, nearest first.

    Raises:
        StaleSnapshotError: Another thread is ahead; take a newer version.
    """
    held = view.held.rows([sought.scope], view.dataset, view.passages, view.entries)
    if held is None:
        found = [_searched(view, sought, place) for place in range(len(sought.authors))]
    else:
        found = _compared(held[0], sought)
    logged = _logged(view, sought)
    both = [[*one, *other] for one, other in zip(found, logged, strict=True)]
    return [sorted(one, key=lambda near: -near.score)[:MOST] for one in both]


def codes_of(authors: Sequence[tuple[str, str, str]]) -> NDArray[np.int64]:
    """Return a number for each author, the same for the same one."""
    known = {author: author_of(*author) for author in set(authors)}
    return np.array([known[author] for author in authors], np.int64)


def _compared(held: HeldRows, sought: Sought) -> list[list[Near]]:
    memories = held.memories
    seen = held.seen(nanoseconds(sought.now))
    authors = memories.column("author") if memories.count else np.empty(0, np.int64)
    groups = codes_of(sought.authors)
    wanted = np.isin(authors, groups)
    chosen = np.flatnonzero(wanted if seen is None else wanted & seen[: memories.count])
    nearest = Nearest(sought.directions, groups, most=MOST, least=LEAST)
    for start in range(0, len(chosen), _CHUNK):
        some = chosen[start : start + _CHUNK]
        vectors = memories.vectors.halves[some].astype(np.float32)
        vectors /= memories.vectors.lengths[some][:, np.newaxis]
        nearest.look_at(vectors, authors[some], start=start, before=False)
    found = [list(nearest.of(row)) for row in range(len(groups))]
    places = sorted({int(chosen[at]) for near in found for at, _ in near})
    fields = zip(places, held.fields(places) if places else [], strict=True)
    known = {place: standing_of(MemoryRecord(**one)) for place, one in fields}
    return [[Near(score, known[int(chosen[at])]) for at, score in near] for near in found]


def _searched(view: ReadView, sought: Sought, place: int) -> list[Near]:
    """Search the table, for a scope that is not held in memory."""
    role, speaker, source = sought.authors[place]
    author = predicate({"role": role, "speaker": speaker, "source": source})
    asked = visible((sought.scope,), author, sought.now)
    rows = nearest_rows(
        view.dataset,
        sought.directions[place],
        to_sql(asked),
        limit=MOST,
        index=vector_index(view.dataset),
        columns=RECORD_COLUMNS,
    )
    scores = (1.0 - np.asarray(rows["_distance"].to_numpy(), np.float64)).tolist()
    listed = zip(to_pylist(rows.select(list(RECORD_COLUMNS))), scores, strict=True)
    return [Near(score, standing_of(record_of(row))) for row, score in listed if score >= LEAST]


def _logged(view: ReadView, sought: Sought) -> list[list[Near]]:
    """Compare with what this process has logged."""
    places = view.logged_places(visible((sought.scope,), predicate(None), sought.now))
    if not places:
        return [[] for _ in sought.authors]
    rows = [view.logged[place].row for place in places]
    vectors = directions(np.stack([view.logged[place].vector for place in places]))
    nearest = Nearest(sought.directions, codes_of(sought.authors), most=MOST, least=LEAST)
    nearest.look_at(vectors, codes_of([_author(row) for row in rows]), start=0, before=False)
    return [
        [Near(score, standing_of(record_of(rows[at]))) for at, score in nearest.of(row)]
        for row in range(len(sought.authors))
    ]


def _author(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["role"], row["speaker"], row["source"]
