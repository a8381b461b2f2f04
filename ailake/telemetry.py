"""Spans and metrics by OpenTelemetry, where its API is installed; otherwise nothing is done.

Nothing leaves the process but by what the application itself has set up. Neither texts nor ids
nor scopes are ever attributes, and of an error only its kind is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib import metadata
from time import perf_counter
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar

Value = bool | int | float | str

P = ParamSpec("P")
R = TypeVar("R")

_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of an operation once it has ended.

    Attributes:
        labels: Attributes of its span and of its duration; few different values each.
        attributes: Attributes of its span alone.
        decisions: How many memories met with each decision.
    """

    labels: Mapping[str, Value] = field(default_factory=dict)
    attributes: Mapping[str, Value] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)


class Operation:
    """A span and a duration around a block; this one, where there is no OpenTelemetry, is none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the span, and count the duration."""

    def tell(self, told: Told) -> None:
        """Say what the block has done."""


_NONE = Operation()


def operation(name: str) -> Operation:
    """Return a span and a duration for a block, to be entered once.

    Args:
        name: Such as ``ailake.recall``.
    """
    otel = _otel()
    return _NONE if otel is None else _Traced(otel, name)


class _Decorator(Protocol):
    def __call__(self, call: Callable[P, R], /) -> Callable[P, R]: ...


def traced(name: str, describe: Callable[[Any, Mapping[str, Any]], Told]) -> _Decorator:
    """Return a decorator that makes an operation of each call.

    Args:
        name: Of the operation.
        describe: What to tell of a result and the keyword arguments; asked only where there is
            somebody to tell.
    """

    def decorate(call: Callable[P, R]) -> Callable[P, R]:
        @wraps(call)
        def trace(*args: P.args, **kwargs: P.kwargs) -> R:
            otel = _otel()
            if otel is None:
                return call(*args, **kwargs)
            with _Traced(otel, name) as one:
                result = call(*args, **kwargs)
                one.tell(describe(result, kwargs))
            return result

        return trace

    return decorate


class _Otel:
    """What is made once of OpenTelemetry: it finds its providers whenever they are set."""

    def __init__(self, trace: Any, metrics: Any) -> None:
        version = _version()
        self.trace = trace
        self.tracer = trace.get_tracer("ailake", version)
        meter = metrics.get_meter("ailake", version)
        self.seconds = meter.create_histogram(
            "ailake.operation.duration",
            unit="s",
            description="How long operations took",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.memories = meter.create_counter(
            "ailake.memories", unit="{memory}", description="Memories that were given, by decision"
        )


def _version() -> str | None:
    try:
        return metadata.version("ailake-memory")
    except metadata.PackageNotFoundError:
        return None  # Run from a checkout.


@cache
def _otel() -> _Otel | None:
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    return _Otel(trace, metrics)


class _Traced(Operation):
    """An operation that OpenTelemetry is told of."""

    __slots__ = ("_begun", "_name", "_otel", "_scope", "_span", "_told")

    def __init__(self, otel: _Otel, name: str) -> None:
        self._otel, self._name = otel, name
        self._told = Told()

    def __enter__(self) -> Self:
        self._span = self._otel.tracer.start_span(self._name)
        self._scope = None
        if self._span.is_recording():
            self._scope = self._otel.trace.use_span(self._span)
            self._scope.__enter__()
        self._begun = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = perf_counter() - self._begun
        failed = {} if kind is None else {"error.type": kind.__name__}
        labels = {"ailake.operation": self._name, **self._told.labels, **failed}
        self._otel.seconds.record(seconds, labels)
        for decision, count in self._told.decisions.items():
            self._otel.memories.add(count, {"ailake.decision": decision})
        if self._scope is not None:
            self._span.set_attributes({**labels, **self._told.attributes})
            if kind is not None:
                self._span.set_status(self._otel.trace.StatusCode.ERROR, kind.__name__)
            # Without the error, whose message may quote a memory: its kind is told above.
            self._scope.__exit__(None, None, None)
            self._span.end()

    def tell(self, told: Told) -> None:
        self._told = told
