"""What ties a text to a moment: dates, times of day, and words such as now or last week.

What was so at one moment and what is so at another are two facts, however alike their words; such
texts are never merged.
"""

import re
from functools import cache

from ailake.core.judge.hints import is_without, needles
from ailake.core.judge.lexicon import lexicon, phrases

# Dates and times of day that begin with a digit, and others.
_DIGITS_FIRST = (
    r"(?<!\d)\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?(?!\d)",
    r"(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?!\d)",
    r"(?<!\d)(?:1[5-9]|20)\d\d(?:'?s|\s*年|\s*년)(?![a-z])",
    # A bare year, unless it counts something or is part of a longer number.
    (
        r"(?<![\w.,:$€£¥#+-])(?:1[89]|20)\d\d"
        r"(?![\w%°:]|[.,]\d|\s+[a-z]+s(?![a-z])|\s*[kcm]?[mgl](?![a-z])|\s*[个只条张本件块元米公])"
    ),
    r"(?<!\d)\d{1,2}\s*[号日](?!线|楼|房|门|店|电池|院|机|码|本)",
    r"(?<!\d)\d+\s*(?:월|일)(?!\w)",
    r"(?<![\d:])\d{1,2}:\d{2}(?!\d)",
    r"(?<![\d.])\d{1,2}\s*(?:a\.?m|p\.?m)(?![a-z])",
    r"(?<![\d.])\d{1,2}\s*(?:点|點|时|시)(?:半|整|钟|\s*\d|(?![\w]))",
)
_OTHERS = (
    r"(?<![a-z])on\s+the\s+\d{1,2}(?:st|nd|rd|th)(?![a-z])",
    r"\w\s+o'clock(?![a-z])",
    r"[\d零〇一二三四五六七八九]{4}\s*年",
    r"[\d一二三四五六七八九十]\s*月(?:\s*[\d一二三四五六七八九十]+\s*[日号]|份|初|底|中旬|(?!饼))",
    r"[\d一二三四五六七八九十]\s*世纪",
    r"(?:早上|上午|中午|下午|晚上|凌晨|傍晚|午后)\s*(?:\d{1,2}|[一二三四五六七八九十两]+)\s*[点时]",
    r"[一二三四五六七八九十两]\s*点\s*(?:半|整|钟)",
)
_DATES = re.compile(rf"(?=\d)(?:{'|'.join(_DIGITS_FIRST)})|{'|'.join(_OTHERS)}")
_CLOCK = frozenset({"clock"})
_NEAR = (
    r"(?:in|since|until|till|from|by|of|last|next|this|during|before|after|early|late|mid|en|im|au)"
)


def find_timestamp(text: str) -> bool:
    """Tell whether a plain text names a date, a year, a month or a time of day."""
    if not is_without(text, _CLOCK, digits=True) and _DATES.search(text):
        return True
    return not is_without(text, _months(), digits=False) and _named().search(text) is not None


def find_state(text: str) -> bool:
    """Tell whether a plain text says how things are at a moment, or when that moment was."""
    if is_without(text, _moments(), digits=False):
        return False
    return any(not _is_habit(found) for found in _states().finditer(text))


@cache
def _months() -> frozenset[str]:
    words = lexicon("temporal")
    return needles([*words["months"], *words["short_months"]])


@cache
def _moments() -> frozenset[str]:
    words = lexicon("temporal")
    return needles([*words["periods"], *words["states"], *words["weekdays"], "used"])


@cache
def _named() -> re.Pattern[str]:
    words = lexicon("temporal")
    short = phrases(words["short_months"])
    named = (
        phrases(words["months"]),
        rf"(?<![a-z]){_NEAR}\s+{short}",
        rf"(?<!\d)\d{{1,4}}(?:st|nd|rd|th|\.)?\s*(?:of\s+|de\s+)?{short}",
        rf"{short}\.?\s*,?\s*\d",
    )
    return re.compile("|".join(named))


@cache
def _states() -> re.Pattern[str]:
    words = lexicon("temporal")
    pointed = rf"{phrases(words['pointers'])}\s+{phrases(words['periods'])}"
    # "used to live" was so once; "is used to make" and "got used to" were not.
    # What comes first is found or missed at once, in most places of a text.
    once = r"(?=used)(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bwere )(?<!\bam )"
    once += r"(?<!\bget )(?<!\bgot )(?<!\bbeen )(?<!\bbeing )(?<![a-z])used\s+to(?![a-z])"
    said = phrases([*words["states"], *words["weekdays"]])
    return re.compile(rf"(?P<every>(?=e)(?<![a-z])(?:every|each)\s+)?(?:{pointed}|{said}|{once})")


def _is_habit(found: re.Match[str]) -> bool:
    return found["every"] is not None and found[0].split()[-1] in lexicon("temporal")["weekdays"]
