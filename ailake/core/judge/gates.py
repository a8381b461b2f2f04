"""Hard gates: pairs of memories that never become one, whatever they say."""

from ailake.core.judge.verdict import MemoryItem
from ailake.core.records import SourceClass


def hard_gate(new: MemoryItem, existing: MemoryItem) -> bool:
    """Tell whether the gate is hit: the two may never be skipped, merged or modified into one.

    It is hit by another scope (agent, user or project), role, speaker or source class, by group
    chat on either side, and by a row that is not active.
    """
    return (
        not (new.active and existing.active)
        or new.scope != existing.scope
        or (new.role, new.speaker, new.source) != (existing.role, existing.speaker, existing.source)
        or new.source == SourceClass.GROUP_CHAT
    )
