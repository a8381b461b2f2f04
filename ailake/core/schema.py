"""The tables of a lake: one Arrow schema per table, versioned, and its published contract."""

from typing import Any

import pyarrow as pa

from ailake.core.filters import ColumnKind
from ailake.core.tables import Column, Erasure, TableSpec
from ailake.errors import NotFoundError

INSTANT = pa.timestamp("ns", tz="UTC")

VERSION_KEY = "ailake.schema_version"
TABLE_KEY = "ailake.table"
EMBEDDER_ID_KEY = "ailake.embedder_id"
EMBEDDER_DIM_KEY = "ailake.embedder_dim"

# The engine's: an insert of a key conflicts with another one of the same key.
KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}

SCOPE_COLUMNS = ("agent_id", "user_id", "project_id")


_TEXT = pa.string()
# Stands for the embedder's dimension, which each lake has its own of.
_VECTOR = pa.list_(pa.float16(), 1)
_SCOPE = (
    Column("agent_id", _TEXT, "owner of the memory; joins with other agent tables"),
    Column("user_id", _TEXT, "user within the agent, empty where there is none"),
    Column("project_id", _TEXT, "project within the agent, empty where there is none"),
)

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

_HASH = pa.binary(32)
# No finer than what is hashed: every change of it must be found.
_MICROS = pa.timestamp("us", tz="UTC")

LEDGER = TableSpec(
    name="ledger",
    version=1,
    meaning="what happened to memories, a hash chain per scope; docs/ledger.md has the bytes",
    scope=SCOPE_COLUMNS,
    memory_column="subject_id",
    forget=Erasure.KEEP,
    purge=Erasure.KEEP,
    columns=(
        Column("entry_id", _TEXT, "id of the entry, unique in its scope"),
        *_SCOPE,
        Column("sequence", pa.uint64(), "place in the scope's chain, from 0 without a gap"),
        Column(
            "event",
            _TEXT,
            "create, modify, merged, update, restore, forget_intent, memory_forget, forget_void, "
            "purge",
        ),
        Column("subject_id", _TEXT, "id of the memory that it happened to; empty: the whole scope"),
        Column("payload_hash", _HASH, "SHA-256 of the memory as it was then"),
        Column("previous_hash", _HASH, "hash of the entry before, zeros for the first"),
        Column("hash", _HASH, "SHA-256 of all of the entry but this"),
        Column("parents", pa.list_(_TEXT), "ids of the earlier entries that it follows from"),
        Column("timestamp", _MICROS, "when it happened", unit="us since 1970, UTC"),
        Column(
            "source_version",
            pa.uint64(),
            "version of episodic up to which the ledger tells all, with this entry",
            unit="table version",
        ),
        Column("source_row", pa.uint64(), "stable id of the memory's row in episodic"),
        Column("chain_version", pa.uint32(), "version of the encoding that is hashed"),
    ),
)

_NS = "ns since 1970, UTC"
_SOURCE = Column("source_memory_id", _TEXT, "id of the memory it was taken from, or empty")
_KEY_ID = Column("key_id", _TEXT, "hash of scope, subject_id and predicate")

FACTS = TableSpec(
    name="facts",
    version=1,
    meaning="a row per version of a fact: one triple, one validity and one system interval",
    scope=SCOPE_COLUMNS,
    memory_column="source_memory_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    key="version_id",
    columns=(
        Column("version_id", _TEXT, "id of the version: hash of key_id and ordinal"),
        Column("fact_id", _TEXT, "id of the triple: hash of scope, subject, predicate, object"),
        *_SCOPE,
        _KEY_ID,
        Column("subject", _TEXT, "what it is about, as it was given"),
        Column("subject_type", _TEXT, "its type, empty for plain text, which is a concept"),
        Column("subject_id", _TEXT, "hash of normalised name and type"),
        Column("predicate", _TEXT, "what is said of it, compared exactly"),
        Column("object", _TEXT, "the value, as it was given"),
        Column("object_type", _TEXT, "its type, empty for plain text, which is a concept"),
        Column("object_id", _TEXT, "hash of normalised name and type"),
        Column("valid_from", INSTANT, "first instant at which it holds", unit=_NS),
        Column(
            "valid_to",
            INSTANT,
            "first instant at which it no longer does, null: open",
            nullable=True,
            unit=_NS,
        ),
        Column("recorded_at", INSTANT, "from here on the lake believed so", unit=_NS),
        Column("retired_at", INSTANT, "until here, null: it still does", nullable=True, unit=_NS),
        Column("origin", _TEXT, "asserted, extended (joined to what was known) or remainder"),
        Column("ordinal", pa.uint32(), "place among all versions of the key, from 0"),
        _SOURCE,
    ),
)

