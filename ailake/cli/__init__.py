"""The command line. Its modules import the engine only inside commands, so help stays quick."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from ailake.cli import (
    backups,
    decisions,
    facts,
    graph,
    indexing,
    ingest,
    ledger,
    maintaining,
    memories,
    operations,
    purging,
    reembedding,
    reviewing,
    samples,
    scheduling,
)
from ailake.cli.output import print_error, print_line
from ailake.errors import AilakeError, InvalidInputError

DONE, FAILED, BAD_USAGE = 0, 1, 2

app = typer.Typer(
    name="ailake",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def ailake(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Episodic memory for AI agents, in plain Lance tables."""
    if version:
        print_line(metadata.version("ailake-memory"))
        raise typer.Exit(DONE)


_GROUPS = (
    samples, memories, facts, ingest, operations, indexing, maintaining, reviewing, purging,
    reembedding, backups, ledger, decisions, graph, scheduling,
)  # fmt: skip

for module in _GROUPS:
    module.register(app)


def main() -> None:
    """Run the command line: exit 0 when done, 1 when it failed, 2 on bad usage."""
    try:
        app()
    except InvalidInputError as error:
        print_error(error)
        sys.exit(BAD_USAGE)
    except (AilakeError, OSError, RuntimeError) as error:  # RuntimeError is the engine's
        print_error(error)
        sys.exit(FAILED)
