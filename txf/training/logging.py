"""metrics.jsonl: one line for each (step, split), never two, whatever happened in between."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from etils import epath

from txf import hosts
from txf.errors import RunError
from txf.files import write_text


class MetricsLog:
    """The metrics of one run, in memory and on disk.

    A line is on disk when `write` returns. Object stores know no append; there the whole file is
    written anew at each `flush`.
    """

    def __init__(self, path: epath.Path):
        self.path = path
        self.lines: list[dict[str, Any]] = read_metrics(path)
        self._on_disk = 0
        # Of several processes that train together the first alone writes; all know all lines.
        self._appends = hosts.is_first() and "://" not in os.fspath(path)

    def keep_until(self, step: int) -> None:
        """Forget what lies after `step`, the checkpoint that training continues from."""
        self.lines = [line for line in self.lines if line["step"] <= step]
        self._on_disk = -1  # perhaps more than that, and perhaps half a line
        self.flush()

    def write(self, step: int, split: str, metrics: Mapping[str, Any]) -> None:
        """Add the line of (step, split); one that is there already stays as it is.

        Raises:
            RunError: the disk is full, or the file cannot be written to.
        """
        if self.find(step, split) is not None:
            return
        line = {"step": step, "split": split, **{k: _plain(v) for k, v in metrics.items()}}
        self.lines.append(line)
        if not self._appends:
            return
        self._on_disk += 1
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error

    def find(self, step: int, split: str) -> dict[str, Any] | None:
        """Return the line of (step, split), if there is one."""
        for line in reversed(self.lines):
            if (line["step"], line["split"]) == (step, split):
                return line
        return None

    def best(self, split: str = "valid") -> dict[str, Any] | None:
        """Return the line of `split` with the lowest finite loss."""
        lines = [line for line in self.lines if line["split"] == split and _finite(line["loss"])]
        return min(lines, key=lambda line: line["loss"], default=None)

    def seconds(self) -> float:
        """Return how long training had taken at the last line that says so."""
        return max((line["seconds"] for line in self.lines if "seconds" in line), default=0.0)

    def flush(self) -> None:
        """See to it that the file holds all lines: write it anew, in one piece, if it does not."""
        if self._on_disk != len(self.lines):
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in self.lines))
            self._on_disk = len(self.lines)


def read_metrics(path: epath.Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; one that a kill cut short is left out."""
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _plain(value: Any) -> Any:
    """Return a number that JSON knows: a float, or None for what is not finite."""
    if isinstance(value, (str, int)) or value is None:
        return value
    value = float(value)
    return value if math.isfinite(value) else None


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
