"""What a text denies, ends or dislikes, counted by kind."""

import re
from collections import Counter
from functools import cache

from ailake.core.judge.hints import is_without, needles
from ailake.core.judge.lexicon import lexicon, phrases

_DENIALS = ("not", "stop", "dislike")
_HARMLESS = "plain"
_DO_NOT = re.compile(r"\bdo\s+not\b")
_DOES_NOT = re.compile(r"\bdoes\s+not\s+([a-z]+)")
# 是不是, 能不能: a question, and no denial.
_EITHER = r"(?P<either>(?P<verb>[\u4e00-\u9fff])[不没](?P=verb))"


def negations_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return how often a plain text denies, by kind, sorted."""
    if is_without(text, _needles(), digits=False):
        return ()
    kinds = Counter(map(_kind, _pattern().finditer(text)))
    return tuple(sorted((kind, count) for kind, count in kinds.items() if kind != _HARMLESS))


def without_negations(text: str) -> str:
    """Return a plain text without what denies: likes for hates, sees for does not see."""
    return _pattern().sub(_affirmed, _DOES_NOT.sub(r"\1s", _DO_NOT.sub("", text)))


def _affirmed(found: re.Match[str]) -> str:
    kind = _kind(found)
    if kind == _HARMLESS:
        return found[0]
    if kind == "dislike":
        return "喜欢" if not found[0].isascii() else "likes" if found[0].endswith("s") else "like"
    return " "


def _kind(found: re.Match[str]) -> str:
    return _HARMLESS if found["either"] else _kinds()[" ".join(found[0].split())]


@cache
def _needles() -> frozenset[str]:
    return needles(_kinds())


@cache
def _pattern() -> re.Pattern[str]:
    # The longest phrase wins whatever its kind, so all of them are one alternation.
    return re.compile(f"{_EITHER}|{phrases(_kinds())}")


@cache
def _kinds() -> dict[str, str]:
    words = lexicon("negation")
    kinds = {
        phrase: kind
        for kind in _DENIALS
        for language in ("english", "chinese", "other")
        for phrase in words[kind][language]
    }
    harmless = [*words["plain"]["english"], *words["plain"]["chinese"]]
    return {**kinds, **dict.fromkeys(harmless, _HARMLESS)}
