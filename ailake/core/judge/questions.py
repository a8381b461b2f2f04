"""Chinese questions that ask one thing in several orders.

The word that asks may stand before or after what is asked about: 为什么小波迟到 is 小波为什么迟到,
什么是爱 is 爱是什么, and 手机号怎么改 asks what 怎么改手机号 does. Who does what stays as it is.
"""

from collections.abc import Sequence

from ailake.core.judge.grammar import Grammar
from ailake.core.judge.naming import Word

_WHY, _HOW, _WHERE, _WHAT, _IS = "为什么", "怎么", "哪里", "什么", "是"
_BRAND = "什么牌子"
_GOOD = frozenset({"好", "好用"})
_MAY = "可以"

# 怎么 asks why before one of these, and how before an act.
_NO_ACTS = frozenset({"老是", "总是", "这么", "那么", "无法", "突然"})

# Longer questions are not searched for an object that stands in front.
_LONGEST = 24


def asked_once(words: list[Word], rules: Grammar) -> list[Word]:
    """Return a question without courtesies, with the word that asks where it is compared."""
    while words and words[0].text in rules.asked_first:
        words = words[1:]
    while words and words[-1].text in rules.asked_last:
        words = words[:-1]
    texts = [word.text for word in words]
    if texts.count(_HOW) == 1 and _WHY not in texts:
        at = texts.index(_HOW)
        if texts[at + 1 : at + 2] and texts[at + 1] in _NO_ACTS:
            words = [*words[:at], Word(_WHY), *words[at + 1 :]]
        elif texts[at + 1 : at + 2] == [_MAY]:
            words = [*words[: at + 1], *words[at + 2 :]]
    elif texts[:2] == [_WHAT, _IS] or texts[:2] == ["谁", _IS]:
        words = [*words[2:], words[1], words[0]]
    elif texts[:1] == [_BRAND] and texts[-1] in _GOOD:
        words = [*words[1:-1], words[0], words[-1]]
    return words


def fronted(words: Sequence[Word], rules: Grammar) -> list[Sequence[Word]]:
    """Return other orders of a question: why at its front, and objects after their short act."""
    texts = [word.text for word in words]
    if texts.count(_WHY) == 1 and rules.unsafe.isdisjoint(texts[: texts.index(_WHY)]):
        at = texts.index(_WHY)
        return [[words[at], *words[:at], *words[at + 1 :]]] if at else []
    asking = [text for text in texts if text in {_HOW, _WHERE}]
    if len(asking) != 1 or len(words) > _LONGEST or _WHAT in texts:
        return []
    at = texts.index(asking[0])
    act, front = words[at + 1 :], texts[:at]
    if len(act) != 1 or act[0].text not in rules.acts:
        return []
    if not rules.pronouns.isdisjoint(front) or not rules.unsafe.isdisjoint(front):
        return []
    return [[*words[:place], words[at], *act, *words[place:at]] for place in range(at)]
