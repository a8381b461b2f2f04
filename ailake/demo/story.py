"""What the demo does, as values: printing them is the command line's work."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from ailake.core.episodic import RecencyConfig, ScoringPolicy
from ailake.core.records import Decision, Remembered, Scope
from ailake.demo.conversation import Question, load_questions, load_turns
from ailake.hits import Hits
from ailake.lake import Lake
from ailake.maintenance import DecayReport, MemoryDecayJob
from ailake.memory import Memory

SCOPE = Scope(agent_id="flat-assistant")

# Bo gives up coffee for tea in between: the coffee turn is on top before, and sinks after.
DECAY_DATES = (
    datetime(2025, 2, 1, tzinfo=UTC),
    datetime(2025, 5, 1, tzinfo=UTC),
    datetime(2025, 7, 5, tzinfo=UTC),
)
FOLLOWED = "d023"
FOLLOWED_QUESTION = "What does Bo drink these days, coffee or tea?"


@dataclass(frozen=True, slots=True)
class Recalled:
    """A question and what came back for it."""

    question: Question
    hits: Hits

    @property
    def found_at(self) -> int | None:
        """Rank of the first hit that says the answer, or None."""
        ranks = (r for r, hit in enumerate(self.hits, start=1) if hit.id in self.question.evidence)
        return next(ranks, None)


@dataclass(frozen=True, slots=True)
class DecayStep:
    """A decay run, and where the followed memory stood then.

    Attributes:
        weight: Its stored ``recency_weight`` after the run.
        rank: Its rank for the question, among what had been said by then.
        seed_rank: The same under ``ScoringPolicy.SEED``, the formula without a floor.
        top: What came first.
    """

    report: DecayReport
    weight: float
    rank: int | None
    seed_rank: int | None
    top: str


@dataclass(frozen=True, slots=True)
class Story:
    """All that the demo did.

    Attributes:
        outcomes: How many turns were created and skipped.
        followed: Text of the memory whose rank the steps follow.
        weights: After each decay run, when each memory's event happened and its stored weight.
    """

    outcomes: Counter[Decision]
    recalled: tuple[Recalled, ...]
    steps: tuple[DecayStep, ...]
    followed: str
    weights: tuple[tuple[datetime, tuple[tuple[datetime, float], ...]], ...]


def tell(lake: Lake, *, limit: int = 5, progress: bool = False) -> Story:
    """Run the demo in a lake.

    Args:
        lake: An empty lake, or one that the demo has been run in.
        limit: Hits per question.
        progress: Show a bar on standard error.
    """
    memory = lake.memory(SCOPE.agent_id)
    questions = load_questions()
    outcomes = memory.remember_many(load_turns(), now=questions[0].now, progress=progress)
    recalled = tuple(_ask(memory, question, limit) for question in questions)
    job = MemoryDecayJob(lake, recency=RecencyConfig.MONTHLY_DECAY)
    steps: list[DecayStep] = []
    weights: list[tuple[datetime, tuple[tuple[datetime, float], ...]]] = []
    for date in DECAY_DATES:
        report = job.run(date)
        steps.append(_follow(memory, report))
        weights.append((date, _weights(memory, date)))
    followed = memory.get(FOLLOWED).text
    return Story(_count(outcomes), recalled, tuple(steps), followed, tuple(weights))


def _count(outcomes: list[Remembered]) -> Counter[Decision]:
    return Counter(outcome.decision for outcome in outcomes)


def _ask(memory: Memory, question: Question, limit: int) -> Recalled:
    hits = memory.recall(question.question, limit=limit, touch=False, now=question.now)
    return Recalled(question, hits)


def _follow(memory: Memory, report: DecayReport) -> DecayStep:
    hits = _said_by(memory, report.now, ScoringPolicy())
    return DecayStep(
        report=report,
        weight=memory.get(FOLLOWED).recency_weight,
        rank=_rank(hits),
        seed_rank=_rank(_said_by(memory, report.now, ScoringPolicy.SEED)),
        top=hits[0].text,
    )


def _said_by(memory: Memory, date: datetime, scoring: ScoringPolicy) -> Hits:
    said = {"event_time": {"lte": date}}
    return memory.recall(
        FOLLOWED_QUESTION, limit=500, where=said, scoring=scoring, touch=False, now=date
    )


def _rank(hits: Hits) -> int | None:
    ranks = (rank for rank, hit in enumerate(hits, start=1) if hit.id == FOLLOWED)
    return next(ranks, None)


def _weights(memory: Memory, date: datetime) -> tuple[tuple[datetime, float], ...]:
    page = memory.list({"event_time": {"lte": date}}, limit=1_000)
    return tuple((m.event_time, m.recency_weight) for m in page if m.event_time is not None)
