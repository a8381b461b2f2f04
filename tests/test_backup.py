"""lake.backup and restore_lake: one consistent state, whole or not at all."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from filelock import FileLock
from kept import KEEP
from lancedb.index import FTS, IvfSq

import ailake
from ailake import InvalidInputError, NotFoundError
from ailake.core.schema import TABLES
from ailake.maintenance import MemoryDecayJob
from ailake.storage.holding import RESERVED
from ailake.storage.unfinished import MARKER

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def rows(uri: object, name: str) -> pa.Table:
    """Every column of a table, bit for bit, with what the engine keeps beside each row."""
    dataset = lance.dataset(f"{uri}/{name}.lance")
    hidden = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return dataset.to_table(columns=[*dataset.schema.names, *hidden])


def indexes(dataset: Any) -> list[tuple[str, str, int, list[str]]]:
    return [
        (
            index.name,
            index.index_type,
            index.num_rows_indexed,
            [str(s.uuid) for s in index.segments],
        )
        for index in dataset.describe_indices()
    ]


def used(lake: ailake.Lake) -> ailake.Memory:
    """A lake with all that a version can hold: deletions, rewritten columns, indexes, accesses."""
    memory = lake.memory(agent_id="ana-bot", user_id="ana")
    memory.remember_many([{"text": f"tea {n}", "id": f"t{n}"} for n in range(300)], now=NOW)
    table = lake.table("episodic")
    table.create_index("chunk_text", config=FTS())
    table.create_index("embedding", config=IvfSq(distance_type="cosine", num_partitions=2))
    memory.recall("tea 7", limit=3, now=NOW)
    MemoryDecayJob(lake).run(NOW + DAY)
    memory.forget(["t1", "t2"])
    memory.update("t5", text="green tea", now=NOW)
    memory.recall("green tea", limit=2, now=NOW + DAY)
    lake.tag("mine")
    return memory


def test_there_and_back(lake: ailake.Lake, tmp_path: Path) -> None:
    memory = used(lake)
    report = lake.backup(tmp_path / "backup")
    memory.remember("later", now=NOW)
    back = ailake.restore_lake(tmp_path / "backup", tmp_path / "back")
    assert report.source == lake.uri
    assert (report.target, report.skipped) == (back.source, ())
    # Memories, accesses, entries of the ledger (one of the run), decisions, and the run of decay.
    assert (report.rows, back.rows) == (300 + 4 + 307 + 298 + 1,) * 2
    assert (report.files, report.bytes) == measured(tmp_path / "backup")
    for uri in (tmp_path / "backup", tmp_path / "back"):
        with ailake.connect(uri, judge_rules=KEEP) as copy, lake.at("mine") as then:
            for name in TABLES:
                assert rows(uri, name).equals(
                    then.table(name).to_lance().to_table(columns=rows(uri, name).schema.names)
                )
                copied, tagged = copy.table(name).to_lance(), then.table(name).to_lance()
                assert copied.version == tagged.version
                assert copied.metadata == tagged.metadata
                assert copied.schema.equals(tagged.schema, check_metadata=True)
                assert indexes(copied) == indexes(tagged)
            memories = copy.memory(agent_id="ana-bot", user_id="ana")
            past = then.memory(agent_id="ana-bot", user_id="ana")
            hits = memories.recall("green tea", touch=False, now=NOW)
            assert hits == past.recall("green tea", touch=False, now=NOW)
            assert memories.list(now=NOW) == past.list(now=NOW)
            assert (copy.verify(), copy.tags(), copy.embedder_id) == ((), [], lake.embedder_id)
    assert [path.name for path in sorted((tmp_path / "back").glob("*.lance"))] == [
        f"{name}.lance" for name in sorted(TABLES)
    ]
    assert lake.tags() == ["mine"]
    assert list(lake.table("episodic").to_lance().tags.list()) == ["mine"]


def measured(folder: Path) -> tuple[int, int]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def test_counts_go_on_in_both(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    made = memory.remember("tea", now=NOW).id
    for n in range(3):
        memory.recall("tea", now=NOW + n * DAY)
    MemoryDecayJob(lake).run(NOW + 3 * DAY)
    memory.recall("tea", now=NOW + 4 * DAY)
    lake.backup(tmp_path / "backup")
    with ailake.connect(tmp_path / "backup", judge_rules=KEEP) as copy:
        memories = copy.memory(agent_id="ana-bot", user_id="ana")
        for which, met in ((memory, 2), (memories, 5)):
            for n in range(met):
                which.recall("tea", now=NOW + (5 + n) * DAY)
        for opened, which, hits in ((lake, memory, 6), (copy, memories, 9)):
            for _ in range(2):
                assert which.get(made).access_count == hits
                assert which.get(made).last_accessed_at == NOW + hits * DAY
                MemoryDecayJob(opened).run(NOW + 20 * DAY)
            assert opened.verify() == ()
        assert memories.remember("coffee", now=NOW).decision is ailake.Decision.CREATE
        ids = copy.table("episodic").to_lance().to_table(columns=["_rowid"])["_rowid"]
        assert len(set(ids.to_pylist())) == 2


def test_a_backup_of_the_past(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    memory.remember("first", now=NOW)
    lake.tag("then")
    memory.remember("second", now=NOW)
    with lake.at("then") as past:
        past.backup(tmp_path / "backup")
    with ailake.connect(tmp_path / "backup", judge_rules=KEEP) as copy:
        (record,) = copy.memory(agent_id="ana-bot", user_id="ana").list(now=NOW)
        assert record.text == "first"
    assert lake.tags() == ["then"]


def test_a_place_that_is_not_free(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    memory.remember("tea", now=NOW)
    (tmp_path / "link").symlink_to(lake.uri)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "holiday.jpg").write_bytes(b"x")
    (tmp_path / "log" / "_ailake").mkdir(parents=True)
    (tmp_path / "log" / "_ailake" / "wal").write_bytes(b"x")
    lake.backup(tmp_path / "full")
    before = sorted(tmp_path.rglob("*"))
    for target, told in (
        (lake.uri, "outside the lake"),
        (f"file://{lake.uri}/", "outside the lake"),
        (tmp_path / "link", "outside the lake"),
        (f"{lake.uri}/a/b", "outside the lake"),
        (tmp_path / "link" / "a", "outside the lake"),
        (tmp_path, "is not empty: it holds full, lake, link"),
        (tmp_path / "other", "it holds holiday.jpg"),
        (tmp_path / "log", "it holds _ailake"),
        (tmp_path / "full", "it holds accesses.lance, assertions.lance, decisions.lance"),
        (tmp_path / "other" / "holiday.jpg", "this is a file"),
        ("ftp://host/x", "uri: got"),
        ("s3+ddb://lakes/x?ddbTableName=t", "wanted the same place as s3://"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            lake.backup(target)
    assert sorted(tmp_path.rglob("*")) == before
    for source, refused in ((tmp_path / "nowhere", NotFoundError), (tmp_path, InvalidInputError)):
        with pytest.raises(refused):
            ailake.restore_lake(source, tmp_path / "new")
    with pytest.raises(InvalidInputError, match="outside the lake"):
        ailake.restore_lake(lake.uri, f"{lake.uri}/new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").touch()
    # The memory, its ledger entry, and what was decided.
    assert lake.backup(tmp_path / "empty").rows == 3


def test_foreign_tables_are_named(lake: ailake.Lake, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), f"{lake.uri}/notes.lance")
    assert lake.backup(tmp_path / "backup").skipped == ("notes",)


def test_a_restore_takes_any_schema_version_and_writes_nothing_to_the_backup(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    memory.remember("tea", now=NOW)
    lake.backup(tmp_path / "backup")
    older = lance.dataset(tmp_path / "backup" / "accesses.lance")
    older.update_schema_metadata({"ailake.schema_version": "0"})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "backup").rglob("*")}
    ailake.restore_lake(str(tmp_path / "backup"), tmp_path / "back")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "backup").rglob("*")} == before
    assert lance.dataset(tmp_path / "back" / "accesses.lance").version == older.version


def test_what_a_killed_backup_left(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    memory.remember("tea", now=NOW)
    target = tmp_path / "backup"
    shutil.copytree(f"{lake.uri}/accesses.lance", target / "accesses.lance")
    shutil.copytree(f"{lake.uri}/episodic.lance", target / MARKER / "episodic.lance")
    for create in (True, False):
        with pytest.raises(InvalidInputError, match="is an unfinished backup and no lake"):
            ailake.connect(target, embedder="hashing:64", create=create, judge_rules=KEEP)
    with pytest.raises(InvalidInputError, match="unfinished backup"):
        ailake.restore_lake(target, tmp_path / "back")
    (target / "mine.txt").touch()
    with pytest.raises(InvalidInputError, match=r"it holds mine\.txt"):
        lake.backup(target)
    (target / "mine.txt").unlink()
    (target / "_ailake").mkdir()
    with (
        FileLock(target / "_ailake" / "receive.lock"),
        pytest.raises(InvalidInputError, match="another backup is being written there"),
    ):
        lake.backup(target)
    assert (target / MARKER).exists()
    lake.backup(target)
    assert not (target / MARKER).exists()
    # Killed after the last move: the lake is whole, and nobody's to clear.
    (target / MARKER).mkdir()
    with pytest.raises(InvalidInputError, match="is not empty"):
        lake.backup(target)
    with ailake.connect(target, judge_rules=KEEP) as copy:
        assert copy.memory(agent_id="ana-bot", user_id="ana").count(now=NOW) == 1


def test_tags_of_dead_backups(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    memory.remember("tea", now=NOW)
    for name in TABLES:
        for tag in ("dead", "alive"):
            dataset: Any = lake.table(name).to_lance()
            dataset.tags.create(RESERVED + tag, dataset.version)
    assert lake.tags() == []
    with pytest.raises(NotFoundError):
        lake.at(RESERVED + "dead")
    with pytest.raises(InvalidInputError, match="tag: got"):
        lake.tag(RESERVED + "mine")
    folder = Path(lake.uri) / "_ailake"
    folder.mkdir(exist_ok=True)
    (folder / f"{RESERVED}dead.lock").touch()
    with FileLock(folder / f"{RESERVED}alive.lock"):
        lake.backup(tmp_path / "backup")
        for name in TABLES:
            assert list(lake.table(name).to_lance().tags.list()) == [RESERVED + "alive"]
    assert not (folder / f"{RESERVED}dead.lock").exists()


@pytest.mark.parametrize("hold", [True, False])
def test_versions_are_held_while_others_clean(
    lake: ailake.Lake, memory: ailake.Memory, *, hold: bool
) -> None:
    from ailake.storage.holding import Source, held_versions

    memory.remember("tea", id="t", now=NOW)
    committing = lake.store.committing if hold else None
    source = Source(lake.store.location, lake.store.tables, committing=committing)
    with held_versions(source, hold_id="h", now=NOW) as versions:
        memory.recall("tea", now=NOW)
        MemoryDecayJob(lake).run(NOW + DAY)
        memory.forget("t")
        for name, table in lake.store.tables.items():
            table.compact()
            table.clean(older_than=timedelta(0))
            # Nothing changes the others here.
            changed = {"episodic", "accesses", "ledger", "decisions", "job_runs"}
            kept = hold or name not in changed
            assert (versions[name] in {v.version for v in lake.versions(name)}) == kept
    for name, table in lake.store.tables.items():
        table.clean(older_than=timedelta(0))
        assert len(lake.versions(name)) == 1


def test_backups_at_once(lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path) -> None:
    """To several places all are made, to one place the first; tags are read beside them."""
    memory.remember_many([{"text": f"n{n}"} for n in range(500)], now=NOW)
    lake.tag("mine")

    def back_up(target: Path) -> str:
        assert lake.tags() == ["mine"]
        try:
            lake.backup(target)
        except InvalidInputError as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(8) as pool:
        apart = list(pool.map(back_up, [tmp_path / f"copy{n}" for n in range(8)]))
        together = list(pool.map(back_up, [tmp_path / "one"] * 8))
    assert apart == ["done"] * 8
    assert together.count("done") == 1
    for told in together:
        assert told == "done" or "is not empty" in told or "another backup" in told
    for copy in (*(tmp_path / f"copy{n}" for n in range(8)), tmp_path / "one"):
        with ailake.connect(copy, judge_rules=KEEP) as opened:
            assert opened.memory(agent_id="ana-bot", user_id="ana").count(now=NOW) == 500
    assert list(lake.table("episodic").to_lance().tags.list()) == ["mine"]
