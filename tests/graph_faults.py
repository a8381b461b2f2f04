"""A table of mentions that fails, while all else works."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ailake.storage.table import Table


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, verb: str) -> Iterator[None]:
    """Let nobody do one thing to the graph: ``append`` or ``delete_rows``."""
    real = getattr(Table, verb)

    def fails(table: Table, *arguments: Any, **options: Any) -> Any:
        if table.name == "mentions":
            raise OSError("a disk is broken")
        return real(table, *arguments, **options)

    with monkeypatch.context() as broken:
        broken.setattr(Table, verb, fails)
        yield
