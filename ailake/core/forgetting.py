"""What becomes of the versions of one key once some memories have never spoken. Pure.

What is left was said again, in order, by the rules that held then. Of what was believed in the
past stays what would have been believed at that instant, too; what is believed now becomes what
would be. So nothing of a forgotten memory is left, and nobody's past is made up.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, pairwise

import numpy as np

from ailake.core.assertions import Assertion
from ailake.core.fact_versions import FactKey, Origin, StoredVersion
from ailake.core.rows import EPOCH, nanoseconds
from ailake.core.superseding import KeyPlanner, version_id
from ailake.core.windows import Window, common, minus

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What becomes of the versions of one key, in one commit.

    Attributes:
        replaced: Stored versions whose rows are removed.
        stored: What is stored in their place; who keeps an id is what is left of that version.
        gone: The ids that no version has any more.
    """

    key: FactKey
    replaced: tuple[StoredVersion, ...]
    stored: tuple[StoredVersion, ...]
    gone: frozenset[str]


class _Spoken:
    """What is said or believed of one fact, in order, to be found by its window.

    Each version is compared with what holds within its window alone: a key may have thousands.
    """

    def __init__(self, items: Sequence[StoredVersion | Assertion]) -> None:
        self._items = items
        spans = [(*_bounds(one.window), *_believed(one)) for one in items]
        self._spans = np.array(spans, np.int64).reshape(-1, 4).T

    def beside(self, version: StoredVersion) -> list[StoredVersion | Assertion]:
        """Return what overlaps a version, and is believed within the time that it was."""
        start, end = _bounds(version.window)
        begin, until = _believed(version)
        starts, ends, begun, over = self._spans
        # A version that lost as it was said was believed for no time, and still has an instant.
        found = (starts < end) & (start < ends) & (begun < max(until, begin + 1)) & (begin < over)
        return [self._items[place] for place in np.flatnonzero(found).tolist()]


@dataclass(frozen=True, slots=True)
class _Others:
    """What others said of one fact, and would have had the lake believe of it.

    Attributes:
        words: In which they said it.
    """

    said: _Spoken
    believed: _Spoken
    words: frozenset[tuple[str, str]]


def forgotten(
    key: FactKey,
    versions: Sequence[StoredVersion],
    said: Sequence[Assertion],
    memories: Collection[str],
    *,
    now: datetime,
    first_ordinal: int = 0,
) -> Forgotten:
    """Return what becomes of the versions of a key.

    Args:
        key: Whose versions.
        versions: All of them.
        said: All that others said of it, in order.
        memories: The ids of those that are forgotten.
        now: When; where something of the key was recorded later, that instant counts.
        first_ordinal: Smaller ones may have been given to versions that were removed.
    """
    present = max([now, *(v.retired_at or v.recorded_at for v in versions)])
    planner = _replayed(key, said)
    wanted = {(v.fact_id, v.window): v for v in planner.live}
    others = _others(said, planner.plan().inserted)
    replaced, stored = [], []
    for version in versions:
        left = [_ended(v, wanted, present) for v in _left(version, others, memories)]
        if len(left) != 1 or not _are_same(left[0], version):
            replaced.append(version)
            stored += left
    stored += [
        replace(v, version_id="", recorded_at=present, retired_at=None, origin=Origin.REMAINDER)
        for v in wanted.values()
    ]
    ordinals = count(max([first_ordinal, *(v.ordinal + 1 for v in versions)]))
    numbered = _numbered(key, stored, ordinals)
    kept = {one.version_id for one in numbered}
    gone = frozenset(v.version_id for v in replaced if v.version_id not in kept)
    return Forgotten(key, tuple(replaced), numbered, gone)


def _ended(
    version: StoredVersion, wanted: dict[tuple[str, Window], StoredVersion], present: datetime
) -> StoredVersion:
    """Return a version as it is now; what is wanted and there is wanted no more."""
    if version.retired_at is not None:
        return version
    still = wanted.pop((version.fact_id, version.window), None)
    return replace(version, retired_at=present) if still is None else version


def _numbered(
    key: FactKey, versions: Sequence[StoredVersion], ordinals: Iterator[int]
) -> tuple[StoredVersion, ...]:
    key_id, numbered = key.id, []
    for version in versions:
        ordinal = version.ordinal if version.version_id else next(ordinals)
        own = version_id(key_id, ordinal)
        numbered.append(replace(version, version_id=version.version_id or own, ordinal=ordinal))
    return tuple(numbered)


def _replayed(key: FactKey, said: Sequence[Assertion]) -> KeyPlanner:
    """Return a planner that was told, in order, what was said: all of its versions are new."""
    planner = KeyPlanner(key, (), now=said[0].recorded_at if said else EPOCH)
    for one in said:
        planner.replay(one)
    return planner


