"""What a table of a lake declares: its columns, its scope, and what erasure does to it."""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


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
        scope: The columns that are a row's scope; none where rows belong to the whole lake.
        memory_column: The column that holds the id of the memory a row belongs to; empty without
            a scope.
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
