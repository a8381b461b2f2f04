"""What commands print: rich tables for people, one JSON document for machines."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ailake.core.records import Hit

_LOWERING = ("lexical", "neighbour", "speaker", "date", "graph")


def print_json(value: object) -> None:
    """Print one JSON document; instants in ISO 8601."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, indent=2) + "\n")


def plain(value: object) -> Any:
    """Return dataclasses, enums, instants and mappings as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name.rstrip("_"): plain(getattr(value, name)) for name in names}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return value


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; cells are shown as they are, never read as markup."""
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def print_explained(title: str, hits: Iterable[Hit]) -> None:
    """Print each hit with every part of its score."""
    print_line(f"\n{title}")
    for place, hit in enumerate(hits, start=1):
        p = hit.parts
        print_line(f"{place}. {hit.passage}  [{hit.id}]")
        by = "/" if p["near"] >= 0 else "×"
        print_line(f"   score {p['score']:.4f} = {p['near']:.4f} {by} weight {p['weight']:.4f}")
        print_line(f"   {p['near']:.4f} = {_evidence(p)}")
        print_line(
            f"   weight = {p['recency_part']:.4f} (recency {p['recency']:.4f}) × "
            f"{p['importance_part']:.4f} (importance {p['importance']:.2f})"
        )


def _evidence(parts: Mapping[str, float]) -> str:
    """Return how a memory's distance became what its weight divides."""
    if "relevance" in parts:
        return f"1 - relevance {parts['relevance']:.4f}"
    counted = [f"- {name} {parts[name]:.4f}" for name in _LOWERING if parts[name]]
    if parts["brevity"]:
        counted.append(f"+ brevity {parts['brevity']:.4f}")
    return " ".join([f"distance {parts['distance']:.4f}", *counted])


def print_line(text: str) -> None:
    """Print a line for people."""
    Console(soft_wrap=True).print(escape(text), highlight=False)


def print_error(error: Exception) -> None:
    """Print what went wrong on standard error."""
    Console(stderr=True, soft_wrap=True).print(
        f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", highlight=False
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return str(value)
