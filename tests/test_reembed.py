"""ReembedJob: other vectors, of another length, in one switch; nothing lost, nothing mixed."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kept import KEEP
from numpy.typing import NDArray

import ailake
from ailake import EmbedderMismatchError, InvalidInputError
from ailake.clock import utc_now
from ailake.core.reembedding import drafts_of
from ailake.embed import HashingEmbedder
from ailake.maintenance import (
    CompactionJob,
    CompactionPolicy,
    IndexJob,
    MemoryDecayJob,
    PurgeJob,
    ReembedJob,
    reembed,
)
from ailake.storage import reembedding, switching
from ailake.storage.identity import identity_of, named_in
from ailake.storage.locks import exclusive
from ailake.storage.reembedding import switch
from ailake.storage.staging import PLACE
from ailake.storage.switching import NEXT, refuse_half_switched, switch_vectors

connect = partial(ailake.connect, judge_rules=KEEP)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LONG = " ".join(f"Sentence number {n} is about coffee." for n in range(40))


class Counting:
    """An embedder that counts the texts that it is given, and can be made to fail."""

    def __init__(self, dim: int = 24, *, most: int = 10**9, window: int = 700) -> None:
        self.id = f"counting-{dim}"
        self.dim = dim
        self.window = window
        self.texts: list[str] = []
        self._most = most
        self._inner = HashingEmbedder(dim)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self.texts) + len(texts) > self._most:
            raise OSError("the model is gone")
        self.texts += texts
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._inner.embed_query(text)


def fill(lake: ailake.Lake) -> None:
    memory = lake.memory("a")
    memory.remember_many(
        [{"text": f"tea {n}", "id": f"t{n}", "speaker": "Bo", "event_time": NOW} for n in range(5)],
        judge=False, now=NOW,
    )  # fmt: skip
    memory.remember_many([{"text": LONG, "id": "long"}], now=NOW)
    memory.update("t0", text="cocoa", now=NOW)
    memory.forget("t1", now=NOW)
    memory.recall("tea", now=NOW)


def rows(lake: ailake.Lake) -> list[dict[str, Any]]:
    return lake.scan("episodic").drop("embedding").sort("chunk_id").collect().to_dicts()


def vectors(lake: ailake.Lake, name: str = "episodic") -> dict[str, list[float]]:
    found = lake.scan(name).collect().to_dicts()
    return {f"{row['chunk_id']} {row.get('part', '')}": row["embedding"] for row in found}


def expected(lake: ailake.Lake, embedder: HashingEmbedder) -> dict[str, list[float]]:
    """Return what each memory's vector should be."""
    table = lake.table("episodic").to_lance().to_table()
    texts = [draft.embedded_text for draft in drafts_of(table)]
    made = embedder.embed_documents(texts).astype(np.float16).tolist()
    return dict(zip([f"{one} " for one in table["chunk_id"].to_pylist()], made, strict=True))


def made_with(path: Path, embedder: Any) -> ailake.Lake:
    """Return a lake of the same memories that had that embedder from the beginning."""
    with connect(path, embedder=embedder) as lake:
        fill(lake)
    return connect(path, embedder=embedder)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [24, 16])
def test_a_lake_is_as_if_made_with_the_other_embedder(tmp_path: Path, dim: int) -> None:
    with connect(tmp_path / "lake", embedder="hashing:16") as lake:
        fill(lake)
        lake.flush()
        before = rows(lake)
        report = ReembedJob(lake, embedder=Counting(dim), batch_size=2).run(NOW)
        assert (report.embedder_before, report.embedder_after) == (
            lake.embedder_id,
            f"counting-{dim}",
        )
        assert (report.dim_before, report.dim_after) == (16, dim)
        assert report.rows == len(before) == 6
        assert report.embedded == 6 + lake.store.tables["passages"].snapshot().count_rows()
    with (
        connect(tmp_path / "lake", embedder=Counting(dim)) as lake,
        made_with(tmp_path / "other", Counting(dim)) as other,
    ):
        assert rows(lake) == before
        for name in ("episodic", "passages"):
            ours, theirs = vectors(lake, name), vectors(other, name)
            # The id of the text that replaced another is new in each lake.
            assert sorted(ours.values()) == sorted(theirs.values())
        for query in ("cocoa", "tea 3", "Sentence number 39 is about coffee."):
            found, wanted = (
                [
                    (hit.text, hit.distance, hit.passage)
                    for hit in one.memory("a").recall(query, now=NOW)
                ]
                for one in (lake, other)
            )
            assert found == wanted
        for table in lake.store.tables.values():
            assert named_in(table.handle.schema) == (f"counting-{dim}", str(dim))
        assert identity_of(lake.store.episodic.handle.schema).dim == dim
        assert {"chunk_text_idx", "state_idx"} <= {i.name for i in lake.stats().tables[-1].indexes}
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []
        assert lake.memory("a").remember("ginger", id="g", now=NOW).id == "g"
        lake.memory("a").update("g", text="galangal", now=NOW)
        MemoryDecayJob(lake).run(NOW + timedelta(days=1))
        assert lake.memory("a").recall("galangal", limit=1, now=NOW)[0].text == "galangal"
    assert not (tmp_path / "lake" / PLACE).exists()
    with pytest.raises(EmbedderMismatchError, match="the lake was made with embedder 'counting"):
        connect(tmp_path / "lake", embedder="hashing:16")


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    with connect(tmp_path / "lake", embedder="hashing:16") as lake:
        fill(lake)
    return tmp_path / "lake"


