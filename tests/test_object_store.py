"""The same lake on an object store, over a real server of the S3 protocol on 127.0.0.1."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from kept import KEEP
from lance.file import LanceFileSession
from lancedb.index import IvfSq
from leftovers import holding, spelled

import ailake
from ailake import InvalidInputError
from ailake.clock import utc_now
from ailake.core.schema import TABLES
from ailake.maintenance import IndexJob, MaintainJob, MemoryDecayJob, PurgeJob, ReembedJob
from ailake.storage.compaction import orphan_files, sweep
from ailake.storage.destination import destination
from ailake.storage.location import Location
from ailake.storage.unfinished import MARKER

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def options(s3: dict[str, str]) -> dict[str, str]:
    return s3


def test_a_lake_on_an_object_store(options: dict[str, str]) -> None:
    uri = "s3://lakes/a/lake"
    with pytest.raises(ailake.NotFoundError, match="no lake at"):
        ailake.connect(uri, storage_options=options, create=False, judge_rules=KEEP)
    with ailake.connect(
        uri, embedder="hashing:256", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory(agent_id="a")
        made = memory.remember("Ana likes tea", event_time=NOW - timedelta(days=7), now=NOW)
        assert memory.remember("ana likes tea.", now=NOW).decision is ailake.Decision.SKIP
        memory.remember_many([{"text": f"n{n}"} for n in range(20)], now=NOW)
        assert memory.recall("tea", limit=1, now=NOW)[0].id == made.id
        report = MemoryDecayJob(lake).run(NOW + timedelta(days=7))
        assert (report.rows, report.fragments_written) == (21, 2)
        assert report.version_after == report.version_before + 1
        again = MemoryDecayJob(lake).run(NOW + timedelta(days=7))
        assert again.version_after == report.version_after
        memory.forget(where={"chunk_text": "n3"})
        lake.tag("t1")
    with ailake.connect(uri, storage_options=options, judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        record = memory.get(made.id)
        assert record.recency_weight == pytest.approx(0.5, abs=1e-3)
        assert record.access_count == 1
        assert memory.count(now=NOW) == 20
        assert lake.verify(now=NOW) == ()
        assert lake.stats().tables[-1].rows == 20
        assert lake.at("t1").memory(agent_id="a").count(now=NOW) == 20
        assert "secret" not in repr(lake) + repr(memory)


def contents(lake: ailake.Lake) -> dict[str, pa.Table]:
    hidden = ["_rowid", "_row_created_at_version"]
    found = {name: lake.table(name).to_lance() for name in TABLES}
    return {name: d.to_table(columns=[*d.schema.names, *hidden]) for name, d in found.items()}


def test_backups_between_a_folder_and_object_stores(
    options: dict[str, str], tmp_path: Path
) -> None:
    there, beside = "s3://lakes/b/backup/", "s3://lakes/b/again"
    with ailake.connect(tmp_path / "lake", embedder="hashing:256", judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember_many([{"text": f"n{n}"} for n in range(300)], now=NOW)
        lake.table("episodic").create_index("embedding", config=IvfSq(num_partitions=2))
        memory.recall("n7", now=NOW)
        MemoryDecayJob(lake).run(NOW)
        memory.forget(where={"chunk_text": "n3"})
        memory.recall("n8", now=NOW)
        report = lake.backup(there, storage_options=options)
        whole = contents(lake)
    assert (report.target, report.rows) == (there, 299 + 20 + 303 + 299 + 1)
    again = ailake.restore_lake(there, beside, storage_options=options)
    assert (again.rows, again.files) == (report.rows, report.files)
    back = ailake.restore_lake(there, tmp_path / "back", storage_options=options)
    assert back.rows == report.rows
    for uri, given in ((there, options), (beside, options), (tmp_path / "back", {})):
        with ailake.connect(uri, storage_options=given, judge_rules=KEEP) as copy:
            assert contents(copy) == whole
            MemoryDecayJob(copy).run(NOW)
            copy.memory(agent_id="a").recall("n9", now=NOW)
            counted = [record.access_count for record in copy.memory(agent_id="a").list(limit=1000)]
            assert sum(counted) == 30
            assert copy.verify() == ()
    with ailake.connect(there, storage_options=options, judge_rules=KEEP) as stored:
        for target in (there, f"{there}within"):
            with pytest.raises(InvalidInputError, match="outside the lake"):
                stored.backup(target)
        with pytest.raises(InvalidInputError, match="is not empty: it holds accesses"):
            stored.backup(beside)
        assert stored.backup(tmp_path / "copy").rows == stored.backup("s3://lakes/b/c").rows
        assert not stored.table("episodic").to_lance().tags.list()


def test_an_index_on_an_object_store(options: dict[str, str]) -> None:
    uri = "s3://lakes/i/lake"
    policy = ailake.IndexPolicy(min_bytes=0, limit=50, sample=4)
    with ailake.connect(
        uri, embedder="hashing:256", storage_options=options, judge_rules=KEEP
    ) as lake:
        assert len(lake.stats().tables[-1].indexes) == 5
        lake.memory(agent_id="a").remember_many([{"text": f"n{n}"} for n in range(1_200)], now=NOW)
        lake.flush()
        done = IndexJob(lake, policy=policy).run(NOW).tables[0]
        assert done.recall is not None
    with ailake.connect(uri, storage_options=options, judge_rules=KEEP) as other:
        kept = {index.name: index for index in other.stats().tables[-1].indexes}
        assert kept["embedding_idx"].recall == done.recall
        assert kept["chunk_text_idx"].indexed_rows == kept["state_idx"].indexed_rows == 1_200


def test_the_ledger_on_an_object_store(options: dict[str, str]) -> None:
    uri = "s3://lakes/ledger"
    with ailake.connect(
        uri, embedder="hashing:64", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember("tea", id="t", now=NOW)
        memory.remember("coffee", id="c", now=NOW)
        memory.update("t", importance=1.0, now=NOW)
        memory.forget("c", now=NOW)
        ledger = lake.ledger()
        told = [(str(entry.event), entry.subject_id) for entry in ledger.entries(memory.scope)]
        assert sorted(told[:2]) == [("create", "c"), ("create", "t")]
        assert told[2:] == [("update", "t"), ("forget_intent", "c"), ("memory_forget", "c")]
        assert ledger.verify() == ()
    with ailake.connect(uri, storage_options=options, judge_rules=KEEP) as lake:
        assert len(lake.ledger().entries(ailake.Scope("a"))) == 5


def test_an_unfinished_backup_on_an_object_store(options: dict[str, str], tmp_path: Path) -> None:
    uri = "s3://lakes/u/backup"
    with ailake.connect(tmp_path / "lake", embedder="hashing:256", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea", now=NOW)
        lake.backup(uri, storage_options=options)
        files = LanceFileSession(uri, options)
        (tmp_path / "mark").write_text("0" * 32)
        files.upload_file(tmp_path / "mark", MARKER)
        (manifest,) = files.list("episodic.lance/_versions")
        files.delete_file(manifest)
        with pytest.raises(InvalidInputError, match="is an unfinished backup and no lake"):
            ailake.connect(uri, storage_options=options, judge_rules=KEEP)
        lake.backup(uri, storage_options=options)
    with ailake.connect(uri, storage_options=options, judge_rules=KEEP) as copy:
        assert copy.memory(agent_id="a").count(now=NOW) == 1
    assert not files.contains(MARKER)


def test_a_backup_that_another_took_over(options: dict[str, str], tmp_path: Path) -> None:
    place = Location.of("s3://lakes/t/backup")
    (tmp_path / "mark").write_text("2" * 32)
    files = LanceFileSession(place.uri, options)
    with destination(place, options, hold_id="1" * 32) as first:
        first.uri_of("accesses")
        files.upload_file(tmp_path / "mark", MARKER)
        for go_on in (lambda: first.uri_of("episodic"), lambda: first.finish([])):
            with pytest.raises(ailake.ConflictError, match="another backup to the same place"):
                go_on()
    # What is there is the other's, and stays.
    assert files.contains(MARKER)


def test_there_is_no_log_there(options: dict[str, str]) -> None:
    """A single memory is a commit, which every other handle sees at once."""
    uri = "s3://lakes/no/log"
    with (
        ailake.connect(
            uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
        ) as lake,
        ailake.connect(uri, storage_options=options, judge_rules=KEEP) as other,
    ):
        assert lake.store.log is None
        made = lake.memory(agent_id="a").remember("tea", now=NOW)
        assert other.memory(agent_id="a").get(made.id, now=NOW).text == "tea"
        assert other.memory(agent_id="a").remember("Tea.", now=NOW).id == made.id
        lake.flush()
        assert lake.verify(now=NOW) == ()


def test_maintenance_on_an_object_store(options: dict[str, str], tmp_path: Path) -> None:
    day = timedelta(days=1)
    uri = "s3://lakes/maintained"
    with ailake.connect(
        uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory("a")
        for n in range(4):
            expires_at = NOW if n == 2 else None
            memory.remember_many([{"text": f"n{n}", "id": f"n{n}", "expires_at": expires_at}])
        report = MaintainJob(lake).run(utc_now() + 8 * day)
        assert report.prune.ids == ("n2",)
        episodic = report.compaction.tables[-1]
        assert (episodic.fragments_after, episodic.versions_removed > 3) == (1, True)
        assert {one.id for one in memory.list()} == {"n0", "n1", "n3"}
        table = lake.store.episodic
        (tmp_path / "left").write_bytes(b"left")
        session = LanceFileSession(table.snapshot().uri, storage_options=options)
        session.upload_file(str(tmp_path / "left"), "data/left.lance")
        assert orphan_files(table, before=utc_now() - day) == []
        found = orphan_files(table, before=utc_now() + day)
        assert found == ["data/left.lance"]
        sweep(table, found)
        assert orphan_files(table, before=utc_now() + day) == []
        assert {one.id for one in memory.list()} == {"n0", "n1", "n3"}


def test_a_purge_on_an_object_store(options: dict[str, str], tmp_path: Path) -> None:
    uri = "s3://lakes/p/lake"
    word, other = "q7f3a9b2c4d5e6f708192a3b4", "q3c1d5e7f9a2b4c6d8e0f1a35"
    needles = {"word": word.encode(), "other": other.encode(), "spelt": spelled(word, tmp_path)}
    with ailake.connect(
        uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
    ) as lake:
        gone, stays = lake.memory(agent_id="gone"), lake.memory(agent_id="stays")
        text = " ".join(f"Sentence number {n} is about {word}." for n in range(40))
        gone.remember_many([{"text": text, "id": "g"}, {"text": f"{other} {word}"}], now=NOW)
        stays.remember_many([{"text": "tea", "id": "s"}], now=NOW)
        fact = ailake.FactTriple("Ana", "likes", other, NOW)
        lake.facts("gone").assert_([fact], source_memory_id="g", now=NOW)
        lake.table("episodic").to_lance().optimize.optimize_indices()
        gone.recall("tea", now=NOW)
        lake.tag("held")
        gone.forget("g", now=NOW)
        (tmp_path / "stray").write_bytes(needles["word"])
        session = LanceFileSession(uri, options)
        session.upload_file(tmp_path / "stray", "episodic.lance/data/stray.lance")
        session.upload_file(tmp_path / "stray", "facts.lance/_transactions/7-stray.txn")
        with pytest.raises(InvalidInputError, match="the tags 'held' hold some"):
            PurgeJob(lake, scope=gone.scope).run(NOW)
        session.delete_file("episodic.lance/data/stray.lance")
        assert all(holding(lake, needles, tmp_path).values())
        session.upload_file(tmp_path / "stray", "episodic.lance/data/stray.lance")
        report = PurgeJob(lake, scope=gone.scope, confirm_tags=True).run(NOW)
        assert (report.tags, report.tables[-1].rows) == (("held",), 1)
        assert sum(one.files for one in report.tables) >= 2
        assert not any(holding(lake, needles, tmp_path).values())
        assert [hit.id for hit in stays.recall("tea", now=NOW)] == ["s"]
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


def test_every_verb_there(options: dict[str, str]) -> None:
    uri = "s3://lakes/verbs"
    with ailake.connect(
        uri, embedder="hashing:64", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory("a")
        memory.remember("green tea", id="tea", expires_at=NOW + timedelta(days=9), now=NOW)
        # Once ids were given they are a key, and what is prolonged is an update of one.
        assert memory.remember("Green tea.", now=NOW).id == "tea"
        assert memory.get("tea", now=NOW).expires_at is None
        memory.touch(["tea"], now=NOW)
        lake.flush()
        between = utc_now()
        black = memory.update("tea", text="black tea", now=NOW).id
        assert memory.get(black, now=NOW).access_count == 1
        assert [one.text for one in memory.history(black)] == ["green tea", "black tea"]
        memory.restore("tea", now=NOW)
        many = memory.recall_filtered("tea", 5, ["tea", black])
        assert {hit.id for hit in many} == {"tea", black}
        assert {hit.id for hit in lake.read([memory.scope]).recall("tea", now=NOW)} == {
            "tea",
            black,
        }
        then = lake.at(between).memory("a")
        assert [one.text for one in then.list(now=NOW)] == ["green tea"]
        assert lake.scan("episodic").collect()["chunk_text"].sort().to_list() == [
            "black tea", "green tea",
        ]  # fmt: skip
        facts = lake.facts("a")
        since = NOW - timedelta(days=9)
        for place, begin in (("Oslo", since), ("Rome", NOW)):
            facts.assert_([ailake.FactTriple("Ana", "lives_in", place, begin)], now=begin)
        assert [fact.object for fact in facts.find("Ana", as_of=NOW)] == ["Rome"]
        assert [fact.object for fact in facts.find("Ana", as_of=since)] == ["Oslo"]
        assert len(facts.history("Ana", "lives_in")) == 3
    with ailake.connect(uri, storage_options=options, recall_bytes=0) as listed:
        hits = listed.memory("a").recall("green tea", limit=1, now=NOW)
        assert (hits[0].id, hits.exact) == ("tea", True)


def test_the_command_line_there(options: dict[str, str], tmp_path: Path) -> None:
    """Keys from the environment, or as options of the command."""
    uri = "s3://lakes/command"
    names = {"endpoint": "AWS_ENDPOINT", "allow_http": "AWS_ALLOW_HTTP", "region": "AWS_REGION"}
    keys = {names.get(name, name.upper()): value for name, value in options.items()}
    plain = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AILAKE_URI": uri, "AILAKE_AGENT": "a"}
    given = [f"--storage-option={name}={value}" for name, value in options.items()]

    def run(*arguments: str, env: dict[str, str]) -> str:
        command = [sys.executable, "-m", "ailake", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain | env)
        assert done.returncode == 0, done.stderr
        assert "secret" not in done.stdout + done.stderr
        return done.stdout

    run("remember", "tea", "--embedder", "hashing:16", env=keys)
    report = json.loads(run("maintain", *given, "--json", env={}))
    assert report["decay"]["rows"] == 1


def test_another_embedder_on_an_object_store(options: dict[str, str]) -> None:
    uri = "s3://lakes/e/lake"
    text = " ".join(f"Sentence number {n} is about coffee." for n in range(40))
    with ailake.connect(
        uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
    ) as lake:
        items = [{"text": "tea", "id": "t"}, {"text": text, "id": "long"}]
        lake.memory(agent_id="a").remember_many(items, now=NOW)
        lake.tag("old")
        report = ReembedJob(lake, embedder="hashing:24").run(NOW)
        assert (report.rows, report.embedded, report.dim_after) == (2, 2 + 3, 24)
        with pytest.raises(ailake.EmbedderMismatchError, match="embedded anew"):
            lake.memory(agent_id="a").recall("tea", now=NOW)
    with ailake.connect(uri, storage_options=options) as lake:
        assert lake.embedder_id == "hashing-v1-24"
        memory = lake.memory(agent_id="a")
        assert memory.recall("tea", limit=1, now=NOW)[0].id == "t"
        hit = memory.recall("Sentence number 39 is about coffee.", limit=1, now=NOW)[0]
        assert "39" in (hit.passage or "")
        assert lake.at("old").memory(agent_id="a").recall("tea", limit=1, now=NOW)[0].id == "t"
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
    left = LanceFileSession(uri, options).list("_ailake")
    assert all(path.startswith("_ailake/jobs.lease/") for path in left)
