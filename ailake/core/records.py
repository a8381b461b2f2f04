"""Frozen values and enums exchanged by all layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ailake.errors import ScopeError

MAX_SCOPE_LENGTH = 1024


class Decision(StrEnum):
    """What the judge decided for a new memory."""

    CREATE = "create"
    SKIP = "skip"
    MERGE = "merge"
    MODIFY = "modify"
    DEFER = "defer"


class State(StrEnum):
    """The life of a stored memory."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    MERGED = "merged"


class SourceClass(StrEnum):
    """Where a memory came from; memories of different classes never merge."""

    DIRECT = "direct"
    TOOL = "tool"
    DOCUMENT = "document"
    GROUP_CHAT = "group_chat"
    SYSTEM = "system"
    RECALLED = "recalled"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """The wall around memories: an agent, optionally narrowed to a user and a project.

    Scopes match exactly: an empty ``user_id`` is its own value, not a wildcard.

    Raises:
        ScopeError: ``agent_id`` is empty, or a part is not a string of at most 1,024 characters.
    """

    agent_id: str
    user_id: str = ""
    project_id: str = ""

    def __post_init__(self) -> None:
        for name in ("agent_id", "user_id", "project_id"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > MAX_SCOPE_LENGTH:
                raise ScopeError.of(
                    name, got=value, wanted=f"a string of at most {MAX_SCOPE_LENGTH} characters"
                )
            if not is_encodable(value):
                raise ScopeError.of(name, got=value, wanted="text that UTF-8 can encode")
        if not self.agent_id.strip():
            raise ScopeError.of("agent_id", got=self.agent_id, wanted="a non-empty string")


@dataclass(frozen=True, slots=True)
class LakeScope:
    """The lake itself, which the ledger has a chain of, too: what belongs to no scope is in it.

    Its parts are empty, as those of no ``Scope`` can be: no memory has it.
    """

    agent_id: str = field(default="", init=False)
    user_id: str = field(default="", init=False)
    project_id: str = field(default="", init=False)

    def __str__(self) -> str:
        """Return how messages name it."""
        return "the lake itself"


ChainScope = Scope | LakeScope


def is_encodable(text: str) -> bool:
    """Tell whether the text has no lone surrogates, which no store can keep."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Remembered:
    """What became of a memory that was given to ``remember``.

    Attributes:
        id: The memory's id; for a skip that of the survivor.
        decision: What the judge decided.
        reason: Why.
        existing_id: The memory that stands in its place, empty where a new one was made.
        veto: The veto that stood against the best candidate, or empty.
        repeated: An earlier call with the same id had this outcome; this one changed nothing.
    """

    id: str
    decision: Decision
    reason: str
    existing_id: str = ""
    veto: str = ""
    repeated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A stored memory, with the accesses that wait in the journal counted in.

    Attributes:
        recency_weight: As of the last decay run; a hit of ``recall`` carries the live one.
        metadata: The application's own fields.
    """

    id: str
    text: str
    scope: Scope
    session_id: str
    role: str
    speaker: str
    kind: str
    source: str
    importance_score: float
    confidence: float
    created_at: datetime
    updated_at: datetime
    event_time: datetime | None
    expires_at: datetime | None
    last_accessed_at: datetime
    recency_weight: float
    access_count: int
    state: State
    merged_into: str
    decision: Decision
    reason: str
    veto: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(MemoryRecord):
    """A recalled memory and every part of its score.

    Attributes:
        passage: The part of a long text that is nearest to the query; otherwise the whole text.
        score: Hybrid score, ascending: lower is better.
        distance: Cosine distance of the query, in [0, 2]; 1 in mode text, which looks at words
            alone.
        parts: Every part of the score, see ``Hits.explain``.
    """

    passage: str
    score: float
    distance: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How the best memories of stage one were found.

    Attributes:
        exact: They are proven to be the best, over true distances.
        bound_held: They are proven to be the best of what the lists hold; with an approximate
            index that is exact up to the index's recall.
        scored: Memories whose score was computed.
        listed: Length of each list that was asked for: nearest, heaviest, words.
        widened: Lists that had to be longer than at first, in that order.
        index: The approximate index that was used, or empty.
        index_kind: The engine's name for its kind, such as IVF_SQ; empty without one.
        index_recall: Its measured recall, the share of the truly nearest that it lists; None where
            there is none or it is unknown. Where passages have an index of their own, the lower.
    """

    exact: bool
    bound_held: bool
    scored: int = 0
    listed: Mapping[str, int] = field(default_factory=dict)
    widened: tuple[str, ...] = ()
    index: str = ""
    index_kind: str = ""
    index_recall: float | None = None


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What ``forget`` removed, or with ``dry_run`` would remove.

    Attributes:
        ids: The memories, sorted.
        missing: Ids that were asked for and are not in the scope, or fail another term.
        dry_run: True where nothing was changed.
    """

    ids: tuple[str, ...]
    missing: tuple[str, ...]
    dry_run: bool

    @property
    def count(self) -> int:
        """Number of memories."""
        return len(self.ids)
