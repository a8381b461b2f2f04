"""index."""

from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from ailake.maintenance import IndexedTable, IndexReport


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(index)


def index(
    *,
    lake: o.LakeUri,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build anew what is there and good enough, too.")
    ] = False,
    recall: Annotated[
        float, typer.Option(help="Share of the nearest that a search of the index is to list.")
    ] = 0.99,
    dry_run: o.DryRun = False,
    progress: Annotated[bool, typer.Option(help="Show a bar on standard error.")] = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Build the indexes of vectors that large scopes need, and measure their recall."""
    from ailake import IndexPolicy  # noqa: PLC0415

    policy = IndexPolicy(recall=recall)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import IndexJob  # noqa: PLC0415

        job = IndexJob(opened, policy=policy, rebuild=rebuild)
        report = job.run(dry_run=dry_run, progress=progress and not as_json)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: "IndexReport") -> None:
    title = "indexes of vectors (dry run)" if report.dry_run else "indexes of vectors"
    headers = ("table", "done", "kind", "rows", "largest scope", "recall", "MiB", "seconds")
    print_table(title, headers, [_row(done) for done in report.tables])
    for done in report.tables:
        for missed in done.missed:
            print_line(
                f"{done.table}: {missed.kind} listed {missed.recall:.4f} of the nearest, which is "
                "too few; it is gone"
            )


def _row(done: "IndexedTable") -> tuple[object, ...]:
    recall = "" if done.recall is None else done.recall
    return (
        done.table, done.action, done.kind or "none", done.rows, done.scope_rows, recall,
        done.bytes / 2**20, done.seconds,
    )  # fmt: skip
