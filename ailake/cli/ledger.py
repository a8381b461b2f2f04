"""ledger verify, ledger head, ledger list."""

from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.chain import LedgerHead
from ailake.core.records import ChainScope, LakeScope, Scope
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.core.chain import BrokenEntry

commands = typer.Typer(
    no_args_is_help=True, help="The provenance ledger: what happened, as hash chains."
)

AnyAgent = Annotated[
    str | None,
    typer.Option("--agent", envvar="AILAKE_AGENT", help="Only this scope; default: all."),
]
Everything = Annotated[bool, typer.Option("--all", help="All scopes, whatever --agent says.")]
Owner = Annotated[
    str | None, typer.Option("--agent", envvar="AILAKE_AGENT", help="Owner of the memory.")
]
Runs = Annotated[
    bool,
    typer.Option("--runs", help="The lake's own chain, of runs of jobs, whatever --agent says."),
]
Head = Annotated[
    str | None,
    typer.Option("--head", help="SEQUENCE:HASH, as ledger head printed it some time ago."),
]
Subject = Annotated[str | None, typer.Option("--subject", help="Only what happened to this id.")]
Start = Annotated[int, typer.Option(help="First place in the chain.")]
Limit = Annotated[int, typer.Option(help="At most so many places.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.add_typer(commands, name="ledger")


@commands.command()
def verify(
    *,
    lake: o.LakeUri,
    agent: AnyAgent = None,
    user: o.User = "",
    project: o.Project = "",
    runs: Runs = False,
    everything: Everything = False,
    head: Head = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Check the chains, and name the first entry that does not hold; exit 1 where one does not."""
    is_one = not everything and (runs or agent is not None)
    scope = _scope(agent, user, project, runs=runs) if is_one else None
    pinned = None if head is None else _head(scope, head)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        broken = opened.ledger().verify(scope, head=pinned)
    if as_json:
        print_json({"holds": not broken, "broken": broken})
    else:
        _print_broken(broken)
    if broken:
        raise typer.Exit(1)


@commands.command()
def head(
    *,
    lake: o.LakeUri,
    agent: Owner = None,
    user: o.User = "",
    project: o.Project = "",
    runs: Runs = False,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Print the place and hash of a chain's last entry, to be kept elsewhere."""
    scope = _scope(agent, user, project, runs=runs)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        found = opened.ledger().head(scope)
    if as_json:
        print_json(found)
    elif found is None:
        print_line("no entry yet")
    else:
        print_line(f"{found.sequence}:{found.hash}")


@commands.command(name="list")
def list_(
    *,
    lake: o.LakeUri,
    agent: Owner = None,
    user: o.User = "",
    project: o.Project = "",
    runs: Runs = False,
    subject: Subject = None,
    start: Start = 0,
    limit: Limit = 100,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show the entries of a chain, in its order."""
    scope = _scope(agent, user, project, runs=runs)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        entries = opened.ledger().entries(scope, subject_id=subject, start=start, limit=limit)
    if as_json:
        print_json(entries)
        return
    rows = [(e.sequence, e.timestamp, e.event, e.subject_id, e.hash[:16]) for e in entries]
    print_table("ledger", ("sequence", "when", "event", "subject", "hash"), rows)


def _scope(agent: str | None, user: str, project: str, *, runs: bool) -> ChainScope:
    if runs:
        return LakeScope()
    if agent is None:
        raise InvalidInputError("got neither --agent nor --runs, wanted whose chain it is")
    return Scope(agent, user, project)


def _head(scope: ChainScope | None, text: str) -> LedgerHead:
    sequence, _, digest = text.partition(":")
    if scope is None:
        raise InvalidInputError("--head: got no --agent, wanted the scope whose head it is")
    if not (sequence.isascii() and sequence.isdigit()):
        raise InvalidInputError.of("--head", got=text, wanted="SEQUENCE:HASH")
    return LedgerHead(scope, int(sequence), digest)


def _print_broken(broken: "tuple[BrokenEntry, ...]") -> None:
    for one in broken:
        named = f"entry {one.sequence}" + (f" ({one.id})" if one.id else "")
        print_line(f"broken: {one.scope}, {named}: {one.reason}")
    if not broken:
        print_line("the ledger holds")
