"""Cases that were once wrong, each a kind of fault."""

import logging
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from kept import KEEP

import ailake
from ailake import Decision, InvalidInputError, LakeCorruptError
from ailake.embed import HashingEmbedder, Vectors
from ailake.maintenance import MemoryDecayJob
from ailake.storage.memories import find, predicate

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("name", ["episodic", "accesses", "passages", "ledger"])
def test_a_creation_killed_before_the_first_manifest(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.lance" / "_transactions").mkdir(parents=True)
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
        assert lake.memory(agent_id="a").count() == 1


def test_data_without_a_manifest_is_never_removed(tmp_path: Path) -> None:
    """Manifests that can't be seen are not a creation that was interrupted."""
    with ailake.connect(tmp_path / "lake", embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
    versions = tmp_path / "lake" / "episodic.lance" / "_versions"
    versions.rename(tmp_path / "elsewhere")
    with pytest.raises(LakeCorruptError, match="holds data but no manifest"):
        ailake.connect(tmp_path / "lake", embedder="hashing:8", judge_rules=KEEP)
    (tmp_path / "elsewhere").rename(versions)
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        assert lake.memory(agent_id="a").count() == 1


def test_recall_beside_decay_in_threads(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"text": f"tea {n}"} for n in range(20)])
    stop = threading.Event()
    failures: list[BaseException] = []

    def decay() -> None:
        while not stop.is_set():
            MemoryDecayJob(lake).run()

    def recall() -> None:
        try:
            for _ in range(15):
                memory.recall("tea", limit=2)
        except BaseException as error:
            failures.append(error)
            raise

    folding = threading.Thread(target=decay)
    readers = [threading.Thread(target=recall) for _ in range(3)]
    for thread in (folding, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    folding.join()
    assert not failures
    assert sum(record.access_count for record in memory.list()) == 3 * 15 * 2


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_head_then_filter(lake: ailake.Lake, engine: Any) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"text": f"n{n}", "kind": "ab"[n % 2]} for n in range(10)], now=NOW)
    frame = lake.scan("episodic")
    later = pl.col("kind") == "b"
    assert frame.head(4).filter(later).collect(engine=engine).height == 2
    assert frame.filter(later).head(4).collect(engine=engine).height == 4
    assert frame.slice(2, 4).filter(later).collect(engine=engine).height == 2


def test_a_repetition_that_lasts_longer_is_not_lost(memory: ailake.Memory) -> None:
    made = memory.remember("secret", expires_at=NOW + HOUR, now=NOW)
    assert memory.remember("secret", expires_at=NOW + 3 * HOUR, now=NOW).id == made.id
    assert memory.get(made.id, now=NOW).expires_at == NOW + 3 * HOUR
    assert memory.remember("secret", expires_at=NOW + 2 * HOUR, now=NOW).decision is Decision.SKIP
    assert memory.get(made.id, now=NOW).expires_at == NOW + 3 * HOUR
    assert memory.remember("secret", now=NOW).decision is Decision.SKIP
    assert memory.get(made.id).expires_at is None


def test_a_repetition_that_lasts_longer_within_a_batch(memory: ailake.Memory) -> None:
    items: list[dict[str, Any]] = [
        {"text": "gone", "expires_at": NOW - HOUR},
        {"text": "gone"},
        {"text": "stays", "expires_at": NOW + HOUR},
        {"text": "stays"},
    ]
    outcomes = memory.remember_many(items, now=NOW)
    assert [outcome.decision.value for outcome in outcomes] == [
        "create",
        "create",
        "create",
        "skip",
    ]
    assert {m.text: m.expires_at for m in memory.list(now=NOW)} == {"gone": None, "stays": None}


def test_a_used_id_starts_anew(lake: ailake.Lake, tmp_path: Path) -> None:
    memory = lake.memory(agent_id="a")
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
        memory.remember("tea", id="x", now=NOW)
        memory.touch("x", now=NOW)
        assert memory.get("x").access_count == 1
        other.memory(agent_id="a").forget("x")
        other.memory(agent_id="a").remember("coffee", id="x", now=NOW)
        assert memory.get("x").access_count == 0
        MemoryDecayJob(lake).run(NOW)
        assert memory.get("x").access_count == 0


