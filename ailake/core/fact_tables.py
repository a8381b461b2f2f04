"""The tables of facts, of what was decided about them, and of the entities they mention."""

import pyarrow as pa

from ailake.core.specs import INSTANT, SCOPE, SCOPE_COLUMNS, TEXT, Column, Erasure, TableSpec

_TEXT, _SCOPE = TEXT, SCOPE
_NS = "ns since 1970, UTC"
_SOURCE = Column("source_memory_id", _TEXT, "id of the memory it was taken from, or empty")
_KEY_ID = Column("key_id", _TEXT, "hash of scope, subject_id and predicate")

_TRIPLE = (
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
)
_VALID = (
    Column("valid_from", INSTANT, "first instant at which it holds", unit=_NS),
    Column(
        "valid_to",
        INSTANT,
        "first instant at which it no longer does, null: open",
        nullable=True,
        unit=_NS,
    ),
)

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
        *_TRIPLE,
        *_VALID,
        Column("recorded_at", INSTANT, "from here on the lake believed so", unit=_NS),
        Column("retired_at", INSTANT, "until here, null: it still does", nullable=True, unit=_NS),
        Column("origin", _TEXT, "asserted, extended (joined to what was known) or remainder"),
        Column("ordinal", pa.uint32(), "rises with each version of the key, never given twice"),
        _SOURCE,
    ),
)

VERIFICATIONS = TableSpec(
    name="verifications",
    version=2,
    meaning="decisions about versions of facts, and cases that wait for one; one whose versions "
    "facts lacks was never applied",
    scope=SCOPE_COLUMNS,
    memory_column="source_memory_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("verification_id", _TEXT, "id of the decision; the same one may stand twice"),
        *_SCOPE,
        _KEY_ID,
        Column(
            "verdict",
            _TEXT,
            "supersede, retract or reject_new (the loser is retired), pending (it waits), "
            "keep_both, defer, or stale (there is nothing to decide any more); older releases "
            "wrote noop, too",
        ),
        Column("verifier", _TEXT, "who decided, empty where nothing was contradicted"),
        Column("loser_fact_id", _TEXT, "fact that lost, may lose or was retracted, or empty"),
        Column("loser_version_id", _TEXT, "its version, retired at decided_at where it lost"),
        Column("winner_fact_id", _TEXT, "fact that stays, or empty"),
        Column("winner_version_id", _TEXT, "its version"),
        Column("reason", _TEXT, "why"),
        Column("decided_at", INSTANT, "when", unit=_NS),
        _SOURCE,
        Column("model", _TEXT, "model that was asked, or empty", since=2),
        Column("input_tokens", pa.uint64(), "what it read", unit="tokens", since=2),
        Column("output_tokens", pa.uint64(), "what it wrote", unit="tokens", since=2),
    ),
)

ASSERTIONS = TableSpec(
    name="assertions",
    version=1,
    meaning="what was said of facts, once for each time; versions follow from it",
    scope=SCOPE_COLUMNS,
    memory_column="source_memory_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("assertion_id", _TEXT, "hash of what was said, for which memory, and when"),
        Column(
            "kind",
            _TEXT,
            "assert; retract, supersede or reject_new: these have no names, and say that fact_id "
            "is no longer believed; keep_both or defer: nor have these, and they say that it is",
        ),
        *_TRIPLE,
        *_VALID,
        Column("recorded_at", INSTANT, "when it was said", unit=_NS),
        Column("ordinal", pa.uint32(), "that of the key's next version then"),
        Column("version_id", _TEXT, "version that it made, empty where it added none"),
        Column("verifier", _TEXT, "who decided, empty where the predicate was multi-valued"),
        Column("winner_fact_id", _TEXT, "fact that a verifier, asked later, let stay, or empty"),
        _SOURCE,
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
