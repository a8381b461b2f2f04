"""RayExecutor: the pieces of a job's work as tasks on a Ray cluster."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from importlib.util import find_spec
from pickle import PicklingError
from typing import Any, TypeVar

from ailake.errors import InvalidInputError, MissingExtraError, WorkerDiedError

T = TypeVar("T")
R = TypeVar("R")


class RayExecutor:
    """Does the work of a job on the Ray cluster that this process is connected to.

    ``MemoryDecayJob(lake, executor=RayExecutor())``: workers read, compute and write files, and
    send back where these are, a few hundred bytes for each fragment; this process plans and
    commits, as without. Each worker reaches the lake by its URI (a local path has to be on a disk
    that all of them share), and has this version of the package. The options of an object store,
    keys included, go through Ray's object store.

    A piece whose worker or machine dies is done again by another, and writes the same file.

    Args:
        retries: How often the same piece is done again.
        cpus: Processors that a piece is given; the engine uses what it finds.
        width: How many pieces a job that commits piece by piece does at a time; default: as many
            as the cluster has processors for.

    Raises:
        MissingExtraError: The ``ray`` extra is not installed.
        InvalidInputError: An argument is of the wrong type or out of range.
    """

    def __init__(self, *, retries: int = 3, cpus: float = 1.0, width: int | None = None) -> None:
        if find_spec("ray") is None:
            raise MissingExtraError.of("RayExecutor", extra="ray")
        _check("retries", retries, wanted="a whole number >= 0", good=_whole(retries, least=0))
        _check("cpus", cpus, wanted="a number > 0", good=_positive(cpus))
        good = width is None or _whole(width, least=1)
        _check("width", width, wanted="a whole number >= 1, or None", good=good)
        self._retries = retries
        self._cpus = cpus
        self._width = width

    @property
    def width(self) -> int:
        """How many pieces are worked on at a time."""
        if self._width is not None:
            return self._width
        return max(1, int(_ray().cluster_resources().get("CPU", 1) / self._cpus))

    def map(self, work: Callable[[T], R], pieces: Sequence[T]) -> Generator[R, None, None]:
        """Yield what ``work`` returns for each piece, in order.

        Raises:
            Exception: Whatever ``work`` raised.
            InvalidInputError: This process is not connected to a cluster, or ``work`` can't be
                pickled.
            WorkerDiedError: The worker of a piece died on each try.
        """
        ray = _ray()
        # Ray would try again for ever where it killed the worker for want of memory.
        task = ray.remote(_call).options(num_cpus=self._cpus, max_retries=0)
        begin = partial(task.remote, _sent(ray, work))
        running = [begin(piece) for piece in pieces]
        try:
            for n, piece in enumerate(pieces):
                yield self._result(ray, running, n, again=partial(begin, piece))
        finally:
            _stop(ray, running)

    def _result(self, ray: Any, tasks: list[Any], n: int, *, again: Callable[[], Any]) -> Any:
        tries = 0
        while True:
            try:
                return ray.get(tasks[n])
            except ray.exceptions.RayTaskError as error:
                # What the work raised, so that a lost race is known as one.
                raise error.cause from error
            except ray.exceptions.RayError as error:
                tries += 1
                if tries > self._retries:
                    raise WorkerDiedError(
                        f"a piece of the work failed {tries} times because its worker died; "
                        "nothing of it was committed: look at the cluster's memory and logs, and "
                        "run again"
                    ) from error
            tasks[n] = again()


def _call(work: Callable[[T], R], piece: T) -> R:
    return work(piece)


def _sent(ray: Any, work: Any) -> Any:
    try:
        return ray.put(work)
    except (TypeError, PicklingError) as error:
        raise InvalidInputError(
            "RayExecutor: got work that can't be sent to workers, wanted objects that can be "
            f"pickled; give embedders by name: {error}"
        ) from error


def _stop(ray: Any, tasks: Sequence[Any]) -> None:
    """Leave nothing running that still writes."""
    _, running = ray.wait(list(tasks), num_returns=len(tasks), timeout=0) if tasks else ([], [])
    for one in running:
        ray.cancel(one)
    if running:
        ray.wait(running, num_returns=len(running))


def _ray() -> Any:
    import ray  # noqa: PLC0415 (heavy, and only for those who use it)

    if not ray.is_initialized():
        raise InvalidInputError(
            "RayExecutor: got a process without a cluster, wanted one that is connected; "
            "call ray.init(address='auto'), or ray.init() for this machine alone"
        )
    return ray


def _whole(value: object, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _positive(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")  # type: ignore[operator]


def _check(name: str, value: object, *, wanted: str, good: bool) -> None:
    if not good:
        raise InvalidInputError.of(name, got=value, wanted=wanted)
