"""metrics.jsonl: one line for each (step, split), never two, whatever happened in between."""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from etils import epath

from txf import hosts
from txf.errors import RunError
from txf.files import write_text

# The fields of a train line that say how the machine did, not what was learned: two runs of one
# config differ in them. A lap lasts from one train line to the next; evaluations, checkpoints,
# diagnostics and compilation are no part of it.
MEASURED = MappingProxyType(
    {
        "tokens_per_second": "optimizer steps / seconds of the lap x batch_size x context_length",
        "flops_per_second": "tokens_per_second x the model's flops_per_token, forward and backward",
        "utilization": "flops_per_second / the devices' peak in matrix products: txf.training.peak",
        "compile_seconds": "what tracing and compiling the train step took in the lap",
        "memory_bytes": "the most in use so far: on the fullest device, or by the process on a CPU",
        "seconds": "since the run began, all in all, less the times at which it lay still",
    }
)


class MetricsLog:
    """The metrics of one run, in memory and on disk.

    A line is on disk when `write` returns. Object stores know no append; there the whole file is
    written anew at each `flush`.
    """

    def __init__(self, path: epath.Path, events: epath.Path | None = None):
        """`events`: a folder for a copy of the numbers in TensorBoard's event files."""
        self.path = path
        self._events_folder, self._events = events, None
        self.lines: list[dict[str, Any]] = read_metrics(path)
        self._on_disk = 0
        # Of several processes that train together the first alone writes; all know all lines.
        self._appends = hosts.is_first() and "://" not in os.fspath(path)

    def keep_until(self, step: int) -> None:
        """Forget what lies after `step`, the checkpoint that training continues from."""
        self.lines = [line for line in self.lines if line["step"] <= step]
        self._on_disk = -1  # perhaps more than that, and perhaps half a line
        self.flush()
        if self._events_folder is not None and hosts.is_first():
            self._events = EventFiles(self._events_folder, step, self.lines)

    def write(self, step: int, split: str, metrics: Mapping[str, Any]) -> None:
        """Add the line of (step, split); one that is there already stays as it is.

        Raises:
            RunError: the disk is full, or the file cannot be written to.
        """
        if self.find(step, split) is not None:
            return
        line = {"step": step, "split": split, **{k: _plain(v) for k, v in metrics.items()}}
        self.lines.append(line)
        if self._events is not None:
            self._events.write(line)
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

    def close(self) -> None:
        """Let go of the event files, if there are any."""
        if self._events is not None:
            self._events.close()

    def flush(self) -> None:
        """See to it that the file holds all lines: write it anew, in one piece, if it does not."""
        if self._on_disk != len(self.lines):
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in self.lines))
            self._on_disk = len(self.lines)


class EventFiles:
    """TensorBoard's copy of metrics.jsonl: a scalar SPLIT/NAME for each number of a line.

    Each go at a run begins a file of its own, which tells readers to forget what earlier ones say
    of steps past the one that this go continues from. A line is in the file when `write` returns.
    """

    def __init__(self, folder: epath.Path, step: int, lines: Iterable[Mapping[str, Any]]):
        """Begin a file after `step`; `lines` are those up to it, for a folder that has none yet."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        is_new = not (folder.exists() and any(folder.glob("events.out.tfevents.*")))
        folder.mkdir(parents=True, exist_ok=True)
        # Readers take the files in the order of their names, which begin with whole seconds.
        suffix = f".{time.time_ns():020}"
        self._proto = event_pb2
        self._writer = EventsWriter(os.path.join(os.fspath(folder), "events"), suffix)
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(step + 1, session_log=start)
        for line in lines if is_new else ():
            self.write(line)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add the numbers of a line of metrics.jsonl."""
        from tensorboardX.summary import Summary

        values = [
            Summary.Value(tag=f"{line['split']}/{key}", simple_value=value)
            for key, value in line.items()
            if key != "step" and isinstance(value, (int, float))
        ]
        self._add(line["step"], summary=Summary(value=values))

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        event = self._proto.Event(wall_time=time.time(), step=step, **content)
        self._writer.write_event(event)
        self._writer.flush()


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
