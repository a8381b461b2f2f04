"""What belongs to memories in other tables, and goes with them: facts, mentions, decisions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ailake.core.records import Scope
from ailake.storage import decisions, fact_removal, mentions

if TYPE_CHECKING:
    from ailake.storage.store import Store


def remove(store: "Store", memories: Mapping[Scope, Collection[str]], *, now: datetime) -> bool:
    """Delete what erased memories mention and what was decided of them, and forget their facts.

    Args:
        store: The lake.
        memories: The ids of the memories, by their scope.
        now: When they are removed.

    Returns:
        False where the graph failed, so that what they mention is to be removed later.
    """
    is_unmentioned = mentions.remove_if_possible(store, memories)
    fact_removal.remove(store, memories, now=now)
    decisions.remove(store, memories)
    return is_unmentioned
