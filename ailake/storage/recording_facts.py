"""What is to be recorded of rows of ``assertions``, next to the memories that facts came from."""

import lance
import pyarrow as pa

from ailake.core.recording import Records
from ailake.core.recording_facts import fact_records, subjects_of
from ailake.storage.ledger import latest_of
from ailake.storage.recording_rows import new_ids, told_in


def facts_told(
    ledger: lance.LanceDataset, rows: pa.Table, made: pa.Table, *, source_version: int
) -> Records:
    """Return what is to be recorded of rows of ``assertions``.

    Args:
        ledger: The version of the ledger that is added to.
        rows: The rows.
        made: Entries that the same commit adds before.
        source_version: The version of ``episodic`` that is told up to.
    """
    said, sources = subjects_of(rows)
    memories = {**latest_of(ledger, sources), **told_in(made, [one for _, one in sources])}
    known = latest_of(ledger, said, of_facts=True)
    return fact_records(rows, known, memories, new_ids(), source_version=source_version)
