"""Every job by its name, and how one is made of options that a file can hold."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ailake.core.compaction import CompactionPolicy
from ailake.core.episodic import RecencyConfig, ScoringPolicy
from ailake.core.schedule import Parameter, Parameters
from ailake.core.vectors import IndexPolicy
from ailake.errors import InvalidInputError
from ailake.lake import Lake
from ailake.maintenance.compact import CompactionJob
from ailake.maintenance.decay import MemoryDecayJob
from ailake.maintenance.forget import ForgetJob
from ailake.maintenance.indexing import IndexJob
from ailake.maintenance.maintain import MaintainJob
from ailake.maintenance.review import ReviewJob
from ailake.maintenance.verify import FactVerifyJob

if TYPE_CHECKING:
    from ailake.providers import ChatModel

Curve = Literal["daily", "weekly", "monthly", "quarterly"]
Weighing = Literal["default", "seed"]

_KEY_ENV = "OPENAI_API_KEY"
_TARGET_ROWS = CompactionPolicy().target_rows

_CURVES: dict[str, RecencyConfig] = {
    "daily": RecencyConfig.DAILY_DECAY,
    "weekly": RecencyConfig.WEEKLY_DECAY,
    "monthly": RecencyConfig.MONTHLY_DECAY,
    "quarterly": RecencyConfig.QUARTERLY_DECAY,
}
_POLICIES: dict[str, ScoringPolicy] = {
    "default": ScoringPolicy(),
    "seed": ScoringPolicy.SEED,
}


class RunnableJob(Protocol):
    """A job that is ready to run."""

    @property
    def options(self) -> Mapping[str, object]:
        """What it was made with."""

    def run(
        self, now: datetime | None = None, *, dry_run: bool = False, progress: bool = False
    ) -> object:
        """Run once."""


def decay(
    lake: Lake, *, curve: Curve | None = None, half_life: float | None = None
) -> MemoryDecayJob:
    """Make the job of its options; the half-life is in days, the curve weekly by default."""
    return MemoryDecayJob(lake, recency=_recency(curve, half_life))


def prune(
    lake: Lake,
    *,
    min_weight: float | None = None,
    keep: int | None = None,
    policy: Weighing = "default",
) -> ForgetJob:
    """Make the job of its options."""
    return ForgetJob(lake, min_weight=min_weight, keep=keep, scoring=_POLICIES[policy])


def compact(
    lake: Lake,
    *,
    keep_versions: float = 7.0,
    target_rows: int = _TARGET_ROWS,
) -> CompactionJob:
    """Make the job of its options; versions are kept for so many days."""
    return CompactionJob(lake, policy=_compaction(keep_versions, target_rows))


def index(lake: Lake, *, recall: float | None = None, rebuild: bool = False) -> IndexJob:
    """Make the job of its options."""
    policy = None if recall is None else IndexPolicy(recall=recall)
    return IndexJob(lake, policy=policy, rebuild=rebuild)


def maintain(
    lake: Lake,
    *,
    curve: Curve | None = None,
    half_life: float | None = None,
    min_weight: float | None = None,
    keep: int | None = None,
    policy: Weighing = "default",
    keep_versions: float = 7.0,
) -> MaintainJob:
    """Make the job of the options of its parts."""
    return MaintainJob(
        lake,
        recency=_recency(curve, half_life),
        min_weight=min_weight,
        keep=keep,
        scoring=_POLICIES[policy],
        compaction=_compaction(keep_versions, _TARGET_ROWS),
    )


def review(
    lake: Lake,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str = _KEY_ENV,
    concurrency: int = 4,
    max_tokens: int | None = None,
) -> ReviewJob:
    """Make the job of its options; without a model it reports what waits."""
    reviewer = None
    if model is not None:
        from ailake.providers import OpenAIReviewer  # noqa: PLC0415 (an extra)

        reviewer = OpenAIReviewer(_chat(model, base_url, api_key_env, concurrency=concurrency))
    return ReviewJob(lake, reviewer=reviewer, concurrency=concurrency, max_tokens=max_tokens)


def verify_facts(
    lake: Lake,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str = _KEY_ENV,
    concurrency: int = 4,
    max_tokens: int | None = None,
) -> FactVerifyJob:
    """Make the job of its options; without a model it reports what waits."""
    verifier = None
    if model is not None:
        from ailake.providers import OpenAIFactVerifier  # noqa: PLC0415 (an extra)

        verifier = OpenAIFactVerifier(_chat(model, base_url, api_key_env, concurrency=concurrency))
    return FactVerifyJob(lake, verifier=verifier, concurrency=concurrency, max_tokens=max_tokens)


# A job whose own arguments are numbers, texts and flags can stand here itself.
JOBS: dict[str, Callable[..., RunnableJob]] = {
    "compact": compact,
    "decay": decay,
    "index": index,
    "maintain": maintain,
    "prune": prune,
    "review": review,
    "verify-facts": verify_facts,
}


def parameters() -> dict[str, Parameters]:
    """Return the options that each job takes from a file: those that are scalars."""
    return {name: _parameters(make) for name, make in JOBS.items()}


def make_job(name: str, lake: Lake, options: Mapping[str, Any]) -> RunnableJob:
    """Make a job of checked options.

    Raises:
        InvalidInputError: A value is out of its range; the message names the job.
    """
    try:
        return JOBS[name](lake, **options)
    except InvalidInputError as error:
        raise InvalidInputError(f"jobs.{name}.{error}") from error


def _parameters(make: Callable[..., RunnableJob]) -> Parameters:
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    named = [
        p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    found = {name: _parameter(hints[name]) for name in named}
    return {name: one for name, one in found.items() if one is not None}


def _parameter(hint: Any) -> Parameter | None:
    if get_origin(hint) in {Union, UnionType}:
        (*some, last) = (one for one in get_args(hint) if one is not NoneType)
        return None if some else _parameter(last)
    if get_origin(hint) is Literal:
        return Parameter(str, get_args(hint))
    return Parameter(hint) if hint in {bool, int, float, str} else None


def _chat(model: str, base_url: str | None, api_key_env: str, *, concurrency: int) -> "ChatModel":
    from ailake.providers import ChatModel  # noqa: PLC0415 (an extra)

    return ChatModel(model, base_url=base_url, api_key_env=api_key_env, concurrency=concurrency)


def _recency(curve: Curve | None, half_life: float | None) -> RecencyConfig:
    if half_life is None:
        return _CURVES[curve or "weekly"]
    if curve is not None:
        raise InvalidInputError.of("half_life", got=half_life, wanted="no curve beside it")
    return RecencyConfig.from_half_life(half_life)


def _compaction(keep_versions: float, target_rows: int) -> CompactionPolicy:
    try:
        kept = timedelta(days=keep_versions)
    except (OverflowError, ValueError) as error:
        raise InvalidInputError.of("keep_versions", got=keep_versions, wanted="days") from error
    return CompactionPolicy(keep_versions=kept, target_rows=target_rows)
