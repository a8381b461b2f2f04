"""Stand-ins for tables that a lake lacks: what was tagged, or locked away, before they existed."""

import shutil
import weakref
from datetime import timedelta
from tempfile import mkdtemp

import lancedb

from ailake.core.schema import arrow_schema
from ailake.storage.table import STABLE_ROW_IDS, Table


class AbsentTable(Table):
    """A table without rows that is no part of the lake, for reading only.

    It lies in a temporary folder and not in memory, because lancedb and pylance don't see each
    other's memory; the folder goes with it.
    """

    def __init__(self, name: str, *, dim: int, embedder_id: str) -> None:
        folder = mkdtemp(prefix="ailake-")
        database = lancedb.connect(folder, read_consistency_interval=timedelta(0))
        schema = arrow_schema(name, dim=dim, embedder_id=embedder_id)
        handle = database.create_table(name, schema=schema, storage_options=STABLE_ROW_IDS)
        weakref.finalize(handle, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(handle, storage_options={})
