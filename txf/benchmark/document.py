"""What a benchmark found, as a document and as tables."""

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from txf.training.run import computes_as

LIBRARIES = ("txf", "jax", "jaxlib", "flax", "optax", "numpy", "torch")


def make_document(
    command: Sequence[str], seconds: float, parts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return all there is to know: what was run where, with which versions, and the figures."""
    return {
        "command": list(command),
        "seconds_a_measurement": seconds,
        "device": {**computes_as(), "processes": jax.process_count()},
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in LIBRARIES},
        "parts": {name: [dict(row) for row in rows] for name, rows in parts.items()},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def print_table(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one part's figures."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=name, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(width=max(120, Console().width)).print(table)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
