"""What is obviously not worth keeping, by the looks of a new memory alone.

Five kinds: greetings, thanks and acknowledgements; bare questions and requests; momentary states
and one-off chores; machine noise; no content. A memory that is none of these is kept, and one that
is stays for a while, as deferred.
"""

import re
from functools import cache

from ailake.core.judge.asking import only_asks, words_of
from ailake.core.judge.features import features
from ailake.core.judge.lexicon import lexicon, phrases
from ailake.core.judge.noise import is_noise
from ailake.core.judge.tiling import tiles
from ailake.core.judge.verdict import MemoryItem
from ailake.core.judge.words import CJK
from ailake.core.prompts import is_recalled
from ailake.core.records import SourceClass

# Who speaks to the model in these roles is a program, whatever it says.
_MACHINES = frozenset({"system", "developer", "tool", "function"})

_SENTENCE = re.compile(r"[^.!?。！？;；\n…]+[.!?。！？;；\n…]*")
_LETTER = re.compile(r"[^\W\d_]")

# Thai, Lao, Tibetan, Burmese, Khmer, Javanese and their like have no spaces between words, and
# Korean is also written without: a run of letters may be a sentence.
_RUNS_ON = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
    "\u1b00-\u1b7f\ua980-\ua9df\ua9e0-\ua9ff\uaa00-\uaa7f\uac00-\ud7ff]"
)
_LONGEST_CJK, _LONGEST_RUN = 2, 4


def retention(item: MemoryItem) -> bool:
    """Tell whether a new memory is worth keeping; in doubt it is."""
    return low_value(item) == ""


def low_value(item: MemoryItem) -> str:
    """Return the kind of low value of a memory, ``N1`` to ``N5``; empty where it has none."""
    text = features(item.text).plain
    if _is_of_a_machine(item) or is_noise(text, item.text):
        return "N4"
    words = words_of(text)
    if not _LETTER.search(words):
        return "N5"
    if tiles("greetings").cover(words):
        return "N1"
    if _is_moment(words):
        return "N3"
    if _is_lone(words):
        return "N5"
    return "N2" if _only_asks(text) else ""


def _is_of_a_machine(item: MemoryItem) -> bool:
    recalled = item.source == SourceClass.RECALLED or is_recalled(item.text)
    return recalled or item.role in _MACHINES


def _is_lone(words: str) -> bool:
    """One word of an alphabet, or two characters of Chinese, say nothing of anybody."""
    if CJK.search(words):
        return len(words) <= _LONGEST_CJK
    if " " in words:
        return False
    return len(words) <= _LONGEST_RUN or _RUNS_ON.search(words) is None


def _only_asks(text: str) -> bool:
    said = (sentence[0].strip() for sentence in _SENTENCE.finditer(text))
    return all(map(only_asks, filter(None, said))) and not _keeps().search(text)


@cache
def _keeps() -> re.Pattern[str]:
    return re.compile(phrases(lexicon("retention")["keeps"]))


def _is_moment(words: str) -> bool:
    before = tiles("moment_openings").reach(words, {0})
    states = {end for start in before for end in tiles("moments").ends(words, start)}
    return len(words) in tiles("moment_endings").reach(words, states)
