"""Options that many commands share, and what they open."""

import json
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ailake.core.entities import ENTITY_TYPES, PLAIN_TYPE, EntityRef
from ailake.core.filters import where_from_json
from ailake.core.schema import filter_kinds
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ailake.lake import Lake
    from ailake.memory import Memory

LakeUri = Annotated[
    str, typer.Option("--lake", envvar="AILAKE_URI", help="Folder or s3://bucket/prefix.")
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="AILAKE_EMBEDDER",
        help="local, local-e5, hashing or lancedb:<function>:<model>; default: the lake's own.",
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", help="key=value for the object store, repeatable."),
]
Agent = Annotated[str, typer.Option("--agent", envvar="AILAKE_AGENT", help="Owner of the memory.")]
User = Annotated[str, typer.Option("--user", envvar="AILAKE_USER", help="User within the agent.")]
Project = Annotated[
    str, typer.Option("--project", envvar="AILAKE_PROJECT", help="Project within the agent.")
]
Where = Annotated[
    str | None,
    typer.Option("--where", help='Filter as JSON, such as {"kind": "fact"}; instants as ISO 8601.'),
]
Now = Annotated[
    str | None,
    typer.Option("--now", help="Instant to act as of, ISO 8601 with offset; default: the present."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Report what would be done, change nothing.")
]


@contextmanager
def opened_lake(
    uri: str,
    *,
    embedder: str | None = None,
    storage_options: list[str] | None = None,
    create: bool = False,
    migrate: bool = False,
) -> "Iterator[Lake]":
    """Open the lake that a command names, and close it."""
    from ailake import connect  # noqa: PLC0415

    with connect(
        uri,
        embedder=embedder,
        storage_options=pairs(storage_options or []),
        create=create,
        migrate=migrate,
    ) as lake:
        yield lake


@contextmanager
def opened_memory(
    uri: str,
    agent: str,
    *,
    user: str,
    project: str,
    session: str = "",
    embedder: str | None = None,
    storage_options: list[str] | None = None,
    create: bool = False,
) -> "Iterator[Memory]":
    """Open the memory of one scope that a command names, and close the lake."""
    with opened_lake(
        uri, embedder=embedder, storage_options=storage_options, create=create
    ) as lake:
        yield lake.memory(agent, user_id=user, project_id=project, session_id=session)


def instant(text: str | None, *, name: str) -> datetime | None:
    """Read an ISO 8601 instant.

    Raises:
        InvalidInputError: Not one, or without an offset.
    """
    if text is None:
        return None
    wanted = "an ISO 8601 instant with an offset such as 2026-01-31T09:00:00+00:00"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError.of(name, got=text, wanted=wanted) from error
    if found.tzinfo is None:
        raise InvalidInputError.of(name, got=text, wanted=wanted)
    return found


def json_object(text: str | None, *, name: str) -> dict[str, Any] | None:
    """Read a JSON object given on the command line."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInputError.of(name, got=text, wanted="a JSON object") from error
    if not isinstance(value, dict):
        raise InvalidInputError.of(name, got=text, wanted="a JSON object")
    return value


def filter_option(text: str | None) -> dict[str, Any] | None:
    """Read ``--where``; strings compared with instants become instants."""
    where = json_object(text, name="--where")
    return None if where is None else where_from_json(where, filter_kinds("episodic"))


def entity(text: str) -> EntityRef:
    """Read ``--entity``: a name, and perhaps its type behind a colon."""
    name, _, kind = text.rpartition(":")
    if name and (kind in ENTITY_TYPES or kind.startswith("other(")):
        return EntityRef(kind, name)
    return EntityRef(PLAIN_TYPE, text)


def pairs(options: list[str], *, name: str = "--storage-option") -> dict[str, str]:
    """Read the values of ``--storage-option``, or of another option like it.

    Raises:
        InvalidInputError: One is not ``key=value``.
    """
    found: dict[str, str] = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise InvalidInputError.of(name, got=option, wanted="key=value")
        found[key] = value
    return found
