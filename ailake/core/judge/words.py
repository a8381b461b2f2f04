"""A text as the rules read it: one form of every character, and its words in order."""

import re
from functools import cache
from unicodedata import normalize

from ailake.core.judge.lexicon import lexicon

# Han and kana are one word each: what is compared is their order. Hangul has spaces.
_CJK = r"\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CJK += r"\U00020000-\U0003ffff"
CJK = re.compile(f"[{_CJK}]")
_LETTERS = rf"(?:(?![{_CJK}])[^\W\d_])(?:(?![{_CJK}])[^\W\d_]|\u0300-\u036f)*"
WORD = re.compile(
    rf"\d+(?:[.,:/]\d+)*|{_LETTERS}(?:[-&]{_LETTERS})*|'s(?!{_LETTERS})|[{_CJK}]|[^\s\w]|\w"
)

_LOOKS = str.maketrans(
    {
        **dict.fromkeys("‘’‛ʼ`´", "'"),
        **dict.fromkeys("“”„‟«»「」『』", '"'),
        "\u2212": "-",
        "\u200b": "",
        "\u037e": "?",
    }
)
# In Greek a semicolon asks; one letter alone may be a symbol in another language.
_ASKING_IN_GREEK = re.compile("(?<=[\u0370-\u03ff\u1f00-\u1fff]{2});")
_IS = r"\b(he|she|it|that|this|there|here|what|who|where|how|when)'s\b"
# What a text must have to hold the contraction, the contraction, and what it stands for.
_CONTRACTIONS = (
    ("won", re.compile(r"\b(?:won't|wont)\b"), "will not"),
    ("can", re.compile(r"\bcan't\b|\bcannot\b|\bcant\b"), "can not"),
    (
        "t",
        re.compile(r"\b(do|does|did|is|was|are|were|has|have|had|would|could|should)n'?t\b"),
        r"\1 not",
    ),
    ("n't", re.compile(r"n't\b"), " not"),
    ("m", re.compile(r"\b(i)'?m\b"), r"\1 am"),
    ("'re", re.compile(r"'re\b"), " are"),
    ("'ve", re.compile(r"'ve\b"), " have"),
    ("'ll", re.compile(r"'ll\b"), " will"),
    ("'s", re.compile(_IS), r"\1 is"),
)


def plain(text: str) -> str:
    """Return the text in lower case, NFKC, simplified characters, English without contractions."""
    folded = normalize("NFKC", text.translate(_LOOKS)).casefold().translate(_LOOKS)
    if not folded.isascii():
        folded = _ASKING_IN_GREEK.sub("?", folded.translate(_simplified()))
    for part, pattern, full in _CONTRACTIONS:
        if part in folded:
            folded = pattern.sub(full, folded)
    return folded


def words_of(text: str) -> tuple[str, ...]:
    """Return the words and marks of a plain text in order; Han and kana one by one."""
    return tuple(WORD.findall(text))


@cache
def _simplified() -> dict[int, str]:
    pairs = lexicon("characters")["pairs"].split()
    return {ord(pair[0]): pair[1] for pair in pairs}
