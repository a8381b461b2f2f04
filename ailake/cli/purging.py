"""purge."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.lake import Lake
    from ailake.maintenance import PurgeReport

# What has to be typed where --yes is not given.
WORD = "purge"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(purge)


def purge(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Memories; none: all of the scope.")
    ] = None,
    *,
    lake: o.LakeUri,
    agent: Annotated[
        str | None, typer.Option("--agent", envvar="AILAKE_AGENT", help="Owner of the memories.")
    ] = None,
    user: o.User = "",
    project: o.Project = "",
    confirm_tag: Annotated[
        list[str] | None,
        typer.Option("--confirm-tag", help="A tag that may be deleted with it, repeatable."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: Annotated[bool, typer.Option(help="Show a bar on standard error.")] = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Erase a scope or memories from every file of the lake; nothing brings them back."""
    if as_json and not (yes or dry_run):
        raise InvalidInputError("purge: --json can't ask, give --yes or --dry-run, too")
    terms = _terms(ids, agent, user, project) | {"confirm_tags": confirm_tag or ()}
    instant = o.instant(now, name="--now")
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import PurgeJob  # noqa: PLC0415

        job = PurgeJob(opened, **terms)
        if not (yes or dry_run):
            _print(job.run(instant, dry_run=True))
            _ask(opened)
        report = job.run(instant, dry_run=dry_run, progress=progress and not as_json)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _terms(ids: list[str] | None, agent: str | None, user: str, project: str) -> dict[str, Any]:
    from ailake.core.records import Scope  # noqa: PLC0415

    if agent is None and (user or project):
        raise InvalidInputError("purge: --user and --project want --agent, too")
    scope = None if agent is None else Scope(agent, user, project)
    return {"scope": scope, "ids": ids or None}


def _ask(lake: "Lake") -> None:
    typed = typer.prompt(f"Type '{WORD}' to erase it from {lake.uri}", err=True)
    if typed != WORD:
        raise InvalidInputError.of("purge", got=typed, wanted=f"{WORD!r}; nothing was changed")


def _print(report: "PurgeReport") -> None:
    what = "purge (dry run)" if report.dry_run else "purge"
    headers = ("table", "rows", "fragments", "indexes", "versions", "files")
    rows = [
        (t.table, t.rows, t.fragments, len(t.indexes), t.versions, t.files) for t in report.tables
    ]
    print_table(what, headers, rows)
    if report.ids and not report.rows:
        print_line("no table has a row of these ids: mistyped, or erased before")
    if report.tags:
        print_line(f"tags that hold some of it: {', '.join(report.tags)}")
    if report.damaged:
        print_line(f"unreadable pieces of the log: {', '.join(report.damaged)}")