def _others(said: Sequence[Assertion], believed: Sequence[StoredVersion]) -> Mapping[str, _Others]:
    """Return what others said and would have had the lake believe, by the fact."""
    asserted, versions = defaultdict[str, list[Assertion]](list), defaultdict(list)
    for one in said:
        if one.is_assert:
            asserted[one.fact_id].append(one)
    for version in believed:
        if version.recorded_at != version.retired_at:
            versions[version.fact_id].append(version)
    made = {
        fact_id: _Others(_Spoken(own), _Spoken(versions[fact_id]), frozenset(map(_words, own)))
        for fact_id, own in asserted.items()
    }
    return defaultdict(lambda: _Others(_Spoken(()), _Spoken(()), frozenset()), made)


def _left(
    version: StoredVersion, others: Mapping[str, _Others], memories: Collection[str]
) -> list[StoredVersion]:
    """Return what is left of a version, in order of belief; one of it keeps its id."""
    own = others[version.fact_id]
    is_own = version.source_memory_id not in memories
    keeps_words = is_own and _words(version) in own.words
    groups: list[tuple[datetime, datetime | None, list[StoredVersion]]] = []
    for begin, end, believed in _periods(version, own):
        parts = _parts(version, believed, keeps_words=keeps_words)
        if groups and _are_all_same(groups[-1][2], parts):
            since, _, same = groups.pop()
            groups.append((since, end, same))
        else:
            groups.append((begin, end, parts))
    left = [
        replace(one, recorded_at=begin, retired_at=end)
        for begin, end, parts in groups
        for one in parts
    ]
    if len(left) == 1 and _are_same(left[0], version):
        return left
    # What was decided about a version was decided about its end.
    keeper = next((n for n, v in enumerate(left) if v.retired_at == version.retired_at), None)
    return [
        replace(v, origin=Origin.REMAINDER, version_id=version.version_id if n == keeper else "")
        for n, v in enumerate(left)
    ]


def _periods(
    version: StoredVersion, own: _Others
) -> Iterator[tuple[datetime, datetime | None, Sequence[StoredVersion | Assertion]]]:
    """Yield what others would have had the lake believe of a fact while it believed a version."""
    begin, end = version.recorded_at, version.retired_at
    if begin == end:
        # Believed for no time at all: what lost as it was said.
        yield begin, end, own.said.beside(version)
        return
    found = own.believed.beside(version)
    # In the order of the planner, so of their beginnings.
    begun = defaultdict[datetime, list[int]](list)
    over = defaultdict[datetime, list[int]](list)
    for place, one in enumerate(found):
        begun[max(one.recorded_at, begin)].append(place)
        if isinstance(one, StoredVersion) and one.retired_at is not None:
            over[one.retired_at].append(place)
    changes = {when for when in (*begun, *over) if begin < when and (end is None or when < end)}
    live: dict[int, StoredVersion | Assertion] = {}
    for since, until in pairwise([begin, *sorted(changes), end]):
        assert since is not None  # noqa: S101 (only the last is ever open)
        for place in over.get(since, ()):
            del live[place]
        live |= {place: found[place] for place in begun.get(since, ())}
        yield since, until, list(live.values())


def _parts(
    version: StoredVersion, others: Sequence[StoredVersion | Assertion], *, keeps_words: bool
) -> list[StoredVersion]:
    """Return what a version shares with others, in their words where it must not keep its own."""
    parts: list[StoredVersion] = []
    free = [version.window]
    for other in others:
        if not free:
            break
        shared = _taken(free, other.window)
        if keeps_words:
            parts += [replace(version, window=window) for window in shared]
            continue
        parts += [
            replace(
                version, subject=other.subject, object=other.object, window=window,
                source_memory_id=other.source_memory_id,
            )
            for window in shared
        ]  # fmt: skip
    return parts


def _taken(free: list[Window], wanted: Window) -> list[Window]:
    """Take a window out of free ones, and return what of it was free; all in order of time."""
    first = max(bisect_right(free, wanted.start, key=_start) - 1, 0)
    last = len(free) if wanted.end is None else bisect_left(free, wanted.end, first, key=_start)
    among = free[first:last]
    free[first:last] = [part for window in among for part in minus(window, wanted)]
    return [part for window in among for part in common(window, wanted)]


def _start(window: Window) -> datetime:
    return window.start


def _bounds(window: Window) -> tuple[int, int]:
    return nanoseconds(window.start), _NEVER if window.end is None else nanoseconds(window.end)


def _believed(one: StoredVersion | Assertion) -> tuple[int, int]:
    """Return from when until when something is believed; what was said stays said."""
    ended = one.retired_at if isinstance(one, StoredVersion) else None
    return nanoseconds(one.recorded_at), _NEVER if ended is None else nanoseconds(ended)


def _are_all_same(some: Sequence[StoredVersion], others: Sequence[StoredVersion]) -> bool:
    return len(some) == len(others) and all(map(_are_same, some, others))


def _are_same(one: StoredVersion, two: StoredVersion) -> bool:
    # Entities are equal however they are spelled.
    return one == two and _words(one) == _words(two)


def _words(said: StoredVersion | Assertion) -> tuple[str, str]:
    return repr(said.subject), repr(said.object)
