"""What a table of the registry is: its columns, its scope, and how erasure treats it."""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

INSTANT = pa.timestamp("ns", tz="UTC")
TEXT = pa.string()

SCOPE_COLUMNS = ("agent_id", "user_id", "project_id")


class Erasure(StrEnum):
    """What forget and purge do to a table's rows of an erased memory."""

    DELETE = "delete"
    # For what holds ids and hashes alone.
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the published contract that readers in other languages rely on."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    unit: str = ""
    since: int = 1

    @property
    def type_name(self) -> str:
        """The Arrow type as text; the vector's length stays the symbol ``dim``."""
        return "fixed_size_list<float16>[dim]" if self.name == "embedding" else str(self.type)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table of the lake: columns, version, scope columns, and what erasure does to it.

    Attributes:
        memory_column: The column that holds the id of the memory a row belongs to.
        forget: What ``forget`` does to the rows of a forgotten memory.
        purge: What a purge does to them.
        key: The column by which the engine tells that two writers are inserting the same row, so
            that the second has to look again; empty where nothing depends on it.
    """

    name: str
    version: int
    meaning: str
    columns: tuple[Column, ...]
    scope: tuple[str, ...]
    memory_column: str
    forget: Erasure
    purge: Erasure
    key: str = ""


SCOPE = (
    Column("agent_id", TEXT, "owner of the memory; joins with other agent tables"),
    Column("user_id", TEXT, "user within the agent, empty where there is none"),
    Column("project_id", TEXT, "project within the agent, empty where there is none"),
)
