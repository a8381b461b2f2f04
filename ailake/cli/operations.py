"""decay, stats, schema, doctor."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.episodic import RecencyConfig
from ailake.core.schema import TABLES, contract
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.storage.measures import IndexStats


class Preset(StrEnum):
    """The named forgetting curves."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"


_PRESETS = {
    Preset.DAILY: RecencyConfig.DAILY_DECAY,
    Preset.WEEKLY: RecencyConfig.WEEKLY_DECAY,
    Preset.MONTHLY: RecencyConfig.MONTHLY_DECAY,
    Preset.QUARTERLY: RecencyConfig.QUARTERLY_DECAY,
}


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(decay)
    app.command()(stats)
    app.command()(scopes)
    app.command()(schema)
    app.command()(doctor)


def decay(
    *,
    lake: o.LakeUri,
    curve: Annotated[Preset | None, typer.Option(help="Forgetting curve; default: weekly.")] = None,
    half_life: Annotated[float | None, typer.Option(help="Half-life in days, instead.")] = None,
    rate: Annotated[float | None, typer.Option("--lambda", help="Rate per day, instead.")] = None,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: Annotated[bool, typer.Option(help="Show a bar on standard error.")] = False,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Bring the recency weights of all memories up to date, and fold pending accesses in."""
    recency = recency_option(curve, half_life, rate)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import MemoryDecayJob  # noqa: PLC0415

        job = MemoryDecayJob(opened, recency=recency)
        report = job.run(o.instant(now, name="--now"), dry_run=dry_run, progress=progress)
    if as_json:
        print_json(report)
    else:
        names = report.__dataclass_fields__
        rows = [(name.rstrip("_"), getattr(report, name)) for name in names]
        print_table("decay (dry run)" if dry_run else "decay", ("figure", "value"), rows)


def recency_option(
    curve: Preset | None, half_life: float | None, rate: float | None
) -> RecencyConfig:
    """Read the curve from those of the three options that were given."""
    if sum(given is not None for given in (curve, half_life, rate)) > 1:
        raise InvalidInputError(
            "got several of --curve, --half-life and --lambda, wanted one of them"
        )
    if half_life is not None:
        return RecencyConfig.from_half_life(half_life)
    return _PRESETS[curve or Preset.WEEKLY] if rate is None else RecencyConfig(rate)


def stats(
    *, lake: o.LakeUri, storage_option: o.StorageOption = None, as_json: o.AsJson = False
) -> None:
    """Show the size and shape of a lake."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        measured = opened.stats()
    if as_json:
        print_json(measured)
        return
    print_line(
        f"{measured.uri}: embedder {measured.embedder_id} ({measured.dim} dimensions), "
        f"{measured.scopes} scopes, {measured.pending_accesses} memories with pending accesses"
    )
    headers = (
        "table",
        "rows",
        "fragments",
        "small",
        "deleted",
        "MiB",
        "version",
        "kept",
        "indexes",
    )
    rows = [
        (
            t.name, t.rows, t.fragments, t.small_fragments, t.deleted_rows, t.bytes / 2**20,
            t.version, t.versions, len(t.indexes),
        )
        for t in measured.tables
    ]  # fmt: skip
    print_table("tables", headers, rows)
    _print_indexes([index for table in measured.tables for index in table.indexes])


def _print_indexes(indexes: "list[IndexStats]") -> None:
    headers = ("table", "index", "kind", "rows", "behind", "parts", "MiB", "recall")
    rows = [
        (
            i.table, i.name, i.kind, i.indexed_rows, i.unindexed_rows, i.segments, i.bytes / 2**20,
            "" if i.recall is None else i.recall,
        )
        for i in indexes
    ]  # fmt: skip
    print_table("indexes", headers, rows)


def schema(
    table: Annotated[str | None, typer.Argument(help="One table; default: all.")] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a JSON file per table into this folder.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Print the tables' contracts: names, types and meaning of every column."""
    contracts = [contract(name) for name in (sorted(TABLES) if table is None else [table])]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for found in contracts:
            file = out / f"{found['table']}.v{found['version']}.json"
            file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            print_line(str(file))
    elif as_json:
        print_json(contracts if table is None else contracts[0])
    else:
        for found in contracts:
            rows = [
                (c["name"], c["type"], "yes" if c["nullable"] else "no", c["meaning"])
                for c in found["columns"]
            ]
            title = f"{found['table']} v{found['version']}: {found['meaning']}"
            print_table(title, ("column", "type", "null", "meaning"), rows)


def doctor(
    *,
    lake: Annotated[
        str | None, typer.Option("--lake", envvar="AILAKE_URI", help="Also examine this lake.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend.")] = False,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Examine this machine, the installed packages and a lake; exit 1 where something is wrong."""
    from ailake.cli.diagnosis import Level, diagnose_lake, diagnose_machine  # noqa: PLC0415

    findings = diagnose_machine()
    if lake is not None and all(finding.level is not Level.ERROR for finding in findings):
        findings += diagnose_lake(lake, fix=fix, storage_options=storage_option)
    if as_json:
        print_json(findings)
    else:
        print_table("doctor", ("", "what", "found"), [(f.level, f.what, f.found) for f in findings])
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)


def scopes(
    *, lake: o.LakeUri, storage_option: o.StorageOption = None, as_json: o.AsJson = False
) -> None:
    """List the scopes that have memories, and how many rows each has."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        counted = opened.scope_counts()
    if as_json:
        print_json([{"scope": scope, "rows": rows} for scope, rows in counted.items()])
    else:
        headers = ("agent", "user", "project", "rows")
        rows = [(s.agent_id, s.user_id, s.project_id, count) for s, count in counted.items()]
        print_table("scopes", headers, rows)
