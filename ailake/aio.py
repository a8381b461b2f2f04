"""The verbs of a class as coroutines, each of which runs in a worker thread.

An ``Edge`` names its verbs one by one, and takes everything else from the methods: what a type
checker and an editor know of ``Memory.recall``, they know of ``AsyncMemory.recall``. Had it only
a ``__getattr__``, they would know nothing; had it methods of its own, they would be copies.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

P = ParamSpec("P")
R = TypeVar("R")


class Verb(Generic[P, R]):
    """A method as a coroutine function of an ``Edge``.

    Cancelling it where it has not begun means that it never does. What has begun goes on to its
    end in its thread, and nobody is told how it ended.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, edge: None, owner: type) -> Self: ...
    @overload
    def __get__(self, edge: "Edge", owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(
        self, edge: "Edge | None", owner: type
    ) -> Self | Callable[P, Coroutine[Any, Any, R]]:
        if edge is None:
            return self
        method: Callable[P, R] = getattr(edge.sync, self._name)

        @wraps(method)
        async def verb(*args: P.args, **kwargs: P.kwargs) -> R:
            return await asyncio.to_thread(method, *args, **kwargs)

        return verb


@dataclass(frozen=True)
class Edge:
    """The verbs of an object as coroutines.

    Attributes:
        sync: The object itself, with all that is no verb.
    """

    sync: Any

    # Unseen by type checkers, for whom a name that is not declared is an error.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self)
            verbs = sorted(one for one in dir(kind) if isinstance(getattr(kind, one), Verb))
            raise AttributeError(
                f"{kind.__name__} has no {name!r}: its verbs are {', '.join(verbs)}; all else is "
                "at .sync",
                name=name,
                obj=self,
            )
