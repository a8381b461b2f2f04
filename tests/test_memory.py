"""Remember, recall, get, list, count, forget on a real lake."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import ailake
from ailake import Decision, InvalidInputError, NotFoundError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_remembered_is_recalled(memory: ailake.Memory) -> None:
    outcome = memory.remember("Ana is allergic to peanuts", importance=0.9, now=NOW)
    memory.remember("The ferry leaves at nine", now=NOW)
    assert outcome.decision is Decision.CREATE
    assert outcome.existing_id == ""
    hits = memory.recall("allergic to what?", limit=1, now=NOW)
    assert [hit.id for hit in hits] == [outcome.id]
    assert hits[0].text == "Ana is allergic to peanuts"
    assert hits[0].importance_score == 0.9
    assert hits.exact


def test_same_text_twice_is_one_row_and_fresher(memory: ailake.Memory) -> None:
    first = memory.remember("Bo likes green tea.", confidence=0.6, now=NOW)
    again = memory.remember("bo  likes green tea", confidence=0.8, now=NOW + DAY)
    assert again.decision is Decision.SKIP
    assert again.reason == "exact_duplicate"
    assert again.id == again.existing_id == first.id
    assert memory.count(now=NOW + DAY) == 1
    record = memory.get(first.id)
    assert record.updated_at == record.last_accessed_at == NOW + DAY
    assert record.created_at == NOW
    assert record.confidence == pytest.approx(0.8)
    assert record.access_count == 0


@pytest.mark.parametrize(
    "other", [{"speaker": "Bo"}, {"role": "assistant"}, {"source": "document"}]
)
def test_same_text_of_another_author_or_source_is_another_memory(
    memory: ailake.Memory, other: dict[str, Any]
) -> None:
    memory.remember("Tea at nine", speaker="Ana", now=NOW)
    assert memory.remember("Tea at nine", **{"speaker": "Ana", **other}).decision is Decision.CREATE
    assert memory.count() == 2


def test_judge_off_stores_repeats(memory: ailake.Memory) -> None:
    memory.remember("Tea at nine", now=NOW)
    outcome = memory.remember("Tea at nine", judge=False, now=NOW)
    assert (outcome.decision, outcome.reason) == (Decision.CREATE, "unjudged")
    assert memory.count(now=NOW) == 2


def test_a_batch_sees_itself(memory: ailake.Memory) -> None:
    outcomes = memory.remember_many([{"text": "Tea"}, {"text": "tea"}, {"text": "Coffee"}], now=NOW)
    assert [o.decision.value for o in outcomes] == ["create", "skip", "create"]
    assert outcomes[1].id == outcomes[0].id
    assert memory.count(now=NOW) == 2


def test_id_makes_it_idempotent(memory: ailake.Memory) -> None:
    first = memory.remember("Tea", id="t-1", now=NOW)
    assert memory.remember("Something else", id="t-1", now=NOW + DAY) == first
    assert memory.get("t-1").text == "Tea"
    assert memory.count(now=NOW + DAY) == 1


def test_id_of_another_scope_is_refused(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Tea", id="t-1")
    with pytest.raises(InvalidInputError, match="'t-1', which is taken"):
        lake.memory(agent_id="other").remember("Coffee", id="t-1")


def test_scopes_never_mix(lake: ailake.Lake) -> None:
    names = ["a", "/a", "/ab", "a'--", 'a" OR "1"="1', "a%"]
    for name in names:
        scoped = lake.memory(agent_id=name)
        scoped.remember("the same text", metadata={"agent_id": "a", "user_id": "a"}, now=NOW)
    lake.memory(agent_id="a", user_id="u").remember("the same text", now=NOW)
    for name in names:
        scoped = lake.memory(agent_id=name)
        assert [hit.scope.agent_id for hit in scoped.recall("same", now=NOW)] == [name]
        assert [m.scope for m in scoped.list(now=NOW)] == [scoped.scope]
        assert scoped.count(now=NOW) == 1
    assert len(lake.scopes()) == len(names) + 1


def test_get_and_forget_stay_in_scope(lake: ailake.Lake, memory: ailake.Memory) -> None:
    theirs = lake.memory(agent_id="other").remember("theirs").id
    with pytest.raises(NotFoundError, match="no memory"):
        memory.get(theirs)
    report = memory.forget(theirs)
    assert (report.ids, report.missing) == ((), (theirs,))
    assert memory.forget(where={"chunk_text": {"contains": "theirs"}}).count == 0
    assert lake.memory(agent_id="other").count() == 1


def test_other_zones_are_the_same_instant(memory: ailake.Memory) -> None:
    from zoneinfo import ZoneInfo

    local = datetime(2026, 1, 5, 9, tzinfo=ZoneInfo("Asia/Shanghai"))
    outcome = memory.remember("早上九点开会", event_time=local)
    assert memory.get(outcome.id).event_time == datetime(2026, 1, 5, 1, tzinfo=UTC)


def test_expired_memories_are_not_seen(memory: ailake.Memory) -> None:
    outcome = memory.remember("Parking spot 12", expires_at=NOW + DAY, now=NOW)
    assert memory.count(now=NOW) == 1
    later = NOW + DAY
    assert memory.count(now=later) == 0
    assert list(memory.recall("parking", now=later)) == []
    assert memory.list(now=later) == []
    with pytest.raises(NotFoundError):
        memory.get(outcome.id, now=later)
    assert memory.remember("Parking spot 12", now=later).decision is Decision.CREATE


def test_list_pages_in_order_of_writing(memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"n{n}"} for n in range(10)], now=NOW)
    memory.remember("later", now=NOW + DAY)
    texts = [m.text for m in memory.list(limit=4)]
    assert texts == ["n0", "n1", "n2", "n3"]
    assert [m.text for m in memory.list(limit=4, offset=8)] == ["n8", "n9", "later"]
    assert [m.text for m in memory.list(limit=2, newest_first=True)] == ["later", "n9"]


def test_chinese_text(memory: ailake.Memory) -> None:
    memory.remember_many([{"text": "我对花生过敏"}, {"text": "明天去成都"}], now=NOW)
    assert memory.recall("花生过敏吗", limit=1, now=NOW)[0].text == "我对花生过敏"
    assert memory.remember("我对花生过敏。", now=NOW).decision is Decision.SKIP
    assert memory.count({"chunk_text": {"contains": "成都"}}, now=NOW) == 1


def test_forget_ands_its_terms(memory: ailake.Memory) -> None:
    memory.remember("old chat", kind="chat", event_time=NOW - 40 * DAY, now=NOW)
    memory.remember("old fact", kind="fact", event_time=NOW - 40 * DAY, now=NOW)
    memory.remember("new chat", kind="chat", now=NOW)
    terms: dict[str, Any] = {"where": {"kind": "chat"}, "older_than": 30 * DAY, "now": NOW}
    planned = memory.forget(**terms, dry_run=True)
    assert planned.dry_run
    assert memory.count(now=NOW) == 3
    done = memory.forget(**terms)
    assert done.ids == planned.ids
    assert sorted(m.text for m in memory.list(now=NOW)) == ["new chat", "old fact"]
    assert "old chat" not in {hit.text for hit in memory.recall("old chat", now=NOW)}


def test_forget_also_removes_the_journal_entries(lake: ailake.Lake, memory: ailake.Memory) -> None:
    outcome = memory.remember("tea", now=NOW)
    memory.recall("tea", now=NOW)
    assert lake.scan("accesses").collect().height == 1
    memory.forget(outcome.id)
    assert lake.scan("accesses").collect().height == 0


def test_forget_many(memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(2_500)], now=NOW)
    report = memory.forget([f"n{n}" for n in range(2_400)] + ["gone"])
    assert report.count == 2_400
    assert report.missing == ("gone",)
    assert memory.count(now=NOW) == 100


def test_remember_many_from_frames(memory: ailake.Memory) -> None:
    frame = pl.DataFrame(
        {
            "text": ["one", "two"],
            "importance": [0.1, 0.9],
            "event_time": [NOW, None],
            "metadata": [{"a": 1}, {"a": 2}],
        }
    )
    memory.remember_many(frame, now=NOW)
    table = pa.table({"text": ["three"], "metadata": ['{"a": 3}'], "vector": [[1.0] * 64]})
    memory.remember_many(table, now=NOW)
    records = memory.list(now=NOW)
    assert [m.text for m in records] == ["one", "two", "three"]
    assert [m.metadata["a"] for m in records] == [1, 2, 3]
    assert records[0].event_time == NOW
    assert records[1].event_time is None


def test_empty_batch(memory: ailake.Memory) -> None:
    assert memory.remember_many([]) == []
    assert memory.remember_many(pa.table({"text": pa.array([], pa.string())})) == []


def test_bulk_makes_few_commits(lake: ailake.Lake, memory: ailake.Memory) -> None:
    before = lake.table("episodic").version
    memory.remember_many([{"text": f"n{n}"} for n in range(3_000)], now=NOW)
    assert lake.table("episodic").version == before + 1
    assert len(lake.table("episodic").to_lance().get_fragments()) == 1


def test_single_writes_do_not_pile_up(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"bulk {n}"} for n in range(5_000)], now=NOW)
    for n in range(150):
        memory.remember(f"single {n}", now=NOW)
        memory.touch(memory.remember(f"single {n}", now=NOW).id, now=NOW)
    tables = {table.name: table for table in lake.stats().tables}
    assert tables["episodic"].rows == 5_150
    assert tables["episodic"].fragments <= 66
    assert tables["accesses"].fragments <= 66
    # The large fragment was left alone: its file is the one of the bulk load.
    largest = max(
        lake.table("episodic").to_lance().get_fragments(),
        key=lambda fragment: fragment.count_rows(),
    )
    assert largest.count_rows() == 5_000
    assert sum(record.access_count for record in memory.list(limit=10_000, now=NOW)) == 150


def test_reader_sees_another_handles_commit(tmp_path: Path) -> None:
    with (
        ailake.connect(tmp_path, embedder="hashing:64") as one,
        ailake.connect(tmp_path) as two,
    ):
        reader = two.memory(agent_id="a")
        assert reader.count() == 0
        one.memory(agent_id="a").remember("Ana drinks tea")
        assert reader.count() == 1
        assert [hit.text for hit in reader.recall("tea")] == ["Ana drinks tea"]
        assert one.memory(agent_id="a").recall("tea", touch=False)[0].access_count == 1


def test_scan_folds_pending_and_pushes_down(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"tea {n}", "id": f"m{n}"} for n in range(30)], now=NOW)
    memory.recall("tea 7", limit=1, now=NOW)
    frame = lake.scan("episodic")
    met = (
        frame.filter(pl.col("access_count") > 0)
        .select("chunk_id", "chunk_text", "embedding")
        .collect()
    )
    assert met["chunk_id"].to_list() == ["m7"]
    assert met["chunk_text"].to_list() == ["tea 7"]
    assert frame.filter(pl.col("access_count") > pl.lit(5, pl.UInt32)).collect().height == 0
    assert frame.select(pl.len()).collect().item() == 30
    assert frame.head(3).collect().height == 3
    assert frame.filter(pl.col("chunk_text").str.contains("tea 2")).head(2).collect().height == 2
    latest = frame.select(pl.col("last_accessed_at").max()).collect().item()
    assert latest == NOW
    assert frame.filter(pl.col("created_at") >= NOW).collect().height == 30
    assert lake.scan("accesses").collect()["hits"].to_list() == [1]
    with pytest.raises(NotFoundError, match="wanted one of accesses, assertions, decisions"):
        lake.scan("nothing")


def test_stats_and_versions(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    memory.recall("tea", now=NOW)
    stats = lake.stats()
    tables = {table.name: table for table in stats.tables}
    assert tables["episodic"].rows == 1
    assert tables["episodic"].bytes > 0
    assert stats.pending_accesses == 1
    assert stats.scopes == 1
    assert stats.embedder_id == "hashing-v1-64"
    versions = lake.versions("episodic")
    assert versions[-1].version == lake.table("episodic").version
    assert versions[-1].created_at.tzinfo is not None
    assert abs(versions[-1].created_at - ailake.clock.utc_now()) < timedelta(minutes=5)


def test_closed_lake_says_so(lake: ailake.Lake, memory: ailake.Memory) -> None:
    lake.close()
    lake.close()
    for use in (lambda: memory.remember("x"), lambda: memory.recall("x"), lake.stats):
        with pytest.raises(InvalidInputError, match="is closed; connect again"):
            use()
