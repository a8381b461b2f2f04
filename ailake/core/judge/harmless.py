"""What may be added to a statement without taking it back: only what is known to be harmless.

"In a park" says where, "in the game" that it was played; ", I guess" and ", Minnesota" change what
is said before. A word in no list may do any of this, and so nothing is added that has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from ailake.core.judge.grammar import BE, Grammar, grammar
from ailake.core.judge.lexicon import lexicon
from ailake.core.judge.naming import Word
from ailake.core.judge.words import CJK

_COMMAS = frozenset({",", "，"})
_ALONE = frozenset({"outside", "inside", "together"})
_GENITIVE = frozenset({"'s", "'"})


@dataclass(frozen=True)
class Harmless:
    """The lists of what is harmless, and of what is not, as sets of canonical forms.

    Attributes:
        takes_back: No text with one of these is added to another.
        known: Words of phrases that tell where, when, with whom or by what.
        nouns: Those of them that name a thing.
    """

    grammar: Grammar
    takes_back: frozenset[str]
    known: frozenset[str]
    nouns: frozenset[str]
    distinguishing: frozenset[str]
    scarce: frozenset[str]
    beings: frozenset[str]
    verbs: frozenset[str]
    going: frozenset[str]
    placing: frozenset[str]
    pointing: frozenset[str]
    zh_predicates: frozenset[str]
    zh_plain_adverbs: frozenset[str]
    zh_adverbs: frozenset[str]
    zh_short_adverbs: frozenset[str]
    zh_verbs: frozenset[str]
    zh_where: frozenset[str]
    statements: frozenset[str]
    tastes: frozenset[str]

    def is_adverb(self, run: Sequence[str], before: str, following: str) -> bool:
        """Tell whether words are adverbs: Chinese ones only where they are in no other word."""
        if all(map(self.grammar.is_adverb, run)) or self.zh_plain_adverbs.issuperset(run):
            return True
        if following not in self.zh_predicates:
            return False
        allowed = self.zh_adverbs
        if before in self.grammar.pronouns:
            allowed = allowed | self.zh_short_adverbs
        return allowed.issuperset(run)

    def describes(self, run: Sequence[Word], noun: str, before: str) -> bool:
        """Tell whether words are adjectives that say no more than what the noun's thing is like.

        "My old boss" is not "my boss": after a possessive they tell one from another.
        """
        rules, texts = self.grammar, [word.text for word in run]
        if before in rules.possessives or before in _GENITIVE:
            return False
        if not run[0].definite and not self.scarce.isdisjoint(texts):
            return False
        if noun not in self.beings and not self.distinguishing.isdisjoint(texts):
            return False
        qualities = rules.adjectives
        if not rules.is_copied(noun):
            qualities = qualities | rules.materials
        if texts[-1] not in qualities or texts[0] == "and":
            return False
        return all(text in qualities or text == "and" or rules.is_adverb(text) for text in texts)

    def has_company(self, words: Iterable[str]) -> bool:
        """Tell whether words tell of living or working, which is done with someone."""
        return not self.verbs.isdisjoint(words)

    def places(self, run: Sequence[Word], *, company: bool) -> bool:
        """Tell whether words are a phrase that tells where, when or by what.

        Args:
            run: The words.
            company: They may tell with whom, by a name in no list.
        """
        first, *rest = (word.text for word in run)
        if first not in self.grammar.prepositions:
            return False
        if not rest:
            return first in _ALONE
        return self.known.issuperset(rest) or (company and _names_company(run))

    def lists(self, before: str, run: Sequence[Word]) -> bool:
        """Tell whether words are one more thing of a list: tea "and coffee"."""
        texts = [word.text for word in run]
        if (
            before in self.grammar.adjectives
            or texts[-1] not in self.nouns
            or not self.known.issuperset(texts)
        ):
            return False
        return run[0].definite or (len(texts) == 1 and before in self.nouns)

    def states(self, run: Sequence[str], *, happens: bool) -> bool:
        """Tell whether one more statement begins with these words, after "and" or a comma."""
        run = run[1:] if run[:1] == ["and"] else run
        if len(run) < 2 or run[0] in self.pointing:
            return False
        if CJK.match(run[-1]):
            return self._states_in_chinese(run)
        if run[0] in self.verbs or (len(run) > 2 and run[1] in self.verbs):
            return True
        return happens and (
            run[0] in BE or run[0].endswith("+") or any(map(_goes_on, run, run[1:]))
        )

    def _states_in_chinese(self, run: Sequence[str]) -> bool:
        rest = run[1:] if run[0] in self.grammar.pronouns else run
        adverbs = self.zh_adverbs | self.zh_short_adverbs
        said = [word for word in rest if word not in adverbs]
        where = said[:1] and said[0] in self.zh_where
        return not self.zh_verbs.isdisjoint(said if where else said[:1])

    def is_statement(self, words: Sequence[Word]) -> bool:
        """Tell whether a sentence of its own may stand beside others: no "wrong"."""
        texts = [word.text for word in words]
        told = len(texts) > 2 and texts[0] not in self.pointing
        return told and not self.statements.isdisjoint(texts)


def _names_company(run: Sequence[Word]) -> bool:
    """Tell whether words are "with" and what may be a name, in no list: "with Bo"."""
    return len(run) == 2 and run[0].text == "with" and not run[1].definite


def _goes_on(word: str, following: str) -> bool:
    return word in BE and (following == "being" or following.endswith("+"))


def after_comma(run: Sequence[str]) -> bool:
    """Tell whether words begin with a comma."""
    return run[0] in _COMMAS


@cache
def harmless() -> Harmless:
    """Return what the lists say of both languages."""
    rules, lists = grammar(), lexicon("harmless")

    def forms(*names: str) -> frozenset[str]:
        return frozenset(rules.form(word) for name in names for word in lists[name])

    takes_back = forms("takes_back", "zh_takes_back")
    nouns = (_nouns(rules) | forms("surroundings") | rules.clothes | rules.outdoors) - takes_back
    known = [rules.prepositions, rules.adjectives, rules.materials, rules.adverbs]
    known += [rules.possessives]
    return Harmless(
        grammar=rules,
        takes_back=takes_back,
        known=nouns.union(*known) - takes_back,
        nouns=nouns,
        distinguishing=forms("distinguishing"),
        scarce=forms("scarce"),
        beings=forms("beings"),
        verbs=forms("verbs"),
        going=forms("going"),
        placing=forms("placing"),
        pointing=forms("pointing", "zh_pointing"),
        zh_predicates=forms("zh_predicates"),
        zh_plain_adverbs=forms("zh_plain_adverbs"),
        zh_adverbs=forms("zh_adverbs", "zh_plain_adverbs"),
        zh_short_adverbs=forms("zh_short_adverbs"),
        zh_verbs=forms("zh_verbs"),
        zh_where=forms("zh_where"),
        statements=forms("statements", "verbs", "zh_statements", "zh_verbs"),
        tastes=forms("tastes"),
    )


def _nouns(rules: Grammar) -> frozenset[str]:
    kinds: Iterable[str] = [
        *rules.kinds,
        *(kind for above in rules.kinds.values() for kind in above),
    ]
    return frozenset(word for word in kinds if not word.endswith("+"))
