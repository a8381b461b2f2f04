"""One commit that adds more memories than the ledger takes at once: part by part, each once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from kept import KEEP
from recorded import check, told

import ailake
from ailake.storage import recording, shared
from ailake.storage.exchange import exchange
from ailake.storage.ledger import LEDGER
from ailake.storage.recording_shares import next_share
from ailake.storage.recording_summary import summary_of
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOST = 6
IDS = [f"m{n:02d}" for n in range(20)]


class KilledError(BaseException):
    """Nothing of ours catches it."""


@pytest.fixture
def large(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> ailake.Memory:
    """Twenty memories of one commit, of which the ledger says nothing yet."""
    lake.store.drainer.stop()
    monkeypatch.setattr(recording, "MAX_ROWS", MOST)
    monkeypatch.setattr(Table, "tidy", lambda *_, **__: None)
    with monkeypatch.context() as patch:
        patch.setattr(recording.Recorder, "catch_up", lambda *_, **__: None)
        items = [{"text": name, "id": name} for name in IDS]
        memory.remember_many(items, judge=False, now=NOW)
    assert lake.table("ledger").count_rows() == 0
    return memory


def heir_of(lake: ailake.Lake) -> ailake.Lake:
    shared._shared.clear()
    heir = ailake.connect(lake.uri, judge_rules=KEEP)
    heir.store.drainer.stop()
    return heir


def killed_after(lake: ailake.Lake, commits: int) -> None:
    """Record until a process dies, at so many commits of the ledger."""
    made: list[int] = []

    def dying(*arguments: Any, **options: Any) -> int:
        if len(made) == commits:
            raise KilledError
        made.append(arguments[2].num_rows)
        return exchange(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "exchange", dying)
        with pytest.raises(KilledError):
            lake.store.flush_ledger()
    assert made == [MOST] * commits


def test_no_more_rows_are_read_at_once(
    lake: ailake.Lake, large: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.store.tables[LEDGER]
    before, most = table.version, []

    def seen(*args: Any, **options: Any) -> Any:
        rows, told_to = next_share(*args, **options)
        most.append(0 if rows is None else rows.num_rows)
        return rows, told_to

    monkeypatch.setattr(recording, "next_share", seen)
    assert [entry.subject_id for entry in check(lake)] == IDS
    assert most == [MOST, MOST, MOST, 2]
    assert table.version == before + 4
    entries = lake.ledger().entries(large.scope)
    episodic = lake.store.episodic.version
    # What is not the last part does not claim the version.
    versions = [entry.source_version for entry in entries]
    assert max(versions[:18]) < min(versions[18:]) <= episodic
    assert [entry.source_row for entry in entries] == list(range(20))


@pytest.mark.parametrize("by_summary", [True, False], ids=["summary", "entries"])
@pytest.mark.parametrize("commits", [1, 3])
def test_who_dies_between_two_parts_leaves_each_once(
    lake: ailake.Lake, large: ailake.Memory, commits: int, *, by_summary: bool
) -> None:
    killed_after(lake, commits)
    table = lake.store.tables[LEDGER]
    if not by_summary:
        lake.table("ledger").update(where="false", values={"event": "x"})
        table.fresh().update_config({"other": "commit"})
    assert (summary_of(table.snapshot()) is not None) == by_summary
    with heir_of(lake) as heir:
        heir.memory("ana-bot", user_id="ana").remember("later", id="x", now=NOW)
        assert [entry.subject_id for entry in check(heir)] == [*IDS, "x"]
    assert len(told(large, lake)) == 21


def test_what_changed_between_two_parts_is_told(lake: ailake.Lake, large: ailake.Memory) -> None:
    """By another program, of rows that are told and of rows that are not."""
    killed_after(lake, 1)
    chosen = "chunk_id IN ('m01', 'm15')"
    lake.table("episodic").update(where=chosen, values={"importance_score": 0.75})
    with heir_of(lake) as heir:
        check(heir)
        events = told(large, heir)
    assert sorted(events) == sorted([*(("create", name) for name in IDS), ("update", "m01")])


def test_a_commit_that_also_rewrites_what_is_known(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.store.drainer.stop()
    memory.remember_many([{"text": name, "id": name} for name in IDS[:3]], judge=False, now=NOW)
    lake.flush()
    monkeypatch.setattr(recording, "MAX_ROWS", MOST)
    rows = lake.table("episodic").to_arrow().take([0, 1, *[2] * 18])
    values = {
        "chunk_id": pa.array(IDS),
        "importance_score": pa.array([0.75] * 2 + [0.5] * 18, pa.float32()),
    }
    for name, column in values.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), column)
    lake.store.episodic.upsert(rows)
    lake.flush()
    memory.forget("m19", now=NOW + timedelta(days=1))
    check(lake)
    assert told(memory, lake) == [
        *(("create", name) for name in IDS),
        *(("update", name) for name in IDS[:2]),
        ("forget_intent", "m19"),
        ("memory_forget", "m19"),
    ]
