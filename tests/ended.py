"""Processes that a test has started, and that do not outlive it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from subprocess import Popen


@contextmanager
def ending(*processes: Popen[str]) -> Iterator[Sequence[Popen[str]]]:
    """Kill what still runs, and close all pipes, also where an assertion fails in between.

    A pipe that is left open would be a warning, and so an error, in whichever test comes next.
    """
    with ExitStack() as stack:
        for process in processes:
            stack.enter_context(process)
            stack.callback(process.kill)
        yield processes
