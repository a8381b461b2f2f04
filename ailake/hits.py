"""What ``recall`` returns: the hits, best first, and how they came about."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from ailake.core.prompts import prompt_of
from ailake.core.records import Hit, SearchReport

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """Recalled memories, best first.

    Attributes:
        items: The hits.
        report: How they were found.
        counted: They were counted as accesses.
    """

    items: tuple[Hit, ...]
    report: SearchReport
    counted: bool = False

    @property
    def exact(self) -> bool:
        """The best of stage one, which stage two reorders, are proven, over true distances."""
        return self.report.exact

    @property
    def bound_held(self) -> bool:
        """They are proven over the lists, one of which may be an approximate index's."""
        return self.report.bound_held

    @property
    def scored(self) -> int:
        """Memories that were scored to find them."""
        return self.report.scored

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.items[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.items)

    def __str__(self) -> str:
        """Return a line per hit: rank, score, text or nearest passage."""
        lines = [
            f"{place}. {hit.score:.3f} {hit.passage}" for place, hit in enumerate(self, start=1)
        ]
        return "\n".join(lines) or "no hits"

    def as_prompt(
        self, max_tokens: int | None = None, *, count_tokens: Callable[[str], int] | None = None
    ) -> str:
        """Return the memories as text for a model's prompt, best first, a line each.

        A line has the date of the event, else of the creation, the speaker where there is one, and
        the text, of a long one the nearest passage. They stand between two markers, by which
        ``remember`` knows them again where they come back as input, whole or in part.

        Args:
            max_tokens: Leave out the first memory with which the whole text would have more, and
                all that follow; at least 1.
            count_tokens: Counts the tokens of a text, as the model in use does; for a longer text
                not fewer. Default: an estimate, rather too high: a token for four ASCII letters
                or spaces, one for each other ASCII character, and one for two bytes of UTF-8 of
                everything else.

        Returns:
            The text, empty where there are no hits or not even the first one fits.

        Raises:
            InvalidInputError: An argument is wrong.
        """
        return prompt_of(self.items, max_tokens=max_tokens, count_tokens=count_tokens)

    def to_arrow(self) -> pa.Table:
        """Return a row per hit: its fields, with the scope in three columns."""
        return pa.Table.from_pylist([_row(hit) for hit in self.items], schema=_SCHEMA)

    def to_polars(self) -> "pl.DataFrame":
        """Return ``to_arrow`` as a polars frame."""
        import polars as pl  # noqa: PLC0415 (half a second that a recall need not pay)

        return pl.DataFrame(pl.from_arrow(self.to_arrow()))

    def explain(self) -> "pl.DataFrame":
        """Return a row per hit with every part of its score, see ``ScoringPolicy``.

        ``near = distance - lexical - neighbour - speaker - date - graph + brevity``, ``weight =
        recency_part * importance_part`` and ``score = near / max(weight, epsilon)``. Where all
        that evidence is more than the distance, ``score = near * weight`` is below 0; without
        stage two ``near`` ends at 0. ``proven_score`` is that of stage one, ``max(distance -
        lexical, 0) / max(weight, epsilon)``. With a reranker ``near = 1 - relevance``, which is
        null without one.

        What holds for all hits is in ``report``: rows scored, lists read how far and which of them
        were widened, the index that was used and its measured recall.
        """
        import polars as pl  # noqa: PLC0415 (see to_polars)

        rows = [
            {"rank": place, "id": hit.id, **hit.parts, "text": hit.text}
            for place, hit in enumerate(self.items, start=1)
        ]
        return pl.DataFrame(rows, schema=_EXPLAINED)


PARTS = (
    "distance",
    "lexical",
    "neighbour",
    "speaker",
    "date",
    "graph",
    "brevity",
    "relevance",
    "near",
    "recency",
    "recency_part",
    "importance",
    "importance_part",
    "weight",
    "proven_score",
    "score",
)

_INSTANT = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "agent_id", "user_id", "project_id")),
        *((name, pa.string()) for name in ("session_id", "role", "speaker", "kind", "source")),
        *((name, pa.float64()) for name in ("score", "distance", "recency_weight")),
        ("importance_score", pa.float32()),
        ("confidence", pa.float32()),
        ("access_count", pa.uint32()),
        *((name, _INSTANT) for name in ("created_at", "updated_at", "event_time")),
        *((name, _INSTANT) for name in ("expires_at", "last_accessed_at")),
        ("metadata", pa.string()),
        ("passage", pa.string()),
    ]
)
_EXPLAINED: dict[str, Any] = {"rank": int, "id": str, **dict.fromkeys(PARTS, float), "text": str}


def _row(hit: Hit) -> dict[str, Any]:
    fields = {name: getattr(hit, name, None) for name in _SCHEMA.names}
    return {
        **fields,
        **asdict(hit.scope),
        "metadata": json.dumps(hit.metadata, ensure_ascii=False, sort_keys=True),
    }
