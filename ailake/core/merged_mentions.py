"""Mentions of memories that were merged, as those of the memories that live on. Pure."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc


def heirs(fact_ids: Iterable[str], merged: Mapping[str, str]) -> dict[str, str]:
    """Return for those of the ids that were merged which memory lives on.

    Args:
        fact_ids: Ids of memories and facts.
        merged: What each merged memory was merged into, which may have been merged itself.
    """
    return {one: end_of(one, merged) for one in fact_ids if one in merged}


def end_of(memory_id: str, merged: Mapping[str, str]) -> str:
    """Return the memory at the end of a chain of merges, which may be this one."""
    seen = {memory_id}
    while (into := merged.get(memory_id, "")) and into not in seen:
        seen.add(into)
        memory_id = into
    return memory_id


def inherited(mentions: pa.Table, heir_of: Mapping[str, str]) -> pa.Table:
    """Return mentions with the ids of merged memories replaced by those of their heirs.

    What a merged memory said is not what its heir says: its text is left out.

    Args:
        mentions: Rows of the table ``mentions``.
        heir_of: The heir of each merged memory.
    """
    ids = mentions["fact_id"]
    place = pc.index_in(ids, value_set=pa.array(list(heir_of), pa.string()))
    living = pa.array(list(heir_of.values()), pa.string()).take(place.combine_chunks())
    texts = pc.if_else(pc.is_valid(place), "", mentions["text"])
    for name, column in (("fact_id", pc.coalesce(living, ids)), ("text", texts)):
        mentions = mentions.set_column(mentions.schema.get_field_index(name), name, column)
    return mentions
