"""Which small fragments are merged, so that there are few of them and a row moves rarely. Pure."""

from collections.abc import Sequence
from itertools import pairwise

# A tier holds the fragments of at least one and less than the next of these numbers of rows.
# Large fragments are left to maintenance.
TIERS = (0, 64, 1_024, 16_384, 131_072)

# Every fragment costs each search about a third of a millisecond.
MAX_SMALL_FRAGMENTS = 6


def merge_target(sizes: Sequence[int], *, most: int) -> int | None:
    """Return the number of rows up to which fragments are to be merged, None for not now.

    Fragments of fewer rows are merged into fragments of at most that many. The smallest tier with
    more than ``most`` fragments is merged, so that most rows that move are few and young: a row
    moves a few times per tier in its life. Where a tier's fragments are too large to be packed
    into half as many, they are merged into the next one.

    Args:
        sizes: Physical rows of each fragment.
        most: Up to this many fragments of a tier stay as they are.
    """
    tiers = list(pairwise(TIERS))
    for (least, bound), (_, wider) in zip(tiers, [*tiers[1:], tiers[-1]], strict=True):
        tier = [size for size in sizes if least <= size < bound]
        if len(tier) > most:
            return bound if 2 * sum(tier) <= bound * len(tier) else wider
    return None
