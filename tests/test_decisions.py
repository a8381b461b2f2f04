"""The table of decisions: written once, read by scope, and gone with its memories."""

from dataclasses import replace
from datetime import datetime, timedelta

import ailake
from ailake.core.decisions import KEEP, DecisionRecord, SeenCandidate, verdict_id
from ailake.storage import decisions

SCOPE = ailake.Scope("ana-bot", "ana")
ALL = decisions.where_decisions(None)


def _created(memory_id: str, now: datetime, *, grey: tuple[str, ...] = ()) -> DecisionRecord:
    return DecisionRecord(
        id=verdict_id(memory_id),
        scope=SCOPE,
        decided_at=now,
        decision="create",
        memory_id=memory_id,
        mode="embedding" if grey else "",
        reason="no_contained_match",
        candidates=tuple(SeenCandidate(one, 0.75, "embedding") for one in grey),
        grey=grey,
        rules_version="1",
        seconds=0.25,
    )


def _answer(verdict: DecisionRecord, existing_id: str) -> DecisionRecord:
    return replace(
        verdict,
        id=verdict_id(verdict.memory_id, f"kept:{existing_id}"),
        decision=KEEP,
        existing_id=existing_id,
        decided_by="a-person",
        about=verdict.id,
        candidates=(),
        grey=(),
        tokens=12,
        note="two dogs",
    )


def test_a_row_is_what_was_recorded(lake: ailake.Lake, now: datetime) -> None:
    verdict = _created("m1", now, grey=("m0",))
    answer = _answer(verdict, "m0")
    decisions.append(lake.store, [verdict, answer])
    assert set(decisions.find(lake.store, [SCOPE], ALL)) == {verdict, answer}


def test_newest_first_up_to_a_limit_and_within_the_scope(lake: ailake.Lake, now: datetime) -> None:
    made = [_created(f"m{place}", now + timedelta(seconds=place)) for place in range(4)]
    other = replace(made[3], id="other", scope=ailake.Scope("ana-bot", "bo"))
    decisions.append(lake.store, [*made, other])
    assert decisions.find(lake.store, [SCOPE], ALL, limit=2) == [made[3], made[2]]
    late = decisions.where_decisions({"decided_at": {"gt": now + timedelta(seconds=2)}})
    assert decisions.find(lake.store, [], late) == [other, made[3]]


def test_what_was_recorded_is_left_out_the_second_time(lake: ailake.Lake, now: datetime) -> None:
    first, second = _created("m1", now), _created("m2", now)
    decisions.append(lake.store, [first])
    decisions.append(lake.store, [first, second], again=True)
    assert lake.table("decisions").count_rows() == 2


def test_grey_pairs_wait_until_they_are_answered(lake: ailake.Lake, now: datetime) -> None:
    verdict = _created("m2", now, grey=("m0", "m1"))
    decisions.append(lake.store, [_created("m1", now), verdict])
    pending = decisions.pending_grey(lake.store, [SCOPE])
    assert [(one.memory_id, one.existing_id, one.score) for one in pending] == [
        ("m2", "m0", 0.75),
        ("m2", "m1", 0.75),
    ]
    decisions.append(lake.store, [_answer(verdict, "m0")])
    assert [one.existing_id for one in decisions.pending_grey(lake.store)] == ["m1"]
    assert decisions.pending_grey(lake.store, [ailake.Scope("ana-bot")]) == []


def test_forget_takes_what_names_the_memory(
    lake: ailake.Lake, memory: ailake.Memory, now: datetime
) -> None:
    memory.remember("Ana plays the cello", id="m1", now=now)
    lake.flush()
    merged = replace(_created("m2", now), decision="merge", existing_id="m1", absorbed_id="m2")
    other = replace(merged, id="other", scope=ailake.Scope("ana-bot", "bo"))
    decisions.append(lake.store, [merged, other, _created("m3", now)])
    memory.forget("m1")
    left = decisions.find(lake.store, [], ALL)
    assert {one.id for one in left} == {"other", verdict_id("m3")}
