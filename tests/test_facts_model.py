"""A state machine: facts answer for both axes of time as a plain model of years does."""

import shutil
import tempfile
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import ailake
from ailake import FactTriple
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
)
Pending = tuple[Key, str, str, frozenset[int]]  # new, known, and the years that were added
Fact = tuple[str, int, str, str, int, int | None]
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
    """Take an assertion that a verifier is to be asked about, and return what waits."""
    fresh = [year for year in span if value not in years[year]]
    others = {name for year in fresh for name in years[year]}
    for year in span:
        years[year].add(value)
    added = runs(years, value, fresh)
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
        for subject, spelling, predicate, value, start, length in batch:
            name = SPELLINGS[subject][spelling % len(SPELLINGS[subject])]
            end = None if length is None else min(start + length, LAST)
            closes = None if end is None else instant(end)
            triples.append(FactTriple(name, predicate, value, instant(start), closes))
            key = (scope, subject, predicate)
            years = self.belief.setdefault(key, {year: set() for year in YEARS})
            span = [year for year in YEARS if year >= start and (end is None or year < end)]
            if predicate == MULTI:
                for year in span:
                    years[year].add(value)
            elif self.verifier == "queued":
                self.pending += queue(years, key, value, span)
            else:
                believe(years, value, span, self.verifier)
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
        gone = self.facts(key[0]).retract(fact_id, "测试", now=self.now)
        held = runs(self.belief[key], value)
        # What waits for a verifier is not joined to what it touches.
        assert len(gone) >= len(held) if self.verifier == "queued" else len(gone) == len(held)
        self.pending = [one for one in self.pending if one[0] != key or value not in one[1:3]]
        for names in self.belief[key].values():
            names.discard(value)
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
                if verdict is FactVerdict.REJECT_NEW and any(known in years[y] for y in piece):
                    for year in piece:
                        years[year].discard(new)
                elif verdict is FactVerdict.SUPERSEDE:
                    for year in piece:
                        years[year].discard(known)
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

    @rule()
    def compact(self) -> None:
        self.lakes[0].table("facts").optimize()

    @invariant()
    def answers_for_the_present(self) -> None:
        self.compare(self.now, self.belief, years=[FIRST + self.turn % len(YEARS), LAST])


FactsMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestFacts = FactsMachine.TestCase
