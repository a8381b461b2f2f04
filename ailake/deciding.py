"""Deciding what becomes of a batch: by ids and keys first, then beside what is near it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from ailake.core.judging import Judging, Near, plan_judged
from ailake.core.nearest import Nearest, directions
from ailake.core.records import Decision, Remembered, Scope, SourceClass
from ailake.core.remembering import DuplicateKey, Plan, Twin, plan_batch
from ailake.parts import Part
from ailake.storage import decisions
from ailake.storage.candidates import LEAST, MOST, Sought, codes_of, stored_near
from ailake.storage.memories import known_outcomes, live_duplicates
from ailake.storage.retries import reading_again
from ailake.storage.store import Store
from ailake.storage.view import ReadView


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for memories of one scope of a lake."""

    store: Store
    scope: Scope

    def look(self, part: Part) -> ReadView | None:
        """Return what is kept at present, where the plan depends on it."""
        return self.store.view() if part.judge or part.given_ids else None

    def roughly(self, part: Part, view: ReadView | None) -> Plan:
        """Decide by ids and duplicate keys alone: what it adds has to be embedded."""
        ids, keys = self._known(part, view)
        return plan_batch(
            part.drafts,
            part.keys,
            fresh_ids=part.fresh_ids,
            known_ids=ids,
            known_keys=keys,
            judge=part.judge,
            now=part.now,
        )

    def decide(self, part: Part) -> tuple[Plan, ReadView | None]:
        """Decide by all the rules, from what is kept at present, which is returned, too."""
        return reading_again(lambda: self._decided(part, self.look(part)))

    def _decided(self, part: Part, view: ReadView | None) -> tuple[Plan, ReadView | None]:
        rough = self.roughly(part, view)
        if view is None or not part.judge:
            return rough, view
        started = perf_counter()
        compared = _embedded(part, rough)
        plan = self._judged(part, view, compared)
        while more := _embedded(part, plan) - compared:
            # What they repeat lives on in another memory by now.
            compared |= more
            plan = self._judged(part, view, compared)
        share = (perf_counter() - started) / max(len(plan.verdicts), 1)
        timed = tuple(replace(one, seconds=share) for one in plan.verdicts)
        return replace(plan, verdicts=timed), view

    def _judged(self, part: Part, view: ReadView, compared: Collection[int]) -> Plan:
        ids, keys = self._known(part, view)
        return plan_judged(
            part.drafts,
            part.keys,
            fresh_ids=part.fresh_ids,
            known_ids=ids,
            known_keys=keys,
            judging=Judging(self.scope, self.store.rules, self._nearest(part, compared, view)),
            now=part.now,
        )

    def _known(
        self, part: Part, view: ReadView | None
    ) -> tuple[Mapping[str, Remembered], Mapping[DuplicateKey, Twin]]:
        if view is None:
            return {}, {}
        ids = known_outcomes(view, self.scope, part.given_ids)
        keys = live_duplicates(view, self.scope, part.keys, part.now) if part.judge else {}
        return self._with_replaced(ids), keys

    def _with_replaced(self, ids: Mapping[str, Remembered]) -> Mapping[str, Remembered]:
        """Add to first outcomes which memory each stands in the place of: no row of it says."""
        asked = [one.id for one in ids.values() if one.decision is Decision.MODIFY]
        if not asked:
            return ids
        replaced = decisions.replaced_by(self.store, self.scope, asked)
        return {
            name: replace(one, existing_id=replaced[name]) if name in replaced else one
            for name, one in ids.items()
        }

    def _nearest(
        self, part: Part, compared: Collection[int], view: ReadView
    ) -> Mapping[int, Sequence[Near]]:
        """Return what is near each of some drafts, which are embedded."""
        groups = SourceClass.GROUP_CHAT
        places = [place for place in sorted(compared) if part.drafts[place].source != groups]
        if not places:
            return {}
        drafts = [part.drafts[place] for place in places]
        authors = [(one.role, one.speaker, one.source) for one in drafts]
        sought = Sought(self.scope, authors, directions(part.vectors[places]), part.now)
        found = stored_near(view, sought)
        if len(places) > 1:
            earlier = _among_themselves(sought)
            more = [[Near(s, places[at]) for at, s in earlier.of(row)] for row in range(len(found))]
            found = [_best(*both) for both in zip(found, more, strict=True)]
        return dict(zip(places, found, strict=True))


def _embedded(part: Part, plan: Plan) -> set[int]:
    return {one.position for one in plan.additions if part.known[one.position]}


def _best(some: Sequence[Near], others: Sequence[Near]) -> list[Near]:
    return sorted([*some, *others], key=lambda near: -near.score)[:MOST]


def _among_themselves(sought: Sought) -> Nearest:
    groups = np.asarray(codes_of(sought.authors))
    nearest = Nearest(sought.directions, groups, most=MOST, least=LEAST)
    nearest.look_at(sought.directions, groups, start=0, before=True)
    return nearest
