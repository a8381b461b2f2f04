"""Stores that peers.py compares, each behind the same few methods.

Whatever a store needs is imported when it is opened, so that one alone can be measured.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Protocol

from timing import AGENT, NOW, Vectors, clustered, episodic_batches, made, opened

K = 10
CHUNK = 1_000


@dataclass(frozen=True)
class Given:
    """Texts and their vectors, float32 (n, dim)."""

    texts: Sequence[str]
    vectors: Vectors

    def part(self, start: int, count: int) -> "Given":
        return Given(self.texts[start : start + count], self.vectors[start : start + count])

    def chunks(self) -> list["Given"]:
        return [self.part(start, CHUNK) for start in range(0, len(self.texts), CHUNK)]

    @property
    def ids(self) -> list[str]:
        return [str(uuid.uuid5(uuid.NAMESPACE_OID, text)) for text in self.texts]

    @property
    def lists(self) -> list[list[float]]:
        listed: list[list[float]] = self.vectors.tolist()
        return listed


class Store(Protocol):
    durability: str

    def load(self, notes: Given) -> None: ...
    def add(self, notes: Given) -> None: ...
    def search(self, query: Given) -> Sequence[object]: ...
    def close(self) -> None: ...


class Ailake:
    durability = "fsynced (write-ahead log)"

    def __init__(self, folder: Path, dim: int) -> None:
        made(folder / "lake", 0, clustered(dim))
        self.lake = opened(folder / "lake")
        self.memory = self.lake.memory(AGENT)

    def load(self, notes: Given) -> None:
        items = [
            {"text": text, "vector": vector}
            for text, vector in zip(notes.texts, notes.vectors, strict=True)
        ]
        self.memory.remember_many(items, now=NOW)

    def add(self, notes: Given) -> None:
        self.memory.remember(notes.texts[0], vector=notes.vectors[0], now=NOW)

    def search(self, query: Given) -> Sequence[object]:
        return self.memory.recall(query.vectors[0], limit=K, touch=False, now=NOW)

    def close(self) -> None:
        self.lake.close()


class LanceDb:
    """The columns of our own table, written and searched by the engine alone."""

    durability = "written, never fsynced"

    def __init__(self, folder: Path, dim: int) -> None:
        made(folder / "lake", 0, clustered(dim))
        database = import_module("lancedb").connect(
            folder / "lake", read_consistency_interval=timedelta(0)
        )
        self.table = database.open_table("episodic")

    def load(self, notes: Given) -> None:
        name = notes.texts[0]
        (batch,) = episodic_batches(
            self.table.schema, len(notes.texts), lambda *_: notes.vectors, name=name
        )
        self.table.add(batch)

    add = load

    def search(self, query: Given) -> Sequence[object]:
        asked = self.table.search(query.vectors[0], vector_column_name="embedding")
        asked = asked.distance_type("cosine").limit(K)
        found: list[object] = asked.select(["chunk_id", "chunk_text", "_distance"]).to_list()
        return found

    def close(self) -> None:
        self.table = None


class Chroma:
    durability = "fsynced (SQLite, 8 syncs)"

    def __init__(self, folder: Path, dim: int) -> None:  # noqa: ARG002 (every store's arguments)
        chroma = import_module("chromadb")
        settings = import_module("chromadb.config").Settings(anonymized_telemetry=False)
        self.client = chroma.PersistentClient(str(folder), settings=settings)
        self.notes = self.client.create_collection(
            "notes", embedding_function=None, metadata={"hnsw:space": "cosine"}
        )

    def load(self, notes: Given) -> None:
        for part in notes.chunks():
            self.add(part)

    def add(self, notes: Given) -> None:
        self.notes.add(ids=notes.ids, embeddings=notes.vectors, documents=list(notes.texts))

    def search(self, query: Given) -> Sequence[object]:
        found: list[object] = self.notes.query(query_embeddings=query.vectors, n_results=K)["ids"][
            0
        ]
        return found

    def close(self) -> None:
        self.client.close()


class Qdrant:
    """The client's local mode: every vector resident, searched by numpy."""

    durability = "fsynced (SQLite, 4 syncs)"

    def __init__(self, folder: Path, dim: int) -> None:
        self.models = import_module("qdrant_client.models")
        self.client = import_module("qdrant_client").QdrantClient(path=str(folder))
        space = self.models.VectorParams(size=dim, distance=self.models.Distance.COSINE)
        self.client.create_collection("notes", vectors_config=space)

    def load(self, notes: Given) -> None:
        points = [
            self.models.PointStruct(id=name, vector=vector, payload={"text": text})
            for name, vector, text in zip(notes.ids, notes.lists, notes.texts, strict=True)
        ]
        self.client.upsert("notes", points, wait=True)

    add = load

    def search(self, query: Given) -> Sequence[object]:
        found: list[object] = self.client.query_points("notes", query.lists[0], limit=K).points
        return found

    def close(self) -> None:
        self.client.close()


class Mem0:
    """Mem0 as it works without a language model: `infer=False`, over Qdrant's local mode."""

    durability = "fsynced (SQLite, 8 syncs: Qdrant's and a history of its own)"

    def __init__(self, folder: Path, dim: int) -> None:
        keyless = {"provider": "openai", "config": {"api_key": "never used"}}
        where = {"path": str(folder), "on_disk": True, "embedding_model_dims": dim}
        config = {
            "vector_store": {"provider": "qdrant", "config": where},
            "history_db_path": str(folder / "history.db"), "llm": keyless, "embedder": keyless,
        }  # fmt: skip
        self.memory = import_module("mem0").Memory.from_config(config)
        self.vectors: dict[str, list[float]] = {}
        self.memory.embedding_model = self

    def embed(self, text: str, _action: str | None = None, **_: object) -> list[float]:
        return self.vectors[text]

    def embed_batch(self, texts: Sequence[str], *_: object, **__: object) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    def load(self, notes: Given) -> None:
        payloads = [
            {"data": text, "user_id": AGENT, "created_at": NOW.isoformat()} for text in notes.texts
        ]
        self.memory.vector_store.insert(vectors=notes.lists, payloads=payloads, ids=notes.ids)

    def add(self, notes: Given) -> None:
        self.vectors = dict(zip(notes.texts, notes.lists, strict=True))
        said = [{"role": "user", "content": notes.texts[0]}]
        self.memory.add(said, user_id=AGENT, infer=False)

    def search(self, query: Given) -> Sequence[object]:
        self.vectors = dict(zip(query.texts, query.lists, strict=True))
        asked = {"filters": {"user_id": AGENT}, "top_k": K, "threshold": 0.0}
        found: list[object] = self.memory.search(query.texts[0], **asked)["results"]
        return found

    def close(self) -> None:
        self.memory.vector_store.client.close()
