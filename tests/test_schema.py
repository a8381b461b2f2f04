"""Schemas: the published contracts, the registry's rules, and what a table is really made of."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import ailake
from ailake.core.chain import LedgerEvent
from ailake.core.schema import (
    EMBEDDER_DIM_KEY,
    EMBEDDER_ID_KEY,
    TABLE_KEY,
    TABLES,
    VERSION_KEY,
    arrow_schema,
    contract,
    filter_kinds,
)
from ailake.core.specs import Erasure

SCHEMAS = Path(__file__).parents[1] / "schemas"
SPECIFIED = {
    "chunk_id": "string",
    "chunk_text": "string",
    "embedding": "fixed_size_list<float16>[dim]",
    "agent_id": "string",
    "session_id": "string",
    "created_at": "timestamp[ns, tz=UTC]",
    "recency_weight": "float",
    "access_count": "uint32",
    "last_accessed_at": "timestamp[ns, tz=UTC]",
    "importance_score": "float",
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_contract_is_the_golden_file(name: str) -> None:
    """A change of schema shows in the diff of schemas/: ailake schema --out schemas writes it."""
    file = SCHEMAS / f"{name}.v{TABLES[name].version}.json"
    assert json.loads(file.read_text(encoding="utf-8")) == contract(name)


def test_no_contract_is_left_over() -> None:
    wanted = {f"{name}.v{spec.version}.json" for name, spec in TABLES.items()}
    assert {file.name for file in SCHEMAS.glob("*.json")} >= wanted
    assert all(file.name.split(".")[0] in TABLES for file in SCHEMAS.glob("*.json"))


def test_the_contract_of_the_ledger_names_every_event() -> None:
    (column,) = (one for one in contract("ledger")["columns"] if one["name"] == "event")
    assert set(map(str, LedgerEvent)) == set(column["meaning"].replace(";", ",").split(", "))


def test_the_specified_columns_have_the_specified_types() -> None:
    published = {c["name"]: c["type"] for c in contract("episodic")["columns"]}
    assert {name: published[name] for name in SPECIFIED} == SPECIFIED


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_declares_scope_and_erasure(name: str) -> None:
    spec = TABLES[name]
    columns = {column.name for column in spec.columns}
    if name == "job_runs":  # Of the lake alone; tests/test_job_runs.py says what it may hold.
        assert (spec.scope, spec.memory_column, spec.purge) == ((), "", Erasure.KEEP)
    else:
        assert set(spec.scope) == {"agent_id", "user_id", "project_id"}
        assert columns.issuperset({*spec.scope, spec.memory_column})
    assert isinstance(spec.forget, Erasure)
    assert isinstance(spec.purge, Erasure)
    assert all(column.meaning and column.since >= 1 for column in spec.columns)


def test_tables_on_disk_are_what_the_schema_says(lake: ailake.Lake) -> None:
    assert sorted(lake.table(name).name for name in TABLES) == sorted(TABLES)
    for name in TABLES:
        stored = lake.table(name).schema
        assert stored.equals(arrow_schema(name, dim=64, embedder_id="hashing-v1-64"))
        assert lake.table(name).to_lance().has_stable_row_ids
        metadata = {key.decode(): value.decode() for key, value in stored.metadata.items()}
        assert metadata[TABLE_KEY] == name
        assert metadata[VERSION_KEY] == str(TABLES[name].version)
        assert metadata[EMBEDDER_ID_KEY] == "hashing-v1-64"
        assert metadata[EMBEDDER_DIM_KEY] == "64"


def _is_list_or_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind))


def test_every_scalar_column_can_be_filtered() -> None:
    for name, spec in TABLES.items():
        scalars = {c.name for c in spec.columns if not _is_list_or_bytes(c.type)}
        assert set(filter_kinds(name)) == scalars - {"metadata"}


def test_unknown_table() -> None:
    with pytest.raises(
        ailake.NotFoundError,
        match="wanted one of accesses, assertions, decisions, episodic, facts, job_runs, ledger",
    ):
        contract("nothing")
