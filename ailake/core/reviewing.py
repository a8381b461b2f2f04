"""Grey pairs under review: what a reviewer may answer, and what the rules let come of it. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from ailake.core.decisions import KEEP, DecisionRecord, GreyPair, verdict_id
from ailake.core.judge import Candidate, JudgeRules, MemoryItem, judge
from ailake.core.records import Decision, MemoryRecord, Scope, State
from ailake.core.remembering import lasts
from ailake.core.usage import NO_USAGE, Usage, check_answer

REVIEWED = "reviewed"
REFUSED = "refused"

_MOMENT = timedelta(microseconds=1)


class ReviewVerdict(StrEnum):
    """What a reviewer may answer.

    ``merge``: the new memory lives on in the existing one. ``modify``: the existing one lives on
    in the new one, which says all of it and more. ``keep``: they are two.
    """

    MERGE = "merge"
    MODIFY = "modify"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class GreyCase:
    """Two memories of one author that no rule could tell apart.

    Attributes:
        pair_id: The same in every run.
        about: The id of the verdict that left them open.
        new: The memory that was new then.
        existing: The one that was recalled for it.
        score: Their similarity then; it decides nothing.
    """

    pair_id: str
    about: str
    scope: Scope
    new: MemoryRecord
    existing: MemoryRecord
    score: float


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """What a reviewer answers.

    Attributes:
        reason: Why; kept with the answer.
        model: The model that was asked, empty where there was none.
        usage: What that took.

    Raises:
        InvalidInputError: No such verdict, or no reason.
    """

    verdict: ReviewVerdict
    reason: str
    model: str = ""
    usage: Usage = NO_USAGE

    def __post_init__(self) -> None:
        check_answer(self.verdict, self.reason, self.model, verdicts=list(ReviewVerdict))
        object.__setattr__(self, "verdict", ReviewVerdict(self.verdict))


class Reviewer(Protocol):
    """Answers for grey pairs: a model, a person, a rule."""

    @property
    def id(self) -> str:
        """Kept with each answer."""

    def review(self, case: GreyCase) -> ReviewAnswer | None:
        """Answer for one pair, perhaps from several threads at once; None: it goes on waiting.

        Raises:
            ProviderError: There is no answer; the pair goes on waiting.
        """


def pair_id(pair: GreyPair) -> str:
    """Return the id of a pair, which is that of its answer, too."""
    return verdict_id(f"{pair.about}\0{pair.existing_id}", "review")


def is_live(record: MemoryRecord, now: datetime) -> bool:
    """Tell whether recall sees a memory."""
    return record.state is State.ACTIVE and lasts(record.expires_at, now)


def settled(
    case: GreyCase,
    answer: ReviewAnswer,
    present: tuple[MemoryRecord, MemoryRecord],
    *,
    reviewer: str,
    rules: JudgeRules,
    now: datetime,
) -> DecisionRecord | None:
    """Return the decision to record, and to apply where it names an absorbed memory.

    Args:
        case: What the reviewer was shown.
        answer: What it answered.
        present: The new and the existing memory as they are now.
        reviewer: Its id.
        rules: A pair that is no grey one under them is refused, whatever the reviewer says.
        now: When.

    Returns:
        None where one of the two has gone or changed: the answer is about something else.
    """
    new, existing = items(present)
    if (new, existing) != items((case.new, case.existing)):
        return None
    if not all(is_live(one, now) for one in present):
        return None
    decision, reason, veto, absorbed = str(answer.verdict), REVIEWED, "", ""
    if answer.verdict is not ReviewVerdict.KEEP:
        refused, veto = refusal(new, existing, rules)
        if refused:
            decision, reason = KEEP, f"{REFUSED}:{answer.verdict}:{refused}"
        else:
            absorbed = new.id if answer.verdict is ReviewVerdict.MERGE else existing.id
    return DecisionRecord(
        id=case.pair_id,
        scope=case.scope,
        # Later than both, so that one can tell whether it was applied.
        decided_at=max(now, *(one.updated_at + _MOMENT for one in present)),
        decision=decision,
        memory_id=new.id,
        existing_id=existing.id,
        absorbed_id=absorbed,
        score=case.score,
        reason=reason,
        veto=veto,
        rules_version=answer.model or rules.version,
        decided_by=reviewer,
        about=case.about,
        tokens=answer.usage.total,
        note=answer.reason,
    )


def refusal(new: MemoryItem, existing: MemoryItem, rules: JudgeRules) -> tuple[str, str]:
    """Return why the rules let no reviewer decide about a pair, and the veto; empty: they do."""
    verdict = judge(new, [Candidate(existing, 0.0, "embedding")], rules)
    if verdict.grey:
        return "", ""
    if verdict.decision is Decision.CREATE:
        return f"veto:{verdict.veto}", str(verdict.veto)
    return str(verdict.reason), ""


def is_unapplied(answer: DecisionRecord, absorbed: MemoryRecord) -> bool:
    """Tell whether whoever recorded an answer died before it was applied.

    What is absorbed is changed at the answer's instant. Whether it was restored since is for the
    decisions to tell: clocks may differ.
    """
    return absorbed.state is State.ACTIVE and absorbed.updated_at < answer.decided_at


def items(present: tuple[MemoryRecord, MemoryRecord]) -> tuple[MemoryItem, MemoryItem]:
    """Return two memories as the judge sees them."""
    new, existing = present
    return _item(new), _item(existing)


def _item(record: MemoryRecord) -> MemoryItem:
    return MemoryItem(
        record.id, record.text, record.scope, record.role, record.speaker, record.source,
        record.confidence, record.state is State.ACTIVE,
    )  # fmt: skip
