"""The word lists of the rules: package data, read once, at the first use."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any

# What joins onto a Latin letter makes another word of it; Chinese beside it does not.
_LETTER = r"[^\W\d_\u2e80-\u9fff\uf900-\ufaff]"


@cache
def lexicon(name: str) -> Mapping[str, Any]:
    """Return one of the word lists in ``lexicons/``, as its TOML says."""
    text = files("ailake.core.judge").joinpath("lexicons", f"{name}.toml").read_text("utf-8")
    return loads(text)


def phrases(words: Iterable[str]) -> str:
    """Return a pattern that finds the longest of the phrases, as whole words.

    Chinese and Japanese have no spaces: there a phrase is found inside other characters.
    """
    ordered = sorted(set(words), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(map(_phrase, ordered)) + ")"


def _phrase(words: str) -> str:
    body = r"\s+".join(re.escape(word) for word in words.split())
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, words) else ""
    after = rf"(?!{_LETTER})" if re.match(_LETTER, words[-1]) else ""
    return f"{before}{body}{after}"
