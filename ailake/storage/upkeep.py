"""The thread that drains a process's log off its callers' path."""

import atexit
import logging
from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread
from time import sleep

from ailake.errors import AilakeError

log = logging.getLogger(__name__)

# Half of the time in which other processes are to see a memory.
DELAY = 0.5
RETRY_AFTER = 5.0

# A process that ends does not wait longer for a drain, such as one whose lock another process
# holds: what was logged is kept.
EXIT_PATIENCE = 5.0

# What a drain could not do, because another was busy with it, it asks for again.
_FINISH_ATTEMPTS = 50
_FINISH_PAUSE = 0.05


class Drainer:
    """Calls ``drain`` a moment after it is woken, in a thread of its own.

    Args:
        drain: Returns False where there is nothing left that could ever be drained.
        at_end: Called by the thread as it ends.
    """

    def __init__(self, drain: Callable[[], bool], *, at_end: Callable[[], None]) -> None:
        self._drain = drain
        self._at_end = at_end
        self._lock = Lock()
        self._thread: Thread | None = None
        self._wanted = Event()
        self._at_once = Event()
        self._stopped = False
        self._running = Lock()

    def wake(self, *, at_once: bool) -> None:
        """Ask for a drain within ``DELAY`` seconds, or at once."""
        self._wanted.set()
        if at_once:
            self._at_once.set()
        # After a fork the thread is not there.
        if self._thread is None or not self._thread.is_alive():
            self._start()

    def finish(self) -> None:
        """Return when no drain is running nor asked for, with the upkeep that follows it.

        Where another process is at the same upkeep for long, it is left to that.
        """
        for _ in range(_FINISH_ATTEMPTS):
            with self._running:
                if not self._wanted.is_set() or self._stopped:
                    return
                self._wanted.clear()
                self._drain()
            sleep(_FINISH_PAUSE)

    def end(self) -> None:
        """Start no other drain; the thread ends by itself."""
        atexit.unregister(self.stop)
        self._stopped = True
        self._wanted.set()
        self._at_once.set()

    def stop(self, patience: float | None = None) -> None:
        """End, and wait for a drain that is running, at most so many seconds."""
        self.end()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(patience)

    def _start(self) -> None:
        with self._lock:
            if self._stopped or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = Thread(target=self._run, name="ailake-drainer", daemon=True)
            try:
                self._thread.start()
                atexit.register(self.stop, EXIT_PATIENCE)
            except RuntimeError:
                # What was logged is kept: the next write, or another process, drains it.
                log.warning("no thread could be started to drain the log", exc_info=True)
                self._thread = None

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            self._wanted.wait()
            self._at_once.wait(DELAY)
            if self._stopped:
                break
            self._at_once.clear()
            goes_on = self._attempt()
        try:
            self._at_end()
        except (OSError, RuntimeError, ValueError, AilakeError):
            log.warning("accesses of the last second were not counted", exc_info=True)

    def _attempt(self) -> bool:
        try:
            with self._running:
                self._wanted.clear()
                return self._drain()
        # ValueError: what pyarrow and the engine make of rows that don't fit the table.
        except (OSError, RuntimeError, ValueError, AilakeError):
            # What was logged stays in the log, where every later drain finds it.
            log.warning("the log could not be drained; trying again", exc_info=True)
            self._wanted.set()
            self._at_once.wait(RETRY_AFTER)
            return True
