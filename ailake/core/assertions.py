"""What was said of facts, in order: what versions follow from, and what forgetting goes back to.

Versions are the authority: an assertion is written down after those that it made. One whose writer
died in between, or that an older release made, is told by its version.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ailake.core.entities import EntityRef, digest
from ailake.core.fact_versions import Origin, StoredVersion, Verdict, Verifier
from ailake.core.windows import Window


class AssertionKind(StrEnum):
    """Whether something was said or taken back, or what a verifier that was asked answered."""

    ASSERT = "assert"
    RETRACT = "retract"
    SUPERSEDE = "supersede"
    REJECT_NEW = "reject_new"
    KEEP_BOTH = "keep_both"
    DEFER = "defer"


_RULES = frozenset(Verifier)
_ANSWERS: Mapping[str, AssertionKind] = {
    Verdict.SUPERSEDE: AssertionKind.SUPERSEDE,
    Verdict.REJECT_NEW: AssertionKind.REJECT_NEW,
    Verdict.KEEP_BOTH: AssertionKind.KEEP_BOTH,
    Verdict.DEFER: AssertionKind.DEFER,
}
_TAKING_AWAY = frozenset({AssertionKind.RETRACT, AssertionKind.SUPERSEDE, AssertionKind.REJECT_NEW})


@dataclass(frozen=True, slots=True)
class Assertion:
    """What was said of a fact once.

    Attributes:
        assertion_id: The same for the same said again by a call of the same instant.
        subject: As it was given; empty in all that is no assertion.
        object: The same.
        window: When the fact was said to hold; for how long it lost where a verifier said so, or
            the new one holds where it let both stay.
        recorded_at: When it was said.
        ordinal: That of the key's next version then, so that it has a place between them.
        version_id: The version that it made, empty where it added none.
        verifier: Who decided, empty where the predicate was multi-valued.
        source_memory_id: The memory that it was taken from, or empty.
        winner_fact_id: The fact that a verifier, asked later, let stay, with keep_both and defer
            the new one; else empty.
    """

    assertion_id: str
    kind: AssertionKind
    fact_id: str
    subject: str | EntityRef
    object: str | EntityRef
    object_id: str
    window: Window
    recorded_at: datetime
    ordinal: int
    version_id: str = ""
    verifier: str = ""
    source_memory_id: str = ""
    winner_fact_id: str = ""

    @property
    def is_assert(self) -> bool:
        """Whether something was said, and nothing taken away."""
        return self.kind is AssertionKind.ASSERT

    @property
    def takes_away(self) -> bool:
        """Whether less is believed since: not by an answer that leaves all as it is."""
        return self.kind in _TAKING_AWAY


def assertion_id(
    fact_id: str, window: Window, source: str, *, said_at: datetime, repetition: int = 0
) -> str:
    """Return the id of an assertion.

    Args:
        fact_id: Of what was said.
        window: When it was said to hold.
        source: The memory that it was taken from, or empty.
        said_at: When, by the caller's clock.
        repetition: How often the same call said the same before.
    """
    end = "" if window.end is None else window.end.isoformat()
    parts = (window.start.isoformat(), end, source, said_at.isoformat(), str(repetition))
    return digest(fact_id, *parts)


def told_by(version: StoredVersion, *, verifier: str = "") -> Assertion:
    """Return the assertion that a version tells of; where it was joined, all of it was said."""
    said_at = version.recorded_at
    return Assertion(
        assertion_id(version.fact_id, version.window, version.source_memory_id, said_at=said_at),
        AssertionKind.ASSERT, version.fact_id, version.subject, version.object, version.object_id,
        version.window, said_at, version.ordinal, version.version_id, verifier,
        version.source_memory_id,
    )  # fmt: skip


def retraction(fact_id: str, object_id: str, *, recorded_at: datetime, ordinal: int) -> Assertion:
    """Return that a fact was taken back; it names no memory, because it outlives any."""
    made = digest("retract", fact_id, recorded_at.isoformat(), str(ordinal))
    return Assertion(
        made, AssertionKind.RETRACT, fact_id, "", "", object_id, Window(recorded_at), recorded_at,
        ordinal,
    )  # fmt: skip


def answered(
    kind: AssertionKind,
    loser: StoredVersion,
    winner: StoredVersion,
    *,
    recorded_at: datetime,
    ordinal: int,
) -> Assertion:
    """Return what a verifier, asked later, answered; it names no memory either.

    Args:
        kind: Which answer.
        loser: The version that it found against; where it found against none, the known one.
        winner: The other.
        recorded_at: When it answered.
        ordinal: That of the key's next version then.
    """
    # A case that goes on waiting is answered several times.
    when = () if kind in _TAKING_AWAY else (recorded_at.isoformat(),)
    made = digest(kind, loser.version_id, winner.version_id, *when)
    window = loser.window if kind is AssertionKind.REJECT_NEW else winner.window
    return Assertion(
        made, kind, loser.fact_id, "", "", loser.object_id, window, recorded_at, ordinal,
        winner_fact_id=winner.fact_id,
    )  # fmt: skip


def untold(
    written: Sequence[Assertion],
    versions: Sequence[StoredVersion],
    decisions: Iterable[Mapping[str, Any]],
    *,
    is_multi_valued: bool,
) -> list[Assertion]:
    """Return what was said about a key and not written down.

    Args:
        written: What was.
        versions: All versions of the key.
        decisions: Rows of all decisions about it.
        is_multi_valued: Different objects of its predicate don't contradict each other.
    """
    different = {one["verification_id"]: one for one in decisions}.values()
    deciding = [
        one["verifier"]
        for one in different
        if one["verdict"] in {Verdict.SUPERSEDE, Verdict.PENDING} and one["verifier"] in _RULES
    ]
    verifier = "" if is_multi_valued else [Verifier.LATEST_ASSERTION, *deciding][-1]
    ids = {one.assertion_id for one in written}
    makers = {one.version_id for one in written}
    missing = [
        told
        for version in versions
        if version.origin is not Origin.REMAINDER and version.version_id not in makers
        if (told := told_by(version, verifier=verifier)).assertion_id not in ids
    ]
    taken_back = {(one.fact_id, one.recorded_at) for one in written if one.takes_away}
    stored = {version.version_id: version for version in versions}
    for decision in different:
        found = _told_by_decision(decision, stored, verifier=verifier)
        if found is None or found.assertion_id in ids:
            continue
        if not found.takes_away:
            missing.append(found)
        elif (found.fact_id, found.recorded_at) not in taken_back:
            missing.append(found)
            taken_back.add((found.fact_id, found.recorded_at))
    return missing


def _told_by_decision(
    decision: Mapping[str, Any], stored: Mapping[str, StoredVersion], *, verifier: str
) -> Assertion | None:
    loser, winner = (stored.get(decision[f"{side}_version_id"]) for side in ("loser", "winner"))
    when, verdict = decision["decided_at"], decision["verdict"]
    if verdict in _ANSWERS and decision["verifier"] not in _RULES:
        kind = _ANSWERS[verdict]
        if loser is None or winner is None or not _is_answer(kind, decision, loser, winner):
            return None
        place = _place(stored.values(), loser, when)
        return answered(kind, loser, winner, recorded_at=when, ordinal=place)
    meant = loser or winner
    if meant is None or verdict not in {Verdict.RETRACT, Verdict.NOOP}:
        return None
    place = _place(stored.values(), meant, when)
    if decision["verdict"] == Verdict.RETRACT:
        # A decision that was never applied is none.
        is_applied = meant.retired_at == when
        taken_back = retraction(meant.fact_id, meant.object_id, recorded_at=when, ordinal=place)
        return taken_back if is_applied else None
    if meant.fact_id != decision["winner_fact_id"]:
        return None
    # Older releases told of a repetition here alone, and not of its window.
    return Assertion(
        decision["verification_id"], AssertionKind.ASSERT, meant.fact_id, meant.subject,
        meant.object, meant.object_id, meant.window, when, place, "", verifier,
        decision["source_memory_id"],
    )  # fmt: skip


def _is_answer(
    kind: AssertionKind,
    decision: Mapping[str, Any],
    loser: StoredVersion,
    winner: StoredVersion,
) -> bool:
    """Tell whether an answer was applied; ids of versions that are gone may be given out again."""
    if kind in _TAKING_AWAY:
        return bool(loser.retired_at == decision["decided_at"])
    named = decision["loser_fact_id"], decision["winner_fact_id"]
    return named == (loser.fact_id, winner.fact_id)


def _place(versions: Iterable[StoredVersion], meant: StoredVersion, when: datetime) -> int:
    known = [v.ordinal for v in versions if v.recorded_at < when or v.ordinal <= meant.ordinal]
    return max(known) + 1


def in_order(written: Sequence[Assertion], missing: Iterable[Assertion]) -> list[Assertion]:
    """Return what was said of a key in the order in which it was.

    Args:
        written: What was written down, in the order of writing.
        missing: What was not.
    """
    placed = [(one.ordinal, 2 if one.version_id else 0, n) for n, one in enumerate(written)]
    others = [(one.ordinal, 2 if one.version_id else 1, -1) for one in missing]
    whole = [*written, *missing]
    order = sorted(range(len(whole)), key=[*placed, *others].__getitem__)
    return [whole[place] for place in order]
