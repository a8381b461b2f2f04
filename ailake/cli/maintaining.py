"""compact, prune, maintain."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.operations import Preset, recency_option
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.compaction import CompactionPolicy
from ailake.core.episodic import ScoringPolicy
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.maintenance import CompactionReport, MaintainReport, PruneReport


class Weighing(StrEnum):
    """Whose weight is compared: recall's by default, or recency x importance."""

    DEFAULT = "default"
    SEED = "seed"


_POLICIES = {Weighing.DEFAULT: ScoringPolicy(), Weighing.SEED: ScoringPolicy.SEED}

MinWeight = Annotated[
    float | None, typer.Option("--min-weight", help="Remove what weighs less, in [0, 1].")
]
Keep = Annotated[
    int | None, typer.Option("--keep", help="Keep the best so many of each scope at most.")
]
Policy = Annotated[
    Weighing,
    typer.Option(help="default: as recall weighs, from 0.4975 on; seed: recency x importance."),
]
KeepVersions = Annotated[
    float, typer.Option("--keep-versions", help="Days; younger versions and tagged ones stay.")
]
Progress = Annotated[bool, typer.Option(help="Show a bar on standard error.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(maintain)
    app.command()(compact)
    app.command()(prune)


def compact(
    *,
    lake: o.LakeUri,
    target_rows: Annotated[
        int, typer.Option("--target-rows", help="Merge smaller fragments up to so many rows.")
    ] = CompactionPolicy().target_rows,
    keep_versions: KeepVersions = 7.0,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: Progress = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Merge small fragments, leave deleted rows out, and remove old versions and stray files."""
    policy = CompactionPolicy(target_rows=target_rows, keep_versions=_days(keep_versions))
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import CompactionJob  # noqa: PLC0415

        report = CompactionJob(opened, policy=policy).run(
            o.instant(now, name="--now"), dry_run=dry_run, progress=progress and not as_json
        )
    if as_json:
        print_json(report)
    else:
        _print_compaction(report)


def prune(
    *,
    lake: o.LakeUri,
    min_weight: MinWeight = None,
    keep: Keep = None,
    policy: Policy = Weighing.DEFAULT,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: Progress = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Remove what has expired, and by choice what weighs little or is too much of a scope."""
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import ForgetJob  # noqa: PLC0415

        job = ForgetJob(opened, min_weight=min_weight, keep=keep, scoring=_POLICIES[policy])
        report = job.run(
            o.instant(now, name="--now"), dry_run=dry_run, progress=progress and not as_json
        )
    if as_json:
        print_json(report)
    else:
        _print_prune(report)


def maintain(
    *,
    lake: o.LakeUri,
    curve: Annotated[Preset | None, typer.Option(help="Forgetting curve; default: weekly.")] = None,
    half_life: Annotated[float | None, typer.Option(help="Half-life in days, instead.")] = None,
    min_weight: MinWeight = None,
    keep: Keep = None,
    policy: Policy = Weighing.DEFAULT,
    keep_versions: KeepVersions = 7.0,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: Progress = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Decay, prune what has expired, compact and index, in one pass: what to run every night."""
    recency = recency_option(curve, half_life, None)
    compaction = CompactionPolicy(keep_versions=_days(keep_versions))
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import MaintainJob  # noqa: PLC0415

        job = MaintainJob(
            opened,
            recency=recency,
            min_weight=min_weight,
            keep=keep,
            scoring=_POLICIES[policy],
            compaction=compaction,
        )
        report = job.run(
            o.instant(now, name="--now"), dry_run=dry_run, progress=progress and not as_json
        )
    if as_json:
        print_json(report)
    else:
        _print_maintain(report)


def _days(days: float) -> timedelta:
    try:
        return timedelta(days=days)
    except (OverflowError, ValueError) as error:
        raise InvalidInputError.of("--keep-versions", got=days, wanted="days") from error


def _title(what: str, *, dry_run: bool) -> str:
    return f"{what} (dry run)" if dry_run else what


def _print_compaction(report: "CompactionReport") -> None:
    headers = (
        "table", "fragments", "then", "rewritten", "left", "indexes", "data MiB", "then",
        "versions gone", "files gone", "MiB in all", "then",
    )  # fmt: skip
    rows = [
        (
            t.table, t.fragments_before, t.fragments_after, len(t.rewrites), t.left,
            len(t.indexes), t.data_bytes_before / 2**20, t.data_bytes_after / 2**20,
            t.versions_removed, len(t.orphans_removed), t.bytes_before / 2**20,
            t.bytes_after / 2**20,
        )
        for t in report.tables
    ]  # fmt: skip
    print_table(_title("compaction", dry_run=report.dry_run), headers, rows)


def _print_prune(report: "PruneReport") -> None:
    counts = report.counts
    print_line(
        f"{_title('prune', dry_run=report.dry_run)}: {counts.total} of {report.looked_at} memories "
        f"looked at: {counts.expired} expired, {counts.below_weight} below the weight, "
        f"{counts.over_cap} over the cap, {counts.merged} merged into one of these; "
        f"{report.pinned} stay because they are pinned, {report.spared} because they changed"
    )
    headers = ("agent", "user", "project", "expired", "below weight", "over cap", "merged")
    rows = [
        (
            one.scope.agent_id, one.scope.user_id, one.scope.project_id, one.counts.expired,
            one.counts.below_weight, one.counts.over_cap, one.counts.merged,
        )
        for one in report.scopes
    ]  # fmt: skip
    if rows:
        print_table("by scope", headers, rows)


def _print_maintain(report: "MaintainReport") -> None:
    decay = report.decay
    print_line(
        f"{_title('decay', dry_run=report.dry_run)}: {decay.rows} rows, "
        f"{decay.fragments_written} of {decay.fragments} fragments written, "
        f"{decay.accesses_folded} memories with accesses folded in"
    )
    _print_prune(report.prune)
    _print_compaction(report.compaction)
    for table in report.indexes.tables:
        print_line(f"index of {table.table}: {table.action}, {table.kind or 'none'}")
