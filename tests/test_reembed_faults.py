"""A re-embedding that is killed at any step, and handles of other processes that it leaves behind.

The job is tests/killed_job.py; see test_job_faults.py.
"""

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_job_faults import run
from test_reembed import expected, fill, rows, vectors

import ailake
from ailake.embed import HashingEmbedder
from ailake.maintenance import ReembedJob
from ailake.storage.identity import named_in
from ailake.storage.staging import PLACE

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

CHILD = """
import sys
from datetime import UTC, datetime
import ailake
now = datetime(2026, 1, 31, 12, tzinfo=UTC)
with ailake.connect(sys.argv[1]) as lake:
    memory = lake.memory("a")
    print([memory.recall("tea", now=now).exact for _ in range(3)][-1], flush=True)
    sys.stdin.readline()
    for verb in (lambda: memory.recall("tea", now=now), lambda: memory.remember("rum", now=now)):
        try:
            verb()
        except ailake.EmbedderMismatchError as error:
            print(error)
"""


def check(folder: Path, before: list[dict[str, object]]) -> int:
    """Check that a lake has one embedder's vectors alone; return their length."""
    with ailake.connect(folder) as lake:
        dim = int(lake.embedder_id.rpartition("-")[2])
        assert rows(lake) == before
        assert vectors(lake) == expected(lake, HashingEmbedder(dim))
        assert {len(one) for one in vectors(lake, "passages").values()} == {dim}
        assert len(vectors(lake, "passages")) == 3
        for table in lake.store.tables.values():
            assert named_in(table.handle.schema) == (lake.embedder_id, str(dim))
        memory = lake.memory("a")
        found = memory.recall("Sentence number 39 is about coffee.", touch=False, now=NOW)
        assert "long" in {hit.id for hit in found}
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
        return dim


def test_a_killed_reembedding_is_completed(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "base", embedder="hashing:16") as lake:
        fill(lake)
        lake.flush()
        before = rows(lake)
    shutil.copytree(tmp_path / "base", tmp_path / "whole")
    boundaries = run(tmp_path / "whole", "reembed", None)
    assert boundaries is not None
    assert check(tmp_path / "whole", before) == 24
    found = []
    # The first ones are those of the batches that are embedded.
    for deadly in [1, *range(5, boundaries, 2)]:
        folder = tmp_path / f"killed {deadly}"
        shutil.copytree(tmp_path / "base", folder)
        run(folder, "reembed", deadly)
        found.append(check(folder, before))
        with ailake.connect(folder) as lake:
            report = ReembedJob(lake, embedder="hashing:24").run(NOW)
        assert report.embedded <= 9 - 2
        assert check(folder, before) == 24
        assert not (folder / PLACE).exists()
        shutil.rmtree(folder)
    # Some were killed before the switch, and some after.
    assert found == sorted(found)
    assert set(found) == {16, 24}


def test_a_handle_of_another_process_is_told(tmp_path: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16") as lake:
        fill(lake)
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "lake")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stdout.readline() == "True\n"
            ReembedJob(lake, embedder="hashing:24").run(NOW)
            told, _ = child.communicate("go on\n")
    assert told.count("have been embedded anew with 'hashing-v1-24' (24)") == 2
    assert child.returncode == 0
