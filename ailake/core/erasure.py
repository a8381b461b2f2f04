"""What a purge takes: the rows of a scope, or of memories and what was merged into them. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.drafts import check_id
from ailake.core.records import Scope
from ailake.core.specs import TableSpec
from ailake.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Target:
    """Whose rows are erased; what is None is no term, and two terms are ANDed.

    Attributes:
        scope: All rows of a scope.
        ids: All rows of these memories, in whatever scope, sorted.
    """

    scope: Scope | None
    ids: tuple[str, ...] | None

    @classmethod
    def of(cls, scope: object, ids: object) -> "Target":
        """Check what a caller names.

        Raises:
            InvalidInputError: Neither, no id, or something else.
        """
        if scope is not None and not isinstance(scope, Scope):
            raise InvalidInputError.of("scope", got=scope, wanted="a Scope")
        if ids is None:
            if scope is None:
                raise InvalidInputError("purge: got no term, wanted scope or ids")
            return cls(scope, None)
        listed = [ids] if isinstance(ids, str) else ids
        if not isinstance(listed, Iterable):
            raise InvalidInputError.of("ids", got=ids, wanted="one id or several")
        wanted = tuple(sorted({check_id(one) for one in listed}))
        if not wanted:
            raise InvalidInputError.of("ids", got=ids, wanted="one id or several")
        return cls(scope, wanted)

    def columns(self, spec: TableSpec) -> tuple[str, ...]:
        """Return the columns of a table that ``mask`` looks at."""
        scope = spec.scope if self.scope is not None else ()
        memory = (spec.memory_column,) if self.ids is not None and spec.memory_column else ()
        return tuple(dict.fromkeys((*scope, *memory)))

    def mask(self, rows: pa.Table, spec: TableSpec) -> pa.ChunkedArray:
        """Tell which rows of a table go; a table without such a column has none.

        Args:
            rows: With ``columns``.
            spec: The table.
        """
        goes = pa.chunked_array([pa.repeat(pa.scalar(value=True), rows.num_rows)])
        if self.scope is not None:
            values = asdict(self.scope)
            for name in spec.scope:
                goes = pc.and_(goes, pc.equal(rows[name], values[name]))
        if self.ids is not None and spec.memory_column:
            named = pc.is_in(rows[spec.memory_column], value_set=pa.array(self.ids, pa.string()))
            goes = pc.and_(goes, named)
        return goes

    def concerns(self, spec: TableSpec) -> bool:
        """Tell whether a table can have rows that go."""
        by_scope = self.scope is None or bool(spec.scope)
        return by_scope and (self.ids is None or bool(spec.memory_column))


def with_ancestors(ids: Iterable[str], merged: pa.Table) -> tuple[str, ...]:
    """Add to ids those of the memories that were merged into them, and into those in turn.

    Args:
        ids: Of memories that need not be there any more.
        merged: ``chunk_id`` and ``merged_into`` of all memories that were merged.
    """
    known = set(ids)
    while True:
        into = pc.is_in(merged["merged_into"], value_set=pa.array(sorted(known), pa.string()))
        found = set(merged.filter(into)["chunk_id"].to_pylist())
        if found <= known:
            return tuple(sorted(known))
        known |= found
