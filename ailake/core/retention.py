"""Which memories a pruning run removes, and why. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ailake.core.episodic import ScoringPolicy, days_between, unit_interval
from ailake.core.records import State
from ailake.core.rows import as_nanoseconds, born_at
from ailake.core.schema import SCOPE_COLUMNS
from ailake.errors import InvalidInputError

# What is read of each memory, beside its row id.
COLUMNS = (
    "chunk_id", *SCOPE_COLUMNS, "state", "importance_score", "created_at", "event_time",
    "last_accessed_at", "expires_at", "folded_through",
)  # fmt: skip

_NEVER = np.iinfo(np.int64).max
_PINNED = 1.0


class Removal(StrEnum):
    """Why a memory is removed."""

    EXPIRED = "expired"
    BELOW_WEIGHT = "below_weight"
    OVER_CAP = "over_cap"
    MERGED = "merged"


_CODES = {removal: code for code, removal in enumerate(Removal, start=1)}
_STAYS = 0


@dataclass(frozen=True, slots=True)
class Retention:
    """What may stay; what has expired never does.

    Attributes:
        min_weight: Active memories that weigh less go; None for no bound.
        keep: So many of a scope's active memories stay at least, the best by weight, and the
            others go; None for no cap.
        scoring: The policy whose weight counts.

    Raises:
        InvalidInputError: A field is of the wrong type or out of range.
    """

    min_weight: float | None = None
    keep: int | None = None
    scoring: ScoringPolicy = field(default_factory=ScoringPolicy)

    def __post_init__(self) -> None:
        if self.min_weight is not None:
            weight = unit_interval(self.min_weight, name="min_weight")
            object.__setattr__(self, "min_weight", weight)
        is_whole = isinstance(self.keep, int) and not isinstance(self.keep, bool)
        if self.keep is not None and (not is_whole or self.keep < 1):
            raise InvalidInputError.of("keep", got=self.keep, wanted="a whole number >= 1")
        if not isinstance(self.scoring, ScoringPolicy):
            raise InvalidInputError.of("scoring", got=self.scoring, wanted="a ScoringPolicy")

    @property
    def weighs(self) -> bool:
        """Whether anything but expiry counts, so that every memory is looked at."""
        return self.min_weight is not None or self.keep is not None


@dataclass(frozen=True, slots=True)
class Prunable:
    """What a run removes, without what was merged into it.

    Attributes:
        rows: ``chunk_id``, the scope, ``_rowid`` and ``removal``, a ``Removal``.
        pinned: Memories that stay only because their importance is 1.0.
    """

    rows: pa.Table
    pinned: int


def candidates(
    rows: pa.Table, last_accessed: NDArray[np.int64], retention: Retention, now: int
) -> pa.Table:
    """Return those of some memories that ``prunable`` has to know, with their weights.

    What was merged into another memory is none of them: it stays and goes with that one. Deferred
    memories, which no recall ranks, go by their expiry alone.

    Args:
        rows: ``COLUMNS`` and ``_rowid``.
        last_accessed: Nanoseconds since 1970, pending accesses counted in, (n,).
        retention: What may stay.
        now: Nanoseconds since 1970.
    """
    state = rows["state"]
    active = _flags(pc.equal(state, State.ACTIVE.value))
    merged = _flags(pc.equal(state, State.MERGED.value))
    ends = as_nanoseconds(pc.fill_null(rows["expires_at"].cast(pa.int64()), _NEVER))
    expired = ~merged & (ends <= now)
    ranked = active & ~expired
    importance = rows["importance_score"].to_numpy().astype(np.float64)
    scoring = retention.scoring
    weight = scoring.recency_part(days_between(last_accessed, now))
    weight = weight * scoring.importance_part(importance)
    light = ranked & (weight < (retention.min_weight or 0.0))
    codes = [_CODES[Removal.EXPIRED], _CODES[Removal.BELOW_WEIGHT]]
    code = np.select([expired, light], codes, _STAYS).astype(np.int8)
    found = {name: pc.dictionary_encode(rows[name]) for name in SCOPE_COLUMNS}
    found |= {"chunk_id": rows["chunk_id"], "_rowid": rows["_rowid"]}
    found |= {"code": code, "weight": weight, "born": born_at(rows)}
    found["pinned"] = importance >= _PINNED
    wanted = (code != _STAYS) | (ranked & (retention.keep is not None))
    return pa.table(found).filter(pa.array(wanted))


def prunable(found: pa.Table, retention: Retention) -> Prunable:
    """Decide which of all candidates go.

    Of a scope's active memories that have not expired, those outside the best ``keep`` by weight
    go; ties are broken as recall breaks them: the newer memory, then ``chunk_id``.

    Args:
        found: Of ``candidates``, all batches.
        retention: What may stay.
    """
    found = found.unify_dictionaries().combine_chunks()
    code = found["code"].to_numpy().copy()
    if retention.keep is not None:
        over = _over_cap(found, code != _CODES[Removal.EXPIRED], retention.keep)
        code[over[code[over] == _STAYS]] = _CODES[Removal.OVER_CAP]
    pinned = found["pinned"].to_numpy()
    goes = (code != _STAYS) & ~pinned
    rows = found.filter(pa.array(goes))
    columns = {name: rows[name].cast(pa.string()) for name in ("chunk_id", *SCOPE_COLUMNS)}
    why = np.array(["", *Removal])[code[goes]]
    columns |= {"_rowid": rows["_rowid"], "removal": pa.array(why.tolist(), pa.string())}
    return Prunable(pa.table(columns), int(((code != _STAYS) & pinned).sum()))


def with_merged_removal(rows: pa.Table, along: pa.Table) -> pa.Table:
    """Add to the rows of ``Prunable`` those that were merged into them."""
    why = pa.array([Removal.MERGED.value] * along.num_rows, pa.string())
    return pa.concat_tables([rows, along.append_column("removal", why).select(rows.column_names)])


def _over_cap(found: pa.Table, ranked: NDArray[np.bool_], keep: int) -> NDArray[np.intp]:
    """Return the places of the ranked rows that are not among the best of their scope."""
    scope = {name: _codes(found[name])[ranked] for name in SCOPE_COLUMNS}
    others = {name: found[name].filter(pa.array(ranked)) for name in ("weight", "born", "chunk_id")}
    keys = [
        *((name, "ascending") for name in SCOPE_COLUMNS),
        ("weight", "descending"),
        ("born", "descending"),
        ("chunk_id", "ascending"),
    ]
    order = pc.sort_indices(pa.table(scope | others), sort_keys=keys).to_numpy()
    places = np.arange(len(order))
    is_first = np.zeros(len(order), np.bool_)
    for column in scope.values():
        is_first[1:] |= np.diff(column[order]) != 0
    place_in_scope = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return np.asarray(np.flatnonzero(ranked)[order[place_in_scope >= keep]])


def _codes(column: pa.ChunkedArray) -> NDArray[np.int32]:
    parts = [chunk.indices.to_numpy() for chunk in column.chunks]
    return np.concatenate([*parts, np.empty(0, np.int32)])


def _flags(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(values.to_numpy())
