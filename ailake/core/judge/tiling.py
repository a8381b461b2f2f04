"""Texts that are made of listed phrases alone.

The phrases are made of one another (bye and bye bye, 嗯 and 嗯嗯), so that a pattern would try
every way to cut a text into them, and twice as many with each character. Here each place of a text
is looked at once.
"""

from collections.abc import Iterable, Iterator
from functools import cache

from ailake.core.judge.lexicon import is_letter, lexicon


class Tiles:
    """Phrases, each a whole word or some, of texts whose words have one space between them."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self._by_first: dict[str, list[str]] = {}
        for phrase in phrases:
            self._by_first.setdefault(phrase[0], []).append(phrase)

    def ends(self, text: str, start: int) -> Iterator[int]:
        """Yield where the phrases end that begin at a place, behind the space that follows."""
        if _cuts(text, start):
            return
        for phrase in self._by_first.get(text[start : start + 1], ()):
            end = start + len(phrase)
            if text.startswith(phrase, start) and not _cuts(text, end):
                yield end + (text[end : end + 1] == " ")

    def reach(self, text: str, starts: Iterable[int]) -> set[int]:
        """Return the places that any number of phrases lead to, none of them too."""
        met = set(starts)
        waiting = list(met)
        while waiting:
            for end in self.ends(text, waiting.pop()):
                if end not in met:
                    met.add(end)
                    waiting.append(end)
        return met

    def cover(self, text: str) -> bool:
        """Tell whether a text that is not empty is made of phrases alone."""
        return text != "" and len(text) in self.reach(text, {0})


@cache
def tiles(name: str) -> Tiles:
    """Return the phrases of a list in the lexicon of retention."""
    return Tiles(lexicon("retention")[name])


def _cuts(text: str, place: int) -> bool:
    """Tell whether a place is within a word; Chinese beside a letter is no part of its word."""
    return 0 < place < len(text) and is_letter(text[place - 1]) and is_letter(text[place])