def test_what_was_embedded_is_not_embedded_again(uri: Path) -> None:
    failing = Counting(most=5)
    with connect(uri) as lake:
        found = [(hit.id, hit.score) for hit in lake.memory("a").recall("tea", now=NOW)]
        planned = ReembedJob(lake, embedder=failing).run(NOW, dry_run=True)
        assert (planned.rows, planned.dim_after, failing.texts) == (6, 24, [])
        with pytest.raises(OSError, match="the model is gone"):
            ReembedJob(lake, embedder=failing, batch_size=1).run(NOW)
        # All goes on with the old vectors.
        assert [(hit.id, hit.score) for hit in lake.memory("a").recall("tea", now=NOW)] == found
        again = Counting()
        # A look for another one's sake removes nothing.
        assert ReembedJob(lake, embedder="hashing:8").run(NOW, dry_run=True).embedded >= 6
        left = ReembedJob(lake, embedder=again).run(NOW, dry_run=True).embedded
        assert (left, again.texts) == (planned.embedded - 5, [])
        report = ReembedJob(lake, embedder=again, batch_size=2).run(NOW)
    assert len(failing.texts) == 5
    assert report.embedded == len(again.texts) == 9 - 5
    assert set(failing.texts).isdisjoint(again.texts)


def test_another_embedder_takes_nothing_over(uri: Path) -> None:
    with connect(uri) as lake:
        with pytest.raises(OSError, match="the model is gone"):
            ReembedJob(lake, embedder=Counting(24, most=5), batch_size=1).run(NOW)
        assert ReembedJob(lake, embedder=Counting(8)).run(NOW).embedded == 9


def test_a_purge_takes_what_waits_for_a_switch(uri: Path) -> None:
    with connect(uri) as lake:
        with pytest.raises(OSError, match="the model is gone"):
            ReembedJob(lake, embedder=Counting(most=5), batch_size=1).run(NOW)
        assert (uri / PLACE).exists()
        PurgeJob(lake, ids="t2").run(NOW)
        assert not (uri / PLACE).exists()


def test_open_handles_are_told(uri: Path) -> None:
    with connect(uri) as lake, ailake.connect(uri) as other:
        memory, reader = other.memory("a"), other.read([ailake.Scope("a")])
        assert memory.recall("tea", now=NOW).exact
        ReembedJob(lake, embedder=Counting(16)).run(NOW)
        for verb in (
            lambda: memory.recall("tea", now=NOW),
            lambda: reader.recall("tea", now=NOW),
            lambda: memory.remember("rum", now=NOW),
            lambda: memory.remember("rum", judge=False, now=NOW),
            lambda: memory.remember_many([{"text": "rum"}], judge=False, now=NOW),
            lambda: memory.update("t2", text="rum", now=NOW),
            lambda: lake.memory("a").recall("tea", now=NOW),
            lambda: ReembedJob(other, embedder="hashing:8").run(NOW),
        ):
            with pytest.raises(EmbedderMismatchError, match="embedded anew with 'counting-16'"):
                verb()
        assert other.scan("episodic").collect().height == 6
    with connect(uri, embedder=Counting(16)) as lake:
        assert lake.memory("a").count({"chunk_text": "rum"}, now=NOW) == 0


