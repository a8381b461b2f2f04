"""decisions list, decisions show."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.decisions import DecisionRecord
from ailake.errors import NotFoundError

if TYPE_CHECKING:
    from ailake.memory import Memory

commands = typer.Typer(
    no_args_is_help=True, help="What the judge, reviewers and restore decided of memories, and why."
)

Decided = Annotated[
    str | None, typer.Option(help="create, skip, merge, modify, defer, keep or restore.")
]
Reason = Annotated[str | None, typer.Option(help="Only with this reason.")]
Since = Annotated[str | None, typer.Option(help="From this instant on, ISO 8601.")]
Limit = Annotated[int, typer.Option(help="At most so many, newest first.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.add_typer(commands, name="decisions")


@commands.command(name="list")
def list_(
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    decision: Decided = None,
    reason: Reason = None,
    since: Since = None,
    limit: Limit = 20,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show what was decided, newest first."""
    where: dict[str, Any] = {} if decision is None else {"decision": decision}
    if reason is not None:
        where["reason"] = reason
    if since is not None:
        where["decided_at"] = {"gte": o.instant(since, name="--since")}
    with o.opened_memory(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as memory:
        found = memory.decisions(where, limit=limit)
    if as_json:
        print_json(found)
        return
    rows = [(r.decided_at, r.decision, r.reason, r.memory_id, r.existing_id) for r in found]
    print_table("decisions", ("when", "decision", "reason", "memory", "existing"), rows)


@commands.command()
def show(
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="A memory, or a decision.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Explain what was decided of one memory: both texts, the rule, and the candidates."""
    named = [{name: memory_id} for name in ("decision_id", "memory_id", "absorbed_id")]
    with o.opened_memory(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as memory:
        found = memory.decisions({"OR": named})
        if not found:
            raise NotFoundError(f"no decision about {memory_id!r} in {memory.scope}")
        texts = _texts(memory, found)
    if as_json:
        print_json({"decisions": found, "texts": texts})
        return
    for one in found:
        _explain(one, texts)


def _texts(memory: "Memory", found: list[DecisionRecord]) -> dict[str, str]:
    """Return the texts of all memories that decisions name; what is gone has none."""
    ids = {one.memory_id for one in found} | {one.existing_id for one in found}
    ids |= {seen.id for one in found for seen in one.candidates}
    where = {"chunk_id": {"in": sorted(ids - {""})}, "state": {"ne": ""}}
    return {one.id: one.text for one in memory.list(where, limit=10_000)}


def _explain(one: DecisionRecord, texts: dict[str, str]) -> None:
    print_line(f"{one.decided_at:%Y-%m-%d %H:%M} {one.decision}: {one.reason}  [{one.id}]")
    by = f"by {one.decided_by}, version {one.rules_version or 'unknown'}, {one.seconds:.4f} s"
    print_line(f"   {by}" + (f", about {one.about}" if one.about else ""))
    print_line(f"   memory   {_named(one.memory_id, texts)}")
    if one.existing_id:
        print_line(f"   existing {_named(one.existing_id, texts)}")
    for seen in one.candidates:
        mark = " (grey)" if seen.id in one.grey else ""
        print_line(f"   {seen.score:.4f} {seen.mode}{mark} {_named(seen.id, texts)}")


def _named(memory_id: str, texts: dict[str, str]) -> str:
    return f"{texts.get(memory_id, '(gone)')}  [{memory_id}]"
