"""What is obviously not worth keeping, by the looks of a new memory alone.

Five kinds: greetings, thanks and acknowledgements; bare questions and requests; momentary states
and one-off chores; machine noise; no content. A memory that is none of these is kept, and one that
is stays for a while, as deferred.
"""

import re
from functools import cache

from ailake.core.judge.features import features
from ailake.core.judge.lexicon import lexicon, phrases
from ailake.core.judge.verdict import MemoryItem
from ailake.core.judge.words import CJK
from ailake.core.prompts import is_recalled
from ailake.core.records import SourceClass

_SENTENCE = re.compile(r"[^.!?。！？;；\n…]+[.!?。！？;；\n…]*")
_MARKS = re.compile(r"[\W_]+")
_LEVEL = r"(?:debug|info|warn(?:ing)?|error|fatal|trace)"
_NOISE = re.compile(
    r"^(?:\s*traceback \(most recent call last\)|\s+at [\w.$<>]+\([^)]*:\d+\)"
    r"|\s*file \".*\", line \d+|\s*exit code:? -?\d+|\s*(?:\$|>>>) \S+"
    rf"|\[?\d{{4}}-\d\d-\d\d[t ]\d\d:\d\d:\d\d\S*\]?\s+\[?{_LEVEL}\b"
    rf"|\[?{_LEVEL}\]?[: ].*\d\d:\d\d:\d\d"
    r"|\s*(?:system|assistant) prompt:|\s*<\?xml|\s*<!doctype"
    r"|you are an? (?:helpful|ai|expert|assistant|large language model))"
    r"|heartbeat(?:_ok| ok|: ok)"
    r"|<\|?(?:im_start|im_end|system|endoftext|tool_call|function_call)\b",
    re.MULTILINE,
)
_JSON = re.compile(r"^\s*(?:\{\s*\".*\}|\[\s*[\[{\"].*\])\s*$", re.DOTALL)


def retention(item: MemoryItem) -> bool:
    """Tell whether a new memory is worth keeping; in doubt it is."""
    return low_value(item) == ""


def low_value(item: MemoryItem) -> str:
    """Return the kind of low value of a memory, ``N1`` to ``N5``; empty where it has none."""
    text = features(item.text).plain
    if item.source == SourceClass.RECALLED or is_recalled(item.text) or _is_noise(text):
        return "N4"
    words = _MARKS.sub(" ", text).strip()
    if not re.search(r"[^\W\d_]", words):
        return "N5"
    if _pattern("greetings").fullmatch(words):
        return "N1"
    if _is_moment(words):
        return "N3"
    if _is_lone(words):
        return "N5"
    return "N2" if _only_asks(text) else ""


def _is_noise(text: str) -> bool:
    return _NOISE.search(text) is not None or _JSON.match(text) is not None


def _is_lone(words: str) -> bool:
    """One word of an alphabet, or two characters of Chinese, say nothing of anybody."""
    return len(words) <= 2 if CJK.search(words) else " " not in words


def _only_asks(text: str) -> bool:
    said = (sentence[0].strip() for sentence in _SENTENCE.finditer(text))
    return all(map(_asks, filter(None, said))) and not _opening("keeps").search(text)


def _asks(sentence: str) -> bool:
    words = lexicon("retention")
    said = sentence.rstrip("!.。！;；…~ ")
    if said.endswith(tuple(words["question_marks"])):
        # "I love hiking, do you?" tells something before it asks.
        return not re.search(r"[,，]", said) or _opening("asks").match(said) is not None
    bare = _MARKS.sub(" ", said).strip()
    if bare == "" or _pattern("greetings").fullmatch(bare):
        return True
    return _opening("requests").match(said) is not None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{phrases(lexicon('retention')[name])}\s*)+")


@cache
def _opening(name: str) -> re.Pattern[str]:
    return re.compile(phrases(lexicon("retention")[name]))


@cache
def _moment() -> re.Pattern[str]:
    words = lexicon("retention")
    before, states, after = (
        phrases(words[name]) for name in ("moment_openings", "moments", "moment_endings")
    )
    return re.compile(rf"(?:{before}\s*)*{states}\s*(?:{after}\s*)*")


def _is_moment(words: str) -> bool:
    return _moment().fullmatch(words) is not None
