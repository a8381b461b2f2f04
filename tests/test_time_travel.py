"""lake.tag and lake.at: one consistent, read-only view over all tables."""

import gc
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kept import KEEP

import ailake
from ailake import InvalidInputError, NotFoundError, ReadOnlyError
from ailake.clock import utc_now
from ailake.core.schema import TABLES
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_a_tag_reads_the_past(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember("Ana lives in Oslo", now=NOW)
    memory.touch(made.id, now=NOW)
    lake.tag("before-move")
    memory.update(made.id, text="Ana lives in Bergen", now=NOW)
    memory.forget(made.id)
    memory.remember("something else", now=NOW)
    MemoryDecayJob(lake).run(NOW)
    with lake.at("before-move") as past:
        then = past.memory(agent_id="ana-bot", user_id="ana")
        (hit,) = then.recall("where does Ana live", now=NOW)
        assert (hit.text, hit.access_count) == ("Ana lives in Oslo", 1)
        assert then.count(now=NOW) == 1
        assert past.scan("episodic").collect().height == 1
        assert past.table("episodic").count_rows() == 1
        for write in (
            lambda: then.remember("x"),
            lambda: then.update(made.id, importance=0.1),
            lambda: then.touch(made.id),
            lambda: then.forget(made.id),
            lambda: MemoryDecayJob(past).run(NOW),
            lambda: past.tag("again"),
        ):
            with pytest.raises(ReadOnlyError):
                write()
    assert lake.tags() == ["before-move"]
    assert memory.count(now=NOW) == 2
    assert lake.scan("accesses").collect()["event"].to_list() == []


def test_a_moment(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("first", now=NOW)
    time.sleep(0.05)
    between = utc_now()
    time.sleep(0.05)
    memory.remember("second", now=NOW)
    then = lake.at(between).memory(agent_id="ana-bot", user_id="ana")
    assert [record.text for record in then.list(now=NOW)] == ["first"]
    assert lake.at(utc_now()).memory(agent_id="ana-bot", user_id="ana").count(now=NOW) == 2
    with pytest.raises(NotFoundError, match="no longer keeps how it was"):
        lake.at(between - 400 * DAY)


def test_a_tagged_version_outlives_a_cleanup(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("first", now=NOW)
    lake.tag("v1")
    early = utc_now()
    memory.remember("second", now=NOW)
    lake.flush()
    memory.remember("third", now=NOW)
    dataset = lake.table("episodic").to_lance()
    dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert lake.at("v1").memory(agent_id="ana-bot", user_id="ana").count(now=NOW) == 1
    # What followed the tagged version is gone: whether it was there by then, nobody knows.
    with pytest.raises(NotFoundError, match="a tag would have kept it"):
        lake.at(early)


def test_pending_accesses_are_those_of_then(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember("tea", now=NOW).id
    for n in range(3):
        memory.touch(made, now=NOW + n * DAY)
        lake.tag(f"t{n}")
        MemoryDecayJob(lake).run(NOW + n * DAY)
    for n in range(3):
        then = lake.at(f"t{n}").memory(agent_id="ana-bot", user_id="ana").get(made)
        assert (then.access_count, then.last_accessed_at) == (n + 1, NOW + n * DAY)


@pytest.mark.parametrize("bad", ["", "a b", "../x", "-x", 5, None, "x" * 129])
def test_bad_tags(lake: ailake.Lake, bad: str) -> None:
    with pytest.raises(InvalidInputError, match="tag: got"):
        lake.tag(bad)


def test_tags_are_taken_once_and_must_exist(lake: ailake.Lake) -> None:
    lake.tag("v1")
    with pytest.raises(InvalidInputError, match="not taken"):
        lake.tag("v1")
    with pytest.raises(NotFoundError, match="no tag 'v2'; there are v1"):
        lake.at("v2")
    with pytest.raises(InvalidInputError, match="at: got"):
        lake.at(NOW.replace(tzinfo=None))


def lake_without(lake: ailake.Lake, name: str) -> ailake.Lake:
    """Open the lake anew as if ``name`` had not been known when it was made."""
    lake.close()
    shutil.rmtree(Path(lake.uri) / f"{name}.lance")
    return ailake.connect(lake.uri, judge_rules=KEEP)


def test_a_table_that_was_made_after_the_tag_is_empty_then(lake: ailake.Lake) -> None:
    lake.memory(agent_id="a").remember("tea", now=NOW)
    lake.tag("old")
    between = utc_now()
    time.sleep(0.05)
    with lake_without(lake, "passages") as opened:
        table = opened.table("passages")
        table.add(
            [
                dict.fromkeys(("chunk_id", "agent_id", "user_id", "project_id"), "a")
                | {"part": 0, "start": 0, "end": 3, "embedding": [0.5] * 64}
            ]
        )
        opened.tag("new")
        for when in ("old", between):
            with opened.at(when) as past:
                assert past.memory(agent_id="a").recall("tea", now=NOW)[0].text == "tea"
                assert past.table("passages").count_rows() == 0
                assert past.scan("passages").collect().height == 0
                assert past.scan("passages").collect_schema() == (
                    opened.scan("passages").collect_schema()
                )
                assert [table.name for table in past.stats().tables] == list(TABLES)
                assert past.verify() == ()
                assert past.at("old").table("passages").count_rows() == 0
        assert opened.at("new").table("passages").count_rows() == 1
        assert opened.at(utc_now()).table("passages").count_rows() == 1
        # Once its first version is gone, nobody knows when it was made; the tag still does.
        table.to_lance().tags.delete("new")
        table.to_lance().cleanup_old_versions(timedelta(0))
        assert opened.at("old").table("passages").count_rows() == 0
        with pytest.raises(NotFoundError, match="'passages' no longer keeps"):
            opened.at(between)


def test_the_stand_in_of_a_table_leaves_nothing_behind(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    lake.tag("old")
    with lake_without(lake, "passages") as opened:
        past = opened.at("old")
        assert len(list(folder.iterdir())) == 1
        past.close()
        del past
        gc.collect()
        assert list(folder.iterdir()) == []


def test_a_tag_is_there_once_every_table_has_it(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    lake.store.drainer.stop()
    for name in TABLES:
        with monkeypatch.context() as patch:
            patch.setattr(lake.store.tables[name], "fresh", die)
            with pytest.raises(KeyboardInterrupt):
                lake.tag("v1")
        assert lake.tags() == []
    lake.tag("v1")
    assert lake.tags() == ["v1"]


def test_an_interrupted_tag_is_completed(lake: ailake.Lake, memory: ailake.Memory) -> None:
    accesses = lake.table("accesses").to_lance()
    accesses.tags.create("v1", accesses.version)
    assert lake.tags() == []
    made = memory.remember("tea", now=NOW).id
    memory.touch(made, now=NOW)
    lake.tag("v1")
    then = lake.at("v1").memory(agent_id="ana-bot", user_id="ana")
    assert then.get(made).access_count == 1
