"""What to retire and what to insert for new facts of one subject and predicate, as a plan.

A version never changes, except that it is retired once; what is left of one that loses is a new
version. Storage applies a plan as a whole or not at all.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ailake.core.assertions import Assertion, AssertionKind, assertion_id, retraction
from ailake.core.entities import digest
from ailake.core.fact_versions import (
    FactKey,
    Origin,
    StoredVersion,
    Verdict,
    Verification,
    Verifier,
)
from ailake.core.reconcile import FactDecision, FactTriple, decide
from ailake.core.usage import NO_USAGE, Usage
from ailake.core.windows import (
    Window,
    before,
    common,
    minus,
    minus_all,
    union,
    windows_meet,
    windows_overlap,
)

ASSERTED_LATER = "asserted later"
BEGAN_LATER = "began later"
CONTRADICTS = "contradicts what is known"


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """What becomes of the versions of one key, in one commit.

    Attributes:
        retired: Stored versions, with their ``retired_at``.
        inserted: New versions; one that a later fact of the same batch retired has the same
            instant as its beginning and end.
        verifications: Who lost to whom and why.
        assertions: What was said, in order.
    """

    key: FactKey
    retired: tuple[StoredVersion, ...]
    inserted: tuple[StoredVersion, ...]
    verifications: tuple[Verification, ...]
    assertions: tuple[Assertion, ...]


class KeyPlanner:
    """Takes facts of one key in order, each seeing what those before it did.

    Args:
        key: Their scope, subject and predicate.
        versions: Every stored version of the key, retired ones too.
        now: When they are recorded. Belief never runs backwards: where something of the key was
            recorded later, that instant counts.
        verifier: Who decides.
        multi_valued: Different objects don't contradict each other.
        first_ordinal: Smaller ones may have been given to versions that were removed.
    """

    def __init__(
        self,
        key: FactKey,
        versions: Sequence[StoredVersion],
        *,
        now: datetime,
        verifier: Verifier = Verifier.LATEST_ASSERTION,
        multi_valued: bool = False,
        first_ordinal: int = 0,
    ) -> None:
        self._key, self._key_id = key, key.id
        self._verifier, self._multi_valued = verifier, multi_valued
        changed = [v.retired_at or v.recorded_at for v in versions]
        self._said_at, self._now = now, max([now, *changed])
        self._next = max([first_ordinal, *(v.ordinal + 1 for v in versions)])
        self._live = sorted((v for v in versions if v.retired_at is None), key=_order)
        self._retired: list[StoredVersion] = []
        self._inserted: dict[str, StoredVersion] = {}
        self._verifications: list[Verification] = []
        self._said: list[Assertion] = []
        self._repeated: Counter[tuple[str, Window, str]] = Counter()

    @property
    def live(self) -> tuple[StoredVersion, ...]:
        """What is believed so far."""
        return tuple(self._live)

    def plan(self) -> KeyPlan:
        """Return what all facts so far come to."""
        inserted = tuple(self._inserted.values())
        return KeyPlan(
            self._key, tuple(self._retired), inserted, tuple(self._verifications), tuple(self._said)
        )

    def take(self, triple: FactTriple, object_id: str) -> FactDecision:
        """Take one fact.

        Args:
            triple: The fact, of this key.
            object_id: Id of its object.

        Returns:
            What ``classify_fact`` makes of it; where the verifier found against the new fact, that
            is the loser. A noop names a loser where it adds an interval that another one had. The
            loser that a ``queued`` case names has not lost yet.
        """
        fact_id = self._key.fact_id(object_id)
        window = Window(triple.valid_from, triple.valid_to)
        own = [v for v in self._live if v.object_id == object_id]
        meeting = _overlapping(own if self._multi_valued else self._live, window)
        kind, loser = decide(object_id, window, own or meeting)
        added = minus_all(window, (v.window for v in meeting if v.object_id == object_id))
        new = _New(triple, object_id, fact_id, window)
        self._said.append(self._assertion(new, adds=bool(added)))
        if not added:
            return FactDecision(kind, fact_id=fact_id)
        rivals = [
            v
            for v in meeting
            if v.object_id != object_id and any(windows_overlap(v.window, a) for a in added)
        ]
        if rivals and self._verifier is Verifier.QUEUED:
            self._queue(new, added, rivals)
            return FactDecision(kind, rivals[0].fact_id, fact_id=fact_id)
        beaten = self._settle(new, own, rivals)
        if loser is None:
            # What is known already may add an interval, and others lose that.
            lost = beaten[0].fact_id if beaten else None
            return FactDecision(kind, lost, fact_id=fact_id)
        lost_by = loser.fact_id if loser in beaten else fact_id
        return FactDecision(kind, lost_by, fact_id=fact_id)

    def retract(self, fact_id: str, reason: str) -> tuple[StoredVersion, ...]:
        """Retire all live versions of a fact, and return them as they are then."""
        gone = [v for v in self._live if v.fact_id == fact_id]
        for version in gone:
            self._retire(version)
            source = version.source_memory_id
            self._note(Verdict.RETRACT, version, None, reason=reason, source=source)
        if gone:
            self._said.append(
                retraction(fact_id, gone[0].object_id, recorded_at=self._now, ordinal=self._next)
            )
        return tuple(replace(version, retired_at=self._now) for version in gone)

    def replay(self, said: Assertion) -> None:
        """Take what was said once, as it was decided then."""
        self._now = max(self._now, said.recorded_at)
        if said.kind is AssertionKind.RETRACT:
            self.retract(said.fact_id, "")
            return
        if not said.is_assert:
            if said.takes_away:
                self._lose(said)
            return
        self._multi_valued = not said.verifier
        if said.verifier:
            self._verifier = Verifier(said.verifier)
        triple = FactTriple(
            said.subject, self._key.predicate, said.object, said.window.start, said.window.end,
            source_memory_id=said.source_memory_id,
        )  # fmt: skip
        self.take(triple, said.object_id)

    def _lose(self, said: Assertion) -> None:
        """Take that a fact was found against, for as long as what it lost to is believed."""
        winners = [v.window for v in self._live if v.fact_id == said.winner_fact_id]
        lost = [part for window in winners for part in common(window, said.window)]
        if lost and said.kind is AssertionKind.REJECT_NEW:
            lost = [said.window]
        for version in [v for v in self._live if v.fact_id == said.fact_id]:
            left = list(minus_all(version.window, lost))
            if left != [version.window]:
                self._retire(version)
                for window in left:
                    self._insert(replace(version, window=window), Origin.REMAINDER)

    def _assertion(self, new: "_New", *, adds: bool) -> Assertion:
        source = new.triple.source_memory_id
        same = (new.fact_id, new.window, source)
        repetition = self._repeated[same]
        self._repeated[same] += 1
        return Assertion(
            assertion_id(*same, said_at=self._said_at, repetition=repetition),
            AssertionKind.ASSERT, new.fact_id, new.triple.subject, new.triple.object,
            new.object_id, new.window, self._now, self._next,
            version_id(self._key_id, self._next) if adds else "",
            "" if self._multi_valued else str(self._verifier), source,
        )  # fmt: skip

    def _settle(
        self, new: "_New", own: Sequence[StoredVersion], rivals: Sequence[StoredVersion]
    ) -> list[StoredVersion]:
        """Insert a fact that adds something, and return the rivals that lost to it."""
        by_event = self._verifier is Verifier.LATEST_EVENT
        later = [v for v in rivals if by_event and v.window.start > new.window.start]
        beaten = [v for v in rivals if v not in later]
        source = new.triple.source_memory_id
        kept = new.window
        if later:
            winner = min(later, key=lambda v: v.window.start)
            said = self._insert(new.version(kept), Origin.ASSERTED)
            self._retire(said)
            self._note(Verdict.SUPERSEDE, said, winner, reason=BEGAN_LATER, source=source)
            (kept,) = before(kept, winner.window.start)
        stays = self._stored(new, kept, own, is_cut=bool(later), beaten=beaten)
        for rival in beaten:
            self._retire(rival)
            left = (before(rival.window, new.window.start) if by_event
                    else minus(rival.window, new.window))  # fmt: skip
            for window in left:
                self._insert(replace(rival, window=window), Origin.REMAINDER)
            began_later = by_event and rival.window.start < new.window.start
            reason = BEGAN_LATER if began_later else ASSERTED_LATER
            self._note(Verdict.SUPERSEDE, rival, stays, reason=reason, source=source)
        return beaten

    def _queue(self, new: "_New", added: Sequence[Window], rivals: Sequence[StoredVersion]) -> None:
        """Insert what a fact adds, each interval by itself, beside the rivals that may lose."""
        for part in added:
            made = self._insert(new.version(part), Origin.ASSERTED)
            for rival in rivals:
                if windows_overlap(rival.window, part):
                    source = new.triple.source_memory_id
                    self._note(Verdict.PENDING, rival, made, reason=CONTRADICTS, source=source)

    def _is_contested(self, version: StoredVersion, settled: Sequence[StoredVersion]) -> bool:
        """Tell whether another object holds at the same time, and is not about to lose."""
        return not self._multi_valued and any(
            other.object_id != version.object_id and windows_overlap(other.window, version.window)
            for other in self._live
            if other not in settled
        )

    def _stored(
        self,
        new: "_New",
        kept: Window,
        own: Sequence[StoredVersion],
        *,
        is_cut: bool,
        beaten: Sequence[StoredVersion],
    ) -> StoredVersion:
        """Return the first version that holds some of ``kept``, all of which is stored then.

        A version that waits for a verifier, or was kept beside another, stays what it is.
        """
        meeting = [v for v in own if windows_meet(v.window, kept)]
        contested = [v for v in meeting if self._is_contested(v, beaten)]
        free = [v for v in meeting if v not in contested]
        parts = minus_all(kept, (v.window for v in contested))
        stored = [self._joined(new, part, free, is_cut=is_cut) for part in parts]
        return (stored or [v for v in contested if windows_overlap(v.window, kept)])[0]

    def _joined(
        self, new: "_New", kept: Window, own: Sequence[StoredVersion], *, is_cut: bool
    ) -> StoredVersion:
        """Return the version that holds ``kept``, with what it meets of the same fact."""
        meeting = [v for v in own if windows_meet(v.window, kept)]
        whole = union([kept, *(v.window for v in meeting)])
        for version in meeting:
            if version.window == whole:
                return version
        for version in meeting:
            self._retire(version)
        made = new.version(whole)
        if meeting:
            # As it was said first; the memory that confirms it is the newer link.
            first = meeting[0]
            source = made.source_memory_id or first.source_memory_id
            made = replace(
                made, subject=first.subject, object=first.object, source_memory_id=source
            )
        if is_cut:
            return self._insert(made, Origin.REMAINDER)
        return self._insert(made, Origin.EXTENDED if meeting else Origin.ASSERTED)

    def _insert(self, version: StoredVersion, origin: Origin) -> StoredVersion:
        made = replace(
            version,
            version_id=version_id(self._key_id, self._next),
            recorded_at=self._now,
            ordinal=self._next,
            origin=origin,
            retired_at=None,
        )
        self._next += 1
        self._inserted[made.version_id] = made
        insort(self._live, made, key=_order)
        return made

    def _retire(self, version: StoredVersion) -> None:
        # By its place: to compare with every version before it takes longer than all else.
        del self._live[bisect_left(self._live, _order(version), key=_order)]
        ended = replace(version, retired_at=self._now)
        if version.version_id in self._inserted:
            self._inserted[version.version_id] = ended
        else:
            self._retired.append(ended)

    def _note(
        self,
        verdict: Verdict,
        loser: StoredVersion | None,
        winner: StoredVersion | None,
        *,
        reason: str,
        source: str,
        by: str = "",
        model: str = "",
        usage: Usage = NO_USAGE,
    ) -> None:
        sides = [side.version_id if side else "" for side in (loser, winner)]
        place, when = len(self._verifications), self._now.isoformat()
        verification_id = digest(self._key_id, verdict, *sides, reason, when, str(place))
        if not by and verdict in {Verdict.SUPERSEDE, Verdict.PENDING}:
            by = str(self._verifier)
        self._verifications.append(
            Verification(
                verification_id, verdict, by, loser, winner, reason, self._now, source, model, usage
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _New:
    triple: FactTriple
    object_id: str
    fact_id: str
    window: Window

    def version(self, window: Window) -> StoredVersion:
        """Return it as a version that has no place and no instant yet."""
        said = self.triple
        return StoredVersion(
            "", self.fact_id, said.subject, said.object, self.object_id, window,
            said.valid_from, -1, Origin.ASSERTED, said.source_memory_id,
        )  # fmt: skip


def version_id(key_id: str, ordinal: int) -> str:
    """Return the id of a key's version."""
    return digest(key_id, str(ordinal))


def _order(version: StoredVersion) -> tuple[datetime, str, int]:
    return version.recorded_at, version.fact_id, version.ordinal


def _overlapping(versions: Sequence[StoredVersion], window: Window) -> list[StoredVersion]:
    """Return those that overlap a window; a key may have thousands, so nothing is called."""
    start, end = window.start, window.end
    return [
        v
        for v in versions
        if (end is None or v.window.start < end) and (v.window.end is None or start < v.window.end)
    ]
