"""Chains of made-up records, as tests append them."""

from pathlib import Path

from ailake.core.recording import Records
from ailake.storage.exchange import exchange
from ailake.storage.ledger import LEDGER, heads_of, linked
from ailake.storage.locks import exclusive
from ailake.storage.retries import with_retries
from ailake.storage.table import Table


def append_records(table: Table, root: Path | None, records: Records) -> None:
    """Append records to the chains of their scopes, in one commit.

    Args:
        table: The ledger.
        root: The lake's folder; None, as for an object store, takes no lock.
        records: What happened, by scope.
    """

    def attempt() -> None:
        dataset = table.snapshot()
        rows, _ = linked(records, heads_of(dataset, records))
        if rows.num_rows:
            exchange(table, dataset, rows)

    with exclusive(root, LEDGER):
        with_retries(attempt, what="append to ledger")
