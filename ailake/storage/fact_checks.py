"""What must hold of the facts of every lake."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from ailake.core.fact_versions import Verdict
from ailake.storage.facts import multi_valued
from ailake.storage.frames import lazy_frame

if TYPE_CHECKING:
    from ailake.storage.store import Store

_SHOWN = 3
_FOR_EVER = pl.datetime(2262, 1, 1, time_zone="UTC")
_COLUMNS = (
    "version_id", "fact_id", "key_id", "predicate", "object_id", "valid_from", "valid_to",
    "recorded_at", "retired_at",
)  # fmt: skip


def broken_facts(store: "Store") -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield what does not hold: which rule, how many versions break it, and some of their ids.

    Ids of versions are unique; no interval ends before it begins; of a subject and a predicate
    that is not multi-valued, no two live facts hold at once unless they wait for a verifier or one
    kept both, and no fact ever twice.
    """
    table = store.tables["facts"]
    many = list(multi_valued(table.snapshot()))
    rows = lazy_frame(table, store.journal).select(_COLUMNS).collect().with_row_index("place")
    # A fact of a multi-valued predicate can contradict none but itself.
    beside = pl.when(pl.col("predicate").is_in(many)).then("object_id").otherwise(pl.lit(""))
    live = rows.filter(pl.col("retired_at").is_null()).with_columns(beside=beside)
    ends = pl.col("valid_to").fill_null(_FOR_EVER)
    earlier = ends.cum_max().shift(1).over("key_id", "beside")
    meeting = live.sort("valid_from").filter(pl.col("valid_from") < earlier)
    contradicting = _not_queued(store, live, meeting)
    inverted = rows.filter(
        (pl.col("valid_to") <= pl.col("valid_from"))
        | (pl.col("retired_at") < pl.col("recorded_at"))
    )
    for what, broken in {
        "two versions of facts have the same id": rows.filter(pl.col("version_id").is_duplicated()),
        "an interval of a fact ends before it begins": inverted,
        "two live facts contradict each other": contradicting,
    }.items():
        if broken.height:
            ids = broken["version_id"].sort()
            yield what, ids.len(), tuple(ids.head(_SHOWN))


def _not_queued(store: "Store", live: pl.DataFrame, meeting: pl.DataFrame) -> pl.DataFrame:
    """Return those of the versions that meet another one which no verifier lets stay beside it."""
    kept = [Verdict.PENDING, Verdict.KEEP_BOTH]
    queued = lazy_frame(store.tables["verifications"], store.journal).filter(
        pl.col("verdict").is_in(list(map(str, kept)))
    )
    pair = {
        "one": pl.min_horizontal("winner_fact_id", "loser_fact_id"),
        "two": pl.max_horizontal("winner_fact_id", "loser_fact_id"),
    }
    pairs = queued.select("key_id", **pair).unique().collect()
    ends = pl.col("valid_to").fill_null(_FOR_EVER)
    both = live.join(meeting, on="key_id", how="semi").with_columns(ends=ends)
    beside = both.join(both, on=["key_id", "beside"], suffix="_other").filter(
        pl.col("place") != pl.col("place_other"),
        pl.col("valid_from") < pl.col("ends_other"),
        pl.col("valid_from_other") < pl.col("ends"),
    )
    refused = beside.with_columns(
        one=pl.min_horizontal("fact_id", "fact_id_other"),
        two=pl.max_horizontal("fact_id", "fact_id_other"),
    ).join(pairs, on=["key_id", "one", "two"], how="anti")
    return meeting.join(refused, on="place", how="semi")
