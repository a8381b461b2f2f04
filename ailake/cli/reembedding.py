"""reembed."""

from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line

if TYPE_CHECKING:
    from ailake.maintenance import ReembedReport


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(reembed)


def reembed(
    *,
    lake: o.LakeUri,
    embedder: Annotated[
        str,
        typer.Option("--embedder", help="local, local-e5, hashing or lancedb:<function>:<model>."),
    ],
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Texts that are embedded at once.")
    ] = 256,
    dry_run: o.DryRun = False,
    progress: Annotated[bool, typer.Option(help="Show a bar on standard error.")] = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Make all vectors anew with another embedder; run again, it goes on where it was killed."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import ReembedJob  # noqa: PLC0415

        job = ReembedJob(opened, embedder=embedder, batch_size=batch_size)
        report = job.run(dry_run=dry_run, progress=progress and not as_json)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: "ReembedReport") -> None:
    what = "reembed (dry run)" if report.dry_run else "reembed"
    print_line(
        f"{what}: {report.rows} memories from {report.embedder_before} ({report.dim_before} "
        f"dimensions) to {report.embedder_after} ({report.dim_after}), {report.embedded} texts "
        f"embedded, {report.mended} of late memories"
    )
