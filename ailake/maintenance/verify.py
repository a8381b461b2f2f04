"""FactVerifyJob: facts that contradict each other and wait, decided by a verifier."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter

from ailake import clock
from ailake.asking import Asking, check_asked, check_bounds
from ailake.core.fact_versions import Verdict
from ailake.core.usage import NO_USAGE, Usage
from ailake.core.verifying import CasePlanner, FactAnswer, FactCase, FactVerifier, OpenCase
from ailake.errors import InvalidInputError, ProviderError
from ailake.lake import Lake
from ailake.maintenance.runs import recorded
from ailake.progress import progress_bar
from ailake.storage.locks import VERIFY, exclusive
from ailake.storage.verifying import Rows, act_on, waiting_cases


@dataclass(frozen=True, slots=True)
class FailedCase:
    """A case that its verifier gave no answer to; it goes on waiting."""

    case: FactCase
    reason: str


@dataclass(frozen=True, slots=True)
class FactVerifyReport:
    """What a run decided.

    Attributes:
        now: When the decisions are recorded.
        waiting: The cases that wait now, after the run.
        asked: Answers and failures.
        superseded: Cases whose known fact lost.
        kept_both: Cases of which both facts hold.
        rejected: Cases whose new fact is no longer believed.
        deferred: Cases that the verifier left waiting.
        stale: Cases closed because their facts had changed; where what they had become still
            contradicts each other, that is a case of its own.
        failed: Cases without an answer.
        usage: Tokens of all answers and failures.
        stopped: Why not all cases were asked about, or empty.
        seconds: Wall time.
        dry_run: True where nobody was asked and nothing was changed.
    """

    now: datetime
    waiting: tuple[FactCase, ...]
    asked: int
    superseded: int
    kept_both: int
    rejected: int
    deferred: int
    stale: int
    failed: tuple[FailedCase, ...]
    usage: Usage
    stopped: str
    seconds: float
    dry_run: bool


class FactVerifyJob:
    """Asks a verifier about the facts that were asserted with ``verifier="queued"``.

    Each answer is one commit of versions, and is recorded with its reason, model and tokens. It
    is applied only while both facts are what the verifier was shown, under the lock of all
    writers; otherwise the case is closed, and what became of its facts is asked about anew. A run
    that is killed loses at most the answers that were not applied yet: the next one asks for
    these again. While a verifier thinks, other jobs and writers go on.

    Args:
        lake: The lake.
        verifier: Decides; None reports what waits and changes nothing.
        concurrency: How many cases the verifier is asked about at once.
        max_tokens: When the run has used so many, it asks no more, and the rest waits.

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        verifier: FactVerifier | None = None,
        concurrency: int = 1,
        max_tokens: int | None = None,
    ) -> None:
        check_asked(verifier, name="verifier", verb="verify", wanted="a FactVerifier, or None")
        self._store = lake.store
        self._verifier = verifier
        check_bounds(concurrency, max_tokens)
        self._concurrency, self._max_tokens = concurrency, max_tokens
        self.options = {
            "verified": verifier is not None, "concurrency": concurrency, "max_tokens": max_tokens,
        }  # fmt: skip

    @recorded("verify-facts")
    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> FactVerifyReport:
        """Run once.

        Args:
            now: When decisions are recorded, timezone-aware; default: the present.
            dry_run: Report what waits, ask nobody, and change nothing.
            progress: Show a bar on standard error.

        Raises:
            InvalidInputError: ``now`` is naive.
            ReadOnlyError: The lake can't be written.
            ProviderError: The verifier would answer no case; what was decided before stands.
            ConflictError: Other writers won every retry.
        """
        instant = clock.resolve_now(now)
        started = perf_counter()
        done = _Done()
        if self._verifier is not None and not dry_run:
            self._store.ensure_writable()
            with exclusive(self._store.place, VERIFY):
                self._ask_all(self._verifier, done, instant, progress=progress)
        return FactVerifyReport(
            now=instant,
            waiting=tuple(case.shown() for case in waiting_cases(self._store)),
            asked=done.asked,
            superseded=done.outcomes[Verdict.SUPERSEDE],
            kept_both=done.outcomes[Verdict.KEEP_BOTH],
            rejected=done.outcomes[Verdict.REJECT_NEW],
            deferred=done.outcomes[Verdict.DEFER],
            stale=done.stale,
            failed=tuple(done.failed),
            usage=done.usage,
            stopped=done.stopped,
            seconds=perf_counter() - started,
            dry_run=dry_run,
        )

    def _ask_all(
        self, verifier: FactVerifier, done: "_Done", now: datetime, *, progress: bool
    ) -> None:
        """Ask about each case once, those among them that earlier decisions leave behind."""
        asking: Asking[OpenCase, FactAnswer] = Asking(
            lambda case: _checked(verifier.verify(case.shown())),
            concurrency=self._concurrency,
            max_tokens=self._max_tokens,
        )
        # A case is asked about once, and may turn stale after that.
        seen: set[tuple[str, bool]] = set()
        while fresh := [one for one in waiting_cases(self._store) if _state(one) not in seen]:
            seen.update(map(_state, fresh))
            live = [case for case in fresh if not self._is_closed(case, done, now)]
            with progress_bar("asking the verifier", total=len(live), shown=progress) as advance:
                for case, answer in asking.answers(live):
                    self._take(case, answer, done, now=now)
                    advance(1)
            if asking.stopped:
                break
        done.usage, done.stopped = asking.usage, asking.stopped

    def _is_closed(self, case: OpenCase, done: "_Done", now: datetime) -> bool:
        if not case.is_stale:
            return False
        done.stale += act_on(self._store, case, _close, now=now) is not None
        return True

    def _take(
        self, case: OpenCase, answer: FactAnswer | ProviderError, done: "_Done", *, now: datetime
    ) -> None:
        """Apply an answer, unless the case has changed since it was asked about."""
        done.asked += 1
        if isinstance(answer, ProviderError):
            done.failed.append(FailedCase(case.shown(), str(answer)))
            return
        verifier = self._verifier

        def act(planner: CasePlanner, present: OpenCase, rows: Rows) -> Verdict:
            if present.is_stale:
                return _close(planner, present, rows)
            if verifier is None or (present.new, present.known) != (case.new, case.known):
                # The ids of versions that were removed were given out again: another case.
                return Verdict.PENDING
            return planner.apply(present, answer, verifier=verifier.id)

        outcome = act_on(self._store, case, act, now=now)
        if outcome is Verdict.STALE:
            done.stale += 1
        elif outcome is not None:
            done.outcomes[outcome] += 1


@dataclass(slots=True)
class _Done:
    asked: int = 0
    stale: int = 0
    stopped: str = ""
    usage: Usage = NO_USAGE
    outcomes: Counter[Verdict] = field(default_factory=Counter)
    failed: list[FailedCase] = field(default_factory=list)


def _state(case: OpenCase) -> tuple[str, bool]:
    return case.case_id, case.is_stale


def _close(planner: CasePlanner, case: OpenCase, rows: Rows) -> Verdict:
    planner.close(case, rows)
    return Verdict.STALE


def _checked(answer: object) -> FactAnswer:
    if not isinstance(answer, FactAnswer):
        raise InvalidInputError.of("the verifier's answer", got=answer, wanted="a FactAnswer")
    return answer
