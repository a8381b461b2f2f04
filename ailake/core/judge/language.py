"""Whether a sentence is in a language whose words are known well enough to add some to it.

Of others only sentences of the same words are the same.
"""

import re
from collections.abc import Sequence
from functools import cache

from ailake.core.judge.grammar import grammar
from ailake.core.judge.lexicon import lexicon
from ailake.core.judge.words import CJK

_KANA_OR_HANGUL = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\uac00-\ud7af]")
# What English and Chinese texts have beside Han: Latin letters, in names with accents, too.
_OTHER_LETTERS = re.compile(
    "[^\\W\\d_\u0000-\u024f\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def is_understood(tokens: Sequence[str], text: str) -> bool:
    """Tell whether a sentence is recognisably English or Chinese.

    Args:
        tokens: Its words.
        text: The sentence.
    """
    if not text.isascii():
        if _KANA_OR_HANGUL.search(text) or _OTHER_LETTERS.search(text):
            return False
        if CJK.search(text):
            return True
    evidence, words, known = _english()
    if not evidence.isdisjoint(tokens):
        return True
    if words.isdisjoint(tokens):
        return False
    found = {token for token in tokens if token in known or grammar().is_ing(token)}
    return len(found) > 1


@cache
def _english() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the words that no other language has, those of grammar, and all that are known."""
    rules, lists = grammar(), lexicon("harmless")
    words = frozenset(lists["grammar"])
    known = [rules.adjectives, rules.adverbs, rules.kinds, rules.same, rules.prepositions]
    known += [lists["surroundings"], rules.clothes]
    return frozenset([*lists["english"], *lists["verbs"]]), words, words.union(*known)
