"""Leases: locks on an object store, where no operating system frees those of the dead.

A lease is a Lance dataset of no rows. Its latest version says in the schema's metadata who holds
it and until when, and whoever takes, renews or returns it commits the next version on top of the
one that was read: of several who try, the store lets one win. The holder renews it from a thread;
what is not renewed expires. A commit is preceded by a look at the lease, so that a process that
was stopped for longer than its lease finds out before it writes.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event, Lock, Thread

import lance
import pyarrow as pa

from ailake import clock
from ailake.core.lease import FREE, LeaseState, from_metadata, to_metadata
from ailake.errors import ConflictError
from ailake.storage.fences import fenced
from ailake.storage.location import ObjectStore
from ailake.storage.retries import is_lost_race, reading_again

log = logging.getLogger("ailake")

FOLDER = "_ailake"

# How long a lease is good for after it was last renewed, and by how much clocks may differ.
SECONDS = 60.0
SKEW = 30.0

# So often within its time a lease is renewed: one renewal may fail.
_RENEWALS = 3

# Versions of a lease are kept so long: a stopped process must not find its own next one free.
_KEPT = timedelta(minutes=10)

# The engine wants a column.
_COLUMNS = [pa.field("nothing", pa.int64())]


class Lease:
    """One attempt to hold the lease ``name`` of a lake on an object store."""

    def __init__(self, place: ObjectStore, name: str) -> None:
        self.what = f"the lease of {name} on {place.uri}"
        self._uri = f"{place.uri.rstrip('/')}/{FOLDER}/{name}.lease"
        self._options = dict(place.storage_options) or None
        self._holder = clock.new_id()
        self._who = f"{socket.gethostname()}, process {os.getpid()}"
        self._lock = Lock()

    def take(self) -> LeaseState | None:
        """Take it where it is free; return None, or else who has it."""
        version, state = self._read()
        if not state.is_free(clock.utc_now(), skew=timedelta(seconds=SKEW)):
            return state
        mine = LeaseState(self._holder, self._who).extended(_end())
        return None if self._write(version, mine) else self._read()[1]

    def renew(self) -> None:
        """Hold it for longer.

        Raises:
            ConflictError: It expired, and another has taken it.
        """
        with self._lock:
            self._renew(*self._held())

    def check(self) -> None:
        """Make sure that it is still held, and for a while to come.

        Raises:
            ConflictError: It expired, and another has taken it.
        """
        with self._lock:
            version, state = self._held()
            if state.expires_at - clock.utc_now() < timedelta(seconds=SECONDS / 2):
                self._renew(version, state)

    def give_back(self) -> None:
        """Let others take it at once; where that fails, it expires."""
        try:
            with self._lock:
                version, state = self._read()
                if state.holder == self._holder:
                    self._write(version, FREE)
            self._dataset().cleanup_old_versions(_KEPT)
        except (OSError, RuntimeError, ValueError):
            log.warning("%s was not given back; it will expire", self.what, exc_info=True)

    def _held(self) -> tuple[int, LeaseState]:
        version, state = self._read()
        if state.holder != self._holder:
            raise self._lost()
        return version, state

    def _renew(self, version: int, state: LeaseState) -> None:
        if not self._write(version, state.extended(_end())):
            raise self._lost()

    def _lost(self) -> ConflictError:
        return ConflictError(
            f"{self.what} was lost: it was not renewed for {SECONDS + SKEW:g} seconds, and another "
            "has taken it. What was committed before stands, nothing more was written; run again"
        )

    def _dataset(self) -> lance.LanceDataset:
        return lance.dataset(self._uri, storage_options=self._options)

    def _read(self) -> tuple[int, LeaseState]:
        """Return the latest version, 0 where there is none, and what it says."""
        try:
            dataset = reading_again(self._dataset)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
            return 0, FREE
        return int(dataset.version), from_metadata(dataset.schema.metadata)

    def _write(self, version: int, state: LeaseState) -> bool:
        """Commit the version that follows; tell whether it says so then."""
        schema = pa.schema(_COLUMNS, metadata=to_metadata(state))
        operation = lance.LanceOperation.Overwrite(schema, [])
        transaction = lance.Transaction(read_version=version, operation=operation)
        try:
            # Without retries the engine takes no other version but the next.
            lance.LanceDataset.commit(
                self._uri, transaction, storage_options=self._options, max_retries=0
            )
        except (OSError, RuntimeError) as error:
            if not is_lost_race(error) and "already exists" not in str(error):
                raise
            # Its own, where the answer was lost on the way and the request sent again.
            return self._read()[1] == state
        return True


def _end() -> datetime:
    return clock.utc_now() + timedelta(seconds=SECONDS)


@contextmanager
def renewed(lease: Lease) -> Iterator[None]:
    """Renew a lease that was taken, and have it looked at before each commit of this thread."""
    ended = Event()
    thread = Thread(target=_keep, args=(lease, ended), name="ailake-lease", daemon=True)
    thread.start()
    try:
        with fenced(lease.check):
            yield
    finally:
        ended.set()
        thread.join()
        lease.give_back()


def _keep(lease: Lease, ended: Event) -> None:
    while not ended.wait(SECONDS / _RENEWALS):
        try:
            lease.renew()
        except ConflictError:
            # The job's own thread is told at its next commit.
            log.warning("%s was lost", lease.what)
            return
        except (OSError, RuntimeError, ValueError):
            log.warning("%s could not be renewed; trying again", lease.what, exc_info=True)
