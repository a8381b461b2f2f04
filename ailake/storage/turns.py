"""The turns around memories: which two stand next to each in its session."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.evidence import Places, Turns
from ailake.core.filters import Predicate, conjunction, parse_where
from ailake.core.records import State
from ailake.core.rows import born_at
from ailake.core.schema import SCOPE_COLUMNS, filter_kinds
from ailake.storage.pool import Pool
from ailake.storage.resident import Rows
from ailake.storage.table import IN_LIST, read_rows
from ailake.storage.view import FIRST_LOGGED, ReadView

_GROUP = (*SCOPE_COLUMNS, "session_id")
_ORDER = (*_GROUP, "event_time", "created_at")


def turns_of(view: ReadView, wall: Predicate, pool: Pool, places: Places) -> Turns:
    """Return what stage two needs to know of some memories.

    Turns of a session of a scope follow each other by event time, where there is none by creation,
    then by insertion; merged ones are passed over. A memory of no session has no neighbours.

    Args:
        view: Where the memories were found.
        wall: The scopes that they are in.
        pool: The memories.
        places: Which of them, n.
    """
    fields = pool.fields(places.tolist())
    if pool.neighbours is not None:
        before, after = pool.neighbours(places)
    else:
        sessions = {one["session_id"] for one in fields}
        before, after = _on_disk(view, wall, sessions, pool.row_ids[places])
    return Turns(
        before,
        after,
        np.array([len(one["text"].encode()) for one in fields], np.int64),
        [one["speaker"] for one in fields],
        [(one["event_time"] or one["created_at"]).date() for one in fields],
    )


def neighbours_in_memory(rows: Rows, places: Places) -> tuple[Places, Places]:
    """Return which of some rows stand before and after each, by position in ``places``.

    Args:
        rows: All of a scope, with the columns ``row_id``, ``born`` and ``session`` (0 for none).
        places: Of rows that are there, each once.

    Returns:
        Two arrays (n,), -1 where that turn is not among them.
    """
    session = rows.column("session")
    wanted = np.unique(session[places])
    wanted = wanted[wanted != 0]
    if not len(wanted):
        none = np.full(len(places), -1, np.intp)
        return none, none
    at = np.minimum(np.searchsorted(wanted, session), len(wanted) - 1)
    among = np.flatnonzero((wanted[at] == session) & rows.alive)
    keys = (rows.columns[name][among] for name in ("row_id", "born", "session"))
    among = among[np.lexsort(tuple(keys))]
    position = np.full(rows.count, -1, np.intp)
    position[places] = np.arange(len(places))
    return _adjacent(position[among], session[among], len(places))


def _on_disk(
    view: ReadView, wall: Predicate, sessions: Iterable[str], row_ids: NDArray[np.uint64]
) -> tuple[Places, Places]:
    named = sorted(set(sessions) - {""})
    rows = _in_sessions(view, wall, named) if named else None
    if rows is None or not rows.num_rows:
        none = np.full(len(row_ids), -1, np.intp)
        return none, none
    group, ids = _codes(rows), rows["_rowid"].to_numpy()
    order = np.lexsort((ids, born_at(rows), group))
    place = {int(row_id): index for index, row_id in enumerate(row_ids)}
    listed = np.array([place.get(int(row_id), -1) for row_id in ids[order]], np.intp)
    return _adjacent(listed, group[order], len(row_ids))


def _in_sessions(view: ReadView, wall: Predicate, sessions: list[str]) -> pa.Table:
    asked: dict[str, Any] = {"state": State.ACTIVE.value, "session_id": {"ne": ""}}
    if len(sessions) <= IN_LIST:
        asked["session_id"] = {"in": sessions}
    where = conjunction(wall, parse_where(asked, filter_kinds("episodic")))
    stored = read_rows(view.dataset, _ORDER, where, with_row_id=True)
    logged = [
        {**_ordering(view.logged[place].row), "_rowid": FIRST_LOGGED + place}
        for place in view.logged_places(where)
    ]
    return pa.concat_tables([stored, pa.Table.from_pylist(logged, schema=stored.schema)])


def _ordering(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _ORDER}


def _adjacent(listed: Places, group: NDArray[Any], count: int) -> tuple[Places, Places]:
    """Return the one before and the one after each of ``count``, -1 for none.

    Args:
        listed: Which of them each row is, -1 for none; in the order of the rows of their groups.
        group: The group of each of these rows.
        count: How many there are.
    """
    before = np.full(count, -1, np.intp)
    after = before.copy()
    pairs = (listed[:-1] >= 0) & (listed[1:] >= 0) & (group[:-1] == group[1:])
    first, second = listed[:-1][pairs], listed[1:][pairs]
    before[second], after[first] = first, second
    return before, after


def _codes(rows: pa.Table) -> NDArray[np.int64]:
    """Return a number for each scope and session."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in _GROUP:
        column = pc.dictionary_encode(rows[name].combine_chunks())
        codes = codes * max(len(column.dictionary), 1) + column.indices.to_numpy()
    return codes
