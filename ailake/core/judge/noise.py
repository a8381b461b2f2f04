"""What machines write: stack traces, logs, prompts, the output of tools.

A person who tells of an error names it within a sentence, and may paste a line or two below: a text
is noise where it begins with what a machine wrote, or where most of its lines are that.
"""

import re
from functools import cache

from ailake.core.judge.lexicon import lexicon, phrases

_LEVEL = r"(?:debug|info|notice|warn(?:ing)?|error|fatal|critical|trace)"
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DAEMON = r"(?:kernel|sudo|su|cron|systemd|init|dockerd|containerd|networkmanager)"

_STAMP = rf"\[?{_DAY}[t ]{_CLOCK}"
_SENDER = rf"\S+ (?:[^\s\[:]+\[\d+\]|{_DAEMON}):"
_REQUEST = r"\"(?:get|post|put|patch|delete|head|options) \S+ http/\d"

# None goes beyond its line, and none looks at a line more than once for each of its starts.
_LINES = (
    r"[ \t]*traceback \(most recent call last\)",
    r"[ \t]+at (?:async )?[\w.$<>]+ ?\([^)\n]*:\d+\)",
    r"[ \t]*file \"[^\n]*\", line \d+",
    r"[ \t]*exit code:? -?\d+[ \t]*$",
    r"[ \t]*(?:\$ [a-z./~_]|>>> \S)",
    # The level right behind the time or before it, or marked off by brackets, bars or dashes.
    rf"{_STAMP}\S*\]?[ \t]+\[?{_LEVEL}\b",
    rf"{_STAMP}[,.\d]*:{_LEVEL}:",
    rf"{_STAMP}[^\n]{{0,200}}?(?:[\[<(|][ \t]?|-[ \t]){_LEVEL}(?:[\])>|:]|[ \t]+[-|])",
    rf"{_STAMP}[^\n]{{0,200}}?\][ \t]+{_LEVEL}\b",
    rf"\[{_LEVEL}\][^\n]*{_CLOCK}",
    rf"{_LEVEL}:?[ \t]+\[?(?:{_DAY}[t ])?{_CLOCK}",
    rf"{_LEVEL}:[a-z_][\w.]*:",
    rf"(?:(?:time|ts)=\S+ )?level={_LEVEL}\b",
    rf"[iwef]\d{{4}} {_CLOCK}\.\d+[ \t]+\d+ \S+:\d+\]",
    r"\[ {0,8}\d+\.\d{6}\] ",
    # Syslog, and who asked a server for what.
    rf"(?:<\d{{1,3}}>)?{_MONTH} {{1,2}}\d{{1,2}} {_CLOCK} {_SENDER}",
    rf"(?:<\d{{1,3}}>\d? ?)?{_DAY}t{_CLOCK}\S* {_SENDER}",
    rf"\S+ \S+ \S+ \[\d{{1,2}}/{_MONTH}/\d{{4}}:{_CLOCK}",
    rf"(?:{_LEVEL}:?[ \t]+)?\S+ - {_REQUEST}",
    r"npm err!|npm (?:error|warn) (?:code|errno|syscall|path|deprecated|notsup|eresolve)\b",
    r"heartbeat(?:_ok| ok|: ok)[ \t.!]*$",
    r"[ \t]*(?:<\?xml|<!doctype)",
)
_LINE = re.compile(rf"^(?:{'|'.join(_LINES)})", re.MULTILINE)
_FAULTS = ("Error", "Exception", "Warning", "Interrupt")
# The last line of a trace tells by its capitals: "ValueError: …", but no "Error: …" of a person.
_EXCEPTION = re.compile(
    rf"^(?:Exception in thread [^\n]*? )?(?:\w+\.)*[A-Z]\w*(?:{'|'.join(_FAULTS)})"
    r"(?:: |:?[ \t]*$)",
    re.MULTILINE,
)
_MARKERS = re.compile(
    r"<\|?(?:im_start|im_end|system|endoftext|tool_call|function_call)\b|heartbeat_ok\b"
)
_INDENTED = (" ", "\t")


def is_noise(text: str, original: str) -> bool:
    """Tell whether a machine wrote a text.

    Args:
        text: Plain.
        original: As it was given, with its capitals.
    """
    if _MARKERS.search(text) or _is_json(text) or _prompts(text):
        return True
    lines, exceptions = _starts(_LINE, text), set[int]()
    if any(name in original for name in _FAULTS):
        exceptions = _starts(_EXCEPTION, original)
    if len(text) == len(original):
        return _is_most(text, lines | exceptions)
    return _is_most(text, lines) or _is_most(original, exceptions)


def _is_json(text: str) -> bool:
    """Tell whether a text is an object or a list, alone or as what a function is called with."""
    text = text.strip()
    if text.endswith(("})", "])")):
        name, _, text = text[:-1].partition("(")
        if not name.replace(".", "_").isidentifier():
            return False
    inside = text[1:-1].lstrip()
    if text.startswith("{") and text.endswith("}"):
        return inside.startswith('"')
    return text.startswith("[") and text.endswith("]") and inside.startswith(("[", "{", '"'))


def _prompts(text: str) -> bool:
    return any(found["people"] is None for found in _openings().finditer(text))


@cache
def _openings() -> re.Pattern[str]:
    words = lexicon("retention")
    people, prompts = phrases(words["told_people"]), phrases(words["prompts"])
    return re.compile(rf"^[ \t]*(?:(?P<people>{people})|{prompts})", re.MULTILINE)


def _starts(pattern: re.Pattern[str], text: str) -> set[int]:
    return {found.start() for found in pattern.finditer(text)}


def _is_most(text: str, starts: set[int]) -> bool:
    """Tell whether the first line begins at one of these places, or most lines do.

    What is indented below such a line goes on with it.
    """
    if not starts:
        return False
    noisy = lines = place = 0
    goes_on = False
    for line in text.split("\n"):
        if line.strip():
            goes_on = place in starts or (goes_on and line.startswith(_INDENTED))
            if goes_on and not lines:
                return True
            lines += 1
            noisy += goes_on
        place += len(line) + 1
    return 2 * noisy > lines
