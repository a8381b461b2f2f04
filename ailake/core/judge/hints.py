"""What a text must have for a rule to find anything in it: most texts have not, and are told fast.

Only of texts in ASCII: there every phrase of the word lists is made of whole words.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from ailake.core.judge.lexicon import lexicon

_RUNS = re.compile("[a-z]+")
_DIGITS = re.compile(r"\d")

# Endings of words that are compared in another form than written.
_REWRITTEN = ("there", "and", "be", "being", "by", "was")
_CHANGING = ("ing", "ed", "ly")

# Lists whose words are neither dropped nor read as others, unless another list has them, too.
_AS_WRITTEN = ("adjectives", "possessives", "pronouns", "strict", "unsafe")

# Make and making, stop and stopping begin alike for so many letters.
_HEAD = 3


def runs_of(text: str) -> frozenset[str]:
    """Return the runs of ASCII letters of a plain text."""
    return frozenset(_RUNS.findall(text))


def needles(phrases: Iterable[str]) -> frozenset[str]:
    """Return runs of letters, of which a text with a phrase in ASCII has one.

    As few as will do: "now" tells of "right now", too, and so "right" is none.
    """
    found: set[str] = set()
    for runs in sorted((sorted(runs_of(one)) for one in phrases if one.isascii()), key=len):
        if found.isdisjoint(runs):
            found.add(max(runs, key=len))
    return frozenset(found)


def is_without(text: str, words: frozenset[str], *, digits: bool) -> bool:
    """Tell whether a plain text has none of the words for certain, and no digit.

    Args:
        text: The text.
        words: Runs of letters.
        digits: A digit is one of what is looked for.
    """
    if not text.isascii() or (digits and _DIGITS.search(text)):
        return False
    return words.isdisjoint(_RUNS.findall(text))


def heads_of(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a plain text, which its verbs keep in every form."""
    return frozenset(one[:_HEAD] for one in runs_of(text))


def own_heads(text: str) -> frozenset[str]:
    """Return beginnings of words that what contains a plain text has, too.

    Of words in no list alone, and so for texts that deny as for others; none of another script.
    """
    if not text.isascii():
        return frozenset()
    return frozenset(filter(None, map(_own_head, runs_of(text))))


@lru_cache(maxsize=8_192)
def _own_head(word: str) -> str:
    """Return how a word begins that is compared as written, or in the forms of a verb; or empty."""
    kept = len(word) > _HEAD and not word.endswith(_CHANGING) and not _is_listed(word)
    return word[:_HEAD] if kept else ""


def _is_listed(word: str) -> bool:
    """Tell whether a word, or what it is the plural of, is in a list of English words."""
    singulars = (word, word[:-1], word[:-2], f"{word[:-3]}y") if word[-1] == "s" else (word,)
    return not _all_listed().isdisjoint(singulars)


@cache
def _all_listed() -> frozenset[str]:
    english = {name: words for name, words in lexicon("english").items() if name not in _AS_WRITTEN}
    lists = (lexicon("quantities"), english, lexicon("nouns"), _REWRITTEN)
    return frozenset(run for words in lists for one in _strings(words) for run in runs_of(one))


def _strings(value: object) -> Iterable[str]:
    """Yield every string in a word list, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key)
            yield from _strings(one)
    elif isinstance(value, Iterable):
        for one in value:
            yield from _strings(one)
