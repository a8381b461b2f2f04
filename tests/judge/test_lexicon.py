"""Phrases of the word lists as one pattern: whole words, the longest of them."""

import re

import pytest

from ailake.core.judge.lexicon import lexicon, phrases

MIXED = ["now", "right now", "no", "no longer", "现在", "现", "50%"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("right  now", ["right  now"]),
        ("know nowhere nowé", []),
        ("now2 now_ 3now", ["now", "now", "now"]),
        ("no longest day", ["no"]),
        ("他现在now走", ["现在", "now"]),
        ("现now", ["现", "now"]),
        ("50%off", ["50%"]),
        ("now지금", []),
    ],
)
def test_the_longest_phrase_of_whole_words_is_found(text: str, found: list[str]) -> None:
    assert re.findall(phrases(MIXED), text) == found


@pytest.mark.parametrize(
    ("words", "found"), [(["now", "no longer"], ["now"]), (["现在"], ["现在"])]
)
def test_phrases_of_one_script_alone(words: list[str], found: list[str]) -> None:
    assert re.findall(phrases(words), "know now, 他现在come") == found


def test_a_list_asks_for_borders_once_whatever_its_length() -> None:
    states = lexicon("temporal")["states"]
    assert len(states) > 100
    assert phrases(states).count("[^") == 3
