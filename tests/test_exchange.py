"""Rows exchanged for others in one commit, as who reads with an index sees it."""

import lance
import pyarrow as pa
import pytest
from asserted import NOW, works

import ailake
from ailake.storage.exchange import exchange


def lookup(dataset: lance.LanceDataset, value: str) -> pa.Table:
    return dataset.scanner(
        columns=["object"], filter=f"object = '{value}'", with_row_address=True
    ).to_table()


@pytest.mark.parametrize("stored", [1, 3])
def test_an_index_finds_what_was_exchanged(lake: ailake.Lake, stored: int) -> None:
    """The engine takes what is added for rows that an index knows already, unless it is told."""
    facts = [works(f"at {n}", 2010, subject=f"Ana {n}") for n in range(stored)]
    lake.facts("a").assert_(facts, now=NOW)
    table = lake.store.tables["facts"]
    table.fresh().create_scalar_index("object", "BTREE", name="by_object")
    dataset = table.fresh()
    rows = dataset.to_table(filter="object = 'at 0'")
    column = rows.schema.get_field_index("object")
    new = rows.set_column(column, rows.schema.field(column), pa.array(["elsewhere"]))
    exchange(table, dataset, new, removed=lookup(dataset, "at 0")["_rowaddr"].to_pylist())
    after = table.snapshot()
    found = {name: lookup(after, name).num_rows for name in ("at 0", "elsewhere")}
    assert found == {"at 0": 0, "elsewhere": 1}
    assert after.count_rows() == stored
    exchange(
        table, after, rows.slice(0, 0), removed=lookup(after, "elsewhere")["_rowaddr"].to_pylist()
    )
    assert table.snapshot().count_rows() == stored - 1
    assert lookup(table.snapshot(), "elsewhere").num_rows == 0
