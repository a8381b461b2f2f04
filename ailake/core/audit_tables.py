"""The tables of the audit: the ledger, what the judge decided, and what jobs did."""

import pyarrow as pa

from ailake.core.specs import INSTANT, SCOPE, SCOPE_COLUMNS, TEXT, Column, Erasure, TableSpec

_TEXT, _SCOPE = TEXT, SCOPE
_NS = "ns since 1970, UTC"
_HASH = pa.binary(32)
# No finer than what is hashed: every change of it must be found.
MICROS = pa.timestamp("us", tz="UTC")

LEDGER = TableSpec(
    name="ledger",
    version=1,
    meaning=(
        "what happened to memories, facts and graphs, and which jobs ran, a hash chain per scope; "
        "docs/ledger.md tells all"
    ),
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
            "purge; fact_assert, fact_retract, fact_supersede, fact_reject, fact_keep_both, "
            "fact_defer; job_run; graph_index",
        ),
        Column(
            "subject_id",
            _TEXT,
            "id of the memory that it happened to, of the assertion or run, of what mentions "
            "entities; empty: the whole scope",
        ),
        Column(
            "payload_hash",
            _HASH,
            "SHA-256 of the memory as it was then, of the assertion or run, of what is mentioned",
        ),
        Column("previous_hash", _HASH, "hash of the entry before, zeros for the first"),
        Column("hash", _HASH, "SHA-256 of all of the entry but this"),
        Column("parents", pa.list_(_TEXT), "ids of the earlier entries that it follows from"),
        Column("timestamp", MICROS, "when it happened", unit="us since 1970, UTC"),
        Column(
            "source_version",
            pa.uint64(),
            "version of episodic up to which the ledger tells all, with this entry",
            unit="table version",
        ),
        Column(
            "source_row",
            pa.uint64(),
            "stable id of the row in episodic, assertions or job_runs; 2^64 - 1: none",
        ),
        Column("chain_version", pa.uint32(), "version of the encoding that is hashed"),
    ),
)

_IDS = pa.list_(_TEXT)

DECISIONS = TableSpec(
    name="decisions",
    version=1,
    meaning="what was decided of memories, and why: a row per verdict, review answer or undoing",
    scope=SCOPE_COLUMNS,
    memory_column="memory_id",
    forget=Erasure.DELETE,
    purge=Erasure.DELETE,
    columns=(
        Column("decision_id", _TEXT, "id of the row"),
        *_SCOPE,
        Column("decided_at", INSTANT, "when", unit="ns since 1970, UTC"),
        Column("decided_by", _TEXT, "rules, restore, or the reviewer's id"),
        Column("about", _TEXT, "decision_id that is answered or undone, empty for a verdict"),
        Column("decision", _TEXT, "create, skip, merge, modify, defer; keep; restore"),
        Column("memory_id", _TEXT, "the new memory; of a skip the one that stands for it"),
        Column("existing_id", _TEXT, "the stored memory that it was decided about, or empty"),
        Column("absorbed_id", _TEXT, "the one of the two that lives on in the other, or empty"),
        Column("score", pa.float32(), "similarity of the decisive candidate, else 0"),
        Column("mode", _TEXT, "where it came from: embedding, lexical; empty: nothing recalled"),
        Column("reason", _TEXT, "why"),
        Column("veto", _TEXT, "the veto that was kept, or empty"),
        Column("candidate_ids", _IDS, "memories that were recalled for it, best first"),
        Column("candidate_scores", pa.list_(pa.float32()), "their similarities"),
        Column("candidate_modes", _IDS, "where these came from"),
        Column("grey_ids", _IDS, "candidates that no rule told apart: pairs for a review"),
        Column("rules_version", _TEXT, "version of the judge's rules, or of the reviewer"),
        Column("seconds", pa.float32(), "what deciding took, a batch's shared out", unit="s"),
        Column("tokens", pa.uint32(), "what a reviewer's model was charged", unit="tokens"),
        Column("note", _TEXT, "a reviewer's own words, or empty"),
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
