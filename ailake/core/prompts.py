"""Recalled memories as text for a model's prompt, and the marker by which they are known again.

::

    <ailake-recalled>
    - 2026-01-31 Ana: I am allergic to peanuts
    - 2025-11-02 Ana lives in Oslo
    </ailake-recalled>

Pure.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import ceil
from unicodedata import normalize

from ailake.core.filter_values import integer
from ailake.core.records import Hit
from ailake.errors import InvalidInputError

_NAME = "ailake-recalled"
OPENING = f"<{_NAME}>"
CLOSING = f"</{_NAME}>"


def _bracket(signs: str, entity: str, decimal: str, hexadecimal: str) -> str:
    """Return a pattern for a bracket, what looks like one, and how HTML and JSON write it."""
    html = rf"&(?:{entity}|#0{{0,8}}{decimal}|#x0{{0,8}}{hexadecimal});?"
    return rf"(?:[{signs}]|{html}|\\(?:u00|x){hexadecimal})"


_LEFT = _bracket("<‹«〈《⟨﹤＜\u2329", "lt", "60", "3c")
_RIGHT = _bracket(">›»〉》⟩﹥＞\u232a", "gt", "62", "3e")
_LEFTS, _RIGHTS = (re.compile(sign, re.IGNORECASE) for sign in (_LEFT, _RIGHT))

# Arrow's engine and Python's give the same answer: no look-around, and no case folding, because
# they fold some letters differently.
MARKER = r"(?:<|&lt;|\\u003[cC])[\\/ \t\r\n]{0,8}" + "".join(
    f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in _NAME
)
_MARKER = re.compile(MARKER)

# What a reader could take for a marker; all that ``MARKER`` finds, and more.
_LOOKALIKE = re.compile(
    _LEFT + r"[\W_]{0,8}" + r"[\W_]{0,2}".join(filter(str.isalpha, _NAME)), re.IGNORECASE
)

_WORDS = re.compile("[A-Za-z ]+")


def is_recalled(text: str) -> bool:
    """Tell whether a text holds memories that were recalled for a prompt.

    One marker of ``prompt_of`` is enough, the opening or the closing one, in whatever case, and
    also with its brackets escaped as HTML or JSON do.
    """
    return _MARKER.search(text) is not None


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a model's tokenizer makes of a text, rather too many.

    A token for four ASCII letters or spaces, one for each other ASCII character, and one for two
    bytes of UTF-8 of everything else. On conversations in English that is 1.3 times what
    cl100k_base and o200k_base make of them, on Chinese ones 1.3 and 1.9 times; p50k_base makes a
    third more of Chinese than the estimate.
    """
    rest = _WORDS.sub("", text)
    others = len(rest.encode("ascii", "ignore"))
    wide = len(rest.encode()) - others
    return ceil((len(text) - len(rest)) / 4 + wide / 2) + others


def prompt_of(
    hits: Sequence[Hit],
    *,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> str:
    """Return memories as text for a prompt, a line each, between two markers.

    A line has the date of the event, else of the creation, in UTC, the speaker where there is one,
    and the text, of a long one the nearest passage. Runs of whitespace become a space, so that a
    memory stays one line, and where one says the marker itself its angle brackets become square.

    Args:
        hits: Best first.
        max_tokens: Leave out the first memory with which the whole text would have more, and all
            that follow; at least 1.
        count_tokens: Counts the tokens of a text, for a longer one not fewer; default:
            ``estimate_tokens``.

    Returns:
        The text, empty where there is no memory or not even the first one fits.

    Raises:
        InvalidInputError: An argument is wrong.
    """
    limit = None if max_tokens is None else _limit(max_tokens)
    count = estimate_tokens if count_tokens is None else count_tokens
    if not callable(count):
        raise InvalidInputError.of(
            "count_tokens", got=count, wanted="a function of a text that returns a number"
        )
    lines = [_line(hit) for hit in hits]
    kept = len(lines)
    if limit is not None:
        sizes = range(1, len(lines) + 1)
        kept = bisect_right(sizes, limit, key=lambda size: count(_block(lines[:size])))
    return _block(lines[:kept]) if kept else ""


def _limit(value: object) -> int:
    limit = integer(value)
    if limit is None or limit < 1:
        raise InvalidInputError.of("max_tokens", got=value, wanted="a whole number from 1, or None")
    return limit


def _block(lines: Sequence[str]) -> str:
    return "\n".join([OPENING, *lines, CLOSING])


def _line(hit: Hit) -> str:
    date = (hit.event_time or hit.created_at).date().isoformat()
    speaker = f"{hit.speaker}:" if hit.speaker.strip() else ""
    return _harmless(" ".join(f"- {date} {speaker} {hit.passage}".split()))


def _harmless(line: str) -> str:
    # Decomposed, so that accents and full-width letters don't hide the name.
    if not _LOOKALIKE.search(normalize("NFKD", line)):
        return line
    return _RIGHTS.sub("]", _LEFTS.sub("[", line))
