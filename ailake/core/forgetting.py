"""What becomes of the versions of one key once some memories have never spoken. Pure.

What is left was said again, in order, by the rules that held then. Of what was believed in the
past stays what would have been believed at that instant, too; what is believed now becomes what
would be. So nothing of a forgotten memory is left, and nobody's past is made up.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, pairwise

from ailake.core.assertions import Assertion
from ailake.core.fact_versions import FactKey, Origin, StoredVersion
from ailake.core.superseding import KeyPlanner, version_id
from ailake.core.windows import Window, common, minus_all


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


@dataclass(frozen=True, slots=True)
class _Belief:
    since: datetime
    versions: tuple[StoredVersion, ...]


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
    beliefs = list(_beliefs(key, said))
    wanted = {(v.fact_id, v.window): v for v in beliefs[-1].versions} if beliefs else {}
    replaced, stored = [], []
    for version in versions:
        left = [_ended(v, wanted, present) for v in _left(version, beliefs, said, memories)]
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


def _beliefs(key: FactKey, said: Sequence[Assertion]) -> Iterator[_Belief]:
    """Yield what would have been believed from each instant on at which something was said."""
    if not said:
        return
    since = said[0].recorded_at
    planner = KeyPlanner(key, (), now=since)
    for one in said:
        if one.recorded_at > since:
            yield _Belief(since, planner.live)
            since = one.recorded_at
        planner.replay(one)
    yield _Belief(since, planner.live)


def _left(
    version: StoredVersion,
    beliefs: Sequence[_Belief],
    said: Sequence[Assertion],
    memories: Collection[str],
) -> list[StoredVersion]:
    """Return what is left of a version, in order of belief; one of it keeps its id."""
    own = [one for one in said if one.is_assert and one.fact_id == version.fact_id]
    is_own = version.source_memory_id not in memories
    keeps_words = is_own and _words(version) in {_words(one) for one in own}
    groups: list[list[StoredVersion]] = []
    for begin, end, others in _periods(version, beliefs, own):
        parts = _parts(version, others, keeps_words=keeps_words)
        dated = [replace(one, recorded_at=begin, retired_at=end) for one in parts]
        if groups and _continues(groups[-1], dated):
            dated = [replace(one, retired_at=end) for one in groups.pop()]
        groups.append(dated)
    left = [one for group in groups for one in group]
    if len(left) == 1 and _are_same(left[0], version):
        return left
    # What was decided about a version was decided about its end.
    keeper = next((n for n, v in enumerate(left) if v.retired_at == version.retired_at), None)
    return [
        replace(v, origin=Origin.REMAINDER, version_id=version.version_id if n == keeper else "")
        for n, v in enumerate(left)
    ]


def _periods(
    version: StoredVersion, beliefs: Sequence[_Belief], own: Sequence[Assertion]
) -> Iterator[tuple[datetime, datetime | None, Sequence[StoredVersion | Assertion]]]:
    """Yield what others would have had the lake believe of a fact while it believed a version."""
    begin, end = version.recorded_at, version.retired_at
    if begin == end:
        # Believed for no time at all: what lost as it was said.
        yield begin, end, [one for one in own if one.recorded_at <= begin]
        return
    changes = [
        one.since for one in beliefs if begin < one.since and (end is None or one.since < end)
    ]
    for since, until in pairwise([begin, *changes, end]):
        assert since is not None  # noqa: S101 (only the last is ever open)
        place = bisect_right(beliefs, since, key=lambda one: one.since) - 1
        live = beliefs[place].versions if place >= 0 else ()
        yield since, until, [one for one in live if one.fact_id == version.fact_id]


def _parts(
    version: StoredVersion, others: Sequence[StoredVersion | Assertion], *, keeps_words: bool
) -> list[StoredVersion]:
    """Return what a version shares with others, in their words where it must not keep its own."""
    parts: list[StoredVersion] = []
    for other in others:
        worded = version
        if not keeps_words:
            worded = replace(
                version, subject=other.subject, object=other.object,
                source_memory_id=other.source_memory_id,
            )  # fmt: skip
        for shared in common(version.window, other.window):
            left = minus_all(shared, [one.window for one in parts])
            parts += [replace(worded, window=window) for window in left]
    return parts


def _continues(before: Sequence[StoredVersion], after: Sequence[StoredVersion]) -> bool:
    return len(before) == len(after) and all(
        _are_same(replace(one, recorded_at=two.recorded_at, retired_at=two.retired_at), two)
        for one, two in zip(before, after, strict=True)
    )


def _are_same(one: StoredVersion, two: StoredVersion) -> bool:
    # Entities are equal however they are spelled.
    return one == two and _words(one) == _words(two)


def _words(said: StoredVersion | Assertion) -> tuple[str, str]:
    return repr(said.subject), repr(said.object)
