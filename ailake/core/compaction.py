"""Which fragments are rewritten, and which old versions removed. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from ailake.core.episodic import unit_interval
from ailake.core.instants import EARLIEST
from ailake.errors import InvalidInputError

# Up to so many rows a fragment is merged with whatever stands beside it. A larger one only with as
# many rows again: otherwise a weekly run would rewrite most of the table for a week's writes.
_ALWAYS_MERGED = 131_072

_LEAST = {"keep_versions": timedelta(minutes=1), "orphan_grace": timedelta(hours=1)}


class Reason(StrEnum):
    """Why fragments are rewritten; of several the first counts."""

    SMALL = "small"
    DELETIONS = "deletions"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as the plan sees it.

    Attributes:
        id: Its number.
        rows: Physical rows, deleted ones included.
        deleted: How many of them are deleted.
        files: How many column files it consists of.
        parts: Which parts of indexes cover it; only neighbours with the same ones are merged.
    """

    id: int
    rows: int
    deleted: int = 0
    files: int = 1
    parts: frozenset[str] = frozenset()

    @property
    def live(self) -> int:
        """Rows that are not deleted."""
        return self.rows - self.deleted


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Fragments that become one, in one commit.

    Attributes:
        fragments: Their numbers, in the table's order.
        rows: Live rows that are copied.
        deleted: Deleted rows that are left out.
        files: Column files that become one.
        reason: Why.
    """

    fragments: tuple[int, ...]
    rows: int
    deleted: int
    files: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When fragments are rewritten, and what of the past is kept.

    Attributes:
        target_rows: Fragments of fewer rows are merged with their neighbours, up to so many.
        max_deleted: Fragments with a larger share of deleted rows are rewritten, in [0, 1].
        max_files: Fragments of more column files are rewritten; decay makes at most one or two
            beside the first, and a rewrite copies the vectors, too.
        keep_versions: Versions younger than that stay, and tagged ones; at least a minute,
            because whoever reads has one in hand.
        orphan_grace: Files that no version names are removed when they are older; at least an
            hour, because a writer names its files only when it commits.

    Raises:
        InvalidInputError: A field is of the wrong type or out of range.
    """

    target_rows: int = 1_048_576
    max_deleted: float = 0.1
    max_files: int = 3
    keep_versions: timedelta = timedelta(days=7)
    orphan_grace: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        for name in ("target_rows", "max_files"):
            value: object = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidInputError.of(name, got=value, wanted="a whole number >= 1")
        share = unit_interval(self.max_deleted, name="max_deleted")
        object.__setattr__(self, "max_deleted", share)
        for name, least in _LEAST.items():
            age: object = getattr(self, name)
            if not isinstance(age, timedelta) or age < least:
                raise InvalidInputError.of(name, got=age, wanted=f"a timedelta >= {least}")


def plan_rewrites(fragments: Sequence[Fragment], policy: CompactionPolicy) -> tuple[Rewrite, ...]:
    """Return which fragments are to become one, in the table's order.

    Args:
        fragments: All of a table, in its order.
        policy: When they are rewritten.
    """
    planned: list[Rewrite] = []
    runs = groupby(fragments, lambda one: (one.live < policy.target_rows, one.parts))
    for (is_small, _), neighbours in runs:
        run = list(neighbours)
        for group in _bins(run, policy.target_rows) if is_small else ([one] for one in run):
            reason = _reason(group, policy)
            if reason is not None:
                planned.append(_rewrite(group, reason))
    return tuple(planned)


def old_versions(
    created_at: Mapping[int, datetime], tagged: Sequence[int], *, now: datetime, keep: timedelta
) -> tuple[int, ...]:
    """Return the versions to remove: neither the latest, nor tagged, nor younger than ``keep``.

    Args:
        created_at: When each kept version was made.
        tagged: Versions that a tag names.
        now: The present.
        keep: What may stay.
    """
    cutoff = now - keep if keep < now - EARLIEST else EARLIEST
    stays = {*tagged, max(created_at, default=0)}
    old = (one for one, made in created_at.items() if made < cutoff and one not in stays)
    return tuple(sorted(old))


def _bins(run: list[Fragment], target: int) -> Iterator[list[Fragment]]:
    """Cut neighbours into groups of at most ``target`` live rows."""
    group: list[Fragment] = []
    for one in run:
        if group and sum(other.live for other in group) + one.live > target:
            yield from _worthwhile(group)
            group = []
        group.append(one)
    yield from _worthwhile(group)


def _worthwhile(group: list[Fragment]) -> Iterator[list[Fragment]]:
    """Set large fragments aside that have more rows than all those beside them."""
    largest = max(range(len(group)), key=lambda place: group[place].live, default=None)
    if largest is None:
        return
    rows = group[largest].live
    if len(group) == 1 or rows <= max(_ALWAYS_MERGED, sum(one.live for one in group) - rows):
        yield group
        return
    yield from _worthwhile(group[:largest])
    yield [group[largest]]
    yield from _worthwhile(group[largest + 1 :])


def _reason(group: Sequence[Fragment], policy: CompactionPolicy) -> Reason | None:
    if len(group) > 1:
        return Reason.SMALL
    (one,) = group
    if one.deleted > one.rows * policy.max_deleted:
        return Reason.DELETIONS
    return Reason.FILES if one.files > policy.max_files else None


def _rewrite(group: Sequence[Fragment], reason: Reason) -> Rewrite:
    return Rewrite(
        fragments=tuple(one.id for one in group),
        rows=sum(one.live for one in group),
        deleted=sum(one.deleted for one in group),
        files=sum(one.files for one in group),
        reason=reason,
    )
