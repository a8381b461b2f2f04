"""Fixtures: real lakes in temporary folders."""

import os
from shutil import disk_usage

# Before the engine is imported anywhere: its log goes to stderr otherwise.
os.environ["LANCEDB_LOG"] = "error"
os.environ["LANCE_LOG"] = "error"
# Lakes sync what they write, and a shared disk makes most of the time that the tests take.
if os.access("/dev/shm", os.W_OK) and disk_usage("/dev/shm").free > 8 << 30:  # noqa: S108
    for variable in ("TMPDIR", "PYTEST_DEBUG_TEMPROOT"):
        os.environ.setdefault(variable, "/dev/shm")  # noqa: S108

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chat_server import ChatServer, running
from hypothesis import HealthCheck, settings
from s3_server import serving

import ailake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have slow tests, so that none keeps a core waiting at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    """A lake that keeps whatever it is told: the texts of most tests are not worth keeping."""
    rules = ailake.JudgeRules(retention=None)
    with ailake.connect(tmp_path / "lake", embedder="hashing:64", judge_rules=rules) as opened:
        yield opened


@pytest.fixture
def memory(lake: ailake.Lake) -> ailake.Memory:
    return lake.memory(agent_id="ana-bot", user_id="ana")


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """Storage options of an object store with the bucket ``lakes``; one server for all tests."""
    with serving() as options:
        yield options


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def chat_server() -> Iterator[ChatServer]:
    with running() as server:
        yield server


@pytest.fixture
def chat(chat_server: ChatServer) -> ChatServer:
    """A server that speaks the chat protocol, and has not been asked anything yet."""
    chat_server.reset()
    return chat_server


@pytest.fixture
def shared() -> Path:
    """The folder of real data, which only developers and CI have."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the shared data folder beside the checkout")
    return folder


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scope fits into memory: recall searches the tables."""
    monkeypatch.setattr("ailake.storage.held.BUDGET", -1)


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall on disk begins with short lists and keeps few vectors, however small the scope."""
    monkeypatch.setattr("ailake.storage.distances.FEW", 0)
    monkeypatch.setattr("ailake.storage.weight_lists.VECTOR_BYTES", 6_400)
    monkeypatch.setattr("ailake.storage.scope_columns._LOOSE", 5)
    monkeypatch.setattr("ailake.storage.weights.ORDERED", 50)
    for name in ("_LEAST", "_FLAT_LEAST", "_HEAVIEST", "_MATCHES"):
        monkeypatch.setattr(f"ailake.storage.lists.{name}", 5)
    monkeypatch.setattr("ailake.storage.lists._SEARCH_SHARE", 1_000)
    for name in ("_FIRST", "_FLAT_FIRST"):
        monkeypatch.setattr(f"ailake.storage.lists.{name}", 0)
