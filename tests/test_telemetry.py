"""Spans and metrics: what they tell, what they never hold, and that nothing needs them."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult

import ailake
from ailake.maintenance import MaintainJob, MemoryDecayJob

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PRIVATE = "xylophone-9f3a"


class Switch(Sampler):
    """Samples all, until it is switched off."""

    sampler = ALWAYS_ON

    def should_sample(self, *args: Any, **options: Any) -> SamplingResult:
        return self.sampler.should_sample(*args, **options)

    def get_description(self) -> str:
        return "switch"


class Seen:
    """What an application's own exporters would be given."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self.exporter, self.reader = exporter, reader

    def spans(self) -> list[ReadableSpan]:
        found = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return found

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def decided(self) -> Counter[str]:
        points = self.points("ailake.memories")
        return Counter({point.attributes["ailake.decision"]: point.value for point in points})

    def took(self, operation: str) -> float:
        points = self.points("ailake.operation.duration")
        return float(sum(p.sum for p in points if p.attributes["ailake.operation"] == operation))

    def everything(self) -> str:
        data = self.reader.get_metrics_data()
        return (data.to_json() if data else "") + "".join(span.to_json() for span in self.spans())


@pytest.fixture(scope="module")
def providers() -> Iterator[Seen]:
    """Those of the process can be set once; for the tests that follow no span is recorded."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    switch = Switch()
    provider, meters = TracerProvider(switch), MeterProvider([reader])
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(meters)
    yield Seen(exporter, reader)
    switch.sampler = ALWAYS_OFF


@pytest.fixture
def seen(providers: Seen) -> Seen:
    providers.exporter.clear()
    return providers


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_recall_and_remember(seen: Seen, memory: ailake.Memory) -> None:
    before = seen.decided(), seen.took("ailake.recall")
    memory.remember("tea", now=NOW)
    memory.remember("tea", now=NOW)
    memory.remember_many([{"text": "tea"}, {"text": "milk"}], now=NOW)
    memory.add_messages([{"role": "user", "content": "hello you there"}], now=NOW)
    memory.recall("tea", mode="vector", limit=2, now=NOW)
    first, second, many, turns, recall = seen.spans()
    assert [first.name, many.name, turns.name, recall.name] == [
        "ailake.remember",
        "ailake.remember_many",
        "ailake.add_messages",
        "ailake.recall",
    ]
    assert attributes(first)["ailake.decision"] == "create"
    assert attributes(second)["ailake.decision"] == "skip"
    assert attributes(many) == {
        "ailake.operation": "ailake.remember_many",
        "ailake.memories": 2,
        "ailake.decisions.skip": 1,
        "ailake.decisions.create": 1,
    }
    assert attributes(recall) == {
        "ailake.operation": "ailake.recall",
        "ailake.mode": "vector",
        "ailake.exact": True,
        "ailake.index": "",
        "ailake.hits": 2,
        "ailake.scored": 3,
        "ailake.bound_held": True,
        "ailake.counted": True,
    }
    assert seen.decided() - before[0] == {"create": 3, "skip": 2}
    took = seen.took("ailake.recall") - before[1]
    assert recall.end_time is not None
    assert recall.start_time is not None
    assert 0 < took < (recall.end_time - recall.start_time) / 1e9


def test_jobs(seen: Seen, lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    MaintainJob(lake).run(NOW)
    spans = {span.name: span for span in seen.spans()}
    whole = spans["ailake.job.maintain"]
    for job in ("decay", "prune", "compact", "index"):
        parent = spans[f"ailake.job.{job}"].parent
        assert parent is not None
        assert parent.span_id == whole.context.span_id
    assert attributes(spans["ailake.job.decay"])["ailake.report.rows"] == 1
    told = attributes(whole)
    assert (told["ailake.status"], told["ailake.dry_run"]) == ("done", False)
    (run,) = lake.scan("job_runs").collect()["run_id"]
    assert told["ailake.run_id"] == run


def test_a_failure_is_told_by_its_kind(
    seen: Seen, lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, PRIVATE)

    with pytest.raises(ailake.InvalidInputError):
        memory.recall("tea", mode=PRIVATE)
    monkeypatch.setattr("ailake.maintenance.decay.rewrite_columns", fail)
    with pytest.raises(OSError, match=PRIVATE):
        MemoryDecayJob(lake).run(NOW)
    refused, failed = seen.spans()
    assert attributes(refused)["error.type"] == "InvalidInputError"
    assert attributes(failed)["error.type"] == "OSError"
    assert attributes(failed)["ailake.status"] == "failed"
    for span in (refused, failed):
        assert span.status.status_code is trace.StatusCode.ERROR
        assert PRIVATE not in span.to_json()


def test_neither_texts_nor_ids_nor_scopes_are_told(seen: Seen, lake: ailake.Lake) -> None:
    memory = lake.memory(PRIVATE, user_id=PRIVATE, project_id=PRIVATE, session_id=PRIVATE)
    memory.remember(f"{PRIVATE} sings", id=PRIVATE, speaker=PRIVATE, kind=PRIVATE, now=NOW)
    memory.add_messages([{"role": "user", "content": PRIVATE, "name": PRIVATE}], now=NOW)
    assert len(memory.recall(PRIVATE, where={"kind": PRIVATE}, now=NOW)) == 1
    MaintainJob(lake).run(NOW)
    told = seen.everything()
    assert "ailake.recall" in told
    assert PRIVATE not in told


ABSENT = """
import importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"opentelemetry", "apscheduler"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import ailake
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
from ailake.maintenance import MemoryDecayJob
from ailake.maintenance.schedule import upcoming
with ailake.connect(sys.argv[1], embedder="hashing:8") as lake:
    memory = lake.memory("a")
    memory.remember("Ana drinks green tea")
    hits = len(memory.recall("tea"))
    rows = MemoryDecayJob(lake).run().rows
try:
    upcoming()
except ailake.MissingExtraError as error:
    told = str(error)
print(json.dumps([hits, rows, told]))
"""


@pytest.mark.slow
def test_nothing_needs_them(tmp_path: object) -> None:
    command = [sys.executable, "-W", "error", "-c", ABSENT, f"{tmp_path}/lake"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = "a schedule needs an optional package: pip install 'ailake-memory[schedule]'"
    assert json.loads(done.stdout) == [1, 1, told]
