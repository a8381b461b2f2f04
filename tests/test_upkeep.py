"""What the thread behind single writes sees to: indexes that keep up."""

from datetime import UTC, datetime

import numpy as np
import pytest
from lancedb.index import IvfSq

import ailake
from ailake.core import indexing

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def index_parts(lake: ailake.Lake) -> tuple[int, int]:
    """Return how many parts the vector index has, and how many rows it lacks."""
    stats = lake.table("episodic").to_lance().stats.index_stats("embedding_idx")
    return stats["num_indices"], stats["num_unindexed_rows"]


def test_an_index_is_brought_up_to_date_off_the_callers_path(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MIN_VECTORS_BEHIND", 20)
    memory = lake.memory(agent_id="a")
    vectors = np.random.default_rng(0).standard_normal((600, 64))
    items = [{"text": f"n{n}", "vector": vectors[n]} for n in range(500)]
    memory.remember_many(items, now=NOW)
    lake.table("episodic").create_index("embedding", config=IvfSq(distance_type="cosine"))
    for n in range(500, 550):
        memory.remember(f"n{n}", vector=vectors[n], now=NOW)
    lake.flush()
    # A tenth is not missing yet: searching 50 rows beside the index costs nothing.
    assert index_parts(lake) == (1, 50)
    for n in range(550, 600):
        memory.remember(f"n{n}", vector=vectors[n], now=NOW)
    lake.flush()
    parts, behind = index_parts(lake)
    assert parts == 1
    assert behind <= 60
    hits = memory.recall(vectors[599], limit=1, now=NOW)
    assert hits[0].text == "n599"
