"""The facts of one scope: asserted, found as of any instant, and never overwritten."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ailake import clock
from ailake.core.entities import EntityRef, check_short_text, entity_of
from ailake.core.extraction import ExtractionReport, FactExtractor
from ailake.core.fact_rows import fact_version
from ailake.core.fact_versions import (
    FactHistoryEntry,
    FactKey,
    FactVersion,
    StoredVersion,
    Verifier,
)
from ailake.core.filters import conjunction
from ailake.core.instants import as_utc
from ailake.core.reconcile import FactDecision, FactTriple, check_predicate
from ailake.core.records import Scope
from ailake.core.superseding import KeyPlan, KeyPlanner
from ailake.errors import InvalidInputError, NotFoundError
from ailake.extracting import Extracting, records_of
from ailake.storage import facts as stored
from ailake.storage.fact_links import find_links, is_linked, refuse_lost_links
from ailake.storage.store import Store


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one scope of a lake; made by ``lake.facts(...)``.

    Attributes:
        scope: Every read and write is bound to it.
        verifier: Who decides between facts that contradict each other.
        verifiers: The same for single predicates.
    """

    store: Store
    scope: Scope
    verifier: Verifier
    verifiers: Mapping[str, Verifier]

    def assert_(
        self,
        facts: Iterable[FactTriple],
        *,
        source_memory_id: str = "",
        now: datetime | None = None,
    ) -> list[FactDecision]:
        """Store facts, in one commit and each seeing those before it; on disk when it returns.

        What contradicts a known fact ends it: of a subject and a predicate that is not
        multi-valued, no two facts hold at once. What was believed before can still be read.

        Args:
            facts: The facts.
            source_memory_id: The memory that those were taken from that name none.
            now: When they are recorded, timezone-aware; default: the present. Where something of
                the same subject and predicate was recorded later, that instant counts.

        Returns:
            What ``classify_fact`` made of each, in order, with its ``fact_id``. With supersede,
            the loser is the new fact where the verifier found against it.

        Raises:
            InvalidInputError: One is no ``FactTriple``, or names a memory that the scope does not
                have; nothing was written.
            ReadOnlyError: The lake can't be written.
            ConflictError: On an object store, others were first time after time.
        """
        self.store.ensure_writable()
        given = _checked(facts, source_memory_id)
        moment = None if now is None else as_utc(now, name="now")
        if not given:
            return []
        linked = {one.source_memory_id for one in given} - {""}
        find_links(self.store, self.scope, linked)
        keyed = [(self._key(one.subject, one.predicate), one) for one in given]

        def plan(view: stored.FactsView) -> tuple[list[FactDecision], list[KeyPlan]]:
            refuse_lost_links(self.store, self.scope, linked)
            keys = list(dict.fromkeys(key for key, _ in keyed))
            known, rules = view.versions([key.id for key in keys]), view.rules()
            at = clock.resolve_now(moment)
            planners = {key: self._planner(key, known.get(key, ()), rules, now=at) for key in keys}
            decisions = [
                planners[key].take(one, entity_of(one.object, name="object").id)
                for key, one in keyed
            ]
            return decisions, [planner.plan() for planner in planners.values()]

        return stored.change(self.store, plan, sources=linked, what="assertion of facts")

    def extract(
        self,
        memory_ids: Iterable[str],
        *,
        extractor: FactExtractor,
        now: datetime | None = None,
        concurrency: int = 1,
        max_tokens: int | None = None,
    ) -> ExtractionReport:
        """Read facts out of memories of this scope, and assert them with the memory as source.

        Each memory is one commit. One that is forgotten meanwhile is left out. The same memory
        again adds nothing where the extractor finds the same again. Texts that are no memories:
        ``assert_(extractor.extract(text, event_time))``.

        Args:
            memory_ids: The memories.
            extractor: Reads the facts; it is given the text, and ``event_time`` or else
                ``created_at``.
            now: As of ``assert_``.
            concurrency: How many texts the extractor is given at once.
            max_tokens: When so many are used, no more is asked, and the rest is ``left``.

        Raises:
            InvalidInputError: An argument is wrong, or a memory was merged into another.
            NotFoundError: The scope has no such memory; nobody was asked.
            ProviderError: The extractor would answer nothing; what was asserted before stands.
            ReadOnlyError: The lake can't be written.
        """
        self.store.ensure_writable()
        moment = None if now is None else as_utc(now, name="now")

        def keep(facts: Sequence[FactTriple], source: str) -> list[FactDecision] | None:
            try:
                return self.assert_(facts, source_memory_id=source, now=moment)  # noqa: UP005 (ours)
            except InvalidInputError:
                if is_linked(self.store, self.scope, source):
                    raise
                return None

        run = Extracting(extractor, keep).run
        records = records_of(self.store, self.scope, memory_ids)
        return run(records, concurrency=concurrency, max_tokens=max_tokens)

    def find(
        self,
        subject: str | EntityRef | None = None,
        predicate: str | None = None,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        now: datetime | None = None,
    ) -> list[FactVersion]:
        """Return what holds at one instant, as the lake believed at another.

        Args:
            subject: Only of this entity; a string is a ``concept``, names compare normalised.
            predicate: Only of this predicate.
            as_of: When it is to hold; default: now.
            known_at: What was believed then; default: what is believed now, whatever the clocks of
                its writers said.
            now: The present, timezone-aware; default: by the clock.

        Returns:
            By subject id, predicate and beginning.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        self.store.ensure_open()
        present = clock.resolve_now(now)
        where: dict[str, object] = {}
        if subject is not None:
            where["subject_id"] = entity_of(subject, name="subject").id
        if predicate is not None:
            where["predicate"] = check_predicate(predicate)
        if subject is not None and predicate is not None:
            # It has an index.
            where = {"key_id": self._key(subject, predicate).id}
        believed = now if known_at is None else known_at
        held = stored.held_at(
            present if as_of is None else as_utc(as_of, name="as_of"),
            None if believed is None else as_utc(believed, name="known_at"),
        )
        chosen = conjunction(stored.where_facts(where), held)
        return [fact_version(row) for row in stored.versions(self.store, self.scope, chosen)]

    def history(self, subject: str | EntityRef, predicate: str) -> list[FactHistoryEntry]:
        """Return every version of a subject's facts of one predicate, in the order of belief.

        Each says how it came to be, how often its fact was asserted, and to whom it lost and why.
        """
        self.store.ensure_open()
        return stored.history(self.store, self._key(subject, check_predicate(predicate)))

    def retract(
        self, fact_id: str, reason: str, *, now: datetime | None = None
    ) -> list[FactVersion]:
        """Stop believing a fact, and put nothing in its place.

        Args:
            fact_id: The fact, all its live versions.
            reason: Why; kept with the decision.
            now: When, timezone-aware; default: the present.

        Returns:
            The versions that were retired; none where none was live any more.

        Raises:
            InvalidInputError: No reason.
            NotFoundError: The scope never had the fact.
            ReadOnlyError: The lake can't be written.
        """
        self.store.ensure_writable()
        check_short_text(fact_id, name="fact_id")
        check_short_text(reason, name="reason")
        if not reason.strip():
            raise InvalidInputError.of("reason", got=reason, wanted="why the fact is retracted")
        moment = None if now is None else as_utc(now, name="now")

        def plan(view: stored.FactsView) -> tuple[list[FactVersion], list[KeyPlan]]:
            rows = view.rows(self.scope, stored.where_facts({"fact_id": fact_id}))
            if not rows:
                raise NotFoundError(f"no fact {fact_id!r} in {self.scope}")
            key = FactKey(self.scope, rows[0]["subject_id"], rows[0]["predicate"])
            known = view.versions([key.id])[key]
            planner = self._planner(key, known, view.rules(), now=clock.resolve_now(moment))
            gone = {one.version_id: one.retired_at for one in planner.retract(fact_id, reason)}
            retired = [
                replace(fact_version(row), retired_at=gone[row["version_id"]])
                for row in rows
                if row["version_id"] in gone
            ]
            return retired, [planner.plan()]

        return stored.change(self.store, plan, what="retraction of a fact")

    def _key(self, subject: str | EntityRef, predicate: str) -> FactKey:
        return FactKey(self.scope, entity_of(subject, name="subject").id, predicate)

    def _planner(
        self,
        key: FactKey,
        known: Sequence[StoredVersion],
        rules: stored.Rules,
        *,
        now: datetime,
    ) -> KeyPlanner:
        return KeyPlanner(
            key,
            known,
            now=now,
            verifier=self.verifiers.get(key.predicate, self.verifier),
            multi_valued=key.predicate in rules.multi_valued,
            first_ordinal=rules.first_ordinal,
        )


def facts_of(
    store: Store,
    scope: Scope,
    *,
    verifier: object,
    multi_valued: Collection[str],
) -> Facts:
    """Return the facts of a scope; see ``Lake.facts``."""
    default, single = Verifier.LATEST_ASSERTION, {}
    if isinstance(verifier, Mapping):
        single = {check_predicate(name): _verifier(given) for name, given in verifier.items()}
    else:
        default = _verifier(verifier)
    if isinstance(multi_valued, str) or not isinstance(multi_valued, Collection):
        raise InvalidInputError.of(
            "multi_valued", got=multi_valued, wanted="a collection of predicates"
        )
    stored.declare_multi_valued(store, map(check_predicate, multi_valued))
    return Facts(store, scope, default, single)


def _verifier(given: object) -> Verifier:
    if not isinstance(given, str) or given not in list(Verifier):
        raise InvalidInputError.of("verifier", got=given, wanted=f"one of {', '.join(Verifier)}")
    return Verifier(given)


def _checked(facts: object, source_memory_id: str) -> list[FactTriple]:
    check_short_text(source_memory_id, name="source_memory_id")
    if isinstance(facts, FactTriple | str) or not isinstance(facts, Iterable):
        raise InvalidInputError.of("facts", got=facts, wanted="a list of FactTriple")
    given = []
    for place, one in enumerate(facts):
        if not isinstance(one, FactTriple):
            raise InvalidInputError.of(f"fact {place}", got=one, wanted="a FactTriple")
        linked = one.source_memory_id or not source_memory_id
        given.append(one if linked else replace(one, source_memory_id=source_memory_id))
    return given
