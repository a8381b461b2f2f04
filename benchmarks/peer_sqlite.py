"""Stores over sqlite-vec that peers.py compares; see peer_stores.py."""

import json
import sqlite3
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from peer_stores import Given, K


class SqliteVec:
    durability = "fsynced (SQLite in WAL mode, synchronous=FULL, 1 sync)"

    def __init__(self, folder: Path, dim: int) -> None:
        self.connection = vector_sqlite(folder / "notes.db")
        self.connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
        self.connection.execute(
            f"CREATE VIRTUAL TABLE vectors USING vec0(v float[{dim}] distance_metric=cosine)"
        )

    def load(self, notes: Given) -> None:
        with self.connection:
            for text, vector in zip(notes.texts, notes.vectors, strict=True):
                made = self.connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))
                row = (made.lastrowid, vector.tobytes())
                self.connection.execute("INSERT INTO vectors (rowid, v) VALUES (?, ?)", row)

    add = load

    def search(self, query: Given) -> Sequence[object]:
        asked = (
            "SELECT id, text, distance FROM vectors JOIN notes ON id = vectors.rowid "
            "WHERE v MATCH ? AND k = ? ORDER BY distance"
        )
        found: list[object] = self.connection.execute(
            asked, (query.vectors[0].tobytes(), K)
        ).fetchall()
        return found

    def close(self) -> None:
        self.connection.close()


class LangGraph:
    """LangGraph's SqliteStore over sqlite-vec."""

    durability = "fsynced (SQLite in WAL mode, synchronous=FULL, 1 sync)"

    def __init__(self, folder: Path, dim: int) -> None:
        connection = vector_sqlite(folder / "notes.db")
        connection.isolation_level = None
        self.connection = connection
        self.vectors: dict[str, list[float]] = {}
        self.put = import_module("langgraph.store.base").PutOp
        index = {"dims": dim, "embed": self.embed}
        self.store = import_module("langgraph.store.sqlite").SqliteStore(connection, index=index)
        self.store.setup()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        # What is stored is embedded as JSON, a question as it is.
        plain = [json.loads(text)["text"] if text.startswith("{") else text for text in texts]
        return [self.vectors[text] for text in plain]

    def load(self, notes: Given) -> None:
        for part in notes.chunks():
            self.vectors = dict(zip(part.texts, part.lists, strict=True))
            put = [
                self.put(("notes",), name, {"text": text})
                for name, text in zip(part.ids, part.texts, strict=True)
            ]
            self.store.batch(put)

    add = load

    def search(self, query: Given) -> Sequence[object]:
        self.vectors = dict(zip(query.texts, query.lists, strict=True))
        found: list[object] = self.store.search(("notes",), query=query.texts[0], limit=K)
        return found

    def close(self) -> None:
        self.connection.close()


def vector_sqlite(path: Path) -> Any:
    """Connect with sqlite-vec loaded, through pysqlite3 where sqlite3 takes no extensions."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        sys.modules["sqlite3"] = import_module("pysqlite3")
    connection = import_module("sqlite3").connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.enable_load_extension(True)  # noqa: FBT003 (positional only)
    import_module("sqlite_vec").load(connection)
    return connection
