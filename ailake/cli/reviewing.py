"""review, verify-facts: what a model or a person is asked about, and never on the write path."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ailake.cli import options as o
from ailake.cli.output import print_json, print_line, print_table
from ailake.core.entities import EntityRef
from ailake.errors import InvalidInputError

if TYPE_CHECKING:
    from ailake.core.usage import Usage
    from ailake.maintenance import FactVerifyReport, ReviewReport
    from ailake.providers import ChatModel, OpenAIFactVerifier, OpenAIReviewer

_Model = Annotated[
    str | None,
    typer.Option("--model", help="The model to ask; default: report what waits."),
]
_BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", envvar="OPENAI_BASE_URL", help="Its server; default: OpenAI's."),
]
_KeyEnv = Annotated[
    str, typer.Option("--api-key-env", help="The environment variable that holds the key.")
]
_Timeout = Annotated[float, typer.Option(help="Seconds that one attempt may take.")]
_Retries = Annotated[int, typer.Option(help="How often a request is sent again.")]
_Concurrency = Annotated[int, typer.Option(help="Requests under way at once.")]
_MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Ask no more once the run has used so many.")
]
_Progress = Annotated[bool, typer.Option(help="Show a bar on standard error.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(review)
    app.command(name="verify-facts")(verify_facts)


def review(
    *,
    lake: o.LakeUri,
    model: _Model = None,
    base_url: _BaseUrl = None,
    api_key_env: _KeyEnv = "OPENAI_API_KEY",
    timeout: _Timeout = 60.0,
    retries: _Retries = 4,
    concurrency: _Concurrency = 4,
    max_tokens: _MaxTokens = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the pairs to a new file, for a person to answer.")
    ] = None,
    imported: Annotated[
        Path | None,
        typer.Option(
            "--import", exists=True, dir_okay=False, help="Take the answers from that file."
        ),
    ] = None,
    reviewer: Annotated[
        str, typer.Option(help="Who answered in the file; kept with each answer.")
    ] = "person",
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: _Progress = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Ask about memories that no rule could tell apart; exit 1 where some fail."""
    if sum(one is not None for one in (model, export, imported)) > 1:
        raise InvalidInputError("--model, --export, --import: got several, wanted one at most")
    from ailake.providers import FileReviewer, export_pairs  # noqa: PLC0415 (slow)

    chat = _chat(
        model, base_url, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency,
    )  # fmt: skip
    asked = None if chat is None else _reviewer(chat)
    person = None if imported is None else FileReviewer(imported, name=reviewer)
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import ReviewJob  # noqa: PLC0415

        job = ReviewJob(
            opened, reviewer=person or asked, concurrency=concurrency, max_tokens=max_tokens
        )
        report = job.run(
            o.instant(now, name="--now"), dry_run=dry_run, progress=progress and not as_json
        )
    if export is not None and not dry_run:
        export_pairs(report.waiting, export)
    if as_json:
        print_json(report)
    else:
        _print_reviewed(report)
        if person is not None and person.unasked and not dry_run:
            some = ", ".join(sorted(person.unasked)[:3])
            print_line(f"{len(person.unasked)} answers are of pairs that do not wait: {some}")
    if report.failed:
        raise typer.Exit(1)


def verify_facts(
    *,
    lake: o.LakeUri,
    model: _Model = None,
    base_url: _BaseUrl = None,
    api_key_env: _KeyEnv = "OPENAI_API_KEY",
    timeout: _Timeout = 60.0,
    retries: _Retries = 4,
    concurrency: _Concurrency = 4,
    max_tokens: _MaxTokens = None,
    now: o.Now = None,
    dry_run: o.DryRun = False,
    progress: _Progress = True,
    storage_option: o.StorageOption = None,
    as_json: o.AsJson = False,
) -> None:
    """Ask a model about facts that contradict each other and wait; exit 1 where some fail."""
    chat = _chat(
        model, base_url, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency,
    )  # fmt: skip
    with o.opened_lake(lake, storage_options=storage_option) as opened:
        from ailake.maintenance import FactVerifyJob  # noqa: PLC0415

        job = FactVerifyJob(
            opened,
            verifier=None if chat is None else _verifier(chat),
            concurrency=concurrency,
            max_tokens=max_tokens,
        )
        report = job.run(
            o.instant(now, name="--now"), dry_run=dry_run, progress=progress and not as_json
        )
    if as_json:
        print_json(report)
    else:
        _print_verified(report)
    if report.failed:
        raise typer.Exit(1)


def _chat(
    model: str | None,
    base_url: str | None,
    *,
    api_key_env: str,
    timeout: float,
    retries: int,
    concurrency: int,
) -> "ChatModel | None":
    if model is None:
        return None
    from ailake.providers import ChatModel  # noqa: PLC0415 (slow)

    return ChatModel(
        model,
        base_url=base_url,
        api_key_env=api_key_env,
        timeout=timeout,
        retries=retries,
        concurrency=concurrency,
    )


def _verifier(chat: "ChatModel") -> "OpenAIFactVerifier":
    from ailake.providers import OpenAIFactVerifier  # noqa: PLC0415 (slow)

    return OpenAIFactVerifier(chat)


def _reviewer(chat: "ChatModel") -> "OpenAIReviewer":
    from ailake.providers import OpenAIReviewer  # noqa: PLC0415 (slow)

    return OpenAIReviewer(chat)


def _print_verified(report: "FactVerifyReport") -> None:
    title = "verification of facts (dry run)" if report.dry_run else "verification of facts"
    print_line(
        f"{title}: {report.asked} asked, {report.superseded} superseded, {report.kept_both} kept "
        f"both, {report.rejected} rejected, {report.deferred} deferred, {len(report.failed)} "
        f"failed; {report.stale} had changed; {_spent(report.usage)}"
    )
    _print_unanswered(report.stopped, {one.case.case_id: one.reason for one in report.failed})
    rows = [
        (c.scope.agent_id, _told(c.new.subject), c.new.predicate, _told(c.known.object),
         _told(c.new.object), c.new.valid_from, c.case_id)
        for c in report.waiting
    ]  # fmt: skip
    if rows:
        headers = ("agent", "subject", "predicate", "known", "new", "from", "case")
        print_table(f"{len(rows)} cases wait", headers, rows)


def _print_reviewed(report: "ReviewReport") -> None:
    title = "review (dry run)" if report.dry_run else "review"
    print_line(
        f"{title}: {report.asked} asked, {report.merged} merged, {report.modified} modified, "
        f"{report.kept} kept, {report.refused} refused, {len(report.failed)} failed; "
        f"{report.changed} had changed, {report.resumed} resumed; {_spent(report.usage)}"
    )
    _print_unanswered(report.stopped, {one.case.pair_id: one.reason for one in report.failed})
    rows = [
        (c.scope.agent_id, c.scope.user_id, c.existing.text, c.new.text, c.score, c.pair_id)
        for c in report.waiting
    ]
    if rows:
        headers = ("agent", "user", "existing", "new", "similarity", "pair")
        print_table(f"{len(rows)} pairs wait", headers, rows)


def _print_unanswered(stopped: str, failed: Mapping[str, str]) -> None:
    if stopped:
        print_line(f"stopped early: {stopped}")
    for name, reason in failed.items():
        print_line(f"failed: {name}: {reason}")


def _spent(usage: "Usage") -> str:
    return f"{usage.input_tokens} tokens read, {usage.output_tokens} written"


def _told(value: str | EntityRef) -> str:
    return f"{value.name} ({value.type})" if isinstance(value, EntityRef) else value