VERIFICATIONS = TableSpec(
    name="verifications",
    version=1,
    meaning="decisions about versions of facts; one whose versions facts lacks was never applied",
    scope=SCOPE_COLUMNS,
    memory_column="source_memory_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("verification_id", _TEXT, "id of the decision; the same one may stand twice"),
        *_SCOPE,
        _KEY_ID,
        Column("verdict", _TEXT, "noop, supersede or retract"),
        Column("verifier", _TEXT, "who decided, empty where nothing was contradicted"),
        Column("loser_fact_id", _TEXT, "fact that lost or was retracted, or empty"),
        Column("loser_version_id", _TEXT, "its version, retired at decided_at"),
        Column("winner_fact_id", _TEXT, "fact that stays, or empty"),
        Column("winner_version_id", _TEXT, "its version"),
        Column("reason", _TEXT, "why"),
        Column("decided_at", INSTANT, "when", unit=_NS),
        _SOURCE,
    ),
)

JOB_RUNS = TableSpec(
    name="job_runs",
    version=1,
    meaning="a row per run of a job: figures alone, nothing of a memory or a scope",
    scope=(),
    memory_column="",
    forget=Erasure.KEEP,
    purge=Erasure.KEEP,
    columns=(
        Column("run_id", _TEXT, "id of the run"),
        Column("job", _TEXT, "which job: decay, prune, compact, index, maintain and so on"),
        Column("status", _TEXT, "done, failed or skipped"),
        Column("started_at", INSTANT, "when it began, by the clock of its machine", unit=_NS),
        Column("finished_at", INSTANT, "when it ended", unit=_NS),
        Column("options", _TEXT, "what the job was told, a JSON object as text"),
        Column("report", _TEXT, "what it did, a JSON object as text; {} unless done"),
        Column("error", _TEXT, "why it failed or was skipped, or empty"),
        Column("host", _TEXT, "name of the machine"),
        Column("pid", pa.uint32(), "id of the process on it"),
    ),
)

MENTIONS = TableSpec(
    name="mentions",
    version=1,
    meaning="edges of the entity graph: a row per fact and entity that it mentions",
    scope=SCOPE_COLUMNS,
    memory_column="fact_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("fact_id", _TEXT, "id of the memory or the fact that mentions the entity"),
        *_SCOPE,
        Column("entity_id", _TEXT, "hash of normalised name and type"),
        Column("entity_name", _TEXT, "the entity's name, as it was given"),
        Column("entity_type", _TEXT, "its type, such as person, or other(label)"),
        Column("text", _TEXT, "what the fact says, in one of its rows; a memory's stays empty"),
        Column(
            "valid_from",
            INSTANT,
            "since when the fact holds, null: since it was recorded",
            nullable=True,
            unit=_NS,
        ),
        Column("recorded_at", INSTANT, "when it was noted", unit=_NS),
    ),
)

# Made and tagged in this order: a lake or a tag that lacks the last was interrupted.
TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (ACCESSES, PASSAGES, LEDGER, FACTS, VERIFICATIONS, MENTIONS, JOB_RUNS, EPISODIC)
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
        _MICROS: ColumnKind.TIMESTAMP,
    }
    return {
        c.name: kinds[c.type]
        for c in table_spec(name).columns
        if c.type in kinds and c.name != "metadata"
    }
