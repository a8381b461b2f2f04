"""Rows of ``facts`` and ``verifications``, from values and back."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from ailake.core.assertions import Assertion, AssertionKind
from ailake.core.entities import EntityRef
from ailake.core.fact_versions import (
    FactHistoryEntry,
    FactKey,
    FactVersion,
    Origin,
    StoredVersion,
    Verdict,
)
from ailake.core.records import Scope
from ailake.core.schema import INSTANT, SCOPE_COLUMNS, arrow_schema
from ailake.core.superseding import KeyPlan
from ailake.core.windows import Window

_RETIRING = frozenset({Verdict.SUPERSEDE, Verdict.REJECT_NEW, Verdict.RETRACT})
_MICROSECONDS = pa.timestamp("us", "UTC")


def version_rows(
    pairs: Sequence[tuple[FactKey, StoredVersion]], *, dim: int, embedder_id: str
) -> pa.Table:
    """Return versions with their keys as rows of ``facts``."""
    versions = [version for _, version in pairs]
    columns: dict[str, Any] = {
        **_triples(pairs),
        "version_id": [v.version_id for v in versions],
        "recorded_at": _instants([v.recorded_at for v in versions]),
        "retired_at": _instants([v.retired_at for v in versions]),
        "origin": [str(v.origin) for v in versions],
        "ordinal": [v.ordinal for v in versions],
        "source_memory_id": [v.source_memory_id for v in versions],
    }
    return pa.table(columns, schema=arrow_schema("facts", dim=dim, embedder_id=embedder_id))


def assertion_rows(
    pairs: Sequence[tuple[FactKey, Assertion]], *, dim: int, embedder_id: str
) -> pa.Table:
    """Return assertions with their keys as rows of ``assertions``."""
    said = [one for _, one in pairs]
    columns: dict[str, Any] = {
        **_triples(pairs),
        "assertion_id": [one.assertion_id for one in said],
        "kind": [str(one.kind) for one in said],
        "recorded_at": _instants([one.recorded_at for one in said]),
        "ordinal": [one.ordinal for one in said],
        "version_id": [one.version_id for one in said],
        "verifier": [one.verifier for one in said],
        "winner_fact_id": [one.winner_fact_id for one in said],
        "source_memory_id": [one.source_memory_id for one in said],
    }
    return pa.table(columns, schema=arrow_schema("assertions", dim=dim, embedder_id=embedder_id))


def _triples(pairs: Sequence[tuple[FactKey, StoredVersion | Assertion]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    said = [one for _, one in pairs]
    return {
        "fact_id": [one.fact_id for one in said],
        **_of_keys(keys),
        "subject": [_name(one.subject) for one in said],
        "subject_type": [_type(one.subject) for one in said],
        "subject_id": [key.subject_id for key in keys],
        "predicate": [key.predicate for key in keys],
        "object": [_name(one.object) for one in said],
        "object_type": [_type(one.object) for one in said],
        "object_id": [one.object_id for one in said],
        "valid_from": _instants([one.window.start for one in said]),
        "valid_to": _instants([one.window.end for one in said]),
    }


def verification_rows(plans: Sequence[KeyPlan], *, dim: int, embedder_id: str) -> pa.Table:
    """Return the decisions of plans as rows of ``verifications``."""
    pairs = [(plan.key, one) for plan in plans for one in plan.verifications]
    made = [one for _, one in pairs]
    columns: dict[str, Any] = {
        "verification_id": [one.verification_id for one in made],
        **_of_keys([key for key, _ in pairs]),
        "verdict": [str(one.verdict) for one in made],
        "verifier": [one.verifier for one in made],
        "loser_fact_id": [one.loser.fact_id if one.loser else "" for one in made],
        "loser_version_id": [one.loser.version_id if one.loser else "" for one in made],
        "winner_fact_id": [one.winner.fact_id if one.winner else "" for one in made],
        "winner_version_id": [one.winner.version_id if one.winner else "" for one in made],
        "reason": [one.reason for one in made],
        "decided_at": _instants([one.decided_at for one in made]),
        "source_memory_id": [one.source_memory_id for one in made],
        "model": [one.model for one in made],
        "input_tokens": [one.usage.input_tokens for one in made],
        "output_tokens": [one.usage.output_tokens for one in made],
    }
    schema = arrow_schema("verifications", dim=dim, embedder_id=embedder_id)
    return pa.table(columns, schema=schema)


def stored_version(row: Mapping[str, Any]) -> StoredVersion:
    """Return a row of ``facts`` as a version to plan with."""
    return StoredVersion(
        version_id=row["version_id"],
        fact_id=row["fact_id"],
        subject=_given(row["subject"], row["subject_type"]),
        object=_given(row["object"], row["object_type"]),
        object_id=row["object_id"],
        window=Window(row["valid_from"], row["valid_to"]),
        recorded_at=row["recorded_at"],
        ordinal=row["ordinal"],
        origin=Origin(row["origin"]),
        source_memory_id=row["source_memory_id"],
        retired_at=row["retired_at"],
    )


def stored_assertion(row: Mapping[str, Any]) -> Assertion:
    """Return a row of ``assertions`` as what was said."""
    return Assertion(
        assertion_id=row["assertion_id"],
        kind=AssertionKind(row["kind"]),
        fact_id=row["fact_id"],
        subject=_given(row["subject"], row["subject_type"]),
        object=_given(row["object"], row["object_type"]),
        object_id=row["object_id"],
        window=Window(row["valid_from"], row["valid_to"]),
        recorded_at=row["recorded_at"],
        ordinal=row["ordinal"],
        version_id=row["version_id"],
        verifier=row["verifier"],
        source_memory_id=row["source_memory_id"],
        winner_fact_id=row["winner_fact_id"],
    )


def fact_key(row: Mapping[str, Any]) -> FactKey:
    """Return the key that a row of ``facts`` or ``assertions`` is of."""
    scope = Scope(*(row[name] for name in SCOPE_COLUMNS))
    return FactKey(scope, row["subject_id"], row["predicate"])


def fact_version(row: Mapping[str, Any]) -> FactVersion:
    """Return a row of ``facts`` as what ``find`` returns."""
    return FactVersion(**_fields(row))


def history_entries(
    rows: Sequence[Mapping[str, Any]],
    said: Sequence[Assertion],
    verifications: Sequence[Mapping[str, Any]],
) -> list[FactHistoryEntry]:
    """Return versions with what became of them.

    Decisions that were written and never applied, because their writer died, count for nothing.

    Args:
        rows: Every version of a key, in order.
        said: All that was said of it.
        verifications: Every decision about the key.
    """
    stored = {row["version_id"]: stored_version(row) for row in rows}
    applied = [one for one in verifications if is_applied(one, stored)]
    lost = {one["loser_version_id"]: one for one in applied if one["verdict"] in _RETIRING}
    asserted = Counter(one.fact_id for one in said if one.is_assert)
    found = []
    for row in rows:
        ended = lost.get(row["version_id"], {})
        found.append(
            FactHistoryEntry(
                **_fields(row),
                origin=Origin(row["origin"]),
                assertions=asserted[row["fact_id"]],
                verdict=ended.get("verdict", ""),
                lost_to=ended.get("winner_fact_id", ""),
                reason=ended.get("reason", ""),
            )
        )
    return found


def is_applied(one: Mapping[str, Any], stored: Mapping[str, StoredVersion]) -> bool:
    """Tell whether a decision was applied, or a case really waits: its writer may have died.

    Args:
        one: A row of ``verifications``.
        stored: The versions of its key, by id.
    """
    for side in ("winner", "loser"):
        version_id = one[f"{side}_version_id"]
        version = stored.get(version_id)
        # Ids of versions that were removed may be given out again.
        if version_id and (version is None or version.fact_id != one[f"{side}_fact_id"]):
            return False
    if one["verdict"] not in _RETIRING:
        return True
    decided_at: datetime = one["decided_at"]
    return stored[one["loser_version_id"]].retired_at == decided_at


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "fact_id", "predicate", "valid_from", "valid_to", "recorded_at", "retired_at",
        "source_memory_id", "version_id",
    )  # fmt: skip
    given = {name: _given(row[name], row[f"{name}_type"]) for name in ("subject", "object")}
    return {**{name: row[name] for name in names}, **given}


def _of_keys(keys: Collection[FactKey]) -> dict[str, list[str]]:
    scope = {name: [getattr(key.scope, name) for key in keys] for name in SCOPE_COLUMNS}
    return {**scope, "key_id": [key.id for key in keys]}


def _given(name: str, entity_type: str) -> str | EntityRef:
    return EntityRef(entity_type, name) if entity_type else name


def _name(value: str | EntityRef) -> str:
    return value.name if isinstance(value, EntityRef) else value


def _type(value: str | EntityRef) -> str:
    return value.type if isinstance(value, EntityRef) else ""


def _instants(values: Sequence[datetime | None]) -> pa.Array:
    return pa.array(values, _MICROSECONDS).cast(INSTANT)
