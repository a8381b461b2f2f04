"""ReviewJob: pairs of memories that no rule could tell apart, decided by a reviewer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter

from ailake import clock
from ailake.asking import Asking, check_asked, check_bounds
from ailake.changing import Changer
from ailake.core.decisions import BY_RESTORE, KEEP, DecisionRecord, GreyPair
from ailake.core.judge import JudgeRules
from ailake.core.records import Decision, MemoryRecord, Scope
from ailake.core.reviewing import (
    REFUSED,
    GreyCase,
    ReviewAnswer,
    Reviewer,
    is_live,
    is_unapplied,
    items,
    pair_id,
    refusal,
    settled,
)
from ailake.core.rows import RECORD_COLUMNS, to_pylist
from ailake.core.usage import NO_USAGE, Usage
from ailake.errors import InvalidInputError, ProviderError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import progress_bar
from ailake.storage import decisions, memories
from ailake.storage.locks import REVIEW, exclusive
from ailake.storage.store import Store

_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FailedPair:
    """A pair that its reviewer gave no answer for; it goes on waiting."""

    case: GreyCase
    reason: str


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """What a run decided.

    Attributes:
        now: When the answers are recorded.
        waiting: The pairs that wait now, after the run, oldest first.
        asked: Answers and failures, and pairs that the reviewer left waiting.
        merged: New memories that live on in the existing one.
        modified: Existing memories that live on in the new one.
        kept: Pairs that stay two.
        refused: Answers that a rule forbids; recorded, and the pair stays two.
        changed: Answers that were not applied, because a memory had gone or changed.
        resumed: Answers of an earlier run that died before it applied them.
        failed: Pairs without an answer.
        usage: Tokens of all answers and failures.
        stopped: Why not all pairs were asked about, or empty.
        seconds: Wall time.
        dry_run: True where nobody was asked and nothing was changed.
    """

    now: datetime
    waiting: tuple[GreyCase, ...]
    asked: int
    merged: int
    modified: int
    kept: int
    refused: int
    changed: int
    resumed: int
    failed: tuple[FailedPair, ...]
    usage: Usage
    stopped: str
    seconds: float
    dry_run: bool


class ReviewJob:
    """Asks a reviewer about the grey pairs of the judge.

    An answer is looked at again under the lock of all writers: it is applied only where both
    memories are there and unchanged, and the rules still call the pair grey. What a rule forbids
    is refused, whatever the reviewer says, and recorded as such. Each answer is recorded with its
    reason, model and tokens before both rows change in one commit; where a run is killed in
    between, the next one applies it. While a reviewer thinks, other jobs and writers go on.

    Args:
        lake: The lake.
        reviewer: Decides; None reports what waits and changes nothing.
        rules: Those of the judge; None takes those that the lake was connected with.
        concurrency: How many pairs the reviewer is asked about at once.
        max_tokens: When the run has used so many, it asks no more, and the rest waits.

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        reviewer: Reviewer | None = None,
        rules: JudgeRules | None = None,
        concurrency: int = 1,
        max_tokens: int | None = None,
    ) -> None:
        check_asked(reviewer, name="reviewer", verb="review", wanted="a Reviewer, or None")
        check_bounds(concurrency, max_tokens)
        self._store, self._embedder = lake.store, lake.embedder
        self._reviewer = reviewer
        self._rules = lake.store.rules if rules is None else rules
        self._concurrency, self._max_tokens = concurrency, max_tokens
        self.options = {
            "reviewed": reviewer is not None, "concurrency": concurrency, "max_tokens": max_tokens,
        }  # fmt: skip

    @recorded("review")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> ReviewReport:
        """Run once.

        Args:
            now: When answers are recorded, timezone-aware; default: the present.
            dry_run: Report what waits, ask nobody, and change nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ProviderError: The reviewer would answer for no pair; what was decided before stands.
            ConflictError: Other writers won every retry.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        done = _Done()
        self._store.settle()
        if self._reviewer is not None and not dry_run:
            self._store.ensure_writable()
            with exclusive(self._store.place, REVIEW):
                done.resumed = self._resume(instant)
                self._ask_all(self._reviewer, done, instant, progress=progress)
        return ReviewReport(
            now=instant,
            waiting=tuple(waiting_pairs(self._store, instant)),
            asked=done.asked,
            merged=done.outcomes[Decision.MERGE],
            modified=done.outcomes[Decision.MODIFY],
            kept=done.outcomes[KEEP],
            refused=done.outcomes[_REFUSED],
            changed=done.changed,
            resumed=done.resumed,
            failed=tuple(done.failed),
            usage=done.usage,
            stopped=done.stopped,
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )

    def _ask_all(self, reviewer: Reviewer, done: "_Done", now: datetime, *, progress: bool) -> None:
        asking: Asking[GreyCase, _Asked] = Asking(
            lambda case: _Asked(_checked(reviewer.review(case))),
            concurrency=self._concurrency,
            max_tokens=self._max_tokens,
        )
        cases = waiting_pairs(self._store, now)
        with progress_bar("asking the reviewer", total=len(cases), shown=progress) as advance:
            for case, asked in asking.answers(cases):
                done.asked += 1
                if isinstance(asked, ProviderError):
                    done.failed.append(FailedPair(case, str(asked)))
                elif asked.answer is not None:
                    self._apply(case, asked.answer, done, reviewer=reviewer.id, now=now)
                advance(1)
        done.usage, done.stopped = asking.usage, asking.stopped

    def _apply(
        self, case: GreyCase, answer: ReviewAnswer, done: "_Done", *, reviewer: str, now: datetime
    ) -> None:
        decided = self._changer(case.scope).review(
            (case.new.id, case.existing.id),
            lambda present: settled(
                case, answer, present, reviewer=reviewer, rules=self._rules, now=now
            ),
        )
        if decided is None:
            done.changed += 1
        else:
            is_refused = decided.reason.startswith(REFUSED)
            done.outcomes[_REFUSED if is_refused else decided.decision] += 1

    def _resume(self, now: datetime) -> int:
        """Apply what was answered and recorded by a run that died then; return how many."""
        where = {"about": {"ne": ""}, "decision": {"in": [Decision.MERGE, Decision.MODIFY]}}
        answers = decisions.find(self._store, (), decisions.where_decisions(where))
        known = records_of(self._store, (one.absorbed_id for one in answers if one.absorbed_id))
        restored = decisions.where_decisions({"decided_by": BY_RESTORE})
        undone = {one.about for one in decisions.find(self._store, (), restored)}
        left = [
            one
            for one in answers
            if one.absorbed_id in known
            and one.id not in undone
            and is_unapplied(one, known[one.absorbed_id])
        ]
        return sum(self._resumed(one, now) for one in left)

    def _resumed(self, answer: DecisionRecord, now: datetime) -> bool:
        def decide(present: tuple[MemoryRecord, MemoryRecord]) -> DecisionRecord | None:
            new, existing = present
            absorbed = new if answer.absorbed_id == new.id else existing
            may_be = all(is_live(one, now) for one in present) and is_unapplied(answer, absorbed)
            refused, _ = refusal(*items(present), self._rules) if may_be else ("gone", "")
            return None if refused else answer

        pair = (answer.memory_id, answer.existing_id)
        return self._changer(answer.scope).review(pair, decide) is not None

    def _changer(self, scope: Scope) -> Changer:
        return Changer(self._store, self._embedder, scope)


@dataclass(frozen=True, slots=True)
class _Asked:
    answer: ReviewAnswer | None

    @property
    def usage(self) -> Usage:
        return NO_USAGE if self.answer is None else self.answer.usage


@dataclass(slots=True)
class _Done:
    asked: int = 0
    changed: int = 0
    resumed: int = 0
    stopped: str = ""
    usage: Usage = NO_USAGE
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[FailedPair] = field(default_factory=list)


def waiting_pairs(store: Store, now: datetime) -> list[GreyCase]:
    """Return the grey pairs that nobody has answered for and whose memories both live."""
    pairs = decisions.pending_grey(store)
    known = records_of(store, _ids(pairs))
    found = []
    for pair in pairs:
        new, existing = known.get(pair.memory_id), known.get(pair.existing_id)
        if new and existing and is_live(new, now) and is_live(existing, now):
            case = GreyCase(pair_id(pair), pair.about, pair.scope, new, existing, pair.score)
            found.append(case)
    return found


def records_of(store: Store, ids: Iterable[str]) -> dict[str, MemoryRecord]:
    """Return those of some memories that are there, by id."""
    wanted = list(dict.fromkeys(ids))
    view = store.view()
    rows = to_pylist(view.stored("chunk_id", wanted, RECORD_COLUMNS)) if wanted else []
    return {record.id: record for record in memories.records(view, rows)}


def _ids(pairs: Sequence[GreyPair]) -> list[str]:
    return [one for pair in pairs for one in (pair.memory_id, pair.existing_id)]


def _checked(answer: object) -> ReviewAnswer | None:
    if answer is not None and not isinstance(answer, ReviewAnswer):
        wanted = "a ReviewAnswer, or None"
        raise InvalidInputError.of("the reviewer's answer", got=answer, wanted=wanted)
    return answer
