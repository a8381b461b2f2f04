"""Sentences that ask or request and tell nothing beside that.

A request that tells something of somebody, or asks for something from now on, is worth keeping:
"Help me, I have diabetes", "Please call me Bob". Words that look like a request may tell, too:
给我 asks to be given something, and 给我妈妈买了房子 tells of a house.
"""

import re
from collections.abc import Sequence
from functools import cache

from ailake.core.judge.lexicon import lexicon, phrases
from ailake.core.judge.tiling import tiles

_COMMAS = re.compile(r"[,，、:：]")
_MARKS = re.compile(r"[\W_]+")

# 呢 asks behind so few characters, or behind so few more of a word that asks back.
_SHORT, _LESS_SHORT = 3, 6

# "my elder brother is": so many words may stand in between.
_NAMED = 4


def only_asks(sentence: str) -> bool:
    """Tell whether a sentence of a plain text asks or requests, or greets, and tells nothing."""
    said = sentence.rstrip("!.。！;；…~ ")
    bare = words_of(said)
    if bare == "" or tiles("greetings").cover(bare):
        return True
    asked, requested = _is_question(said), _is_request(said)
    clauses = [clause for clause in _COMMAS.split(said) if words_of(clause)]
    if requested:
        if _pattern("standing").search(said) or not all(map(_goes_on, clauses[1:])):
            return False
        return not any(map(_tells, clauses)) and (asked or not _is_done(said))
    # "I love hiking, do you?" tells something before it asks.
    return asked and (len(clauses) == 1 or (_opens("asks", said) and not any(map(_tells, clauses))))


def words_of(text: str) -> str:
    """Return a plain text without marks, with one space between words."""
    return _MARKS.sub(" ", text).strip()


def _is_question(said: str) -> bool:
    said = said.rstrip()
    if said.endswith(tuple(lexicon("retention")["question_marks"])):
        return True
    if not said.endswith("呢"):
        return False
    asked = words_of(said[:-1])
    if _pattern("interrogatives").search(asked):
        return True
    backwards = asked.startswith(tuple(lexicon("retention")["asks_back"]))
    return len(asked) <= (_LESS_SHORT if backwards else _SHORT) and not _is_done(asked)


def _is_request(said: str) -> bool:
    request, other = (_pattern(name).match(said) for name in ("requests", "no_requests"))
    if request is None or (other is not None and other.end() >= request.end()):
        return False
    if _pattern("interrogatives").search(said):
        return True
    return _given().match(said) is None


def _goes_on(clause: str) -> bool:
    clause = clause.strip()
    if _opens("relatives", clause):
        return False
    clause = _linking().sub("", clause, count=1)
    if any(_opens(name, clause) for name in ("requests", "asks", "continues")):
        return True
    return tiles("greetings").cover(words_of(clause))


def _is_done(said: str) -> bool:
    """Tell whether something was done: 了; but "what happened" (发生了什么) asks for it."""
    if _pattern("interrogatives").search(said):
        return False
    return any(found["undone"] is None for found in _done().finditer(said))


def _tells(clause: str) -> bool:
    """Tell whether a clause says something of the user or of what is theirs."""
    words = words_of(clause).split()
    return _tells_in_english(words) or _tells_in_chinese(clause)


def _tells_in_english(words: Sequence[str]) -> bool:
    subjects, owners, inverting, asking, joints = map(
        _set, ("subjects", "owners", "inverting", "interrogatives", "joints")
    )
    asked, before = False, ""
    for place, word in enumerate(words[:-1]):
        if word in joints:
            asked = False
        elif word in asking:
            asked = True
        elif not asked and before not in inverting:
            if word in subjects and not _is_asked_for(words[place + 1 : place + 3]):
                return True
            if word in owners and _predicates(words[place + 1 : place + 2 + _NAMED]):
                return True
        before = word
    return False


def _is_asked_for(behind: Sequence[str]) -> bool:
    """Tell whether what one can or should do is asked for; what one can not do is told."""
    return behind[0] in _set("modals") and behind[1:] != ["not"]


def _predicates(words: Sequence[str]) -> bool:
    """Tell whether a verb stands behind a name, and something behind the verb."""
    return not _set("verbs").isdisjoint(words[1:-1])


def _tells_in_chinese(clause: str) -> bool:
    if _own().search(clause) is None:
        return False
    return _pattern("interrogatives").search(clause) is None


def _opens(name: str, said: str) -> bool:
    return _pattern(name).match(said) is not None


@cache
def _set(name: str) -> frozenset[str]:
    return frozenset(lexicon("retention")[name])


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(phrases(lexicon("retention")[name]))


@cache
def _linking() -> re.Pattern[str]:
    return re.compile(rf"^{phrases(lexicon('retention')['linking'])}\s*")


@cache
def _given() -> re.Pattern[str]:
    words = lexicon("retention")
    return re.compile(phrases(words["given"]) + "(?:的|们)?" + phrases(words["people"]))


@cache
def _own() -> re.Pattern[str]:
    words = lexicon("retention")
    people, verbs = phrases(words["people"]), phrases(words["chinese_verbs"])
    return re.compile(rf"(?<![{words['datives']}])我们?(?:的?{people}){{0,2}}+{verbs}")


@cache
def _done() -> re.Pattern[str]:
    words = lexicon("retention")
    return re.compile(f"(?P<undone>{phrases(words['undone'])})|{phrases(words['done'])}")
