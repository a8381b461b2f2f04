"""The word lists of the rules: package data, read once, at the first use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any

# What joins onto a Latin letter makes another word of it; Chinese beside it does not.
_LETTER = r"[^\W\d_\u2e80-\u9fff\uf900-\ufaff]"

# No letter follows on a letter: "now" is not in "know". It stands once after all phrases, by which
# characters these end in: the set takes a millisecond to compile.
_BORDERS = {
    frozenset({True}): f"(?!{_LETTER})",
    frozenset({False}): "",
    frozenset({True, False}): f"(?:(?<!{_LETTER})|(?!{_LETTER}))",
}

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
    ends_in_letter = set()
    for word in words:
        branch = tree
        for character in " ".join(word.split()):
            branch = branch.setdefault(character, {})
        branch[_END] = {}
        ends_in_letter.add(is_letter(word[-1]))
    return _either(_bordered(_branches(tree))) + _BORDERS[frozenset(ends_in_letter)]


def _branches(tree: Mapping[str, Any]) -> dict[str, str]:
    return {
        character: (r"\s+" if character == " " else re.escape(character)) + _pattern(branch)
        for character, branch in sorted(tree.items())
        if character != _END
    }


def _pattern(tree: Mapping[str, Any]) -> str:
    ends = [""] if _END in tree else []
    return _either([*_branches(tree).values(), *ends])


def _bordered(branches: Mapping[str, str]) -> list[str]:
    """Let none begin in the middle of a word; asked once per place, and not for each of them."""
    words = [one for character, one in branches.items() if is_letter(character)]
    others = [one for character, one in branches.items() if not is_letter(character)]
    return [f"(?<!{_LETTER}){_either(words)}", *others] if words else others


@cache
def is_letter(character: str) -> bool:
    """Tell whether what joins onto a character would make another word of it."""
    return re.match(_LETTER, character) is not None


def _either(patterns: Sequence[str]) -> str:
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"
