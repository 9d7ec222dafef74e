"""Many processes from the command line: how each learns who it is, and how it ends with the others.

The same command runs on every host, with --distributed where JAX can find out by itself which of
the processes it is, or with --coordinator_address, --num_processes and --process_id.
"""

import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
import threading
from typing import Any, NoReturn

from absl import flags

from txf import hosts
from txf.errors import RunError, UserError

_COORDINATOR = flags.DEFINE_string(
    "coordinator_address",
    None,
    "host:port of process 0, which the others can reach; or set JAX_COORDINATOR_ADDRESS.",
)
_COUNT = flags.DEFINE_integer(
    "num_processes", None, "How many processes train together; or set JAX_NUM_PROCESSES."
)
_INDEX = flags.DEFINE_integer(
    "process_id", None, "Which of them this one is, from 0; or set JAX_PROCESS_ID."
)
_DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Find the other processes by itself (Cloud TPU, Slurm, Open MPI)."
)
_TIMEOUT = flags.DEFINE_integer(
    "meeting_seconds", 300, "How long to wait for the other processes to start.", lower_bound=1
)
_HEARTBEAT = flags.DEFINE_integer(
    "heartbeat_seconds", 20, "A process silent for so long counts as ended.", lower_bound=2
)

# Lines that native libraries print about processes that meet or are gone, and what follows them.
_CHATTER = re.compile(
    rb"\[Gloo\] Rank |[IWEF]\d{4} [\d:.]+ +\d+ (coordination_|preemption_|client\.h|distributed)"
)
_NEW_LINE = re.compile(rb"[IWEF]\d{4} [\d:.]+ +\d+ |\[")


def join() -> None:
    """Meet the other processes that the flags or the environment tell of, if they tell of any.

    From then on only the first process prints, and a process that JAX ends because another is gone
    says so in one line, with exit code 1.

    Raises:
        UserError: a flag is missing or does not fit, or the others do not come.
    """
    address = _COORDINATOR.value or os.environ.get("JAX_COORDINATOR_ADDRESS")
    count = _number(_COUNT, "JAX_NUM_PROCESSES")
    index = _number(_INDEX, "JAX_PROCESS_ID")
    given = {"coordinator_address": address, "num_processes": count, "process_id": index}
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if not _DISTRIBUTED.value:
        if len(missing) == len(given):
            return
        if missing:
            raise UserError(
                f"{' and '.join(missing)} must be given too; or --distributed, where JAX can find "
                "out by itself"
            )
    if address is not None and not re.fullmatch(r".+:\d+", address):
        raise UserError(f"--coordinator_address={address} is not host:port")
    where = f" at {address}" if address else ""
    _end_with(
        f"the processes of this run did not all meet{where} within {_TIMEOUT.value} seconds; start "
        "one for each --process_id, all with the same --coordinator_address and --num_processes",
        2,
    )
    _drop_chatter()
    hosts.initialize(address, count, index, timeout=_TIMEOUT.value, heartbeat=_HEARTBEAT.value)
    _end_with(hosts.LOST, 1)
    if not hosts.is_first():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        logging.getLogger("txf").setLevel(logging.WARNING)


def refuse() -> None:
    """Refuse flags of many processes, for a command that runs in one.

    Raises:
        UserError: one is given.
    """
    given = [flag.name for flag in (_COORDINATOR, _COUNT, _INDEX) if flag.value is not None]
    if _DISTRIBUTED.value:
        given.append(_DISTRIBUTED.name)
    if given:
        raise UserError(f"this command runs in one process; drop --{' and --'.join(given)}")


def leave(code: int, agreed: bool) -> NoReturn:
    """End this process; where all have `agreed` to end, when all have come here."""
    import jax

    # Who is slower than the first process is not to be surprised by its end.
    _end_with("", code)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    if agreed:
        with contextlib.suppress(RunError, UserError):
            hosts.gather(patience=hosts.PATIENCE_SECONDS if code == 0 else hosts.FAREWELL_SECONDS)
            if code == 0:
                jax.distributed.shutdown()
    os._exit(code)


def _number(flag: flags.FlagHolder, variable: str) -> int | None:
    text = os.environ.get(variable)
    if flag.value is not None or text is None:
        return flag.value
    if not text.isdigit():
        raise UserError(f"{variable}={text} is not a whole number")
    return int(text)


_kept: list[Any] = []  # what C code calls must not be collected


def _end_with(text: str, code: int) -> None:
    """Have this process end with `text` and `code` where native code would abort it.

    JAX's client of the coordination service calls abort() when another process is gone.
    """

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def end(_: int) -> None:
        if text:
            sys.stderr.write(f"{os.path.basename(sys.argv[0]).removesuffix('.py')}: {text}\n")
            sys.stderr.flush()
        os._exit(code)

    _kept.append(end)
    ctypes.CDLL(None).signal(ctypes.c_int(signal.SIGABRT), end)


def _drop_chatter() -> None:
    """Let native code write through a filter; Python's own streams go on past it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        number = stream.fileno()
        stream.flush()
        kept = os.dup(number)
        fresh = open(kept, "w", encoding=stream.encoding, errors=stream.errors, buffering=1)  # noqa: SIM115
        setattr(sys, name, fresh)
        for handler in logging.getLogger().handlers:
            if getattr(handler, "stream", None) is stream:
                handler.setStream(fresh)
        reader, writer = os.pipe()
        os.dup2(writer, number)
        os.close(writer)
        threading.Thread(target=_pass_on, args=(reader, kept), daemon=True).start()


def _pass_on(reader: int, target: int) -> None:
    dropping = False
    with open(reader, "rb") as lines, contextlib.suppress(OSError):
        for line in lines:
            if _CHATTER.match(line):
                dropping = True
            elif _NEW_LINE.match(line):
                dropping = False
            if not dropping:
                os.write(target, line)
