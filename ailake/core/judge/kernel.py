"""The order of the rules: one new memory, its candidates, one verdict.

Similarity recalls candidates and orders them, and has no say beyond that: every decision comes from
the rules, which look at the memories alone. A veto keeps its candidate out for good.
"""

from collections.abc import Sequence

from ailake.core.judge.rules import JudgeRules
from ailake.core.judge.verdict import Candidate, Containment, MemoryItem, Reason, Verdict, Veto
from ailake.core.records import Decision
from ailake.errors import InvalidInputError

_DEFAULT_RULES = JudgeRules()
_ANSWERS = tuple(Containment)

# The candidates, and whether the hard gate is hit.
Beside = Sequence[tuple[Candidate, bool]]


def judge(
    item: MemoryItem, candidates: Sequence[Candidate], rules: JudgeRules = _DEFAULT_RULES
) -> Verdict:
    """Decide what becomes of a new memory: skip, merge, modify, create or defer.

    Args:
        item: The new memory.
        candidates: What was recalled for it, by score, descending, ties in a fixed order; they are
            judged in the order given. The new memory is no candidate of its own: where its id
            comes back, it is passed over.
        rules: The rules, each of which can be replaced.

    Raises:
        InvalidInputError: An argument has another type, or what a replaced rule answers has.
    """
    _check(item, candidates, rules)
    others = [candidate for candidate in candidates if candidate.item.id != item.id]
    mode = others[0].mode if others else ""
    beside = [(one, _gated(item, one.item, rules)) for one in others]
    twin = _exact_duplicate(item, beside, rules)
    if twin is not None:
        return _found(item, twin, Decision.SKIP, Reason.EXACT_DUPLICATE)
    if rules.retention is not None and not _yes(rules.retention(item), "retention"):
        return Verdict(Decision.DEFER, "", "", 0.0, mode, Reason.T0_LOW_VALUE, Veto.NONE, ())
    return _compared(item, beside, rules, mode=mode)


def _exact_duplicate(item: MemoryItem, beside: Beside, rules: JudgeRules) -> Candidate | None:
    key = _key(item, rules)
    if not key:
        return None
    for candidate, gated in beside:
        if not gated and _key(candidate.item, rules) == key:
            return candidate
    return None


def _compared(item: MemoryItem, beside: Beside, rules: JudgeRules, *, mode: str) -> Verdict:
    """Take the first candidate that decides; else keep the grounds and create."""
    grey: list[str] = []
    kept: tuple[Veto, float] | None = None
    dated = not all(gated for _, gated in beside) and _is_dated(item.text, rules)
    for candidate, gated in beside:
        veto = Veto.HARD_GATE if gated else Veto.TEMPORAL if dated else Veto.NONE
        contained = Containment.NONE
        if veto is Veto.NONE:
            veto, contained = _between(item, candidate.item, rules)
        if veto is not Veto.NONE:
            if kept is None or candidate.score > kept[1]:
                kept = veto, candidate.score
        elif contained is Containment.NONE:
            grey.append(candidate.item.id)
        elif contained is Containment.EXISTING_IN_NEW:
            return _found(item, candidate, Decision.MODIFY, Reason.FACT_SUPERSET)
        else:
            return _found(item, candidate, Decision.MERGE, Reason.FACT_SUBSET)
    veto = kept[0] if kept else Veto.NONE
    reason = f"veto:{veto}" if kept else Reason.NO_CONTAINED_MATCH
    return Verdict(Decision.CREATE, "", "", 0.0, mode, reason, veto, tuple(grey))


def _between(new: MemoryItem, existing: MemoryItem, rules: JudgeRules) -> tuple[Veto, Containment]:
    """Return the first veto of what passed the gate beside what is not dated, or who says what."""
    if _is_dated(existing.text, rules):
        return Veto.TEMPORAL, Containment.NONE
    if not _yes(rules.same_numbers(new.text, existing.text), "same_numbers"):
        return Veto.NUMERIC, Containment.NONE
    if min(new.confidence, existing.confidence) < rules.confidence_threshold:
        return Veto.LOW_CONFIDENCE, Containment.NONE
    contained = _contained(new.text, existing.text, rules)
    if contained is not Containment.NONE and not _yes(
        rules.same_negations(new.text, existing.text), "same_negations"
    ):
        return Veto.CONFLICT, contained
    return Veto.NONE, contained


def _found(item: MemoryItem, candidate: Candidate, decision: Decision, reason: Reason) -> Verdict:
    existing_id = candidate.item.id
    absorbed_id = existing_id if decision is Decision.MODIFY else item.id
    score = float(candidate.score)
    return Verdict(decision, existing_id, absorbed_id, score, candidate.mode, reason, Veto.NONE, ())


def _gated(new: MemoryItem, existing: MemoryItem, rules: JudgeRules) -> bool:
    return _yes(rules.hard_gate(new, existing), "hard_gate")


def _is_dated(text: str, rules: JudgeRules) -> bool:
    return _yes(rules.has_absolute_timestamp(text), "has_absolute_timestamp") or _yes(
        rules.has_temporal_state(text), "has_temporal_state"
    )


def _key(item: MemoryItem, rules: JudgeRules) -> str:
    key = rules.dedupe_key(item.text)
    if not isinstance(key, str):
        raise InvalidInputError.of("dedupe_key's answer", got=key, wanted="a string")
    return key


def _contained(new: str, existing: str, rules: JudgeRules) -> Containment:
    answer = rules.containment(new, existing)
    if answer not in _ANSWERS:
        wanted = f"one of {', '.join(Containment)}"
        raise InvalidInputError.of("containment's answer", got=answer, wanted=wanted)
    return Containment(answer)


def _yes(answer: object, rule: str) -> bool:
    """Refuse what is no answer: a rule that forgets to return must not count as a no."""
    if not isinstance(answer, bool):
        raise InvalidInputError.of(f"{rule}'s answer", got=answer, wanted="True or False")
    return answer


def _check(item: object, candidates: object, rules: object) -> None:
    if not isinstance(item, MemoryItem):
        raise InvalidInputError.of("item", got=item, wanted="a MemoryItem")
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InvalidInputError.of("candidates", got=candidates, wanted="a sequence of Candidate")
    for candidate in candidates:
        if not isinstance(candidate, Candidate):
            raise InvalidInputError.of("candidates", got=candidate, wanted="a Candidate each")
    if not isinstance(rules, JudgeRules):
        raise InvalidInputError.of("rules", got=rules, wanted="JudgeRules")
