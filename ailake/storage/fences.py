"""What has to hold still whenever this thread is about to commit, such as a lease."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECKS: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("ailake_fences", default=())


@contextmanager
def fenced(check: Callable[[], None]) -> Iterator[None]:
    """Have ``check`` asked before every commit of this thread within the block."""
    token = _CHECKS.set((*_CHECKS.get(), check))
    try:
        yield
    finally:
        _CHECKS.reset(token)


def check_fences() -> None:
    """Raise what a check raises, where this thread may no longer commit."""
    for check in _CHECKS.get():
        check()
