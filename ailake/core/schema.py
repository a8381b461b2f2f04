"""The tables of a lake: one Arrow schema per table, versioned, and its published contract."""

from typing import Any

import pyarrow as pa

from ailake.core.audit_tables import DECISIONS, JOB_RUNS, LEDGER, MICROS
from ailake.core.fact_tables import ASSERTIONS, FACTS, MENTIONS, VERIFICATIONS
from ailake.core.filters import ColumnKind
from ailake.core.specs import INSTANT, SCOPE, SCOPE_COLUMNS, TEXT, Column, Erasure, TableSpec
from ailake.errors import NotFoundError

__all__ = [
    "EMBEDDER_DIM_KEY",
    "EMBEDDER_ID_KEY",
    "EPISODIC",
    "INSTANT",
    "KEY_METADATA",
    "LEDGER",
    "SCOPE_COLUMNS",
    "TABLES",
    "TABLE_KEY",
    "VERSION_KEY",
    "arrow_schema",
    "contract",
    "filter_kinds",
    "table_spec",
]

VERSION_KEY = "ailake.schema_version"
TABLE_KEY = "ailake.table"
EMBEDDER_ID_KEY = "ailake.embedder_id"
EMBEDDER_DIM_KEY = "ailake.embedder_dim"

# The engine's: an insert of a key conflicts with another one of the same key.
KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}

_TEXT, _SCOPE = TEXT, SCOPE
# Stands for the embedder's dimension, which each lake has its own of.
_VECTOR = pa.list_(pa.float16(), 1)

EPISODIC = TableSpec(
    name="episodic",
    version=1,
    meaning="one row per memory",
    scope=SCOPE_COLUMNS,
    memory_column="chunk_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("chunk_id", _TEXT, "id of the memory, unique in the lake"),
        Column("chunk_text", _TEXT, "the text as it was given, never edited in place"),
        Column("embedding", _VECTOR, "vector of the embedded text, compared by cosine distance"),
        *_SCOPE,
        Column("session_id", _TEXT, "conversation or task the memory was made in"),
        Column("role", _TEXT, "role of the author: user, assistant, system, tool"),
        Column("speaker", _TEXT, "name of the author, empty where unknown"),
        Column("kind", _TEXT, "the application's own category, such as preference"),
        Column(
            "source",
            _TEXT,
            "source class: direct, tool, document, group_chat, system, recalled",
        ),
        Column(
            "importance_score",
            pa.float32(),
            "set when remembered, in [0, 1]; never decays; 1.0 pins against pruning",
        ),
        Column("confidence", pa.float32(), "how sure the writer was, in [0, 1]"),
        Column("created_at", INSTANT, "first write", unit="ns since 1970, UTC"),
        Column("updated_at", INSTANT, "last write or repetition", unit="ns since 1970, UTC"),
        Column(
            "event_time",
            INSTANT,
            "when what is told happened, null where it is the write itself",
            nullable=True,
            unit="ns since 1970, UTC",
        ),
        Column(
            "expires_at",
            INSTANT,
            "no read returns the memory from this instant on; null: never",
            nullable=True,
            unit="ns since 1970, UTC",
        ),
        Column(
            "last_accessed_at",
            INSTANT,
            "newest recall hit; until the first one event_time where given, else created_at",
            nullable=True,
            unit="ns since 1970, UTC",
        ),
        Column(
            "recency_weight",
            pa.float32(),
            "exp(-lambda * days since last access) in [0, 1] as of the last decay run; "
            "1.0 at write",
        ),
        Column("access_count", pa.uint32(), "recall hits folded in so far", unit="hits"),
        Column(
            "folded_through",
            pa.uint64(),
            "version of the accesses table up to which its rows are counted here",
            unit="table version",
        ),
        Column("state", _TEXT, "active, deferred or merged"),
        Column("merged_into", _TEXT, "id of the memory that this one was merged into, or empty"),
        Column(
            "dedupe_key",
            _TEXT,
            "BLAKE2b-128 in hexadecimal of the normalised text; empty: equals nothing",
        ),
        Column("decision", _TEXT, "what the judge decided: create, merge, modify, defer"),
        Column("reason", _TEXT, "why it decided so, or unjudged"),
        Column("veto", _TEXT, "the veto that stood against the best candidate, or empty"),
        Column("rules_version", _TEXT, "version of the judge's rules, empty where unjudged"),
        Column("metadata", _TEXT, "the application's own fields, a JSON object as text"),
    ),
)

