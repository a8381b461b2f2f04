"""Facts that contradict each other and wait for a verifier: which, and what its answer changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from ailake.core.assertions import AssertionKind, answered
from ailake.core.fact_rows import is_applied
from ailake.core.fact_versions import FactKey, FactVersion, Origin, StoredVersion, Verdict
from ailake.core.records import Scope
from ailake.core.superseding import CONTRADICTS, KeyPlanner
from ailake.core.usage import NO_USAGE, Usage, check_answer
from ailake.core.windows import minus, windows_overlap

CHANGED = "changed since it was asked about"

_CLOSING = frozenset({Verdict.SUPERSEDE, Verdict.REJECT_NEW, Verdict.KEEP_BOTH, Verdict.STALE})


class FactVerdict(StrEnum):
    """What a verifier may answer.

    ``supersede``: the known fact keeps only its time outside the new one's. ``keep_both``: both
    hold. ``reject_new``: the new one is no longer believed. ``defer``: it goes on waiting.
    """

    SUPERSEDE = "supersede"
    KEEP_BOTH = "keep_both"
    REJECT_NEW = "reject_new"
    DEFER = "defer"


@dataclass(frozen=True, slots=True)
class FactCase:
    """Two facts of one subject and predicate that hold at the same time.

    Attributes:
        case_id: The same in every run.
        new: The one that was asserted later.
        known: The one that was known then.
    """

    case_id: str
    scope: Scope
    new: FactVersion
    known: FactVersion


@dataclass(frozen=True, slots=True)
class FactAnswer:
    """What a verifier answers to a case.

    Attributes:
        reason: Why; kept with the decision.
        model: The model that was asked, empty where there was none.
        usage: What that took.

    Raises:
        InvalidInputError: No such verdict, or no reason.
    """

    verdict: FactVerdict
    reason: str
    model: str = ""
    usage: Usage = NO_USAGE

    def __post_init__(self) -> None:
        check_answer(self.verdict, self.reason, self.model, verdicts=list(FactVerdict))
        object.__setattr__(self, "verdict", FactVerdict(self.verdict))


class FactVerifier(Protocol):
    """Decides between facts that contradict each other: a model, a person, a rule."""

    @property
    def id(self) -> str:
        """Kept with each decision."""

    def verify(self, case: FactCase) -> FactAnswer:
        """Decide one case, perhaps from several threads at once.

        Raises:
            ProviderError: There is no answer; the case goes on waiting.
        """


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case as it is stored.

    Attributes:
        new: The version that was asserted later, retired or not.
        known: The other.
    """

    case_id: str
    key: FactKey
    new: StoredVersion
    known: StoredVersion

    @property
    def is_stale(self) -> bool:
        """Whether one of the two is no longer believed, so that there is nothing to decide."""
        return bool(self.new.retired_at or self.known.retired_at)

    def shown(self) -> FactCase:
        """Return it as a verifier sees it."""
        new, known = (_shown(self.key, version) for version in (self.new, self.known))
        return FactCase(self.case_id, self.key.scope, new, known)


def open_cases(
    key: FactKey, versions: Sequence[StoredVersion], rows: Sequence[Mapping[str, Any]]
) -> list[OpenCase]:
    """Return the cases of a key that no decision has closed, in the order they were queued.

    Args:
        key: The key.
        versions: All its versions.
        rows: All its rows of ``verifications``, in order, read after the versions.
    """
    stored = {version.version_id: version for version in versions}
    applied = [row for row in rows if is_applied(row, stored)]
    closed = {_pair(row) for row in applied if row["verdict"] in _CLOSING}
    found: dict[frozenset[str], OpenCase] = {}
    for row in applied:
        pair = _pair(row)
        # A writer that died and was run again may have queued the same pair twice.
        if row["verdict"] == Verdict.PENDING and pair not in closed and pair not in found:
            new, known = stored[row["winner_version_id"]], stored[row["loser_version_id"]]
            found[pair] = OpenCase(row["verification_id"], key, new, known)
    return list(found.values())


class CasePlanner(KeyPlanner):
    """Plans what answers change, as ``KeyPlanner`` does for assertions."""

    def apply(self, case: OpenCase, answer: FactAnswer, *, verifier: str) -> Verdict:
        """Plan what the answer to an open case that is not stale changes, and return it."""
        verdict = Verdict(answer.verdict)
        new, known = case.new, case.known
        loser, winner = known, new
        if answer.verdict is FactVerdict.SUPERSEDE:
            self._say(AssertionKind.SUPERSEDE, known, new)
            self._retire(known)
            for window in minus(known.window, new.window):
                self._insert(replace(known, window=window), Origin.REMAINDER)
        elif answer.verdict is FactVerdict.REJECT_NEW:
            self._say(AssertionKind.REJECT_NEW, new, known)
            self._retire(new)
            loser, winner = new, known
        else:
            self._say(AssertionKind(verdict), known, new)
        self._note(
            verdict, loser, winner, reason=answer.reason,
            source=new.source_memory_id, by=verifier, model=answer.model, usage=answer.usage,
        )  # fmt: skip
        return verdict

    def _say(self, kind: AssertionKind, loser: StoredVersion, winner: StoredVersion) -> None:
        when, place = self._now, self._next
        self._said.append(answered(kind, loser, winner, recorded_at=when, ordinal=place))

    def close(self, case: OpenCase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Close a stale case, and queue what followed its versions and contradicts each other.

        Args:
            case: The case.
            rows: All rows of ``verifications`` of the key.
        """
        source = case.new.source_memory_id
        self._note(Verdict.STALE, case.known, case.new, reason=CHANGED, source=source)
        asked = {_pair(row) for row in rows}
        for new in self._successors(case.new):
            for known in self._successors(case.known):
                pair = frozenset({new.version_id, known.version_id})
                if pair not in asked and windows_overlap(new.window, known.window):
                    source = new.source_memory_id
                    self._note(Verdict.PENDING, known, new, reason=CONTRADICTS, source=source)

    def _successors(self, version: StoredVersion) -> list[StoredVersion]:
        return [
            one
            for one in self._live
            if one.fact_id == version.fact_id and windows_overlap(one.window, version.window)
        ]


def _pair(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({row["winner_version_id"], row["loser_version_id"]})


def _shown(key: FactKey, version: StoredVersion) -> FactVersion:
    return FactVersion(
        version.fact_id, version.subject, key.predicate, version.object, version.window.start,
        version.window.end, version.recorded_at, version.retired_at, version.source_memory_id,
        version.version_id,
    )  # fmt: skip
