"""A purge that is killed at any step: the lake reads right, and the next run completes it.

The job is tests/killed_job.py; see test_job_faults.py.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kept import KEEP
from leftovers import holding
from test_job_faults import run

import ailake
from ailake.maintenance import PurgeJob

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WORDS = {"long": "q7f3a9b2c4d5e6f708192a3b4", "fact": "q3c1d5e7f9a2b4c6d8e0f1a35", "old": "q9z8"}
NEEDLES = {name: word.encode() for name, word in WORDS.items()}


def fill(folder: Path) -> None:
    with ailake.connect(folder, embedder="hashing:16", judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        memory.remember(WORDS["old"], id="first", now=NOW)
        text = " ".join(f"Sentence number {n} is about {WORDS['long']}." for n in range(40))
        memory.remember_many([{"text": "tea", "id": "tea"}, {"text": text, "id": "gone"}], now=NOW)
        rows = lake.table("episodic").to_lance().to_table(filter="chunk_id = 'first'")
        place = rows.schema.get_field_index("merged_into")
        lake.store.change(rows.set_column(place, rows.schema.field(place), [["gone"]]))
        facts = lake.facts("a")
        fact = ailake.FactTriple("Ana", "likes", WORDS["fact"], NOW)
        facts.assert_([fact], source_memory_id="gone", now=NOW)
        memory.recall("tea", now=NOW)
        lake.tag("held")


def check(folder: Path, scratch: Path) -> bool:
    """Check that a lake reads right, whatever has happened; tell whether the memory is there."""
    with ailake.connect(folder, judge_rules=KEEP) as lake:
        memory = lake.memory("a")
        there = {one.id for one in memory.list(now=NOW)}
        assert {hit.id for hit in memory.recall("tea", touch=False, now=NOW)} == there
        assert there - {"gone", "first"} == {"tea"}
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
        report = PurgeJob(lake, ids="gone", confirm_tags=True).run(NOW)
        assert not any(holding(lake, NEEDLES, scratch).values())
        assert "first" not in {one.id for one in memory.list({"state": "merged"}, now=NOW)}
        assert lake.tags() == []
        assert [one.id for one in memory.list(now=NOW)] == ["tea"]
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
        ended = [e.subject_id for e in lake.ledger().entries(memory.scope) if e.event == "purge"]
        assert "gone" in ended
        assert all(one.versions >= 0 for one in report.tables)
        return "gone" in there


def test_a_killed_purge_is_completed_by_the_next(tmp_path: Path) -> None:
    fill(tmp_path / "base")
    shutil.copytree(tmp_path / "base", tmp_path / "whole")
    boundaries = run(tmp_path / "whole", "purge", None)
    assert boundaries is not None
    assert boundaries > 12
    found = []
    for deadly in sorted({*range(0, boundaries, 3), boundaries - 1}):
        folder = tmp_path / f"killed {deadly}"
        shutil.copytree(tmp_path / "base", folder)
        run(folder, "purge", deadly)
        found.append(check(folder, tmp_path))
    # Some were killed before the memory was gone, and some after.
    assert found == sorted(found, reverse=True)
    assert set(found) == {True, False}
