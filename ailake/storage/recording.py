"""Recording in the ledger what the tables say has happened.

Nothing that only adds memories waits for the ledger. Afterwards, the rows of ``episodic`` that are
newer than what the ledger tells are read, by the versions that the engine keeps for every row, and
recorded in the same commit with the version that the ledger then tells up to. So each is recorded
exactly once, whoever dies in between, and whoever comes next goes on. What was said of facts and
which jobs ran is recorded along with them (see ``recording_appended``).

What changes or removes rows brings the ledger up to date *before* it does: otherwise two changes of
a row would be one, and what was removed would never have been. A removal is announced, too; once
its row is gone, whoever comes next records that it was forgotten.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

from ailake import clock
from ailake.core.chain import LedgerHead
from ailake.core.erasure import Target
from ailake.core.ledger_rows import (
    created_rows,
    scopes_of,
)
from ailake.core.recording import (
    CREATED,
    Records,
    follow_from_nothing,
    intents_of,
    purges_of,
)
from ailake.core.recording_runs import run_records
from ailake.core.records import ChainScope, Scope
from ailake.storage.assertions import ASSERTIONS
from ailake.storage.exchange import exchange
from ailake.storage.job_runs import JOB_RUNS
from ailake.storage.ledger import (
    LEDGER,
    heads_of,
    keep_looked_to,
    latest_of,
    linked,
    looked_to,
    told_of,
)
from ailake.storage.locks import exclusive
from ailake.storage.recording_appended import Appended, Seen
from ailake.storage.recording_facts import facts_told
from ailake.storage.recording_rows import Known, changed, ends, known_of, new_ids
from ailake.storage.recording_shares import READ, Since, next_share
from ailake.storage.retries import with_retries
from ailake.storage.table import Signature, Table, fragments_by_signature

if TYPE_CHECKING:
    from ailake.storage.store import Store

# So many rows of a table are recorded in one commit.
MAX_ROWS = 131_072

# The ledger, and what it tells of.
_TABLES = (LEDGER, "episodic", ASSERTIONS, JOB_RUNS)
Made = Callable[[lance.LanceDataset, int], Records]


class Recorder:
    """Brings a lake's ledger up to date; one per open lake."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: Known | None = None
        self._fragments: frozenset[Signature] = frozenset()
        self._done: tuple[int, ...] = ()
        # The version of episodic up to which all was looked at, told or not worth telling.
        self._looked_to = 0
        self._seen = Seen()
        self._incarnations: tuple[int, ...] = ()

    def catch_up(self, store: "Store", *, alone: bool) -> None:
        """Record what is not recorded yet.

        Args:
            store: The lake.
            alone: The caller holds the lake's write lock, so that nobody else is about to remove
                what was announced: what is still there is not going to be.

        Raises:
            ConflictError: Other writers won every retry; the next call goes on.
        """
        with self._lock:
            if not self._is_done(store):
                self._locked(store, alone=alone)

    @property
    def is_waiting(self) -> bool:
        """Whether a removal was announced whose end is not known."""
        return self._known is not None and bool(self._known.intents)

    def note(self, store: "Store", made: Made, *, what: str) -> None:
        """Record what no row of a table of the lake tells, and before that all there is to record.

        Args:
            store: The lake.
            made: Given a version of the ledger, and the version of ``episodic`` that it tells up
                to, what is to be recorded; asked again where another was first.
            what: What is recorded, for messages.

        Raises:
            ConflictError: Other writers won every retry; nothing was recorded.
        """
        self._note(store, made, alone=False, what=what)

    def end_removals(self, store: "Store", *, again: Collection[str]) -> None:
        """Record how announced removals ended: what is left of them goes, not what comes next.

        Args:
            store: The lake, whose write lock the caller holds where there is one.
            again: Ids that something is about to be said of.
        """
        with self._lock:
            if self._current(store, store.tables[LEDGER].snapshot()).intents:
                self._locked(store, alone=store.location.root is not None, again=again)

    def announce(
        self, store: "Store", rows: Mapping[Scope, Mapping[int, str]], *, now: datetime
    ) -> None:
        """Record that memories are going to be removed, and before that all there is to record.

        Args:
            store: The lake, whose write lock the caller holds where there is one.
            rows: For each scope the id of each memory, by its row.
            now: When they are removed.
        """

        def announced() -> None:
            self._catch_up(store, alone=store.location.root is not None)
            self._announce(store, rows, now)

        if any(rows.values()):
            with self._lock, exclusive(store.location.root, LEDGER):
                with_retries(announced, what="announcement of a removal in the ledger")

    def note_purge(self, store: "Store", target: Target, *, now: datetime) -> None:
        """Record that nothing is left of a target, and before that all there is to record.

        Args:
            store: The lake, whose write lock the caller holds where there is one.
            target: A scope, or memories: of these, those that the ledger tells of.
            now: When.
        """

        def made(ledger: lance.LanceDataset, told_to: int) -> Records:
            whole = target.scope if target.ids is None else None
            subjects = told_of(ledger, target) if whole is None else [(whole, "")]
            latest = latest_of(ledger, subjects)
            return purges_of(subjects, latest, new_ids(), now=now, source_version=told_to)

        alone = store.location.root is not None
        self._note(store, made, alone=alone, what="record of a purge in the ledger")

    def _note(self, store: "Store", made: Made, *, alone: bool, what: str) -> None:
        def noted() -> None:
            self._catch_up(store, alone=alone)
            ledger = store.tables[LEDGER].snapshot()
            told_to = self._current(store, ledger).told_to
            records = made(ledger, told_to)
            self._append(
                store.tables[LEDGER], ledger, None, records, since=Since(told_to), told_to=told_to
            )

        with self._lock, exclusive(store.location.root, LEDGER):
            with_retries(noted, what=what)

    def _locked(self, store: "Store", *, alone: bool, again: Collection[str] = ()) -> None:
        caught_up = partial(self._catch_up, store, alone=alone, again=frozenset(again))
        with exclusive(store.location.root, LEDGER):
            with_retries(caught_up, what="append to ledger")
        store.tables[LEDGER].tidy()

    def _is_done(self, store: "Store") -> bool:
        known = self._known
        if known is None or known.intents or self._done != _present(store):
            return False
        # Otherwise another has recorded, or announced what it did not live to remove.
        return store.tables[LEDGER].version == known.version

    def _catch_up(self, store: "Store", *, alone: bool, again: Collection[str] = ()) -> None:
        while not self._record(store, alone=alone, again=again):
            pass

    def _record(self, store: "Store", *, alone: bool, again: Collection[str]) -> bool:
        """Record what fits into one commit; tell whether that was all."""
        ledger = store.tables[LEDGER].snapshot()
        known = self._current(store, ledger)
        # After the ledger: what it tells of is there.
        present = _present(store)
        # Before the memories: the ledger tells of those that facts were taken from then.
        assertions = store.tables[ASSERTIONS].snapshot()
        runs = store.tables[JOB_RUNS].snapshot()
        episodic = store.episodic.snapshot()
        fragments = fragments_by_signature(episodic, READ)
        fresh = [one for key, one in fragments.items() if key not in self._fragments]
        since = Since(max(known.told_to, self._looked_to), known.reached.memory)
        rows, told_to = next_share(episodic, ledger, fresh, since=since, most=MAX_ROWS)
        is_last = told_to >= int(episodic.version)
        appended, seen = None, self._seen
        if is_last:
            appended, seen = seen.share(assertions, runs, known.reached, most=MAX_ROWS)
        intents = list(known.intents.values())
        over = ends(store, episodic, intents, told_to, alone=alone, again=again)
        is_told = self._append(
            store.tables[LEDGER], ledger, rows, over,
            appended=appended, since=since, told_to=told_to,
        )  # fmt: skip
        if rows is not None and not is_told:
            # All were written again as they were: nobody has to read them once more.
            keep_looked_to(store.tables[LEDGER], told_to)
        self._looked_to, self._seen = told_to, seen
        if is_last:
            self._fragments = frozenset(fragments)
        is_last = is_last and seen.is_through(assertions, runs)
        if is_last:
            self._done = present
        return is_last

    def _announce(
        self, store: "Store", rows: Mapping[Scope, Mapping[int, str]], now: datetime
    ) -> None:
        ledger = store.tables[LEDGER].snapshot()
        known = self._current(store, ledger)
        # On an object store, where nobody is alone, one that failed may be on its way.
        begun = {intent.source_row for intent in known.intents.values()}
        wanted = {
            scope: {row: name for row, name in named.items() if row not in begun}
            for scope, named in rows.items()
        }
        asked = [(scope, name) for scope, named in wanted.items() for name in named.values()]
        latest, told_to = latest_of(ledger, asked), known.told_to
        records: Records = {}
        for scope, named in wanted.items():
            records |= intents_of(scope, named, latest, new_ids(), now=now, source_version=told_to)
        self._append(
            store.tables[LEDGER], ledger, None, records, since=Since(told_to), told_to=told_to
        )

    def _append(
        self,
        table: Table,
        ledger: lance.LanceDataset,
        rows: pa.Table | None,
        records: Records,
        *,
        appended: Appended | None = None,
        since: Since,
        told_to: int,
    ) -> bool:
        """Commit entries about rows that are newer than ``since``; tell whether there are any."""
        known = self._known
        assert known is not None  # noqa: S101 (every caller has just asked for it)
        # First: an id that was forgotten may be used again.
        heads = _with_heads(ledger, known.heads, list(records))
        entries, heads = linked(records, heads)
        made = [entries]
        if rows is not None and rows.num_rows:
            plain = follow_from_nothing(rows) & since.is_new(rows)
            new = rows if plain.all() else rows.filter(pa.array(plain))
            others = rows.filter(pa.array(~plain))
            heads = _with_heads(ledger, heads, scopes_of(rows)[0])
            created, heads = created_rows(
                new, clock.new_ids(new.num_rows), heads, source_version=told_to
            )
            is_new = since.is_new(others)
            others_told = changed(ledger, others, created, is_new=is_new, source_version=told_to)
            entries, heads = linked(others_told, heads)
            made += [created, entries]
        if appended is not None:
            for told in _told_of(ledger, appended, pa.concat_tables(made), told_to):
                entries, heads = linked(told, _with_heads(ledger, heads, list(told)))
                made.append(entries)
        whole = pa.concat_tables(made)
        if whole.num_rows:
            after = Known(0, known.told_to, known.reached, dict(known.intents), heads)
            after.take_in(whole)
            after.version = exchange(table, ledger, whole, properties=after.properties(whole))
            self._known = after
        return bool(whole.num_rows)

    def _current(self, store: "Store", ledger: lance.LanceDataset) -> Known:
        """Return what this version of the ledger says; only what is new in it is read."""
        version = int(ledger.version)
        incarnations = tuple(store.tables[name].incarnation for name in _TABLES)
        known = self._known
        if known is None or version < known.version or incarnations != self._incarnations:
            self._fragments, self._incarnations = frozenset(), incarnations
            self._looked_to, self._seen = looked_to(ledger), Seen()
            known = known_of(ledger)
        elif version != known.version:
            newer = ledger.scanner(filter=f"{CREATED} > {known.version:d}").to_table()
            known = Known(version, known.told_to, known.reached, dict(known.intents))
            known.take_in(newer.sort_by("sequence"))
        self._known = known
        return known


def _present(store: "Store") -> tuple[int, ...]:
    versions = tuple(store.tables[name].version for name in _TABLES[1:])
    return (*versions, *(store.tables[name].incarnation for name in _TABLES))


def _told_of(
    ledger: lance.LanceDataset, appended: Appended, made: pa.Table, told_to: int
) -> Iterator[Records]:
    if appended.facts is not None:
        yield facts_told(ledger, appended.facts, made, source_version=told_to)
    if appended.runs is not None:
        yield run_records(appended.runs, new_ids(), source_version=told_to)


def _with_heads(
    ledger: lance.LanceDataset, heads: Mapping[ChainScope, LedgerHead], scopes: Sequence[ChainScope]
) -> dict[ChainScope, LedgerHead]:
    missing = [scope for scope in scopes if scope not in heads]
    return {**heads, **(heads_of(ledger, missing) if missing else {})}
