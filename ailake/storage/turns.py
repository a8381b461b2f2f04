"""The turns around memories: which two stand next to each in its session."""

from collections.abc import Mapping, Sequence
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
from ailake.storage.table import IN_LIST, read_rows
from ailake.storage.view import FIRST_LOGGED, ReadView

_GROUP = (*SCOPE_COLUMNS, "session_id")
_ORDER = (*_GROUP, "event_time", "created_at")
_ABOUT = ("speaker", "chunk_text", "session_id", "event_time", "created_at")


def turns_of(view: ReadView, wall: Predicate, row_ids: NDArray[np.uint64]) -> Turns:
    """Return what stage two needs to know of some memories.

    Turns of a session of a scope follow each other by event time, where there is none by creation,
    then by insertion; merged ones are passed over. A memory of no session has no neighbours.

    Args:
        view: The memories.
        wall: The scopes that they are in.
        row_ids: Where they are; n of them, stored or logged.
    """
    rows = view.rows_at(row_ids, _ABOUT)
    sessions = sorted({row["session_id"] for row in rows} - {""})
    none = np.full(len(row_ids), -1, np.intp)
    before, after = none, none
    if sessions:
        before, after = _neighbours(_in_sessions(view, wall, sessions), row_ids)
    return Turns(
        before,
        after,
        np.array([len(row["chunk_text"].encode()) for row in rows], np.int64),
        [row["speaker"] for row in rows],
        [(row["event_time"] or row["created_at"]).date() for row in rows],
    )


def _in_sessions(view: ReadView, wall: Predicate, sessions: Sequence[str]) -> pa.Table:
    asked: dict[str, Any] = {"state": State.ACTIVE.value, "session_id": {"ne": ""}}
    if len(sessions) <= IN_LIST:
        asked["session_id"] = {"in": list(sessions)}
    where = conjunction(wall, parse_where(asked, filter_kinds("episodic")))
    stored = read_rows(view.dataset, _ORDER, where, with_row_id=True)
    logged = [
        {**_ordering(view.logged[place].row), "_rowid": FIRST_LOGGED + place}
        for place in view.logged_places(where)
    ]
    return pa.concat_tables([stored, pa.Table.from_pylist(logged, schema=stored.schema)])


def _ordering(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _ORDER}


def _neighbours(rows: pa.Table, row_ids: NDArray[np.uint64]) -> tuple[Places, Places]:
    """Return the places in ``row_ids`` of the rows before and after each, -1 for none."""
    before = np.full(len(row_ids), -1, np.intp)
    after = before.copy()
    if not rows.num_rows:
        return before, after
    ids = rows["_rowid"].to_numpy()
    group = _codes(rows)
    order = np.lexsort((ids, born_at(rows), group))
    place = {int(row_id): index for index, row_id in enumerate(row_ids)}
    listed = np.array([place.get(int(row_id), -1) for row_id in ids[order]], np.intp)
    pairs = (listed[:-1] >= 0) & (listed[1:] >= 0) & (group[order][:-1] == group[order][1:])
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
