"""What the word lists of English and Chinese say about a word, ready for look-up."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ailake.core.judge.lexicon import lexicon, phrases
from ailake.core.judge.words import CJK, WORD

# The canonical forms of is, are, am and of was, were.
BE = frozenset({"be", "was"})
_PEOPLE = frozenset({"person", "people"})
_ANIMALS = frozenset({"animal", "animals"})
# Of these there are copies in wood and stone, which are none: a stone lion, a paper plane.
_COPIED = frozenset(
    {
        "animal",
        "vehicle",
        "boat",
        "aircraft",
        "weapon",
        "food",
        "flower",
        "tree",
        "building",
        "phone",
    }
)
_NO_KINDS: frozenset[str] = frozenset()
_DOUBLED = re.compile(r"([bdgkmnprtv])\1$")


@dataclass(frozen=True)
class Grammar:
    """The word lists as sets, of canonical forms but for what is dropped.

    Attributes:
        same: Canonical form by word.
        asked_same: Canonical form in a question, by canonical form.
        kinds: What every one of these is, too.
        participles: Base form by participle.
        phrase: Finds what is read as one word: Chinese words, and English phrases.
        openings: The first words of the English phrases.
    """

    articles: frozenset[str]
    definite_articles: frozenset[str]
    particles: frozenset[str]
    closing: frozenset[str]
    courtesies: frozenset[str]
    adverbs: frozenset[str]
    adjectives: frozenset[str]
    clothes: frozenset[str]
    colors: frozenset[str]
    materials: frozenset[str]
    directions: frozenset[str]
    prepositions: frozenset[str]
    possessives: frozenset[str]
    pronouns: frozenset[str]
    relatives: frozenset[str]
    questions: frozenset[str]
    asking: frozenset[str]
    asked_first: frozenset[str]
    asked_last: frozenset[str]
    acts: frozenset[str]
    parts: frozenset[str]
    covers: Mapping[str, str]
    outdoors: frozenset[str]
    unsafe: frozenset[str]
    strict: frozenset[str]
    nouns: frozenset[str]
    no_adverbs: frozenset[str]
    same: Mapping[str, str]
    asked_same: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    participles: Mapping[str, str]
    phrase: re.Pattern[str]
    openings: frozenset[str]

    def merged(self, words: Sequence[str], text: str) -> list[str]:
        """Return the words of a text with the phrases that count as one word."""
        if text.isascii() and self.openings.isdisjoint(words):
            return list(words)
        return [" ".join(found.split()) for found in self.phrase.findall(text)]

    def canonical(self, word: str) -> str:
        """Return the form in which a word is compared."""
        return self.same.get(word, word)

    def form(self, word: str) -> str:
        """Return the same for a word of the lists, where a verb in progress ends in a plus sign."""
        return self.canonical(_verb(word))

    def kinds_of(self, word: str) -> frozenset[str]:
        """Return what a thing of this name is, too."""
        return self.kinds.get(word, _NO_KINDS)

    def defines(self, word: str) -> bool:
        """Tell whether a word makes what follows something definite, as an article does."""
        return word in self.possessives or word[0].isdigit()

    def is_adverb(self, word: str) -> bool:
        """Tell whether a word says how, and takes nothing back."""
        return word in self.adverbs

    def says_how(self, word: str) -> bool:
        """Tell whether a word says how, and may take something back: allegedly."""
        if word in self.adverbs:
            return True
        return len(word) > 4 and word.endswith("ly") and word not in self.no_adverbs

    def is_ing(self, word: str) -> bool:
        """Tell whether a word may be a verb in -ing."""
        return len(word) > 4 and word.endswith("ing") and word not in self.nouns

    def progressive(self, word: str) -> str:
        """Return the stem of a verb in -ing, with the plus sign of what is in progress."""
        return self.canonical(_stem(word[:-3]))

    def is_person(self, word: str) -> bool:
        """Tell whether a word names a person or people."""
        return word in _PEOPLE or not _PEOPLE.isdisjoint(self.kinds_of(word))

    def is_animate(self, word: str) -> bool:
        """Tell whether a word names people or animals."""
        return self.is_person(word) or not _ANIMALS.isdisjoint({word, *self.kinds_of(word)})

    def is_copied(self, word: str) -> bool:
        """Tell whether what has this name may be a figure of it."""
        names = {word, *self.kinds_of(word)}
        return self.is_person(word) or not _COPIED.isdisjoint(
            {*names, *(name.removesuffix("s") for name in names)}
        )

    def stem(self, word: str) -> str:
        """Return the same for the base form of a verb."""
        return self.canonical(_stem(word))

    def participle(self, word: str) -> str:
        """Return the same for a past participle; empty where the word is none."""
        if word in self.participles:
            return self.canonical(_stem(self.participles[word]))
        if not word.endswith("ed"):
            return ""
        return self.canonical(_stem(f"{word[:-3]}y" if word.endswith("ied") else word[:-2]))


@cache
def grammar() -> Grammar:
    """Return the word lists of both languages."""
    english, chinese, harmless = _english(), lexicon("chinese"), lexicon("harmless")
    same = _same(english, chinese)

    def forms(*words: Iterable[str]) -> frozenset[str]:
        return frozenset(same.get(_verb(word), _verb(word)) for group in words for word in group)

    return Grammar(
        articles=frozenset(english["articles"]),
        definite_articles=frozenset(english["definite_articles"]),
        particles=frozenset(chinese["particles"]),
        closing=frozenset(chinese["closing"]),
        courtesies=frozenset(chinese["courtesies"]),
        adverbs=forms(harmless["adverbs"]),
        adjectives=forms(english["adjectives"], english["colors"]),
        clothes=forms(*_numbered({"clothes": english["clothes"]}, lexicon("nouns")).values()),
        colors=forms(english["colors"]),
        materials=forms(english["materials"]),
        directions=forms(english["directions"]),
        prepositions=forms(english["prepositions"]),
        possessives=forms(english["possessives"]),
        pronouns=forms(english["pronouns"], chinese["pronouns"]),
        relatives=forms(english["relatives"]),
        questions=_questions(chinese),
        asking=frozenset(chinese["asking"]),
        asked_first=frozenset(chinese["asked_first"]),
        asked_last=frozenset(chinese["asked_last"]),
        acts=forms(chinese["acts"]),
        parts=forms(english["parts"]),
        covers=english["covers"],
        outdoors=forms(*_numbered({"outdoors": english["outdoors"]}, lexicon("nouns")).values()),
        unsafe=forms(english["unsafe"], chinese["unsafe"]),
        strict=frozenset([*english["strict"], *chinese["strict"]]),
        nouns=frozenset(english["nouns"]),
        no_adverbs=frozenset(harmless["no_adverbs"]),
        same=same,
        asked_same=_canonicals(chinese["asked_same"]),
        kinds=_kinds(english["kinds"], same),
        participles={past: base for base, past in english["participles"].items()},
        phrase=re.compile(
            f"{phrases([*_joined(english), *_chinese(chinese, harmless)])}|{WORD.pattern}"
        ),
        openings=frozenset(phrase.split()[0] for phrase in _joined(english)),
    )


def _canonicals(groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {word: canonical for canonical, words in groups.items() for word in words}


def _english() -> dict[str, Any]:
    """Return the English lists with the names of things among them, in singular and plural."""
    nouns = lexicon("nouns")
    english = {**lexicon("english"), "compounds": nouns["compounds"]}
    for group in ("same", "kinds"):
        named = _numbered(nouns[group], nouns)
        names = {*named, *english[group]}
        added = {name: [*named.get(name, ()), *english[group].get(name, ())] for name in names}
        english = {**english, group: dict(sorted(added.items()))}
    return english


def _numbered(
    group: Mapping[str, Sequence[str]], nouns: Mapping[str, Any]
) -> dict[str, Sequence[str]]:
    plurals = {
        _plural(name, nouns): [_plural(word, nouns) for word in group[name]] for name in group
    }
    shared = {name: [*group[name], *plurals.pop(name, ())] for name in group}
    return {**shared, **plurals}


def _plural(noun: str, nouns: Mapping[str, Any]) -> str:
    if noun in nouns["uncounted"]:
        return noun
    before, _, last = noun.rpartition(" ")
    if last in nouns["plurals"]:
        return f"{before} {nouns['plurals'][last]}".strip()
    if re.search("(?:s|x|ch|sh)$", noun):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


def _same(*languages: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, str]:
    same = {
        _verb(word): _verb(canonical)
        for language in languages
        for canonical, words in language["same"].items()
        for word in words
        if word != canonical
    }
    numbers = lexicon("quantities")["words"]
    same.update({word: str(value) for word, value in numbers.items() if value > 1})
    for name, canonical in (("present", "be"), ("past", "was")):
        same.update(dict.fromkeys(languages[0][name], canonical))
    return same


def _kinds(
    kinds: Mapping[str, Sequence[str]], same: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """Turn the lists round, and follow them: a boy is a child, and a child a person."""
    above: dict[str, set[str]] = {}
    for kind, members in kinds.items():
        for member in members:
            one, other = (same.get(_verb(word), _verb(word)) for word in (member, kind))
            if one != other:
                above.setdefault(one, set()).add(other)
    return {
        word: frozenset(found | _above(found, above) | _above(_above(found, above), above))
        for word, found in above.items()
    }


def _above(words: Iterable[str], above: Mapping[str, set[str]]) -> set[str]:
    return {further for word in words for further in above.get(word, ())}


def _verb(word: str) -> str:
    return _stem(word[:-1]) if word.endswith("+") else word


def _stem(verb: str) -> str:
    return _DOUBLED.sub(r"\1", verb).removesuffix("e") + "+"


def _questions(chinese: Mapping[str, Any]) -> frozenset[str]:
    """Return the words that ask, alone or in what is read as one word: 多少钱 for 多少."""
    asking = [word for word in chinese["questions"] if len(word) > 1]
    joined = [word for word in chinese["same"] if any(asked in word for asked in asking)]
    return frozenset([*chinese["questions"], *joined])


def _joined(english: Mapping[str, Any]) -> set[str]:
    groups = ("prepositions", "articles", "same", "kinds", "clothes", "compounds")
    words = [word for name in groups for word in english[name]]
    words.extend(word for members in english["kinds"].values() for word in members)
    return {word for word in [*words, *_members(english["same"])] if " " in word}


def _chinese(chinese: Mapping[str, Any], harmless: Mapping[str, Any]) -> set[str]:
    words = [word for group in (*chinese.values(), *harmless.values()) for word in group]
    words.extend([*_members(chinese["same"]), *_members(chinese["asked_same"])])
    return {word for word in words if len(word) > 1 and CJK.match(word)}


def _members(groups: Mapping[str, Sequence[str]]) -> list[str]:
    return [word for group in groups.values() for word in group]
