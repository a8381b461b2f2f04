"""Other engines that decay the same rows, each in files of its own and committed at the end.

Every one holds id, text, vector, last access and weight of each memory. DuckDB and SQLite wait for
the disk when they commit; polars, Delta Lake and Lance leave that to the system.
"""

import sqlite3
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

DAY = "86400000000000.0"
FORMULA = "exp({rate} * {greatest}({now} - last_accessed, 0) / " + DAY + ")"
COLUMNS = ("chunk_id", "chunk_text", "vector", "last_accessed", "weight")

Stored = tuple[NDArray[np.int64], NDArray[np.float32]]
Rows = Callable[[], Iterator[pa.RecordBatch]]


class Rival(Protocol):
    """An engine over its own copy of the rows."""

    def decay(self, rate: float, now: int) -> None: ...

    def stored(self) -> Stored:
        """Return last accesses (nanoseconds) and weights."""
        ...


def rows_of(dataset: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows as every engine can take them: the vector as bytes, the instant a number."""
    names = ["chunk_id", "chunk_text", "embedding", "last_accessed_at", "recency_weight"]
    for batch in dataset.scanner(columns=names, batch_size=65_536).to_batches():
        numbers = batch["embedding"].flatten().to_numpy()
        width = numbers.nbytes // len(batch)
        vectors = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(width), len(batch), [None, pa.py_buffer(numbers.tobytes())]
        )
        instants = batch["last_accessed_at"].cast(pa.int64())
        columns = [batch["chunk_id"], batch["chunk_text"], vectors.cast(pa.binary()), instants]
        yield pa.record_batch([*columns, batch["recency_weight"]], names=COLUMNS)


def reader(rows: Rows) -> pa.RecordBatchReader:
    batches = rows()
    first = next(batches)

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, every())


class DuckDb:
    def __init__(self, folder: Path, rows: Rows) -> None:
        import duckdb  # noqa: PLC0415

        self._db = duckdb.connect(str(folder / "memories.duckdb"))
        self._db.register("given", reader(rows))
        self._db.execute("CREATE TABLE memories AS SELECT * FROM given")
        self._db.execute("CHECKPOINT")

    def decay(self, rate: float, now: int) -> None:
        formula = FORMULA.format(rate=-rate, now=now, greatest="greatest")
        self._db.execute(f"UPDATE memories SET weight = {formula}::FLOAT")  # noqa: S608
        self._db.execute("CHECKPOINT")

    def stored(self) -> Stored:
        found = self._db.execute("SELECT last_accessed, weight FROM memories").fetchnumpy()
        return np.asarray(found["last_accessed"]), np.asarray(found["weight"])


class Sqlite:
    def __init__(self, folder: Path, rows: Rows) -> None:
        self._db = sqlite3.connect(folder / "memories.sqlite")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(
            "CREATE TABLE memories (chunk_id TEXT PRIMARY KEY, chunk_text TEXT, vector BLOB,"
            " last_accessed INTEGER, weight REAL)"
        )
        for batch in rows():
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            self._db.executemany("INSERT INTO memories VALUES (?, ?, ?, ?, ?)", values)
        self._checkpoint()

    def decay(self, rate: float, now: int) -> None:
        formula = FORMULA.format(rate=-rate, now=now, greatest="max")
        self._db.execute(f"UPDATE memories SET weight = {formula}")  # noqa: S608
        self._checkpoint()

    def stored(self) -> Stored:
        found = self._db.execute("SELECT last_accessed, weight FROM memories").fetchall()
        accessed, weights = zip(*found, strict=True)
        return np.array(accessed, np.int64), np.array(weights, np.float32)

    def _checkpoint(self) -> None:
        self._db.commit()
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class Delta:
    def __init__(self, folder: Path, rows: Rows) -> None:
        import deltalake  # noqa: PLC0415

        self._uri = str(folder / "memories")
        deltalake.write_deltalake(self._uri, reader(rows))
        self._table = deltalake.DeltaTable(self._uri)

    def decay(self, rate: float, now: int) -> None:
        formula = FORMULA.format(rate=-rate, now=now, greatest="greatest")
        self._table.update(updates={"weight": f"cast({formula} as float)"})

    def stored(self) -> Stored:
        return from_arrow(self._table.to_pyarrow_table(columns=list(COLUMNS[3:])))


class Polars:
    """Reads the whole file, and puts a new one in its place."""

    def __init__(self, folder: Path, rows: Rows) -> None:
        self._path = folder / "memories.parquet"
        given = reader(rows)
        with pq.ParquetWriter(self._path, given.schema) as writer:
            for batch in given:
                writer.write_batch(batch)

    def decay(self, rate: float, now: int) -> None:
        import polars as pl  # noqa: PLC0415

        age = (now - pl.col("last_accessed")).clip(lower_bound=0) / float(DAY)
        weight = (-rate * age).exp().cast(pl.Float32)
        new = self._path.with_suffix(".new")
        pl.scan_parquet(self._path).with_columns(weight=weight).sink_parquet(new)
        new.replace(self._path)

    def stored(self) -> Stored:
        return from_arrow(pq.read_table(self._path, columns=list(COLUMNS[3:])))


def from_arrow(table: pa.Table) -> Stored:
    return table["last_accessed"].to_numpy(), table["weight"].to_numpy()


RIVALS: dict[str, tuple[str, Callable[[Path, Rows], Rival]]] = {
    "duckdb": ("duckdb", DuckDb),
    "sqlite": ("sqlite3", Sqlite),
    "delta": ("deltalake", Delta),
    "polars": ("polars", Polars),
}


def missing() -> list[str]:
    """Return the engines whose package is not installed."""
    return [name for name, (package, _) in RIVALS.items() if find_spec(package) is None]
