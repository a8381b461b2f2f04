"""Object stores that refuse, are not there, or go away in the middle of something."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept import KEEP
from tcp_proxy import Proxy

import ailake
from ailake.maintenance import ForgetJob, MemoryDecayJob
from ailake.storage import columns, leases, locks
from ailake.storage.reaching import meaning_of, reaching
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
QUICK = {"client_max_retries": "1", "client_retry_timeout": "5", "timeout": "5s"}

# How the engine puts it.
REFUSED = (
    "LanceError(IO): Generic S3 error: Error performing HEAD http://127.0.0.1:1/b/a in 1ms, after "
    "3 retries - HTTP error: error sending request"
)
FORBIDDEN = "LanceError(IO): Generic S3 error: Status 403 <Code>SignatureDoesNotMatch</Code>"


def test_what_messages_mean() -> None:
    assert "could not be reached" in str(meaning_of(REFUSED))
    assert "refused the keys" in str(meaning_of(FORBIDDEN))
    assert meaning_of("the model at http://127.0.0.1:1 timed out") is None
    assert meaning_of("LanceError(IO): No space left on device") is None


@pytest.mark.parametrize("kind", [OSError, RuntimeError, ValueError])
def test_only_what_is_of_the_store_is_put_anew(kind: type[Exception]) -> None:
    with pytest.raises(ailake.ObjectStoreError, match=r"^s3://b/a: the store could"):  # noqa: SIM117
        with reaching("s3://b/a"):
            raise kind(REFUSED)
    for error, remote in ((kind("another thing"), True), (kind(REFUSED), False)):
        with pytest.raises(kind) as raised, reaching("x", remote=remote):
            raise error
        assert raised.value is error
    with pytest.raises(ailake.ConflictError), reaching("s3://b/a"):
        raise ailake.ConflictError(REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "changes", "told"),
    [
        ("s3://nowhere/lake", {}, "there is no such bucket"),
        ("s3://lakes/lake", {"endpoint": "http://127.0.0.1:1"}, "could not be reached"),
        ("s3://lakes/lake", {"allow_http": "false"}, "allow_http=true"),
        ("s3://lakes/lake", {"aws_access_key_id": None, "aws_secret_access_key": None}, "no keys"),
    ],
)
def test_what_is_wrong_is_said(
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    uri: str,
    changes: dict[str, str | None],
    told: str,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {name: value for name, value in {**s3, **QUICK, **changes}.items() if value}
    with pytest.raises(ailake.ObjectStoreError, match=told) as raised:
        ailake.connect(uri, embedder="hashing:16", storage_options=options)
    assert str(raised.value).startswith(uri)
    assert "secret" not in f"{raised.value}{raised.value.__cause__}".replace(
        "secret_access_key", ""
    )


@pytest.fixture
def proxy(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    # The lease that could not be given back shall not last.
    monkeypatch.setattr(leases, "SECONDS", 1.0)
    monkeypatch.setattr(leases, "SKEW", 0.0)
    monkeypatch.setattr(locks, "_POLL_LEASE_SECONDS", 0.1)
    with Proxy(int(s3["endpoint"].rpartition(":")[2])) as opened:
        yield opened


def decay(lake: ailake.Lake) -> object:
    return MemoryDecayJob(lake).run(NOW + DAY)


def forget(lake: ailake.Lake) -> object:
    return ForgetJob(lake).run(NOW + DAY)


@pytest.mark.slow
def test_a_store_that_goes_away_during_a_job(
    s3: dict[str, str], proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says so, and the job that is run when it is back does what was left."""
    uri = "s3://lakes/away"
    options = {**s3, **QUICK, "endpoint": f"http://127.0.0.1:{proxy.port}"}
    with ailake.connect(
        uri, embedder="hashing:16", storage_options=options, judge_rules=KEEP
    ) as lake:
        memory = lake.memory("a")
        for n in range(3):
            expires_at = NOW + DAY if n == 1 else None
            memory.remember(f"n{n}", id=f"n{n}", expires_at=expires_at, now=NOW)
        memory.touch(["n0", "n2"], now=NOW)
        lake.flush()
        steps: list[tuple[Any, str, Callable[[ailake.Lake], object]]] = [
            (columns, "guard", decay),
            (Table, "delete_rows", forget),
        ]
        for owner, name, job in steps:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, after_cut(proxy, getattr(owner, name)))
                with pytest.raises(ailake.ObjectStoreError, match=f"^{uri}: the store could not"):
                    job(lake)
            proxy.down = False
            job(lake)
        records = {one.id: one.access_count for one in memory.list(now=NOW + DAY)}
        assert records == {"n0": 1, "n2": 1}
        assert lake.stats().pending_accesses == 0
        proxy.cut()
        with pytest.raises(ailake.ObjectStoreError, match="could not be reached"):
            lake.backup(tmp_path / "copy")
        with pytest.raises((OSError, RuntimeError), match="error sending request"):
            memory.remember("lost", id="lost")
        proxy.down = False
        assert not memory.remember("lost", id="lost").repeated
        assert lake.verify() == ()
        assert lake.ledger().verify() == ()


def after_cut(proxy: Proxy, step: Callable[..., Any]) -> Callable[..., Any]:
    def cut(*arguments: Any, **options: Any) -> Any:
        proxy.cut()
        return step(*arguments, **options)

    return cut
