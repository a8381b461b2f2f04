"""Episodic memory for AI agents: an embedded, open-format lakehouse on Lance."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ailake.core.entities import EntityRef
from ailake.core.episodic import RecencyConfig, ScoringPolicy, hybrid_score, recency_weight
from ailake.core.fact_versions import FactHistoryEntry, FactVersion
from ailake.core.graph import (
    GraphEdge,
    GraphNode,
    GraphView,
    IndexEntry,
    PathHop,
    RetrievalPath,
    known_epoch,
)
from ailake.core.prompts import is_recalled
from ailake.core.reconcile import FactDecision, FactTriple, SpoEntry, classify_fact
from ailake.core.records import (
    Decision,
    ForgetReport,
    Hit,
    LakeScope,
    MemoryRecord,
    Remembered,
    Scope,
    SourceClass,
    State,
)
from ailake.core.vectors import IndexPolicy
from ailake.errors import (
    AilakeError,
    ConflictError,
    EmbedderMismatchError,
    InvalidInputError,
    LakeCorruptError,
    MissingExtraError,
    NotFoundError,
    ObjectStoreError,
    ProviderError,
    ReadOnlyError,
    SchemaMismatchError,
    ScopeError,
    WorkerDiedError,
)
from ailake.rerankers import CrossEncoderReranker

if TYPE_CHECKING:
    from ailake.backup import BackupReport, restore_lake
    from ailake.connecting import connect
    from ailake.core.entity_extraction import EntityExtractor, FallbackExtractor
    from ailake.core.entity_rules import RulesExtractor
    from ailake.core.extraction import FactExtractor
    from ailake.core.graph_evidence import GraphEvidence
    from ailake.core.judge import Candidate, JudgeRules, MemoryItem, Verdict, containment, judge
    from ailake.core.knowledge import InMemoryKnowledgeGraph, KnowledgeGraph
    from ailake.core.reviewing import GreyCase, ReviewAnswer, Reviewer, ReviewVerdict
    from ailake.core.verifying import FactAnswer, FactCase, FactVerdict, FactVerifier
    from ailake.facts import Facts
    from ailake.graph import LanceKnowledgeGraph
    from ailake.graph_recall import GraphAwareRecall, GraphHits, GraphMetrics
    from ailake.hits import Hits
    from ailake.lake import Lake, LakeStats
    from ailake.memory import AsyncMemory, Memory
    from ailake.provenance import ProvenanceKnowledgeGraph
    from ailake.reading import AsyncMemoryReader

__all__ = [
    "AilakeError",
    "AsyncMemory",
    "AsyncMemoryReader",
    "BackupReport",
    "Candidate",
    "ConflictError",
    "CrossEncoderReranker",
    "Decision",
    "EmbedderMismatchError",
    "EntityExtractor",
    "EntityRef",
    "FactAnswer",
    "FactCase",
    "FactDecision",
    "FactExtractor",
    "FactHistoryEntry",
    "FactTriple",
    "FactVerdict",
    "FactVerifier",
    "FactVersion",
    "Facts",
    "FallbackExtractor",
    "ForgetReport",
    "GraphAwareRecall",
    "GraphEdge",
    "GraphEvidence",
    "GraphHits",
    "GraphMetrics",
    "GraphNode",
    "GraphView",
    "GreyCase",
    "Hit",
    "Hits",
    "InMemoryKnowledgeGraph",
    "IndexEntry",
    "IndexPolicy",
    "InvalidInputError",
    "JudgeRules",
    "KnowledgeGraph",
    "Lake",
    "LakeCorruptError",
    "LakeScope",
    "LakeStats",
    "LanceKnowledgeGraph",
    "Memory",
    "MemoryItem",
    "MemoryRecord",
    "MissingExtraError",
    "NotFoundError",
    "ObjectStoreError",
    "PathHop",
    "ProvenanceKnowledgeGraph",
    "ProviderError",
    "ReadOnlyError",
    "RecencyConfig",
    "Remembered",
    "RetrievalPath",
    "ReviewAnswer",
    "ReviewVerdict",
    "Reviewer",
    "RulesExtractor",
    "SchemaMismatchError",
    "Scope",
    "ScopeError",
    "ScoringPolicy",
    "SourceClass",
    "SpoEntry",
    "State",
    "Verdict",
    "WorkerDiedError",
    "classify_fact",
    "connect",
    "containment",
    "hybrid_score",
    "is_recalled",
    "judge",
    "known_epoch",
    "recency_weight",
    "restore_lake",
]

# These bring the engine with them, which takes over a second to import: only when asked for.
_LATE = {
    "AsyncMemory": "ailake.memory",
    "AsyncMemoryReader": "ailake.reading",
    "BackupReport": "ailake.backup",
    "Candidate": "ailake.core.judge",
    "EntityExtractor": "ailake.core.entity_extraction",
    "FactAnswer": "ailake.core.verifying",
    "FactCase": "ailake.core.verifying",
    "FactExtractor": "ailake.core.extraction",
    "FactVerdict": "ailake.core.verifying",
    "FactVerifier": "ailake.core.verifying",
    "Facts": "ailake.facts",
    "FallbackExtractor": "ailake.core.entity_extraction",
    "GraphAwareRecall": "ailake.graph_recall",
    "GraphEvidence": "ailake.core.graph_evidence",
    "GraphHits": "ailake.graph_recall",
    "GraphMetrics": "ailake.graph_recall",
    "GreyCase": "ailake.core.reviewing",
    "Hits": "ailake.hits",
    "InMemoryKnowledgeGraph": "ailake.core.knowledge",
    "JudgeRules": "ailake.core.judge",
    "KnowledgeGraph": "ailake.core.knowledge",
    "Lake": "ailake.lake",
    "LakeStats": "ailake.lake",
    "LanceKnowledgeGraph": "ailake.graph",
    "Memory": "ailake.memory",
    "MemoryItem": "ailake.core.judge",
    "ProvenanceKnowledgeGraph": "ailake.provenance",
    "ReviewAnswer": "ailake.core.reviewing",
    "ReviewVerdict": "ailake.core.reviewing",
    "Reviewer": "ailake.core.reviewing",
    "RulesExtractor": "ailake.core.entity_rules",
    "Verdict": "ailake.core.judge",
    "connect": "ailake.connecting",
    "containment": "ailake.core.judge",
    "judge": "ailake.core.judge",
    "restore_lake": "ailake.backup",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'ailake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE])