def test_forgetting_again_completes_a_removal_that_died(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", id="x", now=NOW)
    memory.touch("x", now=NOW)
    lake.memory(agent_id="b").remember("tea", id="y", now=NOW)
    lake.memory(agent_id="b").touch("y", now=NOW)
    lake.table("episodic").delete("chunk_id = 'x'")
    memory.forget(["x", "y"])
    assert lake.scan("accesses").collect()["chunk_id"].to_list() == ["y"]
    assert lake.memory(agent_id="b").get("y").access_count == 1


def test_a_frame_made_before_a_fold_counts_the_same(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", id="x", now=NOW)
    total = pl.col("access_count").sum()
    for n in range(1, 4):
        memory.touch("x", now=NOW)
        frame = lake.scan("episodic").select(total)
        MemoryDecayJob(lake).run(NOW + n * HOUR)
        memory.touch("x", now=NOW)
        MemoryDecayJob(lake).run(NOW + n * HOUR + HOUR / 2)
        assert frame.collect().item() == 2 * n - 1
    assert memory.get("x").access_count == 6


def test_resident_entries_do_not_pile_up(lake: ailake.Lake, tmp_path: Path) -> None:
    """Also in a process that never folds itself."""
    memory = lake.memory(agent_id="a")
    memory.remember("tea", id="x", now=NOW)
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
        for n in range(12):
            memory.touch("x", now=NOW)
            MemoryDecayJob(other).run(NOW + n * HOUR)
        memory.touch("x", now=NOW)
        assert memory.get("x").access_count == 13
        _, entries = lake.store.journal.unfolded()
        assert sum(map(len, entries.values())) <= 3
        assert lake.stats().pending_accesses == other.stats().pending_accesses == 1


def test_reads_survive_a_cleanup_under_them(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"text": f"tea {n}"} for n in range(10)], now=NOW)
    stale = lake.store.episodic.snapshot()
    lake.table("episodic").delete("chunk_text = 'tea 3'")
    lake.table("episodic").to_lance().optimize.compact_files(materialize_deletions_threshold=0.0)
    lake.table("episodic").to_lance().cleanup_old_versions(timedelta(0))
    calls: list[int] = []
    snapshot = lake.store.episodic.snapshot

    def first_stale() -> object:
        calls.append(1)
        return stale if len(calls) == 1 else snapshot()

    lake.store.episodic.snapshot = first_stale  # type: ignore[method-assign]
    assert len(memory.recall("tea", limit=20, touch=False, now=NOW)) == 9
    assert len(calls) > 1


