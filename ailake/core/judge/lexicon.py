"""The word lists of the rules: package data, read once, at the first use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any

# What joins onto a Latin letter makes another word of it; Chinese beside it does not.
_LETTER = r"[^\W\d_\u2e80-\u9fff\uf900-\ufaff]"

_END = ""


@cache
def lexicon(name: str) -> Mapping[str, Any]:
    """Return one of the word lists in ``lexicons/``, as its TOML says."""
    text = files("ailake.core.judge").joinpath("lexicons", f"{name}.toml").read_text("utf-8")
    return loads(text)


def phrases(words: Iterable[str]) -> str:
    """Return a pattern that finds the longest of the phrases, as whole words.

    Chinese and Japanese have no spaces: there a phrase is found inside other characters. The
    pattern branches by character: an alternation of hundreds would be tried one by one.
    """
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for character in " ".join(word.split()):
            branch = branch.setdefault(character, {})
        branch[_END] = word[-1]
    return _pattern(tree, first=True)


def _pattern(tree: Mapping[str, Any], *, first: bool = False) -> str:
    ends = _border("!", tree[_END]) if _END in tree else None
    branches = {
        character: (r"\s+" if character == " " else re.escape(character)) + _pattern(branch)
        for character, branch in sorted(tree.items())
        if character != _END
    }
    found = _bordered(branches) if first else list(branches.values())
    if ends is not None:
        found.append(ends)
    return _either(found)


def _bordered(branches: Mapping[str, str]) -> list[str]:
    """Let none begin in the middle of a word; asked once per place, and not for each of them."""
    words = [one for character, one in branches.items() if re.match(_LETTER, character)]
    others = [one for character, one in branches.items() if not re.match(_LETTER, character)]
    return [f"(?<!{_LETTER}){_either(words)}", *others] if words else others


def _either(patterns: Sequence[str]) -> str:
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"


def _border(side: str, character: str) -> str:
    """Let no letter follow on, or go before, a letter: "now" is not in "know"."""
    return f"(?{side}{_LETTER})" if re.match(_LETTER, character) else ""
