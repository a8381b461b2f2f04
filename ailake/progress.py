"""Progress bars on standard error, by rich; silent unless asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def progress_bar(description: str, *, total: int, shown: bool) -> Iterator[Advance]:
    """Show a bar while the block runs, and yield the function that advances it.

    Args:
        description: What is being counted.
        total: Where the bar is full.
        shown: False yields a function that does nothing.
    """
    if not shown:
        yield ignore
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total)
        yield lambda count: progress.advance(task, count)


def ignore(_count: int) -> None:
    """Count nothing: what is told of a progress that nobody watches."""
