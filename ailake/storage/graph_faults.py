"""What becomes of a graph that fails while memories are written or removed: they go on without."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Lock

logger = logging.getLogger(__name__)

# So many ids in one message.
_NAMED = 1_000


@dataclass(slots=True)
class GraphFaults:
    """Counts how often the graph has failed a write of memories in this process.

    Attributes:
        count: So often.
    """

    count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def tried(self, action: Callable[[], object], *, what: str, ids: Collection[str]) -> bool:
        """Do something to the graph; a failure is logged and counted, and nothing more.

        Args:
            action: Does it.
            what: What is not done where it fails, for the message.
            ids: Of which memories and facts.

        Returns:
            Whether it was done.
        """
        try:
            action()
        except Exception:
            logger.warning("the graph failed; memories go on without it", exc_info=True)
            with self._lock:
                self.count += 1
            named = sorted(ids)
            for start in range(0, len(named), _NAMED):
                logger.warning("%s: %s", what, ", ".join(named[start : start + _NAMED]))
            return False
        return True
