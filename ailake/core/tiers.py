"""Which small fragments are merged, so that there are few of them and a row moves rarely. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

# A tier holds the fragments of at least one and less than the next of these numbers of rows.
# Large fragments are left to maintenance.
TIERS = (0, 64, 1_024, 16_384, 131_072)

# Every fragment costs each search about a third of a millisecond.
MAX_SMALL_FRAGMENTS = 6

# Merging begins one earlier: fragments that different parts of an index cover stay apart, and a
# merge waits while another is busy with the table.
MANY_SMALL_FRAGMENTS = MAX_SMALL_FRAGMENTS - 1


def merge_target(sizes: Sequence[int], *, most: int) -> int | None:
    """Return the number of rows up to which fragments are to be merged, None for not now.

    Fragments of fewer rows are merged into fragments of at most that many. The smallest tier with
    more than ``most`` fragments is merged, so that most rows that move are few and young: a row
    moves a few times per tier in its life. Where a tier's fragments are too large to be packed
    into half as many, or lie apart between larger ones, they are merged into a later one; what no
    merge would make fewer is left alone.

    Args:
        sizes: Physical rows of each fragment, in the table's order.
        most: Up to this many fragments of a tier stay as they are.
    """
    tiers = list(pairwise(TIERS))
    for place, (least, bound) in enumerate(tiers):
        tier = [size for size in sizes if least <= size < bound]
        if len(tier) <= most:
            continue
        is_dense = 2 * sum(tier) > bound * len(tier) and place + 1 < len(tiers)
        for _, target in tiers[place + is_dense :]:
            fewer = _below(sizes, target) - _below(list(merged(sizes, target)), target)
            if 2 * fewer >= most:
                return target
    return None


def merged(sizes: Sequence[int], target: int) -> Iterator[int]:
    """Return the sizes after the engine has merged fragments of fewer than ``target`` rows.

    It merges neighbours only, in bins of at least ``target`` rows, and cuts each bin into pieces of
    that many: seldom of more, never of fewer.
    """
    for is_small, group in groupby(sizes, lambda size: size < target):
        run = list(group)
        if not is_small or len(run) == 1:
            yield from run
            continue
        left, rows = sum(run), 0
        for size in run:
            rows += size
            left -= size
            if rows >= target and left >= target:
                yield from _pieces(rows, target)
                rows = 0
        yield from _pieces(rows, target)


def _pieces(rows: int, target: int) -> Iterator[int]:
    for start in range(0, rows, target):
        yield min(target, rows - start)


def _below(sizes: Sequence[int], target: int) -> int:
    return sum(size < target for size in sizes)
