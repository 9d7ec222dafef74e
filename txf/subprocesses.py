"""Processes that work for this one: started afresh, fed through a pipe, gone when it is.

They are not forked, as JAX has threads that a fork would lose. What goes in and comes out is
pickled: orders on the standard input, answers on the standard output.
"""

import contextlib
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from txf.errors import RunError

ROOT = Path(__file__).parents[1]
# How many threads JAX computes with on a CPU; read when it starts, the first that is set.
THREADS_VARIABLES = ("PJRT_NPROC", "NPROC")

Process = subprocess.Popen[bytes]


def cores() -> int:
    """Return how many cores this process may use."""
    # Which ones is known on Linux only.
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads JAX computes with on a CPU: one a core, unless a variable says."""
    given = [os.environ.get(name, "") for name in THREADS_VARIABLES]
    return next((int(text) for text in given if text.isdecimal()), cores())


def core_limit() -> float:
    """Return how many cores' worth of time a container gives this process, or no bound."""
    share = _control_group("cpu.max").split()
    if len(share) != 2 or not all(text.isdecimal() for text in share):
        return math.inf
    return int(share[0]) / int(share[1])


def memory() -> float:
    """Return the bytes of memory of this machine or container, or no bound where none is told."""
    try:
        machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        machine = math.inf
    limit = _control_group("memory.max").strip()
    return min(machine, float(limit)) if limit.isdecimal() else machine


def _control_group(name: str) -> str:
    """Return what a file of Linux's control group of this container says, or nothing."""
    try:
        return (Path("/sys/fs/cgroup") / name).read_text()
    except OSError:
        return ""


@contextlib.contextmanager
def started(main: Callable[[], None], environment: Mapping[str, str]) -> Iterator[Process]:
    """Start a process that calls `main`; it is gone when this is left.

    Args:
        main: a function of a module; it takes its orders from `channel`.
        environment: what is set for the process beyond what is set for this one.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {main.__module__} import {main.__name__} as f; f()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            **environment,
        },
        process_group=0,  # Ctrl-C is for the one who started it
    )
    try:
        yield process
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def send(process: Process, message: Any) -> None:
    """Give a process an order.

    Raises:
        RunError: the process has ended.
    """
    try:
        pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
    except BrokenPipeError as error:
        raise _ended(process) from error


def receive(process: Process) -> Any:
    """Wait for a process's next answer.

    Raises:
        RunError: the process has ended.
    """
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise _ended(process) from error


def _ended(process: Process) -> RunError:
    return RunError(
        f"a process started for this ended early, with status {process.wait()}; if memory ran out, "
        "free some, and start again"
    )


def channel() -> tuple[BinaryIO, BinaryIO]:
    """Return where a process that was `started` reads orders, and where it writes answers.

    What libraries print goes to the standard error from then on.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers
