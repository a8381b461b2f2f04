"""A state machine: facts answer for both axes of time as a plain model of years does.

Also once memories are forgotten: then the model says everything again that others said, keeps of
each past belief what it comes to by that instant, and believes from now on what all of it comes to.
"""

import shutil
import tempfile
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import ailake
from ailake import FactTriple, NotFoundError
from ailake.core.verifying import FactAnswer, FactCase, FactVerdict
from ailake.maintenance import FactVerifyJob

RECORDED = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, LAST = 2000, 2007  # the last year stands for all that follow, so only open windows reach it
YEARS = range(FIRST, LAST + 1)
SPELLINGS = {"ana": ["Ana", " ana", "ANA."], "王芳": ["王芳", "王芳。"]}
MULTI = "speaks"

Key = tuple[str, str, str]
Belief = dict[Key, dict[int, set[str]]]  # who holds in which year

stated = st.tuples(
    st.sampled_from(sorted(SPELLINGS)),
    st.integers(0, 2),
    st.sampled_from(["lives_in", MULTI]),
    st.sampled_from(["oslo", "rome", "奥斯陆"]),
    st.integers(FIRST, LAST - 1),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(0, 4),
)
Pending = tuple[Key, str, str, frozenset[int]]  # new, known, and the years that were added
Fact = tuple[str, int, str, str, int, int | None, int]
scopes = st.sampled_from(["a", "a'b"])


def instant(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def runs(years: dict[int, set[str]], value: str, among: Collection[int] = YEARS) -> list[list[int]]:
    """Return the longest runs of some years in which an object holds."""
    found: list[list[int]] = []
    for year in sorted(among):
        if value in years[year]:
            if found and found[-1][-1] == year - 1:
                found[-1].append(year)
            else:
                found.append([year])
    return found


def believe(years: dict[int, set[str]], value: str, span: list[int], verifier: str) -> None:
    """Take an assertion into the belief about one key without a multi-valued predicate."""
    added = {year for year in span if value not in years[year]}
    if verifier == "latest_event":
        others = {name for names in years.values() for name in names} - {value}
        rivals = [(run, name) for name in others for run in runs(years, name) if added & set(run)]
        later = [run[0] for run, _ in rivals if run[0] > span[0]]
        span = [year for year in span if year < min(later, default=LAST + 1)]
        for run, name in rivals:
            if run[0] <= span[0]:
                for year in run:
                    if year >= span[0]:
                        years[year].discard(name)
    elif added:
        for year in span:
            years[year].clear()
    for year in span:
        years[year].add(value)


def queue(years: dict[int, set[str]], key: Key, value: str, span: list[int]) -> list[Pending]:
    """Return what an assertion leaves waiting for a verifier, before it is taken."""
    fresh = [year for year in span if value not in years[year]]
    others = {name for year in fresh for name in years[year]}
    added = runs({year: {value} for year in fresh}, value, fresh)
    return [
        (key, value, other, frozenset(part))
        for part in added
        for other in sorted(others)
        if any(other in years[year] for year in part)
    ]


@dataclass(frozen=True)
class Always:
    verdict: FactVerdict
    id: str = "always"

    def verify(self, _case: FactCase) -> FactAnswer:
        return FactAnswer(self.verdict, "测试")


@dataclass(frozen=True)
class Event:
    """What was said, or without years taken back; by which memory, and when.

    With a verdict it is what a verifier found between the value and a known one, in these years.
    """

    key: Key
    value: str
    span: list[int]
    source: str
    at: datetime
    verdict: FactVerdict | None = None
    known: str = ""


def took(belief: Belief, event: Event, verifier: str) -> None:
    """Take an event into the belief."""
    years = belief.setdefault(event.key, {year: set() for year in YEARS})
    if event.verdict is not None:
        found(years, event)
    elif not event.span:
        for names in years.values():
            names.discard(event.value)
    elif event.key[2] == MULTI or verifier == "queued":
        for year in event.span:
            years[year].add(event.value)
    else:
        believe(years, event.value, event.span, verifier)


def found(years: dict[int, set[str]], event: Event) -> None:
    """Take what a verifier found into the belief about one key."""
    if event.verdict is FactVerdict.SUPERSEDE:
        for year in event.span:
            if event.value in years[year]:
                years[year].discard(event.known)
    elif any(event.known in years[year] for year in event.span):
        for year in event.span:
            years[year].discard(event.value)


class FactsMachine(RuleBasedStateMachine):
    @initialize(verifier=st.sampled_from(["latest_assertion", "latest_event", "queued"]))
    def open_lakes(self, verifier: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.lakes = [ailake.connect(self.folder, embedder="hashing:16") for _ in range(2)]
        self.verifier = verifier
        self.now = RECORDED
        self.belief: Belief = {}
        self.pending: list[Pending] = []
        self.past: list[tuple[datetime, Belief]] = [(RECORDED, {})]
        self.events: list[Event] = []
        self.memories: list[tuple[str, str]] = []
        self.ids: dict[str, tuple[Key, str]] = {}
        self.turn = 0

    def teardown(self) -> None:
        for known_at, belief in self.past:
            self.compare(known_at, belief)
        for lake in self.lakes:
            assert lake.verify() == ()
            lake.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def facts(self, scope: str) -> ailake.Facts:
        self.turn += 1
        lake = self.lakes[self.turn % 2]
        return lake.facts(agent_id=scope, verifier=self.verifier, multi_valued=[MULTI])

    def compare(self, known_at: datetime, belief: Belief, *, years: Sequence[int] = YEARS) -> None:
        for scope in ("a", "a'b"):
            known = self.facts(scope)
            for year in years:
                found = [
                    (v.subject, v.predicate, v.object)
                    for v in known.find(as_of=instant(year), known_at=known_at)
                ]
                wanted = [
                    (key[1], key[2], value)
                    for key, believed in belief.items()
                    if key[0] == scope
                    for value in believed[year]
                ]
                assert sorted((str(s).strip(" .。").lower(), p, o) for s, p, o in found) == sorted(
                    wanted
                )

    def commit(self) -> None:
        self.past.append((self.now, deepcopy(self.belief)))

    @rule(scope=scopes, batch=st.lists(stated, min_size=1, max_size=4))
    def assert_(self, scope: str, batch: list[Fact]) -> None:
        self.now += timedelta(hours=1)
        triples = []
        owned = [name for owner, name in self.memories if owner == scope]
        for subject, spelling, predicate, value, start, length, told in batch:
            name = SPELLINGS[subject][spelling % len(SPELLINGS[subject])]
            end = None if length is None else min(start + length, LAST)
            closes = None if end is None else instant(end)
            source = owned[told % len(owned)] if owned and told else ""
            triples.append(FactTriple(name, predicate, value, instant(start), closes, source))
            span = [year for year in YEARS if year >= start and (end is None or year < end)]
            key = (scope, subject, predicate)
            if predicate != MULTI and self.verifier == "queued":
                years = self.belief.get(key, {year: set() for year in YEARS})
                self.pending += queue(years, key, value, span)
            event = Event(key, value, span, source, self.now)
            self.events.append(event)
            took(self.belief, event, self.verifier)
        decisions = self.facts(scope).assert_(triples, now=self.now)
        for decision, one in zip(decisions, batch, strict=True):
            known = self.ids.setdefault(decision.fact_id, ((scope, one[0], one[2]), one[3]))
            assert known == ((scope, one[0], one[2]), one[3])
        self.commit()

    @rule(choice=st.integers(0, 100))
    def retract(self, choice: int) -> None:
        if not self.ids:
            return
        self.now += timedelta(hours=1)
        fact_id = sorted(self.ids)[choice % len(self.ids)]
        key, value = self.ids[fact_id]
        facts = self.facts(key[0])
        if not any((one.key, one.value) == (key, value) and one.span for one in self.events):
            with pytest.raises(NotFoundError):
                facts.retract(fact_id, "nobody said it that is left", now=self.now)
            return
        gone = facts.retract(fact_id, "测试", now=self.now)
        held = runs(self.belief[key], value)
        # What waits for a verifier is not joined to what it touches.
        assert len(gone) >= len(held) if self.verifier == "queued" else len(gone) == len(held)
        self.pending = [one for one in self.pending if one[0] != key or value not in one[1:3]]
        self.events.append(Event(key, value, [], "", self.now))
        took(self.belief, self.events[-1], self.verifier)
        self.commit()

    @rule(verdict=st.sampled_from(FactVerdict))
    def verify(self, verdict: FactVerdict) -> None:
        self.now += timedelta(hours=1)
        self.turn += 1
        lake = self.lakes[self.turn % 2]
        report = FactVerifyJob(lake, verifier=Always(verdict)).run(self.now)
        assert bool(report.waiting) == (verdict is FactVerdict.DEFER and bool(self.waiting()))
        for key, new, known, part in self.waiting():
            years = self.belief[key]
            for piece in runs(years, new, part):
                if verdict in {FactVerdict.REJECT_NEW, FactVerdict.SUPERSEDE}:
                    event = Event(key, new, piece, "", self.now, verdict, known)
                    self.events.append(event)
                    took(self.belief, event, self.verifier)
        if verdict is not FactVerdict.DEFER:
            self.pending = []
        self.commit()

    def waiting(self) -> list[Pending]:
        """Return the cases of which both facts still hold in one of the years that were added."""
        return [
            (key, new, known, part)
            for key, new, known, part in self.pending
            if any({new, known} <= self.belief[key][year] for year in part)
        ]

    @rule(scope=scopes)
    def remember(self, scope: str) -> None:
        self.turn += 1
        name = f"m{self.turn}"
        lake = self.lakes[self.turn % 2]
        lake.memory(agent_id=scope).remember(f"text {name}", id=name, now=self.now)
        self.memories.append((scope, name))

    @rule(choice=st.integers(0, 100))
    def forget(self, choice: int) -> None:
        # Nor does the model know which versions a case is about that waits.
        if not self.memories or self.pending:
            return
        self.now += timedelta(hours=1)
        scope, name = self.memories.pop(choice % len(self.memories))
        self.turn += 1
        self.lakes[self.turn % 2].memory(agent_id=scope).forget(name, now=self.now)
        self.events = [one for one in self.events if one.source != name]
        for place, (when, belief) in enumerate(self.past):
            others = self.said_by(when)
            kept = {
                key: {
                    year: names & others.get(key, {}).get(year, set())
                    for year, names in years.items()
                }
                for key, years in belief.items()
            }
            self.past[place] = (when, kept)
        self.belief = self.said_by(self.now)
        for lake in self.lakes:
            for table in ("facts", "verifications", "assertions"):
                assert name not in lake.scan(table).collect()["source_memory_id"].to_list()
        self.commit()

    def said_by(self, when: datetime) -> Belief:
        belief: Belief = {}
        for event in self.events:
            if event.at <= when:
                took(belief, event, self.verifier)
        return belief

    @rule()
    def compact(self) -> None:
        self.lakes[0].table("facts").optimize()

    @invariant()
    def answers_for_the_present(self) -> None:
        self.compare(self.now, self.belief, years=[FIRST + self.turn % len(YEARS), LAST])


FactsMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestFacts = FactsMachine.TestCase
