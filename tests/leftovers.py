"""Decodes every file that is left of a lake, and tells which of some needles are in it.

Lance compresses texts, and a text index keeps its words in an automaton: so data and index files
are decoded, and a word is looked for there as the automaton spells it. All files are looked
through as they are, too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileSession

import ailake
from ailake.core.indexing import TEXT_OPTIONS


def spelled(word: str, folder: Path) -> bytes:
    """Return how the automaton of a text index spells the middle of a word."""
    table = pa.table({"chunk_text": [word]})
    dataset = lance.write_dataset(table, folder / f"{word}.lance")
    dataset.create_scalar_index("chunk_text", "INVERTED", **TEXT_OPTIONS)
    (path,) = (folder / f"{word}.lance").rglob("*_tokens.lance")
    (automaton,) = LanceFileReader(str(path)).read_all().to_table()["_token_fst_bytes"].to_pylist()
    # A node with one way on is one byte, the word's last one first.
    runs: list[bytes] = re.findall(rb"[\xc0-\xff]+", automaton)
    return max(runs, key=len)[4:-4]


def files(lake: ailake.Lake) -> list[str]:
    """Return every file of a lake, by path within it."""
    root = lake.store.location.root
    if root is not None:
        found = (path for path in root.rglob("*") if path.is_file())
        return sorted(path.relative_to(root).as_posix() for path in found)
    return sorted(_session(lake).list())


def contents(lake: ailake.Lake, path: str, scratch: Path) -> Iterator[bytes]:
    """Yield a file as it is, its name, and all texts and bytes that it decodes to."""
    root = lake.store.location.root
    local = scratch / "file" if root is None else root / path
    if root is None:
        _session(lake).download_file(path, str(local))
    yield path.encode()
    yield local.read_bytes()
    if path.endswith((".lance", ".idx")):
        reader = LanceFileReader(str(local))
        yield str(reader.metadata().schema.metadata).encode()
        yield b"\n".join(_bytes_of(reader.read_all().to_table().to_pylist()))


def holding(lake: ailake.Lake, needles: Mapping[str, bytes], scratch: Path) -> dict[str, set[str]]:
    """Return for each needle the files that hold it."""
    found: dict[str, set[str]] = {name: set() for name in needles}
    for path in files(lake):
        whole = b"\n".join(contents(lake, path, scratch))
        for name, needle in needles.items():
            if needle in whole:
                found[name].add(path)
    return found


def indexed_rows(lake: ailake.Lake, name: str, scratch: Path) -> set[int]:
    """Return the rows that any index file of a table names by a column of row ids."""
    rows: set[int] = set()
    root = lake.store.location.root
    for path in files(lake):
        if path.startswith(f"{name}.lance/_indices/"):
            local = scratch / "file" if root is None else root / path
            if root is None:
                _session(lake).download_file(path, str(local))
            reader = LanceFileReader(str(local))
            if "_rowid" in reader.metadata().schema.names:
                rows.update(reader.read_all().to_table()["_rowid"].to_pylist())
    return rows


def _session(lake: ailake.Lake) -> LanceFileSession:
    return LanceFileSession(lake.uri, storage_options=lake.store.episodic.storage_options)


def _bytes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode()
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        yield from _bytes_of(list(value.values()))
    elif isinstance(value, Iterable):
        for one in value:
            yield from _bytes_of(one)
