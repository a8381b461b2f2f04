"""The word lists of the rules: package data, read once, at the first use."""

import re
from collections.abc import Iterable, Mapping
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
    branches = [
        (_border("<!", character) if first else "")
        + (r"\s+" if character == " " else re.escape(character))
        + _pattern(branch)
        for character, branch in sorted(tree.items())
        if character != _END
    ]
    if ends is not None:
        branches.append(ends)
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _border(side: str, character: str) -> str:
    """Let no letter follow on, or go before, a letter: "now" is not in "know"."""
    return f"(?{side}{_LETTER})" if re.match(_LETTER, character) else ""
