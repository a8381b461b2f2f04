"""BM25 of given rows: the same as in a list of the best, whether or not the index has them yet."""

import random
from datetime import UTC, datetime

import numpy as np
import pytest

import ailake
from ailake.core.filters import TRUE, Predicate
from ailake.storage.lexical import best_by_words, bm25_of, unindexed
from ailake.storage.memories import predicate

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WHERES = [TRUE, predicate({"agent_id": "a"}), predicate({"importance_score": {"gte": 0.7}})]


def fill(lake: ailake.Lake, agent: str, count: int, *, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 (a repeatable order)
    items = [
        {
            "text": " ".join(f"word{draw.randrange(30)}" for _ in range(draw.randint(3, 40))),
            "importance": draw.random(),
        }
        for _ in range(count)
    ]
    lake.memory(agent_id=agent).remember_many(items, judge=False, now=NOW)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("indexed", ["nothing", "all", "some"])
def test_asked_for_by_themselves(lake: ailake.Lake, where: Predicate, indexed: str) -> None:
    fill(lake, "a", 300, seed=1)
    if indexed != "nothing":
        lake.table("episodic").to_lance().optimize.optimize_indices()
    if indexed != "all":
        fill(lake, "a", 60, seed=2)
        fill(lake, "b", 60, seed=3)
    dataset = lake.store.episodic.snapshot()
    assert bool(unindexed(dataset)) == (indexed != "all")
    for text in ("word3 word7", "word1 word2 word11"):
        everyone = best_by_words(dataset, text, where, limit=None)
        some = np.sort(everyone.row_ids)[::3]
        found = bm25_of(dataset, text, where, some)
        assert sorted(found.row_ids.tolist()) == some.tolist()
        assert found.of(some).tolist() == everyone.of(some).tolist()
        assert found.complete
        assert (np.diff(found.bm25) <= 0).all()
        short = best_by_words(dataset, text, where, limit=20)
        assert short.of(short.row_ids).tolist() == everyone.of(short.row_ids).tolist()
