"""The provenance ledger of a lake: what ``lake.ledger()`` returns."""

from collections.abc import Mapping
from dataclasses import dataclass

from ailake.core.chain import BrokenEntry, LedgerEntry, LedgerHead, refuse_unknown
from ailake.core.drafts import check_id
from ailake.core.filters import conjunction
from ailake.core.ledger_rows import entries_of
from ailake.core.records import ChainScope, LakeScope, Scope
from ailake.errors import InvalidInputError
from ailake.storage import ledger as chains
from ailake.storage.job_runs import JOB_RUNS
from ailake.storage.retries import reading_again
from ailake.storage.store import Store


@dataclass(frozen=True, slots=True)
class Ledger:
    """What happened to memories and facts, a hash chain per scope; made by ``lake.ledger()``.

    Runs of jobs belong to no scope: the lake itself has a chain of them, under ``LakeScope()``.

    Every read sees what was done so far, by whatever process; where nothing can be written, and
    in a view of the past, it sees what the table has.
    """

    store: Store

    def entries(
        self,
        scope: ChainScope,
        *,
        subject_id: str | None = None,
        start: int = 0,
        limit: int | None = None,
    ) -> list[LedgerEntry]:
        """Return entries of a scope's chain, in its order.

        Args:
            scope: Whose chain; ``LakeScope()`` has that of the lake itself.
            subject_id: Only those about this memory, this assertion, or this run.
            start: The first place in the chain to return.
            limit: So many places at most, where given.

        Raises:
            InvalidInputError: An argument is wrong.
            SchemaMismatchError: An entry was written by a newer release.
        """
        wall = chains.in_scope(_checked(scope))
        wanted = chains.predicate(_places(start, limit))
        about = None if subject_id is None else {"subject_id": check_id(subject_id)}
        where = conjunction(wall, wanted, chains.predicate(about))
        self.store.flush_ledger()
        table = self.store.tables[chains.LEDGER]
        rows = reading_again(lambda: chains.read_chain(table.snapshot(), where))
        entries = list(entries_of(rows))
        for entry in entries:
            refuse_unknown(entry.chain_version)
        return entries

    def head(self, scope: ChainScope) -> LedgerHead | None:
        """Return the last entry's place and hash, to be pinned elsewhere; None where none is.

        Raises:
            SchemaMismatchError: It was written by a newer release.
        """
        wanted = _checked(scope)
        self.store.flush_ledger()
        table = self.store.tables[chains.LEDGER]
        return reading_again(lambda: chains.heads_of(table.snapshot(), [wanted])).get(wanted)

    def verify(
        self, scope: ChainScope | None = None, *, head: LedgerHead | None = None
    ) -> tuple[BrokenEntry, ...]:
        """Return the first entry that does not hold of each chain that has one; none: all hold.

        An entry about a run holds, too, only as long as its row in ``job_runs`` is what it was.

        Args:
            scope: Whose chain; default: all of them.
            head: A head of that scope that was pinned earlier, whose entry must still be there.

        Raises:
            InvalidInputError: ``head`` is of another scope.
        """
        if head is not None and (not _is_head(head) or head.scope != scope):
            raise InvalidInputError.of("head", got=head, wanted=f"a LedgerHead of scope {scope}")
        wanted = None if scope is None else _checked(scope)
        # Where nothing can be added, what is there is checked all the same.
        self.store.settle()
        self.store.record_if_possible()
        # The ledger is read first: what it tells of is there.
        table, runs = self.store.tables[chains.LEDGER], self.store.tables[JOB_RUNS]
        if wanted is None:
            return reading_again(lambda: chains.check_chains(table.snapshot(), runs.snapshot()))
        return reading_again(
            lambda: chains.check_chain(table.snapshot(), runs.snapshot(), wanted, head=head)
        )


def _is_head(value: object) -> bool:
    return isinstance(value, LedgerHead)


def _checked(scope: object) -> ChainScope:
    if not isinstance(scope, Scope | LakeScope):
        raise InvalidInputError.of("scope", got=scope, wanted="a Scope, or LakeScope()")
    return scope


def _places(start: int, limit: int | None) -> Mapping[str, object]:
    for name, value in (("start", start), ("limit", 0 if limit is None else limit)):
        if type(value) is not int or not 0 <= value < 2**63:
            raise InvalidInputError.of(name, got=value, wanted="an integer from 0 to 2^63 - 1")
    if limit is None:
        return {"sequence": {"gte": start}}
    return {"sequence": {"gte": start, "lt": start + limit}}
