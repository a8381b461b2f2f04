"""Where the work of a job is done: in threads of this process, or by workers elsewhere."""

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Each holds the columns of a million rows: more threads would cost more memory than they save.
_MOST_THREADS = 4


class Executor(Protocol):
    """Does pieces of work that don't depend on each other, several at a time.

    What a job writes is the same whoever does it: an executor that runs a piece a second time,
    because a worker died, changes nothing.
    """

    @property
    def width(self) -> int:
        """How many pieces are worked on at a time."""
        ...

    def map(self, work: Callable[[T], R], pieces: Sequence[T]) -> Generator[R, None, None]:
        """Yield what ``work`` returns for each piece, in order.

        Args:
            work: What is to be done; it, the pieces and the results can be pickled, and the
                package of ``work`` is installed wherever it runs.
            pieces: Its arguments.

        Raises:
            Exception: Whatever ``work`` raised, unchanged. Then, and where the generator is
                closed, the pieces that nobody has begun never are, and none is left running.
        """
        ...


class Threads:
    """Works in threads of this process; the engine and numpy let go of the interpreter's lock.

    Attributes:
        width: How many.
    """

    def __init__(self, width: int | None = None) -> None:
        self.width = width or min(_MOST_THREADS, os.cpu_count() or 1)

    def map(self, work: Callable[[T], R], pieces: Sequence[T]) -> Generator[R, None, None]:
        """Yield what ``work`` returns for each piece, in order."""
        if self.width == 1 or len(pieces) < 2:
            yield from map(work, pieces)
            return
        with ThreadPoolExecutor(self.width, thread_name_prefix="ailake-job") as pool:
            yield from pool.map(work, pieces)
