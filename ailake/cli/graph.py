"""graph neighbors, graph paths, graph show, graph export."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import plain, print_json, print_line, print_table
from ailake.core.entities import PLAIN_TYPE, EntityRef
from ailake.core.graph import GraphView
from ailake.core.records import Scope

commands = typer.Typer(
    no_args_is_help=True, help="The entity graph: which memories and facts mention what."
)


class Format(StrEnum):
    """A file format."""

    GRAPHML = "graphml"
    JSON = "json"


Names = Annotated[list[str], typer.Argument(help="Names of entities.")]
Kind = Annotated[str, typer.Option("--type", help="Their type, such as person or ticket.")]
Hops = Annotated[int, typer.Option("--max-hops", help="Over how many siblings, 1 to 3.")]
Limit = Annotated[int, typer.Option(help="At most so many nodes.")]
As = Annotated[Format, typer.Option("--format", help="Of the file; graphml needs an extra.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.add_typer(commands, name="graph")


@commands.command()
def neighbors(
    names: Names,
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    kind: Kind = PLAIN_TYPE,
    max_hops: Hops = 1,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """List the facts of entities, and of what these facts mention, too."""
    seeds = [EntityRef(kind, name) for name in names]
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        found = opened.graph().neighbors(Scope(agent, user, project), seeds, max_hops=max_hops)
    if as_json:
        print_json(found)
        return
    for fact_id in found or ["nothing mentions them"]:
        print_line(fact_id)


@commands.command()
def paths(
    names: Names,
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    kind: Kind = PLAIN_TYPE,
    max_hops: Hops = 1,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show how the walk comes to each mention that it passes."""
    seeds = [EntityRef(kind, name) for name in names]
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        found = opened.graph().recall_paths(Scope(agent, user, project), seeds, max_hops=max_hops)
    if as_json:
        print_json([[_hop(hop.entity, hop.fact_id) for hop in path.hops] for path in found])
        return
    for path in found:
        print_line(str(path))


@commands.command()
def show(
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    limit: Limit = 50,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show the entities that most is said of, each with its facts."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        view = opened.graph().subgraph(Scope(agent, user, project), limit)
    if as_json:
        print_json(view)
        return
    labels = {node.id: node.label for node in view.nodes}
    rows = [(labels[e.source], e.kind, labels[e.target], e.count) for e in view.edges]
    print_table("edges", ("from", "kind", "to", "count"), rows)
    if view.truncated:
        print_line("there is more: --limit")


@commands.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where to; it must not be there yet.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    limit: Limit = 100_000,
    as_format: As = Format.GRAPHML,
    storage_option: o.StorageOption = None,
) -> None:
    """Write a scope's graph to a file, for other programs."""
    if file.exists():
        raise typer.BadParameter(f"{file} is there already")
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        view = opened.graph().subgraph(Scope(agent, user, project), limit)
    _write(view, file, as_format)
    print_line(f"{len(view.nodes)} nodes, {len(view.edges)} edges in {file}")
    if view.truncated:
        print_line("there is more: --limit")


def _write(view: GraphView, file: Path, as_format: Format) -> None:
    if as_format is Format.GRAPHML:
        from ailake.core.graph_export import write_graphml  # noqa: PLC0415 (brings pyarrow)

        write_graphml(view, file)
        return
    file.write_text(json.dumps(plain(view), ensure_ascii=False), encoding="utf-8")


def _hop(entity: EntityRef, fact_id: str) -> dict[str, str]:
    return {"entity": entity.name, "type": entity.type, "fact_id": fact_id}
