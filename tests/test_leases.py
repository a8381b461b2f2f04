"""Leases: one holder at a time, whoever dies or sleeps.

They are Lance datasets, so a folder serves for most of it as well as an object store.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from time import sleep

import lance
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ailake
from ailake.core.lease import FREE, LeaseState, from_metadata, to_metadata
from ailake.errors import ConflictError
from ailake.maintenance import CompactionJob, MaintainJob, MemoryDecayJob
from ailake.storage import leases, locks
from ailake.storage.fences import check_fences, fenced
from ailake.storage.leases import Lease
from ailake.storage.location import ObjectStore
from ailake.storage.locks import JOBS, LockedError, exclusive

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (given a zone)

HOLDER = """
import json, sys
from ailake.storage import leases
from ailake.storage.location import ObjectStore
from ailake.storage.locks import exclusive

leases.SECONDS, leases.SKEW = 0.5, 0.25
with exclusive(ObjectStore(sys.argv[1], json.loads(sys.argv[2])), "jobs"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path: Path) -> ObjectStore:
    return ObjectStore(str(tmp_path), {})


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not renewed expires at once, and is not renewed by itself."""
    monkeypatch.setattr(leases, "SECONDS", 0.01)
    monkeypatch.setattr(leases, "SKEW", 0.0)
    monkeypatch.setattr(leases, "_RENEWALS", 1e-9)
    monkeypatch.setattr(locks, "_POLL_LEASE_SECONDS", 0.01)


@given(INSTANTS, INSTANTS, st.timedeltas(timedelta(0), timedelta(days=1)))
def test_when_a_lease_may_be_taken(now: datetime, end: datetime, skew: timedelta) -> None:
    held = LeaseState("id", "who", end)
    assert held.is_free(now, skew=skew) == (end + skew <= now)
    assert FREE.is_free(now, skew=skew)
    stored = {k.encode(): v.encode() for k, v in to_metadata(held).items()}
    assert from_metadata(stored) == held
    assert held.extended(now).expires_at == max(now, end)


def test_one_holds_it_until_it_is_given_back(place: ObjectStore) -> None:
    first, second = Lease(place, JOBS), Lease(place, JOBS)
    assert first.take() is None
    holder = second.take()
    assert holder is not None
    assert "process" in holder.who
    with pytest.raises(LockedError), exclusive(place, JOBS, wait=False):
        pytest.fail("it is held")
    assert Lease(place, "another").take() is None
    first.give_back()
    assert second.take() is None
    first.give_back()  # No longer its own: nothing happens.
    second.check()


def test_of_many_who_try_at_once_one_takes_it(place: ObjectStore) -> None:
    for _ in range(5):
        attempts = [Lease(place, JOBS) for _ in range(6)]
        barrier = Barrier(len(attempts))
        with ThreadPoolExecutor(len(attempts)) as pool:
            won = [one for one in pool.map(partial(took, barrier=barrier), attempts) if one]
        assert len(won) == 1
        won[0].give_back()


def took(lease: Lease, *, barrier: Barrier) -> Lease | None:
    barrier.wait()
    return lease if lease.take() is None else None


def test_a_lease_is_renewed_while_it_is_held(
    place: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_RENEWALS", leases.SECONDS * 1_000)
    renewed = Event()
    monkeypatch.setattr(Lease, "renew", watched(Lease.renew, renewed))
    with exclusive(place, JOBS):
        assert renewed.wait(60)
        renewed.clear()
        assert renewed.wait(60)


def watched(method: Callable[[Lease], None], done: Event) -> Callable[[Lease], None]:
    def called(lease: Lease) -> None:
        method(lease)
        done.set()

    return called


@pytest.mark.usefixtures("short")
def test_an_expired_lease_is_taken_and_its_holder_finds_out(place: ObjectStore) -> None:
    asleep = Lease(place, JOBS)
    assert asleep.take() is None
    with fenced(asleep.check), exclusive(place, JOBS), pytest.raises(ConflictError, match="lost"):
        check_fences()
    with pytest.raises(ConflictError, match="another has taken it"):
        asleep.renew()


@pytest.mark.usefixtures("short")
def test_a_lease_that_nobody_took_is_still_held(place: ObjectStore) -> None:
    late = Lease(place, JOBS)
    assert late.take() is None
    before = latest(place)
    sleep(0.02)
    late.check()
    assert latest(place) > before


def latest(place: ObjectStore) -> datetime:
    stored = lance.dataset(f"{place.uri}/_ailake/{JOBS}.lease").schema.metadata
    return from_metadata(stored).expires_at


def test_clocks_may_differ(place: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has expired by another's clock is left alone for as long as clocks may differ by."""
    monkeypatch.setattr(leases, "SECONDS", 0.01)
    assert Lease(place, JOBS).take() is None
    sleep(0.02)
    assert Lease(place, JOBS).take() is not None
    monkeypatch.setattr(leases, "SKEW", 0.0)
    assert Lease(place, JOBS).take() is None


def test_versions_of_a_lease_do_not_pile_up(
    place: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_KEPT", timedelta(0))
    for _ in range(3):
        with exclusive(place, JOBS):
            pass
    assert len(lance.dataset(f"{place.uri}/_ailake/{JOBS}.lease").versions()) == 1


@pytest.fixture
def stored(s3: dict[str, str]) -> Iterator[ailake.Lake]:
    uri = "s3://lakes/leased"
    with ailake.connect(uri, embedder="hashing:16", storage_options=s3) as lake:
        lake.memory("a").remember_many([{"text": "tea"}, {"text": "coffee"}], now=NOW)
        yield lake


@pytest.mark.slow
def test_jobs_on_an_object_store(stored: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds the lease; one that has lost it commits nothing."""
    monkeypatch.setattr(locks, "_POLL_LEASE_SECONDS", 0.1)
    place, day = stored.store.place, timedelta(days=1)
    assert isinstance(place, ObjectStore)
    assert "secret" not in repr(place)
    with exclusive(place, JOBS):
        waiting = Thread(target=lambda: CompactionJob(stored).run())
        waiting.start()
        MemoryDecayJob(stored).run(NOW + day, dry_run=True)
        assert waiting.is_alive()
    waiting.join()
    before = stored.store.episodic.version
    monkeypatch.setattr(leases, "SKEW", -leases.SECONDS)
    lost = Lease(place, JOBS)
    assert lost.take() is None
    told = "the lease of jobs on s3://lakes/leased was lost"
    with fenced(lost.check), pytest.raises(ConflictError, match=told):
        MemoryDecayJob(stored).run(NOW + day)
    assert stored.store.episodic.version == before
    assert MaintainJob(stored).run(NOW + day).decay.version_after > before


@pytest.mark.slow
def test_a_killed_holder(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a process that was killed goes on when its lease has expired."""
    monkeypatch.setattr(locks, "_POLL_LEASE_SECONDS", 0.1)
    # However late it renews, it holds it.
    monkeypatch.setattr(leases, "SKEW", 3_600.0)
    place = ObjectStore("s3://lakes/killed", s3)
    command = [sys.executable, "-c", HOLDER, place.uri, json.dumps(s3)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError), exclusive(place, JOBS, wait=False):
            pytest.fail("another process holds it")
        holder.kill()
        holder.wait()
        monkeypatch.setattr(leases, "SKEW", 0.25)
        with exclusive(place, JOBS):
            check_fences()
