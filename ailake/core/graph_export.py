"""What libraries of graphs do with mentions: personalised PageRank, and files in GraphML.

They come with the extra ``graph``; each is imported where it is used.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from ailake.core.entities import EntityRef
from ailake.core.graph import GraphView
from ailake.core.graph_walk import ScopeGraph
from ailake.errors import MissingExtraError

# XML 1.0 can't hold these at all.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

_NODE_TEXTS = ("name", "kind", "label", "type", "text")

# Entities that at most so many facts mention are a beginning, however few facts there are.
FEW = 10


def ranked_facts(
    graph: ScopeGraph, seeds: Iterable[EntityRef], *, damping: float, max_share: float = 1.0
) -> list[tuple[str, float]]:
    """Return facts with their PageRank, personalised on entities, the highest first.

    A walk goes from entity to fact and back over mentions, and begins anew at one of the seeds
    with the probability ``1 - damping``; a fact's rank is how often the walk is there. Equal ones
    stand in the order of ``neighbors``. Seeds that are not known have none, and neither have those
    that more than 10 facts and more than ``max_share`` of all mention.

    Source: Page et al., "The PageRank Citation Ranking", 1999, section 6.
    """
    library = _library("PageRank over the entity graph")
    entities, counts = len(graph.entity_ids), graph.mentioning.counts
    known = graph.places(seeds)
    starts = known[counts[known] <= max(FEW, max_share * len(graph.facts))].tolist()
    if not starts:
        return []
    sources = np.repeat(np.arange(entities), counts)
    targets = graph.mentioning.targets + entities
    edges = zip(sources.tolist(), targets.tolist(), strict=True)
    walk = library.PyDiGraph()
    walk.add_nodes_from(range(entities + len(graph.facts)))
    walk.extend_from_edge_list([one for a, b in edges for one in ((a, b), (b, a))])
    begin = dict.fromkeys(starts, 1.0)
    # Begun there as well: what no walk comes to is nothing, and not nearly nothing.
    found = library.pagerank(walk, alpha=damping, personalization=begin, nstart=begin)
    ranks = np.array([found[entities + place] for place in range(len(graph.facts))])
    order = np.lexsort((np.arange(len(ranks)), -ranks))
    return [(graph.facts[place], float(ranks[place])) for place in order.tolist() if ranks[place]]


def write_graphml(view: GraphView, path: str | PathLike[str]) -> None:
    """Write a view in GraphML: nodes with kind, label, type and text, edges with kind and count.

    Raises:
        MissingExtraError: The ``graph`` extra is not installed.
        OSError: The file can't be written.
    """
    library = _library("GraphML")
    # The library's own error does not name the file.
    Path(path).touch()
    made = library.PyDiGraph()
    places: dict[str, int] = {}
    for node in view.nodes:
        text = view.texts.get(node.id, "")
        told = map(_in_xml, (node.id, node.kind.value, node.label, node.type, text))
        places[node.id] = made.add_node(dict(zip(_NODE_TEXTS, told, strict=True)))
    for edge in view.edges:
        weight = {"kind": edge.kind.value, "count": edge.count}
        made.add_edge(places[edge.source], places[edge.target], weight)
    library.write_graphml(made, fspath(path), keys=_keys(library))


def _keys(library: Any) -> list[Any]:
    """Return the attributes of nodes and edges, whose ids the library would use twice."""
    domain, types = library.GraphMLDomain, library.GraphMLType
    node = [(domain.Node, name, types.String) for name in _NODE_TEXTS]
    keys = [*node, (domain.Edge, "kind", types.String), (domain.Edge, "count", types.Long)]
    return [
        library.GraphMLKey(f"d{place}", where, name, kind, None)
        for place, (where, name, kind) in enumerate(keys)
    ]


def _in_xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _library(what: str) -> Any:
    if find_spec("rustworkx") is None:
        raise MissingExtraError.of(what, extra="graph")
    import rustworkx  # noqa: PLC0415 (an extra)

    return rustworkx
