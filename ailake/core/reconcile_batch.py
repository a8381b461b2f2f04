"""``classify_fact`` for whole columns: the same decisions, a million of them at a time."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.instants import EARLIEST, LATEST
from ailake.core.reconcile import FactKind
from ailake.core.rows import instant_of
from ailake.core.schema import INSTANT
from ailake.errors import InvalidInputError

_KINDS = tuple(FactKind)
_NOOP, _APPEND, _SUPERSEDE = (_KINDS.index(kind) for kind in FactKind)
_OPEN = np.iinfo(np.int64).max
_SPARSE = 4

# More known facts of a key than these are not compared with one by one.
_DEEP = 16

Ints = NDArray[np.int64]


def classify_batch(
    new: pa.Table, prior: pa.Table, *, key: Sequence[str] = ("subject", "predicate")
) -> pa.Table:
    """Decide of each new fact by itself what it means for the known ones; they don't see another.

    Args:
        new: The columns of ``key`` and ``object``, all of them text (names, or ids of entities),
            ``valid_from`` and ``valid_to``, timestamps with a time zone; null: open.
        prior: The same and ``fact_id``. Where a key has several, their order decides.
        key: What two facts must have in common to be compared at all; add the scope's columns
            where there are several.

    Returns:
        A row for each new one: ``kind``, dictionary-encoded text, and ``loser_fact_id``, null but
        with supersede; as ``classify_fact`` decides.

    Raises:
        InvalidInputError: No key, a column is missing or has nulls, an instant has no time zone or
            is outside the years 1678 to 2261, or a window is empty or inverted; the message names
            the row.
    """
    if isinstance(key, str) or not key:
        raise InvalidInputError.of("key", got=key, wanted="names of columns, at least one")
    names = (*key, "object")
    for rows, told in ((new, "new"), (prior, "prior")):
        _check_columns(rows, (*names, *(("fact_id",) if told == "prior" else ())), told=told)
    windows, known = _windows(new, told="new"), _windows(prior, told="prior")
    keys, objects = _codes(new, prior, key), _codes(new, prior, ("object",))
    count = new.num_rows
    is_known, losers = _compare(keys, objects, windows, known)
    fact_ids = prior["fact_id"]
    if pa.types.is_string_view(fact_ids.type):
        fact_ids = fact_ids.cast(pa.large_string())  # Nothing can be taken of a view.
    kinds = np.full(count, _APPEND, np.int8)
    kinds[losers >= 0] = _SUPERSEDE
    kinds[is_known] = _NOOP
    losers[is_known] = -1
    places = pa.array(losers, mask=losers < 0)
    return pa.table(
        {
            "kind": pa.DictionaryArray.from_arrays(kinds, pa.array(map(str, _KINDS))),
            "loser_fact_id": fact_ids.take(places),
        }
    )


def _compare(
    keys: Ints, objects: Ints, new: tuple[Ints, Ints], known: tuple[Ints, Ints]
) -> tuple[NDArray[np.bool_], Ints]:
    """Return which new facts are known, and the place of the first that each overlaps, or -1.

    Args:
        keys: Of the new facts and then the known ones, small codes.
        objects: The same.
        new: Starts and ends.
        known: The same.
    """
    count = len(new[0])
    losers, is_known = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    grouped = _grouped(keys[count:])
    sizes = np.bincount(keys[count:], minlength=keys.max(initial=-1) + 1)
    begins = np.cumsum(sizes) - sizes
    places = np.flatnonzero(sizes[keys[:count]])
    depths, firsts = sizes[keys[places]], begins[keys[places]]
    deep = places[depths > _DEEP]
    is_known[deep] = _are_known(keys, objects, deep, count)
    depth = 0
    # One known fact of each key at a time: few keys have many, and memory stays at one per row.
    while len(places):
        candidates = grouped[firsts + depth]
        is_known[places] |= objects[places] == objects[count + candidates]
        overlap = (new[0][places] < known[1][candidates]) & (known[0][candidates] < new[1][places])
        overlap &= losers[places] < 0
        losers[places[overlap]] = candidates[overlap]
        depth += 1
        # Of a key with many, what is known is known by now.
        is_done = is_known[places] | ((depths > _DEEP) & (losers[places] >= 0))
        left = (depths > depth) & ~is_done
        places, depths, firsts = places[left], depths[left], firsts[left]
    return is_known, losers


def _grouped(keys: Ints) -> Ints:
    """Return the places of small codes in their order, in that of the places for each."""
    # Twice as fast as a stable sort of places.
    bits = np.int64(max(len(keys) - 1, 1)).item().bit_length()
    placed = (keys << bits) | np.arange(len(keys))
    placed.sort()
    return np.asarray(placed & ((1 << bits) - 1), np.int64)


def _are_known(
    keys: Ints, objects: Ints, places: NDArray[np.intp], count: int
) -> NDArray[np.bool_]:
    """Tell of new facts whose keys have many known ones whether one has the same object."""
    width = objects.max(initial=0) + 1
    among = np.isin(keys[count:], keys[places])
    triples = keys[count:][among] * width + objects[count:][among]
    return np.isin(keys[places] * width + objects[places], triples)


def _codes(new: pa.Table, prior: pa.Table, names: Sequence[str]) -> Ints:
    """Return codes of the columns together, new before prior."""
    columns = [_joined(new[name], prior[name]) for name in names]
    codes = _dense(columns[0])
    for column in columns[1:]:
        codes = _paired(codes, _dense(column))
    return codes


def _joined(one: pa.ChunkedArray, two: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts one after another; frame libraries have them as another type than pyarrow."""
    is_plain = one.type == two.type and not pa.types.is_string_view(one.type)
    kind = one.type if is_plain else pa.large_string()
    chunks = [*one.cast(kind).chunks, *two.cast(kind).chunks]
    return pa.chunked_array(chunks, kind)


