"""The quantities a text names: digits and number words, with their units."""

import re
from collections import Counter
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cache
from typing import Any
from unicodedata import decimal

from ailake.core.judge.hints import is_without, needles
from ailake.core.judge.lexicon import lexicon, phrases

Quantities = tuple[tuple[str, int], ...]

_DIGITS = r"(?<![\w.])[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|(?:(?<![\w.)])[-+])?\d+(?:\.\d+)?"
_CLOCK = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap])\.?m\.?(?![a-z])"
    r"|(?<![\d:])(?P<h>\d{1,2}):(?P<m>\d{2})(?![\d:])"
)
_ORDINAL = re.compile(r"(?<![\w.])(\d+)(?:st|nd|rd|th)(?![a-z])|第\s*(\d+)")
_HUNDREDTHS = re.compile(r"百分之\s*([\d.]+)")

# The default context rounds to 28 digits: two long numbers would become one.
_EXACTLY = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def quantities_of(text: str) -> Quantities:
    """Return the quantities of a plain text as a sorted multiset.

    ``1,000`` is ``1000``, ``two`` is ``2``, ``1 kg`` is ``1000 g`` and ``3 pm`` is ``15:00``, which
    is not ``3``. An article counts nothing: 一个 is "a", and so is a bare one, also as digit.
    """
    if is_without(text, _named(), digits=True):
        return ()
    found: Counter[str] = Counter()
    rest = _CLOCK.sub(lambda match: _keep(found, _clock(match)), _digits_of_words(text))
    rest = _ORDINAL.sub(lambda match: _keep(found, f"#{_digits(match[1] or match[2])}"), rest)
    rest = _HUNDREDTHS.sub(r" \1% ", rest)
    rest = _counted().sub(lambda match: _keep(found, _quantity(match)), rest)
    others = lexicon("quantities")["others"]
    for match in _other_words().finditer(rest):
        found[others[match[0]]] += 1
    del found["1"]
    return tuple(sorted(found.items()))


@cache
def _named() -> frozenset[str]:
    words = lexicon("quantities")
    return needles([*words["words"], *words["scales"], *words["others"]])


def _keep(found: Counter[str], quantity: str) -> str:
    found[quantity] += 1
    return " "


def _digits(number: str) -> str:
    """Return a whole number without leading zeros; ``int`` refuses more than 4,300 digits."""
    ascii_digits = number if number.isascii() else "".join(str(decimal(one)) for one in number)
    return ascii_digits.lstrip("0") or "0"


def _clock(match: re.Match[str]) -> str:
    if match["h"]:
        return f"{int(match['h'])}:{match['m']}"
    hour = int(match["hour"]) % 12 + (12 if match["half"] == "p" else 0)
    return f"{hour}:{match['minute'] or '00'}"


def _quantity(match: re.Match[str]) -> str:
    value = Decimal(match["value"].replace(",", "").lstrip("+"))
    unit, factor = "", Decimal(1)
    name = match["money"] or match["unit"]
    if name:
        unit, scale = lexicon("quantities")["units"][" ".join(name.split())]
        factor = Decimal(scale)
    if match["scale"]:
        factor *= _scales()[match["scale"]]
    product = _EXACTLY.multiply(value, factor)
    return f"{_trimmed(f'{product:f}')} {unit}".strip()


def _trimmed(number: str) -> str:
    """Return a number without zeros that say nothing: 1.50 is 1.5."""
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number


@cache
def _counted() -> re.Pattern[str]:
    scales = "|".join(sorted(_scales(), key=len, reverse=True))
    units = phrases(lexicon("quantities")["units"])
    return re.compile(
        rf"(?P<money>[$€£¥])?\s?(?P<value>{_DIGITS})\s*(?P<scale>(?:{scales})(?![a-z]))?"
        rf"(?:\s*+(?:-\s*+)?(?P<unit>{units}))?"
    )


@cache
def _scales() -> dict[str, int]:
    words = lexicon("quantities")
    chinese = words["chinese"]["scales"]
    large = {sign: value for sign, value in chinese.items() if value >= 10_000}
    more = {f"{sign}万": value * 10_000 for sign, value in chinese.items() if value < 10_000}
    return {**words["scales"], **large, **more}


@cache
def _other_words() -> re.Pattern[str]:
    return re.compile(phrases(lexicon("quantities")["others"]))


def _digits_of_words(text: str) -> str:
    """Write number words as digits: twenty-one, 三十五个."""
    words = lexicon("quantities")
    text = _english().sub(lambda match: f"{_english_value(match[0])}", text)
    if text.isascii():
        return text
    return _chinese().sub(lambda match: _chinese_digits(match, words["chinese"]), text)


@cache
def _english() -> re.Pattern[str]:
    words = lexicon("quantities")
    unit = phrases(words["words"])
    scale = phrases(words["scales"])
    return re.compile(rf"{unit}(?:(?:\s+and)?[\s-]+(?:{unit}|{scale}))*|(?<=a )(?<!\w)(?:{scale})")


def _english_value(text: str) -> str:
    words = lexicon("quantities")
    total, part = 0, 0
    for word in re.findall("[a-z]+", text):
        if word in words["words"]:
            part += words["words"][word]
        elif word in words["scales"]:
            scale = words["scales"][word]
            if scale == 100:
                part = max(part, 1) * scale
            else:
                total, part = total + max(part, 1) * scale, 0
    # Not by str, which refuses long ones: "hundred" may be said a thousand times.
    return f"{Decimal(total + part):f}"


@cache
def _chinese() -> re.Pattern[str]:
    words = lexicon("quantities")["chinese"]
    numerals = "".join([*words["digits"], *words["scales"]])
    idioms = "|".join(sorted(words["idioms"], key=len, reverse=True))
    return re.compile(
        rf"(?P<idiom>{idioms})|(?P<article>一(?=[{words['measures']}]))"
        rf"|(?P<before>第|百分之)?(?<!\d)(?<!\d\s)(?P<number>[{numerals}]+)(?=(?P<counts>[{words['measures']}])?)"
    )


def _chinese_digits(match: re.Match[str], words: dict[str, Any]) -> str:
    number = match["number"]
    if number is None or not (match["before"] or match["counts"] or len(number) > 1):
        return match[0]
    return f"{match['before'] or ' '}{_chinese_value(number, words)}"


def _chinese_value(text: str, words: dict[str, Any]) -> str:
    if not set(text) & set(words["scales"]):
        return _digits("".join(str(words["digits"][sign]) for sign in text))
    total, section, digit = 0, 0, 0
    for sign in text:
        if sign in words["digits"]:
            digit = words["digits"][sign]
            continue
        scale = words["scales"][sign]
        if scale < 10_000:
            section += max(digit, 1) * scale
        else:
            total += max(section + digit, 1) * scale
            section = 0
        digit = 0
    return str(total + section + digit)