def test_a_handle_whose_embedder_comes_back_holds_no_old_vectors(uri: Path) -> None:
    with connect(uri) as stale:
        memory = stale.memory("a")
        before = [hit.id for hit in memory.recall("tea", now=NOW)]
        held = stale.store.held
        with connect(uri) as lake:
            ReembedJob(lake, embedder=Counting(8)).run(NOW)
        with connect(uri, embedder=Counting(8)) as lake:
            ReembedJob(lake, embedder="hashing:16").run(NOW)
        assert [hit.id for hit in memory.recall("tea", now=NOW)] == before
        assert stale.store.held is not held


def test_what_others_write_meanwhile_is_caught_up_with(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(uri) as lake, ailake.connect(uri) as other:
        memory, embedder = other.memory("a"), Counting()
        embed = embedder.embed_documents

        def meanwhile(texts: Sequence[str]) -> NDArray[np.float32]:
            monkeypatch.setattr(embedder, "embed_documents", embed)
            memory.remember("rum", id="rum", now=NOW)
            memory.remember_many([{"text": LONG.replace("coffee", "milk"), "id": "milk"}], now=NOW)
            memory.forget("t2", now=NOW)
            memory.update("t3", text="ginger", now=NOW)
            return embed(texts)

        monkeypatch.setattr(embedder, "embed_documents", meanwhile)
        report = ReembedJob(lake, embedder=embedder, batch_size=2).run(NOW)
        assert report.mended == 0
    with connect(uri, embedder=Counting()) as lake:
        memory = lake.memory("a")
        assert vectors(lake) == expected(lake, HashingEmbedder(24))
        assert {"rum", "ginger", "cocoa"} <= {row["chunk_text"] for row in rows(lake)}
        milk = memory.recall("Sentence number 39 is about milk.", limit=1, now=NOW)[0]
        assert (milk.id, "39" in (milk.passage or "")) == ("milk", True)
        assert "t2" not in {row["chunk_id"] for row in rows(lake)}
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_logged_before_and_stored_after_the_switch(
    uri: Path, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """Its vector is the old embedder's: it is never taken for one of the new one's."""
    # So that a short text for the old embedder is a long one for the new.
    late = "The cellar holds rum. " * 6
    with connect(uri) as lake, ailake.connect(uri) as other:
        real = switch_vectors

        def logged_first(*given: Any, **options: Any) -> None:
            other.memory("a").remember(late, id="late", now=NOW)
            real(*given, **options)

        monkeypatch.setattr(reembedding, "switch_vectors", logged_first)
        if killed:
            monkeypatch.setattr(reembed, "mend", lambda *_, **__: 0)
        report = ReembedJob(lake, embedder=Counting(16, window=50)).run(NOW)
        assert report.mended == (0 if killed else 1)
    with connect(uri, embedder=Counting(16, window=50)) as lake:
        if killed:
            (hit,) = lake.memory("a").recall(late, where={"chunk_id": "late"}, now=NOW)
            assert hit.distance == 1.0
            monkeypatch.undo()
            job = ReembedJob(lake, embedder=Counting(16, window=50))
            assert job.run(NOW, dry_run=True).mended == job.run(NOW).mended == 1
        wanted = HashingEmbedder(16).embed_documents([late])[0].astype(np.float16)
        assert np.array_equal(vectors(lake)["late "], wanted)
        assert "late 0" in vectors(lake, "passages")
        hits = lake.memory("a").recall(late, where={"chunk_id": "late"}, now=NOW)
        assert hits[0].distance < 0.01
        assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


def test_the_past_keeps_its_vectors(uri: Path) -> None:
    with connect(uri) as lake:
        lake.tag("old")
        found = [(hit.id, hit.distance) for hit in lake.memory("a").recall("tea 3", now=NOW)]
        ReembedJob(lake, embedder=Counting()).run(NOW)
    with connect(uri, embedder=Counting()) as lake:
        past = lake.at("old")
        assert past.embedder_id == "hashing-v1-16"
        assert [
            (hit.id, hit.distance) for hit in past.memory("a").recall("tea 3", now=NOW)
        ] == found
        assert lake.at(utc_now()).embedder_id == "counting-24"


@pytest.mark.slow
def test_measured_indexes_are_built_anew_and_compaction_drops_old_vectors(tmp_path: Path) -> None:
    with connect(tmp_path / "lake", embedder="hashing:16") as lake:
        memory = lake.memory("a")
        memory.remember_many([{"text": f"tea {n}", "id": str(n)} for n in range(400)], now=NOW)
        policy = ailake.IndexPolicy(min_bytes=0, limit=50, sample=4)
        IndexJob(lake, policy=policy).run(NOW)
        ReembedJob(lake, embedder=Counting()).run(NOW)
    with connect(tmp_path / "lake", embedder=Counting()) as lake:
        (index,) = (one for one in lake.stats().tables[-1].indexes if one.recall is not None)
        assert (index.indexed_rows, index.unindexed_rows) == (400, 0)
        before = vectors(lake)
        compaction = CompactionPolicy(max_files=1, keep_versions=timedelta(minutes=1))
        CompactionJob(lake, policy=compaction).run(utc_now() + timedelta(days=1))
        assert vectors(lake) == before
        assert lake.memory("a").recall("tea 7", limit=1, now=NOW)[0].id == "7"
        copy = lake.backup(tmp_path / "copy")
        assert copy.rows >= 400
    with connect(tmp_path / "copy", embedder=Counting()) as lake:
        assert vectors(lake) == before


def test_who_opens_a_lake_while_it_is_switched_finds_the_new_embedder(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ailake.Lake] = []
    threads: list[Thread] = []

    def begin(*given: Any, **options: Any) -> None:
        """Let another open the lake, up to where it waits for the write lock."""
        waits = Event()

        def waiting(*lock: Any) -> AbstractContextManager[None]:
            waits.set()
            return exclusive(*lock)

        monkeypatch.setattr(switching, "exclusive", waiting)
        lake.store.episodic.fresh().add_columns(pa.schema([pa.field(NEXT, pa.float16())]))
        threads.append(Thread(target=lambda: opened.append(connect(uri))))
        threads[0].start()
        assert waits.wait(60)
        switch_vectors(*given, **options)

    with connect(uri) as lake:
        monkeypatch.setattr(reembedding, "switch_vectors", begin)
        ReembedJob(lake, embedder="hashing:24").run(NOW)
        threads[0].join()
    with opened[0] as late:
        assert late.embedder_id == "hashing-v1-24"
        assert vectors(late) == expected(late, HashingEmbedder(24))
        assert late.memory("a").recall("tea", now=NOW).exact


def test_an_empty_lake(tmp_path: Path) -> None:
    with connect(tmp_path / "lake", embedder="hashing:16") as lake:
        report = ReembedJob(lake, embedder="hashing:8").run(NOW)
        assert (report.rows, report.embedded, report.mended) == (0, 0, 0)
    with connect(tmp_path / "lake") as lake:
        assert lake.embedder_id == "hashing-v1-8"
        lake.memory("a").remember("tea", now=NOW)
        assert lake.memory("a").recall("tea", now=NOW)[0].text == "tea"


@pytest.mark.parametrize("batch_size", [0, True, "7"])
def test_bad_arguments(lake: ailake.Lake, batch_size: Any) -> None:
    with pytest.raises(InvalidInputError, match="batch_size: got"):
        ReembedJob(lake, embedder="hashing:8", batch_size=batch_size)
    with pytest.raises(InvalidInputError, match="embedder"):
        ReembedJob(lake, embedder="no such")
    with pytest.raises(InvalidInputError, match="naive"):
        ReembedJob(lake, embedder="hashing:8").run(datetime(2026, 1, 1))  # noqa: DTZ001


def test_one_who_can_only_read_a_half_switched_lake_is_told(lake: ailake.Lake) -> None:
    schemas = {name: table.handle.schema for name, table in lake.store.tables.items()}
    refuse_half_switched(schemas, lake.uri)
    half = schemas["passages"].with_metadata({"ailake.embedder_id": "other"})
    with pytest.raises(EmbedderMismatchError, match="half-way to embedder 'hashing-v1-64'"):
        refuse_half_switched(schemas | {"passages": half}, lake.uri)


def test_what_is_written_last_is_embedded_before_the_switch(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LONG.replace("coffee", "milk")
    with connect(uri) as lake, ailake.connect(uri) as other:

        def written_first(*given: Any, **options: Any) -> None:
            other.memory("a").remember_many([{"text": late, "id": "late"}], now=NOW)
            switch(*given, **options)

        monkeypatch.setattr(reembed, "switch", written_first)
        assert ReembedJob(lake, embedder=Counting()).run(NOW).mended == 0
    with connect(uri, embedder=Counting()) as lake:
        assert vectors(lake) == expected(lake, HashingEmbedder(24))
        assert all(any(one) for one in vectors(lake, "passages").values())
        assert "late 1" in vectors(lake, "passages")
