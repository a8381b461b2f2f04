"""Stage two of recall: what the turns around a memory, and who said it, add to its own evidence.

Scores of stage two depend on which memories are looked at together, so no bound can cover them:
they reorder what stage one has proven to be the best, and add nothing to it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ailake.core.episodic import FLOAT32_EPSILON, Floats

# Stage two looks at so many of the best, and at so many for each hit that is wanted.
MIN_POOL = 100
POOL_FACTOR = 10

# In bytes of UTF-8, because a character of Chinese says as much as three of English. What is
# shorter says little by itself ("Sounds great, thanks!").
BRIEF_TURN = 150

# In bytes of UTF-8. A short turn ("Yes, in May!") is understood by those around it; a long one says
# itself what it is about, and the boost would only blur it. Measured: docs/scoring.md.
SHORT_TURN = 300
_FADING = 3

# So many turns on either side count, each for so much of what the one before it counts.
NEIGHBOURS = 2
BEHIND = 1 / 3

# The memory at this rank of the graph's list has half of the first one's evidence.
HALF_RANK = 30

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Turns:
    """What stage two needs to know of n memories.

    Attributes:
        before: Place of the turn before each one in its session, -1 where it is not among them.
        after: The same for the turn after it.
        lengths: Bytes of UTF-8 of each text, (n,).
        speakers: Who said each.
        days: When each happened, or else was written.
    """

    before: Places
    after: Places
    lengths: NDArray[np.int64]
    speakers: Sequence[str]
    days: Sequence[date]


def pool_size(limit: int) -> int:
    """Return how many of the best stage two looks at: max(100, 10 x limit)."""
    return max(MIN_POOL, POOL_FACTOR * limit)


def neighbour_evidence(near: Floats, turns: Turns) -> Floats:
    """Return how much nearer than the farthest of all the turns around each one are.

    ``evidence = sum over the two turns before and the two after of share * (max(near) - near[turn])
    * min(1, short / length)^3``, where share is 1 for the next turn and 1/3 for the one behind it,
    and length is the mean over the turn, that neighbour and what stands between: nothing of turns
    that are not among the n, of what stands behind such a one, and little of long turns.

    Args:
        near: Distances less the lexical evidence, (n,).
        turns: Of the same memories.
    """
    if not len(near):
        return np.zeros(0)
    advantage = near.max() - near
    found = np.zeros(len(near))
    for step in (turns.before, turns.after):
        place, lengths, share = step, turns.lengths.astype(np.float64), 1.0
        for count in range(2, 2 + NEIGHBOURS):
            lengths = lengths + turns.lengths[place]
            shortness = np.minimum(1.0, SHORT_TURN * count / np.maximum(lengths, 1)) ** _FADING
            found += np.where(place >= 0, share * advantage[place] * shortness, 0.0)
            place, share = np.where(place >= 0, step[place], -1), share * BEHIND
    return found


def speaker_evidence(text: str, speakers: Sequence[str]) -> Floats:
    """Return 1 for each turn whose speaker the text names, 0 for the others.

    A name is met as a whole word, in any case; of a name of several words the first will do
    ("Ana" for "Ana Lima"). A script without spaces is searched as it is.
    """
    named = {speaker: _names(text, speaker) for speaker in set(speakers)}
    return np.array([float(named[speaker]) for speaker in speakers])


def graph_evidence(ranks: Places) -> Floats:
    """Return ``1 / (1 + rank / 30)`` for what the graph leads to, 0 for what it does not.

    Args:
        ranks: Place of each in the graph's list from 0 on, -1 where it is not there.
    """
    return np.where(ranks >= 0, 1.0 / (1.0 + np.maximum(ranks, 0) / HALF_RANK), 0.0)


def brevity(lengths: NDArray[np.int64]) -> Floats:
    """Return ``ln(brief / length)`` for turns shorter than that, 0 for the others.

    Words and vectors both favour the short: what is said in five words is about nothing else.
    """
    return np.log(np.maximum(BRIEF_TURN / np.maximum(lengths, 1), 1.0))


def _names(text: str, speaker: str) -> bool:
    words = speaker.split()
    if not words:
        return False
    return any(_pattern(name).search(text) is not None for name in {speaker.strip(), words[0]})


@lru_cache(maxsize=1_024)
def _pattern(name: str) -> re.Pattern[str]:
    whole = re.escape(name)
    # No word ends between two characters of Chinese or Japanese; Korean ones have endings.
    spaced = _UNSPACED.search(name) is None
    return re.compile(rf"(?<!\w){whole}(?!\w)" if spaced else whole, re.IGNORECASE)


def final_scores(near: Floats, weight: Floats) -> Floats:
    """Return ``near / max(weight, epsilon)``, and ``near * weight`` where near is negative.

    Either way a greater weight makes a better, that is lower, score. The two meet at 0.

    Args:
        near: Distances less all evidence, which may be more than the distance.
        weight: Recency x importance, in [0, 1].
    """
    return np.asarray(
        np.where(near >= 0, near / np.maximum(weight, FLOAT32_EPSILON), near * weight)
    )
