"""What a recall looks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ailake.core.episodic import ScoringPolicy
from ailake.core.filters import Predicate
from ailake.core.graph_evidence import GraphEvidence
from ailake.core.records import Scope
from ailake.core.reranking import Reranker
from ailake.core.rows import nanoseconds
from ailake.storage.coded import Aim
from ailake.storage.memories import in_scopes, visible
from ailake.storage.view import ReadView


class Mode(StrEnum):
    """What counts as evidence of what a memory is about.

    ``hybrid``: vectors, words, neighbours and speakers; ``vector``: vectors alone; ``text``: words
    alone.
    """

    HYBRID = "hybrid"
    VECTOR = "vector"
    TEXT = "text"


@dataclass(frozen=True)
class Question:
    """What is looked for, and how rows are scored.

    Attributes:
        vector: The query, float32 (dim,); empty in mode text.
        text: The query as text, None where it is a vector or only that counts.
        mode: What counts.
        scopes: Where to look.
        asked: The caller's own filter.
        scoring: The policy that weighs age and importance.
        max_distance: Leave out what is farther, None for no bound.
        instant: From which ages are counted.
        reranker: Reads the best of stage one, None for no reranker.
        graph: Leads to memories by the entities of the text, None for no graph.
    """

    vector: NDArray[np.float32]
    text: str | None
    mode: Mode
    scopes: Sequence[Scope]
    asked: Predicate
    scoring: ScoringPolicy
    max_distance: float | None
    instant: datetime
    reranker: Reranker | None = None
    graph: GraphEvidence | None = None

    @cached_property
    def aim(self) -> Aim:
        """The query, to compare rows that are held with; not in mode text."""
        return Aim.at(self.vector)

    @cached_property
    def now(self) -> int:
        """The instant, nanoseconds since 1970."""
        return nanoseconds(self.instant)

    @cached_property
    def wall(self) -> Predicate:
        """The scopes alone, as a filter."""
        return in_scopes(self.scopes)

    def visible(self, view: ReadView) -> Predicate:
        """Return the caller's filter within the scopes, over what recall sees of a view."""
        return view.resolved(visible(self.scopes, self.asked, self.instant))

    @property
    def words(self) -> str | None:
        """The text, where shared words are evidence."""
        return self.text if self.scoring.lexical_weight > 0 else None

    @property
    def looks_around(self) -> bool:
        """Whether what stands around a memory counts, and not only its own content."""
        counts = self.scoring.has_stage_two or self.graph is not None
        return self.mode is Mode.HYBRID and self.text is not None and counts

    @property
    def has_stage_two(self) -> bool:
        """Whether the best of stage one are looked at again."""
        return self.looks_around or self.reranker is not None
