"""Opening, creating and refusing lakes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from kept import KEEP

import ailake
from ailake import (
    EmbedderMismatchError,
    InvalidInputError,
    LakeCorruptError,
    NotFoundError,
    SchemaMismatchError,
)
from ailake.core.migrations import steps_from
from ailake.core.schema import TABLES, VERSION_KEY, arrow_schema
from ailake.maintenance import MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BASELINE = (
    "chunk_id", "chunk_text", "embedding", "agent_id", "session_id", "created_at",
    "recency_weight", "access_count", "last_accessed_at", "importance_score",
)  # fmt: skip


class OwnEmbedder:
    """A user's own embedder: any object with these four members."""

    id = "own:v1"
    dim = 3

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.array([[len(text), text.count("a"), 1] for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self.embed_documents([text]).ravel()


def test_a_lake_remembers_its_embedder(tmp_path: Path) -> None:
    ailake.connect(tmp_path / "lake", embedder="hashing:32", judge_rules=KEEP).close()
    with ailake.connect(tmp_path / "lake", judge_rules=KEEP) as lake:
        assert lake.embedder_id == "hashing-v1-32"
        assert lake.memory(agent_id="a").remember("tea").decision is ailake.Decision.CREATE


def test_another_embedder_is_refused_naming_both(tmp_path: Path) -> None:
    ailake.connect(tmp_path, embedder="hashing:32", judge_rules=KEEP).close()
    with pytest.raises(EmbedderMismatchError, match=r"'hashing-v1-32'.*'hashing-v1-64'"):
        ailake.connect(tmp_path, embedder="hashing:64", judge_rules=KEEP)
    with pytest.raises(EmbedderMismatchError, match=r"'hashing-v1-32'.*'own:v1'"):
        ailake.connect(tmp_path, embedder=OwnEmbedder(), judge_rules=KEEP)


def test_an_own_embedder(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder=OwnEmbedder(), judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        memory.remember_many([{"text": "banana"}, {"text": "plum and more"}])
        assert memory.recall("banana", limit=1)[0].text == "banana"
    # Without the object, what embeds nothing works, and the rest says what is missing.
    with ailake.connect(tmp_path, judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        assert memory.count() == len(memory.list()) == MemoryDecayJob(lake).run().rows == 2
        assert lake.stats().embedder_id == "own:v1"
        for embeds in (lambda: memory.recall("banana"), lambda: memory.remember("x")):
            with pytest.raises(EmbedderMismatchError, match="'own:v1', which does not come with"):
                embeds()


def test_a_wrong_answer_of_the_embedder_writes_nothing(tmp_path: Path) -> None:
    class Short(OwnEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
            return super().embed_documents(texts)[1:]

    with ailake.connect(tmp_path, embedder=Short(), judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        with pytest.raises(InvalidInputError, match="got 1 vectors for 2 texts"):
            memory.remember_many([{"text": "one"}, {"text": "two"}])
        assert memory.count() == 0


def test_no_lake_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no lake at .*; remembering there makes one"):
        ailake.connect(tmp_path / "missing", create=False, judge_rules=KEEP)
    assert not (tmp_path / "missing").exists()


def test_a_folder_that_is_not_a_lake(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match=r"is not a lake: it holds holiday\.jpg"):
        ailake.connect(tmp_path, embedder="hashing", judge_rules=KEEP)
    assert [entry.name for entry in tmp_path.iterdir()] == ["holiday.jpg"]


@pytest.mark.parametrize("bad", ["", "  ", None, 5, "ftp://host/x", "http://host", "./a?b"])
def test_addresses_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="uri: got"):
        ailake.connect(bad, embedder="hashing", judge_rules=KEEP)


def test_a_file_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="this is a file"):
        ailake.connect(tmp_path / "file", embedder="hashing", judge_rules=KEEP)


def test_hidden_files_and_file_uris_are_fine(tmp_path: Path) -> None:
    (tmp_path / ".gitkeep").touch()
    with ailake.connect(f"file://{tmp_path}", embedder="hashing:8", judge_rules=KEEP) as lake:
        assert lake.uri == str(tmp_path)


@pytest.mark.parametrize("missing", ["episodic", "accesses", "passages", "ledger"])
def test_an_interrupted_creation_is_completed(tmp_path: Path, missing: str) -> None:
    ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP).close()
    shutil.rmtree(tmp_path / f"{missing}.lance")
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
        assert lake.memory(agent_id="a").recall("tea")[0].text == "tea"


@pytest.mark.parametrize("name", ["passages", "ledger"])
def test_a_table_that_came_with_a_later_release_is_added(tmp_path: Path, name: str) -> None:
    with ailake.connect(tmp_path, embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea")
    shutil.rmtree(tmp_path / f"{name}.lance")
    with ailake.connect(tmp_path, judge_rules=KEEP) as lake:
        assert [table.name for table in lake.stats().tables] == list(TABLES)
        assert lake.table(name).schema.equals(
            arrow_schema(name, dim=8, embedder_id="hashing-v1-8"), check_metadata=True
        )
        assert lake.scan(name).collect().height == lake.table(name).count_rows()
        assert lake.verify() == ()
    assert (tmp_path / f"{name}.lance").is_dir()


def test_a_newer_lake_is_refused(lake: ailake.Lake) -> None:
    lake.table("episodic").to_lance().update_schema_metadata({VERSION_KEY: "99"})
    with pytest.raises(SchemaMismatchError, match=r"version 99.*newer ailake; upgrade"):
        ailake.connect(lake.uri, judge_rules=KEEP)


def test_a_table_that_lacks_a_column_is_refused(lake: ailake.Lake) -> None:
    lake.table("episodic").drop_columns(["last_accessed_at"])
    before = lake.table("episodic").version
    with pytest.raises(LakeCorruptError, match="lacks or mistypes last_accessed_at"):
        ailake.connect(lake.uri, judge_rules=KEEP)
    assert lake.table("episodic").version == before


def older_lake(folder: Path) -> None:
    """Make a lake as it was before scopes, state and metadata: the bare published contract."""
    schema = arrow_schema("episodic", dim=8, embedder_id="hashing-v1-8")
    metadata = {k: v for k, v in schema.metadata.items() if k != VERSION_KEY.encode()}
    old = pa.schema([schema.field(name) for name in BASELINE], metadata=metadata)
    rows = {
        "chunk_id": ["m1", "m2"],
        "chunk_text": ["Ana likes tea", "Bo likes coffee"],
        "embedding": [np.eye(8, dtype=np.float16)[n] for n in range(2)],
        "agent_id": ["a", "a"],
        "session_id": ["", ""],
        "created_at": [NOW, NOW],
        "recency_weight": [1.0, 1.0],
        "access_count": [3, 0],
        "last_accessed_at": [NOW, None],
        "importance_score": [0.5, 0.5],
    }
    lancedb.connect(folder).create_table(
        "episodic",
        pa.table(rows, schema=old),
        storage_options={"new_table_enable_stable_row_ids": "true"},
    )


def test_an_older_lake_is_migrated_when_asked(tmp_path: Path) -> None:
    older_lake(tmp_path)
    with pytest.raises(SchemaMismatchError, match=r"version 0.*migrate=True.*doctor --fix"):
        ailake.connect(tmp_path, judge_rules=KEEP)
    with ailake.connect(tmp_path, migrate=True, judge_rules=KEEP) as lake:
        memory = lake.memory(agent_id="a")
        record = memory.get("m1", now=NOW)
        assert (record.text, record.access_count, record.updated_at) == ("Ana likes tea", 3, NOW)
        assert memory.remember("ana likes tea.").decision is ailake.Decision.SKIP
        assert memory.remember("a new one").decision is ailake.Decision.CREATE
        memory.recall("tea")
        MemoryDecayJob(lake).run()
    with ailake.connect(tmp_path, judge_rules=KEEP) as lake:
        assert lake.memory(agent_id="a").count() == 3


def test_an_interrupted_migration_is_taken_again(tmp_path: Path) -> None:
    older_lake(tmp_path)
    ailake.connect(tmp_path, migrate=True, judge_rules=KEEP).close()
    table = lancedb.connect(tmp_path).open_table("episodic")
    table.to_lance().update_schema_metadata({VERSION_KEY: "0"})
    with ailake.connect(tmp_path, migrate=True, judge_rules=KEEP) as lake:
        assert lake.memory(agent_id="a").count() == 2


def test_steps_are_ordered_and_complete() -> None:
    assert [step.version for step in steps_from("episodic", 0)] == [1]
    assert steps_from("episodic", 1) == ()
    with pytest.raises(SchemaMismatchError, match="no migration leads"):
        steps_from("accesses", 0)


READ_ONLY = """
import os, sys
import ailake, ailake.lake, lancedb, lance, polars
from ailake.core.schema import TABLES
from ailake.maintenance import MemoryDecayJob
if os.getuid() == 0:
    os.setuid(65534)
with ailake.connect(sys.argv[1], judge_rules=ailake.JudgeRules(retention=None)) as lake:
    assert lake.read_only
    memory = lake.memory(agent_id="a")
    assert [hit.text for hit in memory.recall("tea")] == ["tea"]
    assert memory.get("t").access_count == 0
    assert lake.scan("passages").collect().height == 0
    assert all(entry.event == "create" for entry in lake.ledger().entries(memory.scope))
    assert lake.ledger().verify() == ()
    assert len(lake.stats().tables) == len(TABLES)
    assert lake.facts("a").find() == lake.facts("a").history("x", "y") == []
    assert lake.verify() == ()
    for write in (
        lambda: memory.remember("x"),
        lambda: memory.forget("t"),
        lambda: lake.facts("a").retract("f", "why"),
        lambda: MemoryDecayJob(lake).run(),
        lambda: ailake.connect(sys.argv[1] + "/new", embedder="hashing"),
        lambda: ailake.connect(sys.argv[2], embedder="hashing"),
    ):
        try:
            write()
        except ailake.ReadOnlyError as error:
            assert isinstance(error, PermissionError)
        else:
            raise SystemExit("a write went through")
    assert memory.forget("t", dry_run=True).count == 1
    assert MemoryDecayJob(lake).run(dry_run=True).rows == 1
print("refused")
"""


@pytest.mark.parametrize("lacks", ["", "passages", "ledger", "facts"])
def test_a_read_only_folder(tmp_path_factory: pytest.TempPathFactory, lacks: str) -> None:
    """Root may write anywhere, so the child gives up being root once it has imported."""
    folder = tmp_path_factory.mktemp("read-only")
    empty = folder / "empty"
    empty.mkdir()
    with ailake.connect(folder / "lake", embedder="hashing:8", judge_rules=KEEP) as lake:
        lake.memory(agent_id="a").remember("tea", id="t")
    if lacks:  # a table that the release which made the lake did not know
        shutil.rmtree(folder / "lake" / f"{lacks}.lance")
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    parents = [p for p in folder.parents if p.stat().st_uid == os.getuid() and p.name]
    modes = {parent: parent.stat().st_mode for parent in parents}
    try:
        for parent in parents:
            parent.chmod(parent.stat().st_mode | 0o055)
        command = [sys.executable, "-c", READ_ONLY, str(folder / "lake"), str(empty)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    finally:
        for path in paths:
            path.chmod(0o755)
        for parent, mode in modes.items():
            parent.chmod(mode)
    assert (done.stdout.strip(), done.returncode) == ("refused", 0), done.stderr
