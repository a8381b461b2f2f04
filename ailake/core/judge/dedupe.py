"""The key under which two texts are the same memory.

An equal key skips a memory before any other rule has a say, so the key errs on one side only: a
duplicate that it misses costs a row, two facts that it equates cost a memory.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from unicodedata import category, decimal, decomposition, is_normalized, normalize

# Han, kana, bopomofo, their punctuation and full-width marks; not Hangul, Korean has spaces.
_CJK = (
    "[\u2e80-\u2fdf\u3001-\u312f\u31a0-\u31ff\u3400-\u9fff\uf900-\ufaff\ufe30-\ufe4f"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
_SPACES_IN_CJK = re.compile(f"(?<={_CJK}) (?={_CJK})")

# Looks that keyboards and editors choose for the writer: quotes, hyphens, invisible characters.
# The joiners U+200C and U+200D stay, they change words and emoji; so do dashes and primes.
_LOOKS = str.maketrans(
    {
        **dict.fromkeys("‘’‛ʼ", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("\u2010\u2011\u2212", "-"),
        **dict.fromkeys("\u00ad\u061c\u200b\u200e\u200f\u2060\ufeff", ""),
    }
)

# NFKC turns 2² into 22, 1½ into 11⁄2 and ① into 1: these stay as they are.
_KEPT_FORMS = ("<super>", "<sub>", "<circle>")

# A question is not a statement and a colon announces something: ? and : are not dropped.
_FINAL_MARKS = frozenset(".,;。、।")
# In Greek it asks. U+037E is the same mark, which NFKC writes as a semicolon.
_GREEK_ASKING = "\u037e"
_GREEK = re.compile("[\u0370-\u037d\u037f-\u03ff\u1f00-\u1fff]")
_CLOSING = frozenset(")]\"'")


def dedupe_key(text: str) -> str:
    """Return the text's key: equal keys mean the same memory in the same words.

    Case, Unicode width, the look of quotes and hyphens, invisible characters, the length of
    whitespace, spaces between Chinese or Japanese characters, and one closing mark after the last
    word do not count. Everything else does: digits and whatever touches them, punctuation inside
    the text, ``? % + # @ &``, emoji, superscripts.

    Returns:
        The key, empty only where the text has no visible character; an empty key equals nothing.
    """
    if text.isascii():
        return _without_final_mark(" ".join(text.lower().split()))
    # The looks come before and after: NFKC makes new hyphens, and may join what they kept apart.
    shown = _close_up(_one_space(text.translate(_LOOKS)))
    folded = _compatible(_compatible(shown).casefold())
    key = _close_up(_one_space(folded.translate(_LOOKS)))
    return key if key.endswith(";") and asks_in_greek(text) else _without_final_mark(key)


def asks_in_greek(text: str) -> bool:
    """Tell whether a text's semicolons are question marks, as they are in Greek."""
    return _GREEK_ASKING in text or _GREEK.search(text) is not None


def dedupe_digest(key: str) -> str:
    """Return the key as 32 hex digits (BLAKE2b, 128 bits) of its UTF-8; empty for an empty key."""
    return blake2b(key.encode(), digest_size=16).hexdigest() if key else ""


def _one_space(text: str) -> str:
    return " ".join(text.split())


def _close_up(text: str) -> str:
    """Remove the spaces between CJK characters; 三 五 is not 三五."""
    return _SPACES_IN_CJK.sub(_space_between, text) if " " in text else text


def _space_between(match: re.Match[str]) -> str:
    before, after = match.string[match.start() - 1], match.string[match.end()]
    return " " if before.isnumeric() and after.isnumeric() else ""


def _compatible(text: str) -> str:
    """Apply NFKC, but not to characters that would then read as other digits or letters."""
    if is_normalized("NFKC", text):
        return text
    if not any(map(_is_kept, set(text))):
        return normalize("NFKC", text)
    return "".join(
        "".join(run) if kept else normalize("NFKC", "".join(run))
        for kept, run in groupby(text, _is_kept)
    )


@lru_cache(maxsize=4096)
def _is_kept(character: str) -> bool:
    if decomposition(character).startswith(_KEPT_FORMS):
        return True
    plain = normalize("NFKC", character)
    # ㏠ is 1日, so 1㏠ would read 11日; a full-width digit is a digit.
    return plain != character and decimal(character, None) is None and _has_digit(plain)


def _has_digit(text: str) -> bool:
    return any(character.isdecimal() for character in text)


def _without_final_mark(text: str) -> str:
    if text.endswith("!"):
        body = text.rstrip("!").rstrip()
        if _is_symbol(body):
            return text
    elif text and text[-1] in _FINAL_MARKS:
        body = text[:-1].rstrip()
    else:
        return text
    return body if body and _ends_a_word(body[-1]) else text


def _is_symbol(body: str) -> bool:
    """Tell whether the last word is one Latin letter: n! is not n."""
    return body[-1:].isascii() and body[-1:].isalpha() and not body[-2:-1].isalpha()


def _ends_a_word(character: str) -> bool:
    return character.isalpha() or character in _CLOSING or category(character) in {"Mn", "Mc"}
