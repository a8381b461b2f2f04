"""Sentences that say one thing in several orders, each brought into one of them.

Who does what to whom stays: "X is being eaten by Y" becomes "Y is eating X", "there is an X eating"
becomes "an X is eating", and "X is using a knife to open a box" is "X is opening a box with a
knife". What fits none of the patterns is left as it is.
"""

from collections.abc import Sequence

from ailake.core.judge.grammar import BE, Grammar
from ailake.core.judge.naming import Word, described, is_closed, is_doing, is_name


def rewritten(words: list[Word], rules: Grammar) -> list[Word]:
    """Return the words of a sentence in the one order for what they say, passives aside."""
    for pattern in (described, _existing, _used, _listed):
        words = pattern(words, rules)
    return words


def active(words: Sequence[Word], rules: Grammar) -> Sequence[Word]:
    """Rewrite "X is being eaten … by Y" as "Y is eating X …"."""
    texts = [word.text for word in words]
    if texts.count("being") != 1 or texts.count("by") != 1:
        return words
    at, by = texts.index("being"), texts.index("by")
    verb = next((i for i in range(at + 1, by) if not rules.is_adverb(texts[i])), None)
    if at < 2 or texts[at - 1] not in BE or verb is None or by == len(words) - 1:
        return words
    doing = rules.participle(texts[verb])
    if not doing or not BE.isdisjoint(texts[: at - 1]):
        return words
    agent, further = _agent(words[by + 1 :])
    if any(word.text in BE for word in agent):
        return words
    verbs, rest = [*words[at + 1 : verb], Word(doing)], words[verb + 1 : by]
    if len(rest) == 1 and (
        rest[0].text in rules.directions | rules.prepositions or rest[0].text == "to"
    ):
        verbs, rest = [*verbs, *rest], []  # "is being picked up by X": X is picking up
    return [*agent, words[at - 1], *verbs, *words[: at - 1], *rest, *further]


def _agent(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Return who does it, and what the agent does besides: "by a man and is …"."""
    for place in range(1, len(words) - 2):
        if words[place].text == "and" and words[place + 1].text in BE:
            return words[:place], words[place:]
    return words, ()


def told_apart(words: Sequence[Word], rules: Grammar) -> list[Sequence[Word]]:
    """Return "a man holding a cup is singing" as "a man is holding a cup", "a man is singing".

    Empty where the subject has no such words, or where they may belong to something else.
    """
    be = next((place for place, word in enumerate(words) if word.text in BE), 0)
    for place in range(1, be - 1):
        text, noun = words[place].text, words[:place]
        if not (is_name(text, rules) or text == "in" or rules.is_ing(text)):
            return []
        if noun[-1].text in rules.adjectives:
            continue
        if text == "in" and words[be - 1].text in rules.clothes:
            doing = rules.progressive("wearing")
        elif is_doing(noun[-1].text, words[place:be], rules):
            doing = rules.progressive(text)
        else:
            continue
        return [[*noun, *words[be:]], [*noun, words[be], Word(doing), *words[place + 1 : be]]]
    return []


def moved(words: Sequence[Word], rules: Grammar) -> list[Sequence[Word]]:
    """Return a turned passive with what each preposition of the agent begins at its end."""
    be = next(place for place, word in enumerate(words) if word.text in BE)
    places = [place for place in range(1, be) if words[place].text in rules.prepositions]
    return [[*words[:place], *words[be:], *words[place:be]] for place in places]


def outside(words: Sequence[Word], rules: Grammar) -> Sequence[Word]:
    """Return "a dog is running outdoors" of "a dog is running in a big field"."""
    for place in range(1, len(words)):
        if words[place].text not in {"in", "on"}:
            continue
        noun = place + 1
        while noun < len(words) and words[noun].text in rules.adjectives:
            noun += 1
        named = noun < len(words) and words[noun].text in rules.outdoors
        if named and is_closed(words[noun + 1 :], rules):
            return [*words[:place], Word(rules.canonical("outdoors")), *words[noun + 1 :]]
    return words


def _existing(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "there is X eating" as "X is eating", "there is X in a park" as "X is in a park"."""
    if len(words) < 3 or words[0].text != "there" or words[1].text not in BE:
        return words
    rest = words[2:]
    for place, word in enumerate(rest[1:], 1):
        if word.text in rules.relatives and rest[place + 1 : place + 2] == [words[1]]:
            return [*rest[:place], *rest[place + 1 :]]
        if rules.is_ing(word.text):
            verb = Word(rules.progressive(word.text))
            return [*rest[:place], words[1], verb, *rest[place + 1 :]]
    place = next((i for i, word in enumerate(rest) if word.text in rules.prepositions), 0)
    if place and not any(word.text in {*BE, "and"} for word in rest):
        return [*rest[:place], words[1], *rest[place:]]
    return words


def _used(words: list[Word], rules: Grammar) -> list[Word]:
    """Rewrite "X is using a knife to open a box" as "X is opening a box with a knife"."""
    texts = [word.text for word in words]
    using = rules.progressive("using")
    if texts.count(using) != 1 or texts.count("to") != 1:
        return words
    at, to = texts.index(using), texts.index("to")
    if at == 0 or texts[at - 1] not in BE or not at + 1 < to < len(words) - 2:
        return words
    tool, verb = words[at + 1 : to], Word(rules.stem(texts[to + 1]))
    rest = words[to + 2 :]
    if not BE.isdisjoint(texts[at:]) or "and" in texts[at:] or rules.is_adverb(texts[to + 1]):
        return words
    end = next((i for i, word in enumerate(rest) if word.text in rules.prepositions), len(rest))
    return [*words[:at], verb, *rest[:end], Word("with"), *tool, *rest[end:]]


def _listed(words: list[Word], rules: Grammar) -> list[Word]:
    """Put the two of a subject into one order: "Bo and Ana are" is "Ana and Bo are"."""
    texts = [word.text for word in words]
    be = next((place for place, text in enumerate(texts) if text in BE), 0)
    subject = texts[:be]
    if subject.count("and") != 1 or "respectively" in texts:
        return words
    at = subject.index("and")
    one, other = words[:at], words[at + 1 : be]
    if not (_is_named(one, rules) and _is_named(other, rules)):
        return words
    ordered = sorted((one, other), key=lambda part: [word.text for word in part])
    return [*ordered[0], words[at], *ordered[1], *words[be:]]


def _is_named(words: Sequence[Word], rules: Grammar) -> bool:
    """Tell whether the words are the name of one thing: adjectives, and a noun."""
    if not words or not is_name(words[-1].text, rules):
        return False
    return all(w.text in rules.adjectives or rules.defines(w.text) for w in words[:-1])
