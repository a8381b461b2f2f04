"""facts assert, facts find, facts history, facts retract."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.entities import EntityRef
from ailake.core.fact_versions import Verifier
from ailake.core.reconcile import FactTriple
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ailake.facts import Facts

_SubjectType = Annotated[
    str | None, typer.Option("--subject-type", help="Its entity type; default: concept.")
]
_ObjectType = Annotated[
    str | None, typer.Option("--object-type", help="Its entity type; default: concept.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Facts that hold for a time, and what was known."
    )
    group.command(name="assert")(assert_fact)
    group.command()(find)
    group.command()(history)
    group.command()(retract)
    app.add_typer(group, name="facts")


@contextmanager
def _opened_facts(
    uri: str,
    agent: str,
    *,
    user: str,
    project: str,
    storage_options: list[str] | None,
    embedder: str | None = None,
    create: bool = False,
    verifier: Verifier = Verifier.LATEST_ASSERTION,
    multi_valued: tuple[str, ...] = (),
) -> "Iterator[Facts]":
    with o.opened_lake(
        uri, embedder=embedder, storage_options=storage_options, create=create
    ) as lake:
        yield lake.facts(
            agent, user_id=user, project_id=project, verifier=verifier, multi_valued=multi_valued
        )


def assert_fact(
    subject: Annotated[str, typer.Argument(help="What it is about.")],
    predicate: Annotated[str, typer.Argument(help="What is said of it, such as works_at.")],
    value: Annotated[str, typer.Argument(metavar="OBJECT", help="The value.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    valid_from: Annotated[str, typer.Option("--from", help="First instant, ISO 8601.")],
    valid_to: Annotated[str | None, typer.Option("--to", help="First instant after it.")] = None,
    subject_type: _SubjectType = None,
    object_type: _ObjectType = None,
    source: Annotated[str, typer.Option(help="Id of the memory it was taken from.")] = "",
    verifier: Annotated[
        Verifier, typer.Option(help="Which of two contradicting facts stays.")
    ] = Verifier.LATEST_ASSERTION,
    multi_valued: Annotated[
        bool, typer.Option("--multi-valued", help="Declare that several objects may hold at once.")
    ] = False,
    now: o.Now = None,
    embedder: o.Embedder = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Store one fact; makes the lake where there is none."""
    begins = o.instant(valid_from, name="--from")
    if begins is None:
        raise InvalidInputError.of("--from", got=valid_from, wanted="an instant")
    fact = FactTriple(
        _entity(subject, subject_type), predicate, _entity(value, object_type), begins,
        o.instant(valid_to, name="--to"), source_memory_id=source,
    )  # fmt: skip
    with _opened_facts(
        lake, agent, user=user, project=project, storage_options=storage_option,
        embedder=embedder, create=True, verifier=verifier,
        multi_valued=(predicate,) if multi_valued else (),
    ) as facts:  # fmt: skip
        (decision,) = facts.assert_([fact], now=o.instant(now, name="--now"))
    if as_json:
        print_json(decision)
    else:
        lost = f" (lost: {decision.loser_fact_id})" if decision.loser_fact_id else ""
        print_line(f"{decision.kind}: {decision.fact_id}{lost}")


def find(
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    subject: Annotated[str | None, typer.Option(help="Only of this entity.")] = None,
    subject_type: _SubjectType = None,
    predicate: Annotated[str | None, typer.Option(help="Only of this predicate.")] = None,
    as_of: Annotated[str | None, typer.Option(help="When it is to hold; default: now.")] = None,
    known_at: Annotated[str | None, typer.Option(help="As believed then; default: now.")] = None,
    now: o.Now = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show the facts that hold at one instant, as was believed at another."""
    if subject is None and subject_type is not None:
        raise InvalidInputError("--subject-type: it says what --subject is; give that, too")
    with _opened_facts(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as facts:
        found = facts.find(
            None if subject is None else _entity(subject, subject_type),
            predicate,
            as_of=o.instant(as_of, name="--as-of"),
            known_at=o.instant(known_at, name="--known-at"),
            now=o.instant(now, name="--now"),
        )
    if as_json:
        print_json(found)
    else:
        rows = [
            (_told(v.subject), v.predicate, _told(v.object), v.valid_from, v.valid_to or "open",
             v.recorded_at, v.fact_id)
            for v in found
        ]  # fmt: skip
        headers = ("subject", "predicate", "object", "from", "to", "recorded", "fact")
        print_table(f"{len(found)} facts", headers, rows)


def history(
    subject: Annotated[str, typer.Argument(help="What it is about.")],
    predicate: Annotated[str, typer.Argument(help="What is said of it.")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    subject_type: _SubjectType = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Show every version of a subject's facts, and who lost to whom and why."""
    with _opened_facts(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as facts:
        entries = facts.history(_entity(subject, subject_type), predicate)
    if as_json:
        print_json(entries)
    else:
        rows = [
            (_told(v.object), v.valid_from, v.valid_to or "open", v.recorded_at,
             v.retired_at or "", v.origin, v.assertions, v.lost_to, v.reason)
            for v in entries
        ]  # fmt: skip
        headers = (
            "object", "from", "to", "recorded", "retired", "origin", "asserted", "lost to", "why",
        )  # fmt: skip
        print_table(f"{subject} {predicate}", headers, rows)


def retract(
    fact_id: Annotated[str, typer.Argument(metavar="FACT_ID")],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")],
    now: o.Now = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Stop believing a fact; what was believed before can still be read."""
    with _opened_facts(
        lake, agent, user=user, project=project, storage_options=storage_option
    ) as facts:
        gone = facts.retract(fact_id, reason, now=o.instant(now, name="--now"))
    if as_json:
        print_json(gone)
    else:
        print_line(f"retired {len(gone)} versions")


def _entity(name: str, entity_type: str | None) -> str | EntityRef:
    return name if entity_type is None else EntityRef(entity_type, name)


def _told(value: str | EntityRef) -> str:
    return f"{value.name} ({value.type})" if isinstance(value, EntityRef) else value
