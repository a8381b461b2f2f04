"""ledger verify, ledger head, ledger list."""

from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.chain import LedgerHead
from ailake.core.records import Scope
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.core.chain import BrokenEntry

commands = typer.Typer(
    no_args_is_help=True, help="The provenance ledger: what happened to memories, as a hash chain."
)

AnyAgent = Annotated[
    str | None,
    typer.Option("--agent", envvar="AILAKE_AGENT", help="Only this scope; default: all."),
]
Everything = Annotated[bool, typer.Option("--all", help="All scopes, whatever --agent says.")]
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
    everything: Everything = False,
    head: Head = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Check the chains, and name the first entry that does not hold; exit 1 where one does not."""
    scope = None if agent is None or everything else Scope(agent, user, project)
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
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Print the place and hash of a chain's last entry, to be kept elsewhere."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        found = opened.ledger().head(Scope(agent, user, project))
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
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    subject: Subject = None,
    start: Start = 0,
    limit: Limit = 100,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show the entries of a chain, in its order."""
    scope = Scope(agent, user, project)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        entries = opened.ledger().entries(scope, subject_id=subject, start=start, limit=limit)
    if as_json:
        print_json(entries)
        return
    rows = [(e.sequence, e.timestamp, e.event, e.subject_id, e.hash[:16]) for e in entries]
    print_table("ledger", ("sequence", "when", "event", "subject", "hash"), rows)


def _head(scope: Scope | None, text: str) -> LedgerHead:
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
