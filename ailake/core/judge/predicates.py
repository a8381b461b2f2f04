"""The default rules over one or two texts, in English, Chinese and what mixes them."""

from ailake.core.judge.containment import compared
from ailake.core.judge.features import features
from ailake.core.judge.verdict import Containment


def has_absolute_timestamp(text: str) -> bool:
    """Tell whether a text names a date, a year, a month or a time of day."""
    return features(text).timestamp


def has_temporal_state(text: str) -> bool:
    """Tell whether a text ties what it says to a moment: now, last week, no longer, 最近."""
    return features(text).state


def same_numbers(one: str, other: str) -> bool:
    """Tell whether two texts name the same quantities, as multisets.

    Digits and number words of English and Chinese are one, and so are spellings and sizes of a
    unit: ``1,000`` is ``1000``, ``1.5 kg`` is ``1500 grams``, 三十五岁 is ``35 years old``.
    What has a unit is not what has none.
    """
    return features(one).quantities == features(other).quantities


def same_negations(one: str, other: str) -> bool:
    """Tell whether two texts deny, end and dislike equally often, each kind by itself."""
    return features(one).negations == features(other).negations


def containment(new: str, existing: str) -> Containment:
    """Return which of two texts says all that the other says.

    Facts are compared, never bags of words: order and roles count. Where the texts deny differently
    they are compared without what denies, so that "Ana likes tea" and "Ana does not like tea" are
    equal but for that; ``same_negations`` keeps them apart. In doubt the answer is ``none``.
    """
    one, other = features(new), features(existing)
    alike = one.negations == other.negations
    here, there = (one.said, other.said) if alike else (one.affirmed, other.affirmed)
    # Most pairs lack each other's words, which is far sooner found than their order.
    if here.lacks_heads_of(there) and there.lacks_heads_of(here):
        return Containment.NONE
    if not here.outline.may_be_in(there.outline) and not there.outline.may_be_in(here.outline):
        return Containment.NONE
    return compared(here.sentences, there.sentences)
