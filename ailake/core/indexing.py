"""Which indexes a table always has, and when an index is brought up to date. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

# A full-text search reads each row that its index lacks: 1,000 of them take it 5 ms.
MOST_BEHIND = 1_000

# So many parts cost a search nearly nothing; merging them reads all of the index.
MOST_SEGMENTS = 8

# Vectors beside an index are compared one by one: 10,000 in no time. An index of vectors is merged
# into one, which may build it anew.
MIN_VECTORS_BEHIND = 10_000
MOST_VECTORS_BEHIND = 0.1


class IndexKind(StrEnum):
    """What an index does; a key finds rows by what never changes of a row.

    ``other`` is what someone else has made: a B-tree, for example.
    """

    TEXT = "text"
    BITMAP = "bitmap"
    KEY = "key"
    VECTOR = "vector"
    OTHER = "other"


_LIGHT = (IndexKind.TEXT, IndexKind.BITMAP, IndexKind.KEY)

# Columns that keys are on.
KEYS = frozenset({"key_id", "subject_id", "fact_id", "source_memory_id"})


class Upkeep(IntEnum):
    """What is to be done with an index; of several the most is done."""

    NOTHING = 0
    APPEND = 1
    MERGE = 2


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index that a table always has.

    Attributes:
        least_rows: With fewer rows the table does without.
    """

    column: str
    kind: IndexKind
    least_rows: int = 0

    @property
    def name(self) -> str:
        """The name that the engine gives it, too, where nobody names it."""
        return f"{self.column}_idx"


# Fewer are scanned in a few milliseconds.
MANY_MENTIONS = 50_000


def _key(column: str) -> IndexSpec:
    # As long as an index may lack all rows, there need be none.
    return IndexSpec(column, IndexKind.KEY, least_rows=MOST_BEHIND + 1)


# Each column that tells scopes apart has one: among 1,000 scopes of one agent, with 100 of 100,000
# rows each, a search takes 94 ms with none, 87 with those of agent and state, 7 with all. Ids have
# none, because a resident index finds them.
ALWAYS: dict[str, tuple[IndexSpec, ...]] = {
    "facts": tuple(map(_key, ("key_id", "subject_id", "fact_id", "source_memory_id"))),
    "verifications": tuple(map(_key, ("key_id", "source_memory_id"))),
    "assertions": tuple(map(_key, ("key_id", "source_memory_id"))),
    "episodic": (
        IndexSpec("chunk_text", IndexKind.TEXT),
        IndexSpec("agent_id", IndexKind.BITMAP),
        IndexSpec("user_id", IndexKind.BITMAP),
        IndexSpec("project_id", IndexKind.BITMAP),
        IndexSpec("state", IndexKind.BITMAP),
    ),
    "mentions": tuple(
        IndexSpec(name, IndexKind.BITMAP, least_rows=MANY_MENTIONS)
        for name in ("agent_id", "user_id", "project_id")
    ),
}

# The tokenizer finds words in any script. Without English stop words recall@10 on LoCoMo is .02
# higher: what questions are made of ("what did she do with it") tells nothing about the answer.
TEXT_OPTIONS: dict[str, object] = {
    "base_tokenizer": "icu",
    "language": "English",
    "stem": True,
    "lower_case": True,
    "ascii_folding": True,
    "remove_stop_words": True,
    "with_position": False,
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a table an index knows.

    Attributes:
        indexed_rows: Rows in it.
        unindexed_rows: Rows that it lacks; searches look at them one by one.
        segments: Parts that it consists of.
        has_moved: Some of the rows that it lacks were changed since they were written, so that it
            may know them as they were.
    """

    indexed_rows: int
    unindexed_rows: int
    segments: int
    has_moved: bool = False


def upkeep_of(kind: IndexKind, coverage: Coverage) -> Upkeep:
    """Return what to do with an index.

    A part of its own for the rows that it lacks takes milliseconds, but only what is new may be
    appended: of a row that moved the engine would find the old values beside the new ones. Bitmaps
    stay in one part, because others (LanceDB's ``optimize``) append what has moved all the same,
    and what a memory's state was must not be found.
    """
    behind = coverage.unindexed_rows
    if kind not in _LIGHT:
        share = coverage.indexed_rows * MOST_VECTORS_BEHIND
        return Upkeep.MERGE if behind > max(MIN_VECTORS_BEHIND, share) else Upkeep.NOTHING
    most = 1 if kind is IndexKind.BITMAP else MOST_SEGMENTS
    if coverage.segments > most:
        return Upkeep.MERGE
    if behind <= MOST_BEHIND:
        return Upkeep.NOTHING
    is_new = coverage.indexed_rows > 0 and not coverage.has_moved
    return Upkeep.APPEND if kind is not IndexKind.BITMAP and is_new else Upkeep.MERGE


def together(wanted: Sequence[Upkeep]) -> Upkeep:
    """Return what to do with indexes that are brought up to date in one commit."""
    return max(wanted, default=Upkeep.NOTHING)