ACCESSES = TableSpec(
    name="accesses",
    version=1,
    meaning="journal of accesses: a row per memory and recall, folded into episodic by decay",
    scope=SCOPE_COLUMNS,
    memory_column="chunk_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("chunk_id", _TEXT, "id of the memory that was met"),
        *_SCOPE,
        Column("accessed_at", INSTANT, "when", unit="ns since 1970, UTC"),
        Column("event", _TEXT, "recall, touch, or skip for a repetition that was not stored again"),
        Column("hits", pa.uint32(), "what access_count grows by; 0 for skip", unit="hits"),
        Column(
            "confidence",
            pa.float32(),
            "confidence of the repetition, null unless skip",
            nullable=True,
        ),
    ),
)

PASSAGES = TableSpec(
    name="passages",
    version=1,
    meaning="parts of the texts that are longer than the embedder's window, a vector each",
    scope=SCOPE_COLUMNS,
    memory_column="chunk_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("chunk_id", _TEXT, "id of the memory whose text it is a part of"),
        *_SCOPE,
        Column("part", pa.uint32(), "position among the memory's passages, from 0"),
        Column("start", pa.uint32(), "offset of the first character", unit="code points"),
        Column("end", pa.uint32(), "offset after the last character", unit="code points"),
        Column("embedding", _VECTOR, "vector of the passage, compared by cosine distance"),
    ),
)

# Made and tagged in this order: a lake or a tag that lacks the last was interrupted.
TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        ACCESSES,
        PASSAGES,
        LEDGER,
        FACTS,
        VERIFICATIONS,
        ASSERTIONS,
        DECISIONS,
        MENTIONS,
        JOB_RUNS,
        EPISODIC,
    )
}


def table_spec(name: str) -> TableSpec:
    """Return the registry entry of a table.

    Raises:
        NotFoundError: No such table; the message lists those that exist.
    """
    if name not in TABLES:
        raise NotFoundError(f"table: got {name!r}, wanted one of {', '.join(sorted(TABLES))}")
    return TABLES[name]


def arrow_schema(name: str, *, dim: int, embedder_id: str) -> pa.Schema:
    """Return the Arrow schema of a table as it is created.

    Args:
        name: A table of the registry.
        dim: Length of the embedder's vectors.
        embedder_id: Id of the embedder; it and ``dim`` stand in the schema's metadata.
    """
    spec = table_spec(name)
    fields = [
        pa.field(
            c.name,
            pa.list_(pa.float16(), dim) if c.name == "embedding" else c.type,
            c.nullable,
            metadata=KEY_METADATA if c.name == spec.key else None,
        )
        for c in spec.columns
    ]
    return pa.schema(
        fields,
        metadata={
            TABLE_KEY: spec.name,
            VERSION_KEY: str(spec.version),
            EMBEDDER_ID_KEY: embedder_id,
            EMBEDDER_DIM_KEY: str(dim),
        },
    )


def contract(name: str) -> dict[str, Any]:
    """Return the language-neutral contract of a table, as published in ``schemas/``."""
    spec = table_spec(name)
    return {
        "table": spec.name,
        "version": spec.version,
        "meaning": spec.meaning,
        "scope": list(spec.scope),
        "memory_column": spec.memory_column,
        "forget": spec.forget.value,
        "purge": spec.purge.value,
        "metadata_keys": [TABLE_KEY, VERSION_KEY, EMBEDDER_ID_KEY, EMBEDDER_DIM_KEY],
        "columns": [
            {
                "name": column.name,
                "type": column.type_name,
                "nullable": column.nullable,
                "unit": column.unit,
                "meaning": column.meaning,
                "since": column.since,
            }
            for column in spec.columns
        ],
    }


def filter_kinds(name: str) -> dict[str, ColumnKind]:
    """Return the columns of a table that a ``where`` may name, with their kinds."""
    kinds = {
        _TEXT: ColumnKind.TEXT,
        pa.float32(): ColumnKind.REAL32,
        pa.uint32(): ColumnKind.UINT32,
        pa.uint64(): ColumnKind.UINT64,
        INSTANT: ColumnKind.TIMESTAMP,
        MICROS: ColumnKind.TIMESTAMP,
    }
    return {
        c.name: kinds[c.type]
        for c in table_spec(name).columns
        if c.type in kinds and c.name != "metadata"
    }
