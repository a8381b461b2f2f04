"""The order of the rules, with rules so plain that only the order decides."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core.judge import (
    Candidate,
    Containment,
    JudgeRules,
    MemoryItem,
    Reason,
    Verdict,
    Veto,
    judge,
)
from ailake.core.records import Decision, Scope, SourceClass
from ailake.errors import InvalidInputError

HERE = Scope("a", "u", "p")


def contains(new: str, existing: str) -> Containment:
    """Compare letters as sets, case aside; capitals and marks are flags for the other rules."""
    one, other = (frozenset(filter(str.islower, text)) for text in (new, existing))
    if one == other:
        return Containment.EQUAL
    if one < other:
        return Containment.NEW_IN_EXISTING
    return Containment.EXISTING_IN_NEW if other < one else Containment.NONE


# A text is letters (what it says) and flags: @ dated, ~ a state, 1 a number, ! a negation, X junk.
RULES = JudgeRules(
    dedupe_key=lambda text: text.strip(),
    retention=lambda item: "X" not in item.text,
    has_absolute_timestamp=lambda text: "@" in text,
    has_temporal_state=lambda text: "~" in text,
    same_numbers=lambda one, other: one.count("1") == other.count("1"),
    same_negations=lambda one, other: one.count("!") == other.count("!"),
    containment=contains,
    version="test",
)


def item(text: str, name: str = "new", **fields: Any) -> MemoryItem:
    return MemoryItem(name, text, fields.pop("scope", HERE), **fields)


def recalled(*texts: str, **fields: Any) -> list[Candidate]:
    """Return candidates c0, c1 … with falling scores."""
    return [
        Candidate(item(text, f"c{place}", **fields), 1 - place / 10, "embedding")
        for place, text in enumerate(texts)
    ]


def decide(text: str, *texts: str) -> Verdict:
    return judge(item(text), recalled(*texts), RULES)


def grounds(verdict: Verdict) -> tuple[str, str, tuple[str, ...]]:
    return verdict.decision, verdict.reason, verdict.grey


def test_exact_duplicate_is_skipped_and_the_existing_row_survives() -> None:
    verdict = decide("ab", "abc", "ab")
    assert verdict == Verdict(
        Decision.SKIP, "c1", "new", 0.9, "embedding", Reason.EXACT_DUPLICATE, Veto.NONE, ()
    )


@pytest.mark.parametrize("text", ["a@", "a~", "aX", "X"])
def test_exact_duplicates_come_before_every_veto_and_retention(text: str) -> None:
    twin = Candidate(item(text, "old", confidence=0.1), 0.2, "lexical")
    verdict = judge(item(text, confidence=0.0), [*recalled("a", text + "b"), twin], RULES)
    assert (verdict.decision, verdict.existing_id) == (Decision.SKIP, "old")


@pytest.mark.parametrize("text", ["", " ", "  "])
def test_an_empty_key_equals_nothing(text: str) -> None:
    assert decide(text, "", " ").decision is not Decision.SKIP


def test_a_gated_duplicate_is_none() -> None:
    verdict = judge(item("a"), recalled("a", role="assistant"), RULES)
    assert grounds(verdict) == ("create", "veto:hard_gate", ())


def test_retention_defers_without_comparison_and_without_review() -> None:
    verdict = decide("aX", "a", "b@")
    assert verdict == Verdict(
        Decision.DEFER, "", "", 0.0, "embedding", Reason.T0_LOW_VALUE, Veto.NONE, ()
    )


def test_retention_none_switches_the_gate_off() -> None:
    rules = replace(RULES, retention=None)
    assert judge(item("aX"), recalled("a"), rules).decision == "merge"


@pytest.mark.parametrize(
    ("new", "existing", "veto"),
    [
        ("a@", "a", "temporal"),
        ("a", "a@", "temporal"),
        ("a~", "a", "temporal"),
        ("a", "a~", "temporal"),
        ("a1", "a", "numeric"),
        ("a!", "a", "conflict"),
        ("ab!", "a", "conflict"),
    ],
)
def test_vetoes(new: str, existing: str, veto: str) -> None:
    verdict = decide(new, existing)
    assert grounds(verdict) == ("create", f"veto:{veto}", ())
    assert verdict.veto == veto
    assert (verdict.existing_id, verdict.absorbed_id, verdict.score) == ("", "", 0)


def test_vetoes_in_order() -> None:
    low: dict[str, Any] = {"confidence": 0.4}
    cases: dict[str, dict[str, Any]] = {
        "a@1!": {"role": "tool", **low},
        "b@1!": low,
        "b1!": low,
        "b!": low,
        "ab!": {},
    }
    found = [
        judge(item(text), recalled("a", **fields), RULES).veto for text, fields in cases.items()
    ]
    assert found == [
        "hard_gate", "temporal", "numeric", "low_confidence", "conflict",
    ]  # fmt: skip


@pytest.mark.parametrize("sides", [(0.49, 1.0), (1.0, 0.49)])
def test_low_confidence_on_either_side(sides: tuple[float, float]) -> None:
    new, existing = sides
    candidates = recalled("ab", confidence=existing)
    assert judge(item("a", confidence=new), candidates, RULES).veto == "low_confidence"


def test_confidence_equal_to_the_threshold_passes() -> None:
    candidates = recalled("ab", confidence=0.5)
    assert judge(item("a", confidence=0.5), candidates, RULES).decision == "merge"
    strict = replace(RULES, confidence_threshold=0.51)
    assert judge(item("a", confidence=0.5), candidates, strict).veto == "low_confidence"


def test_not_contained_is_grey_even_where_negations_differ() -> None:
    assert grounds(decide("ab!", "bc", "cd")) == ("create", "no_contained_match", ("c0", "c1"))


def test_a_fuller_new_text_modifies_and_absorbs_the_old_row() -> None:
    verdict = decide("abc", "ab")
    assert verdict == Verdict(
        Decision.MODIFY, "c0", "c0", 1.0, "embedding", Reason.FACT_SUPERSET, Veto.NONE, ()
    )


@pytest.mark.parametrize("text", ["ab", "ba", "b"])
def test_what_the_existing_text_says_already_is_merged_into_it(text: str) -> None:
    verdict = decide(text, "ab " if text == "ab" else "ab-")
    expected = ("skip", "c0") if text == "ab" else ("merge", "c0")
    assert (verdict.decision, verdict.existing_id) == expected
    assert verdict.absorbed_id == "new"


def test_the_first_decisive_candidate_wins_and_drops_what_was_seen() -> None:
    verdict = decide("ab", "x", "ab@", "a", "abc")
    assert verdict == Verdict(
        Decision.MODIFY, "c2", "c2", 0.8, "embedding", Reason.FACT_SUPERSET, Veto.NONE, ()
    )


def test_a_veto_does_not_stop_later_candidates() -> None:
    assert grounds(decide("ab", "x@", "y", "ab1")) == ("create", "veto:temporal", ("c1",))


def test_the_kept_veto_is_that_of_the_higher_score_and_ties_keep_the_earlier() -> None:
    pairs = [("ab@", 0.5), ("ab1", 0.5), ("ab!", 0.7)]
    candidates = [Candidate(item(text, text), score, "lexical") for text, score in pairs]
    assert judge(item("ab"), candidates[:2], RULES).veto == "temporal"
    assert judge(item("ab"), candidates, RULES).veto == "conflict"


def test_a_rule_is_asked_once_about_each_pair_and_about_the_new_memory() -> None:
    asked: list[str] = []

    def gate(new: MemoryItem, existing: MemoryItem) -> bool:
        asked.append(f"gate {new.text} {existing.text}")
        return False

    def dated(text: str) -> bool:
        asked.append(f"dated {text}")
        return "@" in text

    rules = replace(RULES, hard_gate=gate, has_absolute_timestamp=dated)
    assert judge(item("ab@"), recalled("x", "y", "z"), rules).reason == "veto:temporal"
    assert sorted(asked) == ["dated ab@", "gate ab@ x", "gate ab@ y", "gate ab@ z"]


def test_nothing_recalled_is_not_nothing_contained() -> None:
    assert (decide("a").mode, decide("a").reason) == ("", "no_contained_match")
    lexical = [Candidate(item("b", "old"), 0.3, "lexical"), *recalled("c")]
    verdict = judge(item("a"), lexical, RULES)
    assert (verdict.mode, verdict.score) == ("lexical", 0)
    assert judge(item("aX"), lexical, RULES).mode == "lexical"


def test_the_new_memory_is_no_candidate_of_its_own() -> None:
    itself = Candidate(item("a"), 1.0, "lexical")
    verdict = judge(item("a"), [itself, *recalled("b")], RULES)
    assert (verdict.decision, verdict.grey, verdict.mode) == ("create", ("c0",), "embedding")


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": Scope("b", "u", "p")},
        {"scope": Scope("a", "", "p")},
        {"scope": Scope("a", "u", "q")},
        {"role": "assistant"},
        {"speaker": "Bo"},
        {"source": "tool"},
        {"active": False},
    ],
)
def test_hard_gates(fields: dict[str, Any]) -> None:
    for text in ("a", "a ", "ab", "x"):
        verdict = judge(item("a"), recalled(text, **fields), RULES)
        assert (verdict.decision, verdict.veto, verdict.grey) == ("create", "hard_gate", ())


def test_classes_of_sources_merge_with_their_own_and_group_chat_with_none() -> None:
    for source in SourceClass:
        new, old = item("a", source=source), recalled("a", source=source)
        decision = judge(new, old, RULES).decision
        assert decision == ("create" if source == "group_chat" else "skip")


ITEMS = st.builds(
    MemoryItem,
    id=st.just("x"),
    text=st.text(st.sampled_from("abc@~1!X "), max_size=4),
    scope=st.sampled_from([HERE, Scope("a"), Scope("b", "u", "p")]),
    role=st.sampled_from(["user", "assistant"]),
    speaker=st.sampled_from(["", "Bo"]),
    source=st.sampled_from(["direct", "group_chat"]),
    confidence=st.sampled_from([0.4, 0.5, 1.0]),
    active=st.booleans(),
)
MODES = st.sampled_from(["embedding", "lexical"])


@st.composite
def rounds(draw: st.DrawFn) -> tuple[MemoryItem, list[Candidate]]:
    items = draw(st.lists(ITEMS, max_size=6))
    scores = sorted(draw(st.lists(st.integers(0, 5), min_size=6, max_size=6)), reverse=True)
    candidates = [
        Candidate(replace(found, id=f"c{place}"), score, draw(MODES))
        for place, (found, score) in enumerate(zip(items, scores, strict=False))
    ]
    return replace(draw(ITEMS), id="new"), candidates


@given(rounds(), st.sampled_from([lambda s: s / 100 - 7, lambda s: s**3 * 1e6, lambda s: 2**s]))
def test_rescaled_scores_change_no_decision(
    given_round: tuple[MemoryItem, list[Candidate]], scale: Any
) -> None:
    new, candidates = given_round
    scaled = [replace(candidate, score=scale(candidate.score)) for candidate in candidates]
    before, after = (judge(new, found, RULES) for found in (candidates, scaled))
    assert replace(after, score=before.score) == before


@given(rounds())
def test_grey_keeps_candidate_order_and_holds_nothing_vetoed(
    given_round: tuple[MemoryItem, list[Candidate]],
) -> None:
    new, candidates = given_round
    verdict = judge(new, candidates, RULES)
    names = [candidate.item.id for candidate in candidates]
    assert list(verdict.grey) == [name for name in names if name in verdict.grey]
    for candidate in candidates:
        alone = judge(new, [candidate], replace(RULES, retention=None))
        if candidate.item.id in verdict.grey:
            assert alone.veto == ""
            assert alone.grey == (candidate.item.id,)
        elif verdict.decision is Decision.CREATE:
            assert alone.veto != ""
    if verdict.decision is not Decision.CREATE:
        assert (verdict.grey, verdict.veto) == ((), "")


@given(rounds())
def test_nothing_passes_a_gate(given_round: tuple[MemoryItem, list[Candidate]]) -> None:
    new, candidates = given_round
    verdict = judge(new, candidates, RULES)
    for found in (c.item for c in candidates if c.item.id == verdict.existing_id):
        assert (found.scope, found.role, found.speaker, found.source) == (
            new.scope, new.role, new.speaker, new.source,
        )  # fmt: skip
        assert found.active
        assert new.active
        assert new.source != "group_chat"


@given(rounds(), st.integers(0, 6))
def test_exact_duplicates_win_from_any_rank(
    given_round: tuple[MemoryItem, list[Candidate]], rank: int
) -> None:
    new, candidates = given_round
    new = replace(new, text=new.text + "a", active=True, source="direct")
    others = [c for c in candidates if c.item.text.strip() != new.text.strip()]
    twin = Candidate(replace(new, id="twin", confidence=0.1), 0.5, "lexical")
    verdict = judge(new, [*others[:rank], twin, *others[rank:]], RULES)
    assert (verdict.decision, verdict.existing_id) == ("skip", "twin")


@given(rounds())
def test_the_same_round_has_the_same_verdict(
    given_round: tuple[MemoryItem, list[Candidate]],
) -> None:
    new, candidates = given_round
    assert judge(new, candidates, RULES) == judge(new, tuple(candidates), RULES)


WRONG: list[tuple[Any, dict[str, Any]]] = [
    (MemoryItem, {"id": "", "text": "a", "scope": HERE}),
    (MemoryItem, {"id": 1, "text": "a", "scope": HERE}),
    (MemoryItem, {"id": "a", "text": None, "scope": HERE}),
    (MemoryItem, {"id": "a", "text": "a", "scope": "s"}),
    (MemoryItem, {"id": "a", "text": "a", "scope": HERE, "confidence": 1.5}),
    (MemoryItem, {"id": "a", "text": "a", "scope": HERE, "confidence": True}),
    (MemoryItem, {"id": "a", "text": "a", "scope": HERE, "source": "mail"}),
    (MemoryItem, {"id": "a", "text": "a", "scope": HERE, "active": 1}),
    (Candidate, {"item": "a", "score": 1, "mode": "lexical"}),
    (Candidate, {"item": item("a"), "score": float("nan"), "mode": "lexical"}),
    (Candidate, {"item": item("a"), "score": "1", "mode": "lexical"}),
    (Candidate, {"item": item("a"), "score": 1, "mode": "vector"}),
    (JudgeRules, {"containment": "none"}),
    (JudgeRules, {"hard_gate": None}),
    (JudgeRules, {"confidence_threshold": 2}),
    (JudgeRules, {"confidence_threshold": float("nan")}),
    (JudgeRules, {"version": ""}),
]


@pytest.mark.parametrize(("kind", "fields"), WRONG)
def test_wrong_values_are_refused(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"got .*, wanted "):
        kind(**fields)


@pytest.mark.parametrize(
    "arguments",
    [
        ("a", []),
        (item("a"), "abc"),
        (item("a"), None),
        (item("a"), [item("b")]),
        (item("a"), [], 1),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"got .*, wanted "):
        judge(*arguments)


@pytest.mark.parametrize("rule", ["retention", "has_temporal_state", "containment", "dedupe_key"])
def test_a_rule_that_answers_nothing_is_refused(rule: str) -> None:
    changes: dict[str, Any] = {rule: lambda *_: None}
    with pytest.raises(InvalidInputError, match=f"{rule}'s answer: got None"):
        judge(item("a"), recalled("ab"), replace(RULES, **changes))


def test_a_rule_may_answer_containment_as_a_string() -> None:
    rules = replace(RULES, containment=lambda _new, _existing: "existing_in_new")
    assert judge(item("a"), recalled("b"), rules).decision == "modify"


def test_values_are_frozen() -> None:
    verdict = decide("a")
    for value, name in [(item("a"), "text"), (RULES, "version"), (verdict, "reason")]:
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, "b")
