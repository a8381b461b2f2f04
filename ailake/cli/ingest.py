"""ingest: a JSONL file in bulk, resumable."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line
from ailake.core.drafts import drafts_of
from ailake.core.entities import EntityRef
from ailake.core.records import Decision, Scope
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.memory import Memory

# Lines per call of remember_many: what a killed run may have to embed again.
CHUNK_LINES = 16_384

_INSTANTS = ("event_time", "expires_at")
_TYPED = {"type", "name"}


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of the lines of a file.

    Attributes:
        lines: Non-blank lines.
        added: Lines that made a memory.
        known: Lines that an earlier run had stored.
        skipped: Lines that repeat another memory.
    """

    lines: int
    added: int
    known: int
    skipped: int


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(ingest)


def ingest(
    file: Annotated[
        Path,
        typer.Argument(
            help='One JSON object per line: {"text": …, "speaker": …, "event_time": …}.'
        ),
    ],
    *,
    lake: o.LakeUri,
    agent: o.Agent,
    user: o.User = "",
    project: o.Project = "",
    session: Annotated[str, typer.Option(help="For lines without a session_id.")] = "",
    judge: Annotated[bool, typer.Option(help="Skip lines that repeat a memory.")] = True,
    progress: Annotated[bool, typer.Option(help="Show a bar on standard error.")] = True,
    now: o.Now = None,
    embedder: o.Embedder = None,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Store every line of a file; the same file again adds nothing, so a killed run resumes.

    Lines are objects of remember's arguments, an entity a name or {"type": …, "name": …}. All of
    them are checked before the first is stored.
    """
    lines = check_file(file)
    with o.opened_memory(
        lake, agent, user=user, project=project, session=session, embedder=embedder,
        storage_options=storage_option, create=True,
    ) as memory:  # fmt: skip
        report = ingest_file(
            memory, file, lines=lines, judge=judge, progress=progress,
            now=o.instant(now, name="--now"),
        )  # fmt: skip
    if as_json:
        print_json(report)
    else:
        print_line(
            f"{report.lines} lines: {report.added} added, {report.known} stored before, "
            f"{report.skipped} repetitions skipped"
        )


def check_file(file: Path) -> int:
    """Check every line, and return how many there are.

    Raises:
        InvalidInputError: The file can't be read, or the first bad line, named by its number.
    """
    if not file.is_file():
        raise InvalidInputError.of("file", got=str(file), wanted="an existing JSONL file")
    count = 0
    for number, item in read_items(file):
        try:
            drafts_of([item])
        except InvalidInputError as error:
            reason = str(error).removeprefix("item 0: ")
            raise InvalidInputError(f"{file.name} line {number}: {reason}") from error
        count += 1
    return count


def ingest_file(
    memory: "Memory",
    file: Path,
    *,
    lines: int,
    judge: bool,
    progress: bool,
    now: datetime | None,
) -> IngestReport:
    """Store a checked file, chunk by chunk.

    A line without an id gets one that is made of its content, the scope, and how often the file
    has had it before: the same line is the same memory in every run, also in a file that grew.
    """
    from ailake.progress import progress_bar  # noqa: PLC0415

    known = skipped = 0
    seen: Counter[bytes] = Counter()
    items = (_identified(item, memory.scope, seen) for _, item in read_items(file))
    with progress_bar(file.name, total=lines, shown=progress) as advance:
        while chunk := list(islice(items, CHUNK_LINES)):
            outcomes = memory.remember_many(chunk, judge=judge, now=now)
            known += sum(outcome.repeated for outcome in outcomes)
            skipped += sum(outcome.decision is Decision.SKIP for outcome in outcomes)
            advance(len(chunk))
    return IngestReport(lines, lines - known - skipped, known, skipped)


def read_items(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the non-blank lines with their numbers; instants and typed entities come as objects.

    Raises:
        InvalidInputError: A line that is not UTF-8, not a JSON object, or has a bad instant.
    """
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.strip():
                continue
            try:
                item = json.loads(raw)
                if not isinstance(item, dict):
                    raise InvalidInputError.of("line", got=item, wanted="a JSON object")
                yield number, _with_entities(_with_instants(item))
            except ValueError as error:
                raise InvalidInputError(f"{file.name} line {number}: {error}") from error


def _with_instants(item: dict[str, Any]) -> dict[str, Any]:
    for name in _INSTANTS:
        if isinstance(item.get(name), str):
            item[name] = o.instant(item[name], name=name)
    return item


def _with_entities(item: dict[str, Any]) -> dict[str, Any]:
    named = item.get("entities")
    if isinstance(named, list):
        # Anything else is refused with the line's other fields.
        item["entities"] = [
            EntityRef(**one) if isinstance(one, dict) and one.keys() == _TYPED else one
            for one in named
        ]
    return item


def _identified(item: dict[str, Any], scope: Scope, seen: Counter[bytes]) -> dict[str, Any]:
    if item.get("id") is not None:
        return item
    # Ids are unique in the lake: two users may well have said the same.
    told = [*astuple(scope), item]
    content = json.dumps(told, ensure_ascii=False, sort_keys=True, default=str).encode()
    digest = blake2b(content, digest_size=16).digest()
    seen[digest] += 1
    repeat = "" if seen[digest] == 1 else f"-{seen[digest]}"
    return {**item, "id": f"line-{digest.hex()}{repeat}"}
