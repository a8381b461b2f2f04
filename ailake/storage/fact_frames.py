"""Facts as a polars lazy frame, as they hold at one instant and were believed at another."""

from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from ailake.storage.frames import lazy_frame

if TYPE_CHECKING:
    from ailake.storage.store import Store

_INSTANT = pl.Datetime("ns", "UTC")


def facts_frame(store: "Store", *, as_of: datetime, known_at: datetime | None) -> pl.LazyFrame:
    """Return the versions of all scopes that hold at one instant.

    Args:
        store: The lake.
        as_of: When they are to hold.
        known_at: When they were believed; None: those that are believed now.
    """
    believed = pl.col("retired_at").is_null()
    if known_at is not None:
        believed = _within("recorded_at", "retired_at", known_at)
    frame = lazy_frame(store.tables["facts"], store.journal)
    return frame.filter(_within("valid_from", "valid_to", as_of) & believed)


def _within(begin: str, end: str, at: datetime) -> pl.Expr:
    instant = pl.lit(at).cast(_INSTANT)
    return (pl.col(begin) <= instant) & (pl.col(end).is_null() | (pl.col(end) > instant))