def test_a_full_disk_does_not_take_away_the_answer(
    lake: ailake.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", now=NOW)
    shutil.rmtree(Path(lake.uri) / "accesses.lance" / "data", ignore_errors=True)
    (Path(lake.uri) / "accesses.lance" / "data").write_text("in the way")
    with caplog.at_level(logging.WARNING, logger="ailake"):
        hits = memory.recall("tea", now=NOW)
        assert [hit.text for hit in hits] == ["tea"]
        with pytest.raises(OSError, match="exists"):
            lake.flush()
    # They wait for the disk.
    (Path(lake.uri) / "accesses.lance" / "data").unlink()
    assert memory.recall("tea", touch=False, now=NOW)[0].access_count == 1
    lake.flush()
    assert lake.scan("accesses").collect().height == 1


def test_columns_that_a_user_added(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", now=NOW)
    mine = pa.field("mine", pa.string())
    lake.table("episodic").add_columns(mine)
    lake.table("accesses").add_columns(mine)
    memory.remember("coffee", now=NOW)
    assert memory.recall("coffee", now=NOW).counted
    memory.update(memory.list(now=NOW)[0].id, text="green tea", now=NOW)
    assert {m.text for m in memory.list(now=NOW)} == {"green tea", "coffee"}
    assert lake.scan("episodic").filter(pl.col("mine").is_null()).collect().height == 3


def test_a_row_that_ailake_did_not_write_is_named(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", id="x", now=NOW)
    lake.table("episodic").update(where="chunk_id = 'x'", values={"metadata": "{"})
    with pytest.raises(LakeCorruptError, match="memory 'x' can't be read"):
        memory.list(now=NOW)


def test_a_large_fragment_with_deletions_is_left_alone(lake: ailake.Lake) -> None:
    """The engine's compaction would cut it into pieces of the size asked for."""
    memory = lake.memory(agent_id="a")
    memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(10_000)], now=NOW)
    memory.forget([f"n{n}" for n in range(2_000)])
    for n in range(70):
        memory.remember(f"single {n}", now=NOW)
    fragments = lake.table("episodic").to_lance().get_fragments()
    assert max(fragment.physical_rows for fragment in fragments) == 10_000
    assert len(fragments) < 70


def test_group_chat_never_takes_part(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    for _ in range(2):
        made = memory.remember("ok let's go", source="group_chat", now=NOW)
        assert made.decision is Decision.CREATE
    assert lake.verify(now=NOW) == ()


def test_recall_sees_active_and_unexpired_memories_only(memory: ailake.Memory) -> None:
    made = memory.remember("v1", now=NOW)
    memory.update(made.id, text="v2", now=NOW)
    memory.remember("soon gone", expires_at=NOW + HOUR, now=NOW)
    later = NOW + 2 * HOUR
    for state in ("active", "merged"):
        hits = memory.recall("anything", where={"state": state}, now=later)
        assert [hit.text for hit in hits] == (["v2"] if state == "active" else [])
    assert [m.text for m in memory.list({"state": "merged"}, now=later)] == ["v1"]


def test_an_expired_memory_and_its_successor_are_sound(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("parking spot 5", expires_at=NOW + HOUR, now=NOW)
    memory.remember("parking spot 5", now=NOW + 2 * HOUR)
    assert lake.verify(now=NOW + 2 * HOUR) == ()


def test_what_happened_long_ago_is_old(lake: ailake.Lake) -> None:
    """The difference of two instants may not fit the int64 that each of them fits."""
    memory = lake.memory(agent_id="a")
    memory.remember("the treaty", event_time=datetime(1700, 1, 1, tzinfo=UTC), now=NOW)
    assert memory.recall("treaty", touch=False, now=NOW)[0].recency_weight < 1e-9
    MemoryDecayJob(lake).run(NOW)
    assert memory.list(now=NOW)[0].recency_weight == 0.0


def test_a_fold_between_two_steps_of_a_read_counts_once(lake: ailake.Lake) -> None:
    memory = lake.memory(agent_id="a")
    memory.remember("tea", id="x", now=NOW)
    memory.touch("x", now=NOW)
    view = lake.store.view()
    MemoryDecayJob(lake).run(NOW)
    memory.touch("x", now=NOW)
    MemoryDecayJob(lake).run(NOW + HOUR)
    (record,) = find(view, predicate({"chunk_id": "x"}))
    assert record.access_count == 1
    assert memory.get("x").access_count == 2


def test_an_id_of_another_scope_is_found_before_the_first_commit(
    lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ailake.writing.COMMIT_ROWS", 4)
    lake.memory(agent_id="b").remember("theirs", id="n9", now=NOW)
    memory = lake.memory(agent_id="a")
    with pytest.raises(InvalidInputError, match="'n9', which is taken"):
        memory.remember_many([{"text": f"n{n}", "id": f"n{n}"} for n in range(12)], now=NOW)
    assert memory.count(now=NOW) == 0
    outcomes = memory.remember_many([{"text": f"t{n % 6}"} for n in range(12)], now=NOW)
    assert sum(outcome.decision is Decision.SKIP for outcome in outcomes) == 6


def test_a_writer_that_waited_decides_anew(lake: ailake.Lake, tmp_path: Path) -> None:
    """Between its look-up and its commit another process has stored the same text."""
    memory = lake.memory(agent_id="a")

    class Slow(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
                other.memory(agent_id="a").remember("tea", id="first", now=NOW)
            return super().embed_documents(texts)

    slow = replace(memory, embedder=Slow(64))
    outcome = slow.remember("Tea", now=NOW)
    assert (outcome.decision, outcome.existing_id) == (Decision.SKIP, "first")
    assert memory.count(now=NOW) == 1


def test_the_lock_is_held_from_the_last_look_up_to_the_commit(
    lake: ailake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = lake.memory(agent_id="a")
    append = lake.store.episodic.append
    others: list[threading.Thread] = []

    def slowly(rows: Any, **options: Any) -> int:
        def same() -> None:
            with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as other:
                other.memory(agent_id="a").remember_many([{"text": "tea"}], now=NOW)

        others.append(threading.Thread(target=same))
        others[0].start()
        others[0].join(timeout=1.5)
        assert others[0].is_alive()
        return append(rows, **options)

    monkeypatch.setattr(lake.store.episodic, "append", slowly)
    memory.remember_many([{"text": "tea"}], now=NOW)
    others[0].join()
    assert memory.count(now=NOW) == 1


def test_opening_a_newer_lake_writes_nothing(lake: ailake.Lake) -> None:
    lake.table("episodic").to_lance().update_schema_metadata({"ailake.schema_version": "99"})
    shutil.rmtree(Path(lake.uri) / "accesses.lance")
    with pytest.raises(ailake.SchemaMismatchError):
        ailake.connect(lake.uri, judge_rules=KEEP)
    assert not (Path(lake.uri) / "accesses.lance").exists()
