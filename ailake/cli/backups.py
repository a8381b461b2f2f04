"""backup, restore."""

from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from ailake.backup import BackupReport

ToStorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to-storage-option",
        help="key=value for the object store of the new place, repeatable; default: the same.",
    ),
]
FromStorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", help="key=value for the object store of SOURCE, repeatable."),
]
Progress = Annotated[bool, typer.Option(help="Show a bar on standard error.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(backup)
    app.command()(restore)


def backup(
    uri: Annotated[str, typer.Argument(help="New or empty folder or s3://bucket/prefix.")],
    *,
    lake: o.LakeUri,
    progress: Progress = False,
    storage_option: o.StorageOption = None,
    to_storage_option: ToStorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Copy the whole lake to a new place while others write; the copy is a lake of its own."""
    to_options = _to_options(to_storage_option)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        report = opened.backup(uri, storage_options=to_options, progress=progress)
    _print("backup", report, as_json=as_json)


def restore(
    source: Annotated[str, typer.Argument(help="The backup: folder or s3://bucket/prefix.")],
    *,
    lake: Annotated[
        str,
        typer.Option("--lake", envvar="AILAKE_URI", help="New or empty place to restore it to."),
    ],
    progress: Progress = False,
    storage_option: FromStorageOption = None,
    to_storage_option: ToStorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Copy a backup to a new or empty place; the backup stays as it is."""
    from ailake import restore_lake  # noqa: PLC0415

    report = restore_lake(
        source,
        lake,
        storage_options=o.pairs(storage_option or []),
        to_storage_options=_to_options(to_storage_option),
        progress=progress,
    )
    _print("restore", report, as_json=as_json)


def _to_options(given: list[str] | None) -> dict[str, str] | None:
    return None if given is None else o.pairs(given, name="--to-storage-option")


def _print(title: str, report: "BackupReport", *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    headers = ("table", "version", "rows", "files", "MiB")
    rows = [(t.name, t.version, t.rows, t.files, t.bytes / 2**20) for t in report.tables]
    print_table(f"{title} of {report.source}", headers, rows)
    if report.skipped:
        print_line(f"left out, as none of the lake's: {', '.join(report.skipped)}")
    print_line(f"{report.target}: {report.files} files in {report.seconds:.2f} seconds")
