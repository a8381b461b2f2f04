"""Ordered pure steps from older schema versions to the present one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from ailake.core.judge import dedupe_digest, dedupe_key
from ailake.core.records import Decision, SourceClass, State
from ailake.core.remembering import UNJUDGED
from ailake.core.schema import table_spec
from ailake.errors import SchemaMismatchError


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one table, from ``version - 1`` to ``version``.

    Attributes:
        reads: Columns that ``fill`` needs; they exist before the step.
        fill: From a batch of ``reads`` to a value per row for each column that the step adds. A
            step can be run again: columns that an interrupted run has added stay as they are.
    """

    table: str
    version: int
    meaning: str
    reads: tuple[str, ...]
    fill: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]


def _fill_lifecycle(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
    count = batch.num_rows
    keys = [dedupe_digest(dedupe_key(text)) for text in batch.column("chunk_text").to_pylist()]
    instants = pa.nulls(count, pa.timestamp("ns", "UTC"))
    texts = {
        "user_id": "",
        "project_id": "",
        "role": "user",
        "speaker": "",
        "kind": "",
        "source": SourceClass.DIRECT.value,
        "state": State.ACTIVE.value,
        "merged_into": "",
        "decision": Decision.CREATE.value,
        "reason": UNJUDGED,
        "veto": "",
        "rules_version": "",
        "metadata": "{}",
    }
    return {
        **{name: pa.repeat(value, count) for name, value in texts.items()},
        "confidence": pa.repeat(pa.scalar(1.0, pa.float32()), count),
        "updated_at": batch.column("created_at"),
        "event_time": instants,
        "expires_at": instants,
        "folded_through": pa.repeat(pa.scalar(0, pa.uint64()), count),
        "dedupe_key": pa.array(keys, pa.string()),
    }


def _fill_models(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
    none = pa.repeat(pa.scalar(0, pa.uint64()), batch.num_rows)
    model = pa.repeat("", batch.num_rows)
    return {"model": model, "input_tokens": none, "output_tokens": none}


STEPS: tuple[Step, ...] = (
    Step(
        table="episodic",
        version=1,
        meaning="from the bare contract (text, vector, recency and access columns) to scopes, "
        "state, deduplication and metadata",
        reads=("chunk_text", "created_at"),
        fill=_fill_lifecycle,
    ),
    Step(
        table="verifications",
        version=2,
        meaning="which model decided, and what that took",
        reads=("verification_id",),
        fill=_fill_models,
    ),
)


def steps_from(table: str, version: int, *, steps: tuple[Step, ...] = STEPS) -> tuple[Step, ...]:
    """Return the steps that bring a table from ``version`` to the present one, in order.

    Raises:
        SchemaMismatchError: The table is newer than this release, or a step is missing.
    """
    target = table_spec(table).version
    if version > target:
        raise SchemaMismatchError(
            f"table {table!r} has schema version {version}, this release knows up to {target}: "
            "it was written by a newer ailake; upgrade with pip install -U ailake-memory"
        )
    path = tuple(
        sorted(
            (s for s in steps if s.table == table and version < s.version <= target),
            key=lambda step: step.version,
        )
    )
    if [step.version for step in path] != list(range(version + 1, target + 1)):
        raise SchemaMismatchError(
            f"table {table!r} has schema version {version}, and no migration leads from it to "
            f"{target}"
        )
    return path
