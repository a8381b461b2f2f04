"""The entity graph's values: what mentions which entities, and what a walk over them returns.

A fact is here whatever mentions entities: a memory, or a fact of ``lake.facts``, by its id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from ailake.core.entities import EntityRef, check_short_text, entity_of
from ailake.core.instants import as_utc
from ailake.core.records import is_encodable
from ailake.errors import InvalidInputError

MAX_HOPS = 3


def known_epoch() -> datetime:
    """Return the instant that marks what has always been known: 1970-01-01 UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A fact and the entities that it mentions.

    Attributes:
        fact_id: Id of the memory or the fact.
        entities: What it mentions, each a string (a ``concept``) or an ``EntityRef``; empty where
            nothing is to be indexed.
        text: What it says, for views of the graph.
        valid_from: Since when it holds, timezone-aware; None: since it is recorded.

    Raises:
        InvalidInputError: A field is wrong; the message names the fact.
    """

    fact_id: str
    entities: Sequence[str | EntityRef]
    text: str = ""
    valid_from: datetime | None = None
    refs: tuple[EntityRef, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fact_id(self.fact_id)
        try:
            object.__setattr__(self, "refs", entity_refs(self.entities))
            check_text(self.text)
            if self.valid_from is not None:
                at = as_utc(self.valid_from, name="valid_from")
                object.__setattr__(self, "valid_from", at)
        except InvalidInputError as error:
            raise InvalidInputError(f"entry {self.fact_id!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class PathHop:
    """One step: an entity, and the fact that mentions it.

    Attributes:
        chain_entry: Id of the ledger's entry that recorded it, None where there is none.
    """

    entity: EntityRef
    fact_id: str
    chain_entry: str | None = None


@dataclass(frozen=True, slots=True)
class RetrievalPath:
    """How a walk came to a fact: from an entity that was asked for to one that it mentions.

    Neighbouring hops share a fact: the entity of the next is mentioned by the fact of the one
    before.
    """

    hops: tuple[PathHop, ...]

    def __str__(self) -> str:
        return " > ".join(f"{hop.entity.name} > {hop.fact_id}" for hop in self.hops)

    @property
    def fact_id(self) -> str:
        """The fact that the path leads to."""
        return self.hops[-1].fact_id


class NodeKind(StrEnum):
    """What a node of a view is."""

    ENTITY = "entity"
    FACT = "fact"


class EdgeKind(StrEnum):
    """What an edge of a view says."""

    MENTIONED_IN = "MENTIONED_IN"
    CO_OCCURS = "CO_OCCURS"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a view.

    Attributes:
        id: The fact's id, or the entity's.
        kind: Which of the two.
        label: An entity's name; of a fact its id.
        type: An entity's type; of a fact empty.
    """

    id: str
    kind: NodeKind
    label: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge of a view: entity to fact, or entity to entity.

    Attributes:
        count: In how many facts both entities are; 1 for a mention.
    """

    source: str
    target: str
    kind: EdgeKind
    count: int = 1


@dataclass(frozen=True, slots=True)
class GraphView:
    """A bounded part of a scope's graph.

    Attributes:
        edges: All between nodes of the view.
        texts: Of the facts in the view, by id; those without a text are left out.
        truncated: The graph has more nodes.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    texts: Mapping[str, str]
    truncated: bool


def entity_refs(entities: object) -> tuple[EntityRef, ...]:
    """Return entities as references, each once, in order.

    Raises:
        InvalidInputError: Not a sequence of strings and ``EntityRef``s; the message tells which.
    """
    if isinstance(entities, str | bytes | EntityRef | Mapping) or not isinstance(
        entities, Sequence
    ):
        wanted = "a list of strings and EntityRefs"
        raise InvalidInputError.of("entities", got=entities, wanted=wanted)
    named = (entity_of(one, name=f"entities[{place}]") for place, one in enumerate(entities))
    return tuple({ref.key: ref for ref in reversed(list(named))}.values())[::-1]


def check_fact_id(fact_id: object) -> str:
    """Return the id of what mentions entities.

    Raises:
        InvalidInputError: It is no text, or empty.
    """
    check_short_text(fact_id, name="fact_id")
    if not str(fact_id).strip():
        raise InvalidInputError.of("fact_id", got=fact_id, wanted="the id of a memory or a fact")
    return str(fact_id)


def check_text(text: object) -> str:
    """Return what a fact says.

    Raises:
        InvalidInputError: It is no text that UTF-8 can encode.
    """
    if not isinstance(text, str) or not is_encodable(text):
        raise InvalidInputError.of("text", got=text, wanted="text that UTF-8 can encode")
    return text


def check_hops(max_hops: object) -> int:
    """Return over how many siblings a walk may go.

    Raises:
        InvalidInputError: Not 1, 2 or 3.
    """
    if isinstance(max_hops, bool) or not isinstance(max_hops, int) or not 1 <= max_hops <= MAX_HOPS:
        raise InvalidInputError.of("max_hops", got=max_hops, wanted=f"1 to {MAX_HOPS}")
    return max_hops


def check_hits(least: object) -> int:
    """Return how many hits the graph must have.

    Raises:
        InvalidInputError: No whole number from 1 on.
    """
    return _whole(least, name="min_graph_hits", from_=1)


def check_nodes(limit: object) -> int:
    """Return how many nodes a view may have.

    Raises:
        InvalidInputError: No whole number from 0 on.
    """
    return _whole(limit, name="limit", from_=0)


def _whole(value: object, *, name: str, from_: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < from_:
        raise InvalidInputError.of(name, got=value, wanted=f"a whole number from {from_} on")
    return value