def _paired(one: Ints, two: Ints) -> Ints:
    """Return codes of pairs, few more than there are rows."""
    codes = np.asarray(one * (two.max(initial=0) + 1) + two, np.int64)
    # To number them anew takes longer than to have some that nothing has.
    if codes.max(initial=0) <= _SPARSE * len(codes):
        return codes
    return _dense(pa.chunked_array([codes]))


def _dense(column: pa.ChunkedArray) -> Ints:
    """Return a number for each distinct value, from 0 in order of their first appearance."""
    chunks = column.dictionary_encode().chunks
    # The chunks share what was found in any of them: a code means the same in all.
    codes = [chunk.indices.to_numpy().astype(np.int64) for chunk in chunks]
    return np.concatenate(codes) if codes else np.empty(0, np.int64)


def _windows(rows: pa.Table, *, told: str) -> tuple[Ints, Ints]:
    starts = _nanoseconds(rows["valid_from"])
    ends = _nanoseconds(pc.fill_null(rows["valid_to"].cast(INSTANT).cast(pa.int64()), _OPEN))
    wrong = np.flatnonzero(ends <= starts)
    if len(wrong):
        place = int(wrong[0])
        start, end = (instant_of(int(column[place])).isoformat() for column in (starts, ends))
        raise InvalidInputError.of(
            f"{told} fact {_told(rows, place)}: valid_to",
            got=end,
            wanted=f"an instant after valid_from, {start}, or null",
        )
    return starts, ends


def _nanoseconds(column: pa.ChunkedArray) -> Ints:
    values = column if column.type == pa.int64() else column.cast(INSTANT).cast(pa.int64())
    return np.asarray(values.to_numpy(), np.int64)


def _check_columns(rows: pa.Table, texts: Sequence[str], *, told: str) -> None:
    for name in (*texts, "valid_from", "valid_to"):
        if name not in rows.schema.names:
            raise InvalidInputError.of(
                f"{told} facts", got=rows.schema.names, wanted=f"a column {name!r}"
            )
        kind = rows.schema.field(name).type
        wanted = "text" if name in texts else "timestamps with a time zone"
        fits = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        fits = fits or pa.types.is_string_view(kind)
        if name not in texts:
            fits = pa.types.is_timestamp(kind) and kind.tz is not None
            # Nothing but open ends.
            fits = fits or (name == "valid_to" and pa.types.is_null(kind))
        if not fits and rows.num_rows:
            raise InvalidInputError.of(f"{told} facts: {name}", got=str(kind), wanted=wanted)
        if name != "valid_to" and rows[name].null_count:
            place = pc.index(pc.is_null(rows[name]), True).as_py()
            raise InvalidInputError.of(f"{told} fact {place}: {name}", got=None, wanted=wanted)
        if name not in texts and not pa.types.is_null(kind):
            _check_range(rows[name], f"{told} fact {{}}: {name}")


def _check_range(column: pa.ChunkedArray, told: str) -> None:
    # To cast what does not fit fails, and names no row.
    least, end = (pa.scalar(bound, column.type) for bound in (EARLIEST, LATEST))
    outside = pc.or_(pc.less(column, least), pc.greater_equal(column, end))
    if pc.any(outside).as_py():
        place = pc.index(outside, True).as_py()
        got = column[place].cast(pa.string()).as_py()
        raise InvalidInputError.of(told.format(place), got=got, wanted="a year from 1678 to 2261")


def _told(rows: pa.Table, place: int) -> str:
    row = {name: rows[name][place].as_py() for name in rows.schema.names}
    parts = [str(value) for name, value in row.items() if not name.startswith("valid_")]
    return f"{place} ({', '.join(parts)})"
