"""What a thing is like, told before its name whatever the order of the words.

"A wall made of bricks" is "a brick wall", "a dog, which is white," is "a white dog", and "a man
wearing a hat" is "a man in a hat". What fits none of the patterns is left as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ailake.core.judge.grammar import BE, Grammar

AND = frozenset({"and", ",", "，"})
_MEANT = frozenset({"made", "meant", "used", "designed", "built", "bred"})


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a fact.

    Attributes:
        text: Its canonical form; a verb in progress is its stem with a plus sign.
        definite: An article, possessive or number stands before it.
        certain: It is of one that the reader knows: "the". Others may say "a" of the same.
    """

    text: str
    definite: bool = False
    certain: bool = field(default=False, compare=False)


def described(words: list[Word], rules: Grammar) -> list[Word]:
    """Return the words of a sentence with what things are like before their names."""
    texts = {word.text for word in words}
    for pattern, needed in _PATTERNS:
        # Most sentences have none of a pattern's words. No pattern brings in those of a later one.
        if not needed.isdisjoint(texts):
            words = pattern(words, rules)
    return words


def is_name(text: str, rules: Grammar) -> bool:
    """Tell whether a word may stand in the name of a thing, or joins two of them."""
    return (text.isascii() and text.isalnum()) and not (
        text in rules.prepositions
        or text in rules.relatives
        or text in rules.unsafe
        or rules.is_ing(text)
        or rules.says_how(text)
    )


def is_closed(rest: Sequence[Word], rules: Grammar) -> bool:
    """Tell whether a phrase ends before these words, so that none of them is its noun."""
    return not rest or rest[0].text in {*AND, *BE} or rest[0].text in rules.prepositions


def is_doing(noun: str, words: Sequence[Word], rules: Grammar) -> bool:
    """Tell whether words after a noun say what it does: no "car racing team", no "dog training"."""
    if len(words) < 2 or not rules.is_ing(words[0].text):
        return False
    following = words[1].text
    loose = following in rules.prepositions or rules.is_adverb(following)
    return words[1].definite or (loose and rules.is_animate(noun))


def _told(words: list[Word], noun: int, quality: str, after: int) -> list[Word]:
    """Put a quality before the noun, in the place of all from the noun to the words after."""
    before = Word(quality, words[noun].definite)
    return [*words[:noun], before, words[noun], *words[after:]]


def _made_of(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a wall made of bricks" as "a brick wall"."""
    for place in range(1, len(words) - 2):
        made, of, stuff = (word.text for word in words[place : place + 3])
        stuff = stuff if stuff in rules.materials else stuff.removesuffix("s")
        said = made == "made" and of in {"of", "from"} and stuff in rules.materials
        if said and words[place - 1].text not in BE and is_closed(words[place + 3 :], rules):
            return _told(words, place - 1, stuff, place + 3)
    return words


def _covered(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a path covered by snow" and "a path full of snow" as "a snowy path"."""
    for place in range(1, len(words) - 2):
        how, by, stuff = (word.text for word in words[place : place + 3])
        said = (how == "covered" and by in {"by", "with", "in"}) or (how, by) == ("full", "of")
        before = words[place - 1].text
        named = is_name(before, rules) and before not in BE
        if said and named and stuff in rules.covers and is_closed(words[place + 3 :], rules):
            return _told(words, place - 1, rules.covers[stuff], place + 3)
    return words


def _meant_for(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a machine made for sewing" as "a sewing machine"."""
    for place in range(1, len(words) - 2):
        how, purpose, doing = (word.text for word in words[place : place + 3])
        before = words[place - 1].text
        said = how in _MEANT and purpose == "for" and rules.is_ing(doing)
        named = is_name(before, rules) and before not in BE
        if said and named and is_closed(words[place + 3 :], rules):
            return _told(words, place - 1, doing, place + 3)
    return words


def _part_of(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "the trunk of a tree" as "the tree trunk"."""
    for place in range(1, len(words) - 1):
        part, whole = words[place - 1], words[place + 1]
        said = words[place].text == "of" and part.text in rules.parts and whole.definite
        named = is_name(whole.text, rules) and whole.text not in rules.possessives
        if said and named and is_closed(words[place + 2 :], rules):
            return _told(words, place - 1, whole.text, place + 2)
    return words


def _coloured(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a shirt dyed (in) red" and "a red colored shirt" as "a red shirt"."""
    texts = [word.text for word in words]
    for place, text in enumerate(texts):
        if text not in {"dyed", "colored"} or place == 0 or texts[place - 1] in BE:
            continue
        if texts[place - 1] in rules.colors:
            return [*words[:place], *words[place + 1 :]]
        at = place + 2 if texts[place + 1 : place + 2] == ["in"] else place + 1
        if at < len(texts) and texts[at] in rules.colors and is_closed(words[at + 1 :], rules):
            return _told(words, place - 1, texts[at], at + 1)
    return words


def _clause(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a dog, which is white," as "a white dog"."""
    for place in range(1, len(words) - 2):
        relative, verb, quality = (word.text for word in words[place : place + 3])
        if relative not in rules.relatives or verb != "be" or quality not in rules.adjectives:
            continue
        noun = place - 2 if words[place - 1].text == "," else place - 1
        rest = words[place + 3 :]
        if noun < 0 or not _is_over(rest, after_comma=noun == place - 2):
            continue
        if relative == "who" and not rules.is_person(words[noun].text):
            people = [i for i in range(noun) if rules.is_person(words[i].text)]
            if len(people) != 1:
                continue
            noun = people[0]
        begin = _beginning(words[: noun + 1], rules)
        told = [Word(quality, words[begin].definite), *words[begin:place]]
        rest = rest[1:] if told[-1].text == "," and rest else rest
        told = told[:-1] if told[-1].text == "," else told
        return [*words[:begin], *told, *rest]
    return words


def _is_over(rest: Sequence[Word], *, after_comma: bool) -> bool:
    if not rest or rest[0].text == ",":
        return True
    joined = rest[0].text == "and" and len(rest) > 1 and rest[1].text in BE
    return not after_comma and (rest[0].text in BE or joined)


def _beginning(words: Sequence[Word], rules: Grammar) -> int:
    """Return where the name of the thing begins that these words end with."""
    place = len(words) - 1
    while place and words[place - 1].definite and is_name(words[place - 1].text, rules):
        if words[place - 1].text in BE or words[place - 1].text == "and":
            break
        place -= 1
    return place


def _worn(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "a man wearing (dressed in) a hat" as "a man in a hat"."""
    for place in range(1, len(words) - 1):
        text, before, after = (words[i].text for i in (place, place - 1, place + 1))
        if text in {"dressed", "clad"} and after == "in":
            told = [Word(rules.progressive("wearing"))] if before in BE else [words[place + 1]]
            words = [*words[:place], *told, *words[place + 2 :]]
            return _worn(words, rules)
        if text == "wearing" and before not in {*BE, *AND} and not rules.is_adverb(before):
            return _worn([*words[:place], Word("in"), *words[place + 1 :]], rules)
    return words


# What turns a sentence, and words of which it has one.
_PATTERNS = (
    (_made_of, frozenset({"made"})),
    (_covered, frozenset({"covered", "full"})),
    (_meant_for, _MEANT),
    (_part_of, frozenset({"of"})),
    (_coloured, frozenset({"dyed", "colored"})),
    (_clause, frozenset({"be"})),
    (_worn, frozenset({"wearing", "dressed", "clad"})),
)
