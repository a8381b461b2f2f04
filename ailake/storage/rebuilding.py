"""Building indexes anew with the parameters that they have: nothing of the old ones stays."""

from typing import TYPE_CHECKING, Any

import lance
from lance.query import DocumentGranularity

from ailake.core.vectors import VECTOR_INDEX, IndexPolicy, Measured
from ailake.storage.retries import with_retries
from ailake.storage.vectors import build, drop, measure_and_keep, vector_index

if TYPE_CHECKING:
    from ailake.storage.table import Table

# Where the engine names a type otherwise than it is asked for.
_TYPES = {"LabelList": "LABEL_LIST"}


def rebuild_indexes(table: "Table") -> tuple[str, ...]:
    """Build every index of a table anew from the rows that are there; return their names.

    An update of an index, even one that trains it again, keeps the keys of rows that are gone.
    Hold the lock of the table's upkeep.
    """
    dataset = table.fresh()
    described = sorted(dataset.describe_indices(), key=lambda one: str(one.name))
    ours = vector_index(dataset)
    known = None if ours is None else ours.measured
    for index in described:
        if known is not None and index.name == VECTOR_INDEX:
            rebuild_own(table, known)
        elif "Vector" in index.type_url:
            _rebuild_vectors(table, index)
        else:
            _rebuild_scalar(table, index)
    return tuple(str(index.name) for index in described)


def rebuild_own(table: "Table", known: Measured) -> None:
    """Build the index that policy chose anew, and measure it as it was measured."""
    if not table.snapshot().count_rows():
        if vector_index(table.snapshot()) is not None:
            drop(table, VECTOR_INDEX)
        return
    build(table, known.kind)
    measure_and_keep(table, IndexPolicy(recall=known.goal, limit=known.limit))


def _rebuild_vectors(table: "Table", index: Any) -> None:
    details = dict(index.details)
    options: dict[str, Any] = {"metric": details["metric_type"].lower()}
    compression, graph = details.get("compression") or {}, details.get("hnsw")
    options |= {
        name: compression[name]
        for name in ("num_bits", "num_sub_vectors")
        if compression.get("type") in {"pq", "rq"} and name in compression
    }
    if graph:
        options |= {
            "m": graph["max_connections"],
            "ef_construction": graph["construction_ef"],
            "max_level": graph["max_level"],
        }

    def create() -> None:
        dataset = table.fresh()
        options["num_partitions"] = _partitions(dataset, index.name)
        dataset.create_index(
            index.field_names[0], index.index_type, name=index.name, replace=True, **options
        )

    with_retries(create, what=f"index of {table.name}", attempts=3)


def _partitions(dataset: lance.LanceDataset, name: str) -> int:
    parts = dataset.stats.index_stats(name)["indices"]
    most = max((int(part["num_partitions"]) for part in parts), default=1)
    return max(1, min(most, int(dataset.count_rows())))


def _rebuild_scalar(table: "Table", index: Any) -> None:
    options: dict[str, Any] = {}
    if index.index_type == "Inverted":
        options = {name: value for name, value in index.details.items() if value is not None}
        options["document_granularity"] = DocumentGranularity(options["document_granularity"])
    kind = _TYPES.get(index.index_type, index.index_type.upper())
    with_retries(
        lambda: table.fresh().create_scalar_index(
            index.field_names[0], kind, name=index.name, replace=True, **options
        ),
        what=f"index of {table.name}",
        attempts=3,
    )
