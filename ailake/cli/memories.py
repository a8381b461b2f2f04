"""remember, recall, list, get, forget."""

from typing import Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_explained, print_json, print_line, print_table
from ailake.core.records import MemoryRecord
from ailake.errors import InvalidInputError

# Ids that forget shows to people.
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(remember)
    app.command()(recall)
    app.command(name="list")(list_memories)
    app.command()(get)
    app.command()(forget)


def remember(
    text: Annotated[str, typer.Argument(help="What to remember.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    session: Annotated[str, typer.Option(help="Conversation it was made in.")] = "",
    importance: Annotated[float, typer.Option(help="In [0, 1]; never decays.")] = 0.5,
    speaker: Annotated[str, typer.Option(help="Author's name.")] = "",
    role: Annotated[str, typer.Option(help="user, assistant, system or tool.")] = "user",
    kind: Annotated[str, typer.Option(help="Your own category.")] = "",
    memory_id: Annotated[str | None, typer.Option("--id", help="Makes it idempotent.")] = None,
    event_time: Annotated[str | None, typer.Option(help="When it happened, ISO 8601.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it lapses, ISO 8601.")] = None,
    metadata: Annotated[str | None, typer.Option(help="Your own fields, a JSON object.")] = None,
    entity: Annotated[
        list[str] | None, typer.Option(help="What it mentions, such as Ben:person; repeatable.")
    ] = None,
    judge: Annotated[bool, typer.Option(help="Skip what is there already.")] = True,
    now: o.Now = None,
    embedder: o.Embedder = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Store one memory; makes the lake where there is none."""
    with o.opened_memory(
        lake, agent, user=user, project=project, session=session, embedder=embedder,
        storage_options=storage_option, create=True,
    ) as memory:  # fmt: skip
        outcome = memory.remember(
            text,
            importance=importance,
            speaker=speaker,
            role=role,
            kind=kind,
            id=memory_id,
            event_time=o.instant(event_time, name="--event-time"),
            expires_at=o.instant(expires_at, name="--expires-at"),
            metadata=o.json_object(metadata, name="--metadata"),
            entities=[o.entity(one) for one in entity or ()],
            judge=judge,
            now=o.instant(now, name="--now"),
        )
    if as_json:
        print_json(outcome)
    else:
        print_line(f"{outcome.decision}: {outcome.id} ({outcome.reason})")


def recall(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    limit: Annotated[int, typer.Option(help="Number of hits.")] = 10,
    where: o.Where = None,
    mode: Annotated[str, typer.Option(help="hybrid, vector or text.")] = "hybrid",
    session: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    max_distance: Annotated[float | None, typer.Option(help="Nothing farther than this.")] = None,
    touch: Annotated[bool, typer.Option(help="Count the hits as accesses.")] = True,
    explain: Annotated[bool, typer.Option(help="Show every part of the scores.")] = False,
    now: o.Now = None,
    embedder: o.Embedder = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Return the memories that matter most for a query, best first."""
    with o.opened_memory(
        lake, agent, user=user, project=project, embedder=embedder, storage_options=storage_option
    ) as memory:
        hits = memory.recall(
            query,
            limit=limit,
            where=o.filter_option(where),
            mode=mode,
            session_id=session,
            max_distance=max_distance,
            touch=touch,
            now=o.instant(now, name="--now"),
        )
    if as_json:
        print_json({"exact": hits.exact, "scored": hits.scored, "hits": hits.items})
    elif explain:
        print_explained(query, hits)
    else:
        rows = [(h.score, h.event_time or h.created_at, h.speaker, h.passage, h.id) for h in hits]
        print_table(query, ("score", "when", "speaker", "text", "id"), rows)


def list_memories(
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    where: o.Where = None,
    limit: Annotated[int, typer.Option(help="Length of the page.")] = 20,
    offset: Annotated[int, typer.Option(help="Memories to pass over.")] = 0,
    newest_first: Annotated[bool, typer.Option("--newest-first")] = False,
    now: o.Now = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show a page of memories, in the order in which they were written."""
    with o.opened_memory(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as memory:
        instant = o.instant(now, name="--now")
        asked = o.filter_option(where)
        page = memory.list(
            asked, limit=limit, offset=offset, newest_first=newest_first, now=instant
        )
        total = memory.count(asked, now=instant)
    if as_json:
        print_json({"count": total, "memories": page})
    else:
        rows = [(m.event_time or m.created_at, m.speaker, m.kind, m.text, m.id) for m in page]
        title = f"{len(page)} of {total} memories"
        print_table(title, ("when", "speaker", "kind", "text", "id"), rows)


def get(
    memory_id: Annotated[str, typer.Argument(metavar="ID")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show one memory, whatever its state."""
    with o.opened_memory(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as memory:
        found = memory.get(memory_id)
    if as_json:
        print_json(found)
    else:
        names = MemoryRecord.__dataclass_fields__
        print_table(memory_id, ("field", "value"), [(n, getattr(found, n)) for n in names])


def forget(
    memory_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...")] = None,
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    where: o.Where = None,
    older_than_days: Annotated[float | None, typer.Option(help="Age of the event.")] = None,
    dry_run: o.DryRun = False,
    now: o.Now = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Remove memories; the terms are ANDed. Try --dry-run first."""
    from datetime import timedelta  # noqa: PLC0415

    if older_than_days is not None and not 0 <= older_than_days <= 365_000:
        raise InvalidInputError.of(
            "--older-than-days", got=older_than_days, wanted="a number from 0 to 365,000"
        )
    with o.opened_memory(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as memory:
        report = memory.forget(
            memory_ids or None,
            where=o.filter_option(where),
            older_than=None if older_than_days is None else timedelta(days=older_than_days),
            dry_run=dry_run,
            now=o.instant(now, name="--now"),
        )
    if as_json:
        print_json(
            {
                "count": report.count,
                **{n: getattr(report, n) for n in ("ids", "missing", "dry_run")},
            }
        )
    else:
        print_line(f"{'would forget' if dry_run else 'forgot'} {report.count} memories")
        for memory_id in report.ids[:_SHOWN]:
            print_line(f"  {memory_id}")
        if report.count > _SHOWN:
            print_line(f"  … and {report.count - _SHOWN} more (--json names all)")
        for memory_id in report.missing:
            print_line(f"not found: {memory_id}")
