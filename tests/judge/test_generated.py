"""Pairs that differ in a negation, a number or who does what: none is ever taken for the same."""

from collections.abc import Callable, Iterator
from itertools import islice, permutations, product

import pytest

from ailake.core.judge import Candidate, JudgeRules, MemoryItem, judge
from ailake.core.records import Scope

RULES = JudgeRules(retention=None)
Pairs = Iterator[tuple[str, str]]

NAMES = ["Ana", "Bo", "Mr. Li", "my sister", "the new neighbour", "her boss", "Tom's uncle"]
ACTS = [
    ("likes", "like"), ("trusts", "trust"), ("visits", "visit"), ("calls", "call"),
    ("teaches", "teach"), ("follows", "follow"), ("knows", "know"), ("misses", "miss"),
]  # fmt: skip
DOING = ["chasing", "pushing", "watching", "feeding", "carrying", "painting"]
DONE = ["chased", "pushed", "watched", "fed", "carried", "painted"]
THINGS = ["green tea", "jazz", "long walks in the rain", "the old house", "spicy food", "her job"]
TAILS = ["", " in the garden", " at work", " and the dog"]
FRAMES = [
    "{} has {} cats",
    "{} owns {} books and a lamp",
    "{} runs {} km",
    "{} paid ${}",
    "{} is {} years old",
]
NUMBERS = ["2", "three", "12", "20", "1.5", "15", "150", "forty"]

ZH_NAMES = ["安娜", "小波", "李先生", "我姐姐", "新来的邻居", "她的老板", "汤姆的叔叔"]
ZH_ACTS = ["喜欢", "信任", "认识", "帮助", "教", "照顾", "尊重", "欣赏"]
ZH_THINGS = ["绿茶", "爵士乐", "雨中散步", "老房子", "辣的菜", "自己的工作"]
ZH_TAILS = ["", "，在银行工作", "和狗"]
ZH_DENIALS = ["不", "从不", "不再", "并不", "不太"]
ZH_FRAMES = ["{}有{}只猫", "{}有{}本书", "{}跑了{}公里", "{}花了{}元", "{}{}岁"]
ZH_NUMBERS = ["2", "三", "12", "二十", "1.5", "15", "一百五十", "四十"]


def negated() -> Pairs:
    for name, (does, do), thing, tail in product(NAMES, ACTS, THINGS, TAILS):
        said = f"{name} {does} {thing}{tail}"
        yield said, f"{name} does not {do} {thing}{tail}"
        yield said, f"{name} never {does} {thing}"
        yield f"{name} doesn't {do} {thing}", said
        yield f"{name} no longer {does} {thing}", said
    for name, doing, thing, tail in product(NAMES, DOING, THINGS, TAILS):
        yield f"{name} is {doing} {thing}{tail}", f"{name} isn't {doing} {thing}"
        yield f"there is nobody {doing} {thing}", f"{name} is {doing} {thing}{tail}"


def numbered() -> Pairs:
    for frame, name, (one, other), tail in product(FRAMES, NAMES, permutations(NUMBERS, 2), TAILS):
        yield frame.format(name, one), frame.format(name, other) + tail


def swapped() -> Pairs:
    for (one, other), (does, _), tail in product(permutations(NAMES, 2), ACTS, TAILS):
        yield f"{one} {does} {other}", f"{other} {does} {one}{tail}"
    for (one, other), (doing, done), tail in product(
        permutations(NAMES, 2), zip(DOING, DONE, strict=True), TAILS
    ):
        yield f"{one} is {doing} {other}{tail}", f"{other} is {doing} {one}"
        yield f"{one} is {doing} {other}", f"{one} is being {done} by {other}{tail}"


def zh_negated() -> Pairs:
    for name, act, thing, tail in product(ZH_NAMES, ZH_ACTS, ZH_THINGS, ZH_TAILS):
        for denial in ZH_DENIALS:
            yield f"{name}{act}{thing}{tail}", f"{name}{denial}{act}{thing}"
            yield f"{name}{denial}{act}{thing}{tail}", f"{name}{act}{thing}"
    for name, thing in product(ZH_NAMES, ZH_THINGS):
        yield f"{name}有{thing}", f"{name}没有{thing}"
        yield f"{name}喜欢{thing}", f"{name}讨厌{thing}"


def zh_numbered() -> Pairs:
    for frame, name, (one, other), tail in product(
        ZH_FRAMES, ZH_NAMES, permutations(ZH_NUMBERS, 2), ZH_TAILS
    ):
        yield frame.format(name, one), frame.format(name, other) + tail


def zh_swapped() -> Pairs:
    for (one, other), act, tail in product(permutations(ZH_NAMES, 2), ZH_ACTS, ZH_TAILS):
        yield f"{one}{act}{other}", f"{other}{act}{one}{tail}"
        yield f"{one}被{other}{act}{tail}", f"{other}被{one}{act}"
        yield f"{one}被{other}{act}", f"{one}{act}{other}{tail}"


def is_same(new: str, existing: str) -> bool:
    scope = Scope("a")
    old = Candidate(MemoryItem("old", existing, scope), 0.99, "embedding")
    return judge(MemoryItem("new", new, scope), [old], RULES).decision != "create"


@pytest.mark.parametrize("pairs", [negated, numbered, swapped, zh_negated, zh_numbered, zh_swapped])
def test_none_is_the_same(pairs: Callable[[], Pairs]) -> None:
    made = list(islice(pairs(), 0, None, 11))
    assert len(set(made)) >= 200
    wrong = [(one, other) for one, other in made if is_same(one, other) or is_same(other, one)]
    assert wrong == []


def test_the_same_templates_are_found_where_nothing_differs() -> None:
    found = [
        is_same(f"{name} is {doing} {thing}", f"{name} is {doing} {thing} in the garden")
        for name, doing, thing in product(NAMES, DOING, ["the dog", "a cat"])
    ]
    assert all(found)
    assert is_same("安娜喜欢绿茶", "安娜非常喜欢绿茶，在银行工作")
