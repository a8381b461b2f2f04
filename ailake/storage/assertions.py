"""The table ``assertions``: what was said of facts, written down behind their versions."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.assertions import Assertion
from ailake.core.fact_rows import assertion_rows, fact_key, stored_assertion
from ailake.core.fact_versions import FactKey
from ailake.core.filters import TRUE, parse_where
from ailake.core.rows import to_pylist
from ailake.core.schema import filter_kinds, table_spec
from ailake.storage.table import IN_LIST, read_rows

if TYPE_CHECKING:
    from ailake.storage.store import Store

ASSERTIONS = "assertions"

_COLUMNS = tuple(column.name for column in table_spec(ASSERTIONS).columns)

Said = tuple[FactKey, Assertion]


def rows_of_keys(
    dataset: lance.LanceDataset,
    name: str,
    columns: Sequence[str],
    key_ids: Collection[str],
) -> pa.Table:
    """Return rows of ``facts``, ``assertions`` or ``verifications`` about some keys, as written.

    Args:
        dataset: A version of the table.
        name: Which one.
        columns: Of them, with ``key_id``.
        key_ids: The keys.
    """
    few = len(key_ids) <= IN_LIST
    named = parse_where({"key_id": {"in": sorted(key_ids)}}, filter_kinds(name)) if few else TRUE
    options = {"with_row_id": True, "with_row_address": True}
    rows = read_rows(dataset, columns, named, **options)
    if not few:
        # A filter that names as many would have to be cut into as many reads.
        rows = rows.filter(pc.is_in(rows["key_id"], value_set=pa.array(key_ids, pa.string())))
    return rows.sort_by("_rowid")


def written(dataset: lance.LanceDataset, key_ids: Collection[str]) -> list[Said]:
    """Return what was written down of some keys, in the order of writing, none twice."""
    rows = to_pylist(rows_of_keys(dataset, ASSERTIONS, _COLUMNS, key_ids))
    unique = {row["assertion_id"]: row for row in rows}
    return [(fact_key(row), stored_assertion(row)) for row in unique.values()]


def write_down(store: "Store", said: Sequence[Said]) -> None:
    """Append what was said, in one commit; what a call that is tried again repeats is there."""
    table = store.tables[ASSERTIONS]
    repeated = {key.id for key, one in said if one.is_assert and not one.version_id}
    if repeated:
        ids = rows_of_keys(table.snapshot(), ASSERTIONS, ("key_id", "assertion_id"), repeated)
        known = set(ids["assertion_id"].to_pylist())
        said = [pair for pair in said if pair[1].assertion_id not in known]
    if said:
        identity = store.embedder
        rows = assertion_rows(said, dim=identity.dim, embedder_id=identity.id)
        table.sync(table.append(rows))
