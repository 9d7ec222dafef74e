"""Several processes as one program: how they meet, who writes, and how they come to one mind.

Every process runs the same commands on the same data. The first of them alone writes files; all
enter every step of training, every save and every restore. What one of them alone can know (that
it was asked to stop, that it has failed) goes to the others through JAX's coordination service:
small texts under keys of their own, which do not wait for the devices.
"""

import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

from txf.errors import RunError, Stopped, UserError

# How long a process that fails waits for the others to hear of it. They may be waiting for it where
# they hear nothing.
FAREWELL_SECONDS = 30
# How long a process waits for others that are well: as long as it takes to tokenize a corpus.
PATIENCE_SECONDS = 24 * 3600

LOST = (
    "another process of this run has ended, or no longer answers; start all of them again: "
    "the run continues from its last checkpoint"
)
# What JAX and its libraries say when a process they wait for is gone.
_SIGNS = ("Gloo", "UNAVAILABLE", "DEADLINE_EXCEEDED", "heartbeat", "Connection reset", "barrier")

_numbers = itertools.count()  # of the exchanges so far; the same in every process


class Lost(RunError):
    """Another process has ended: nothing that is under way can be finished."""

    def __init__(self, text: str = LOST):
        super().__init__(text)


def initialize(
    coordinator: str | None,
    count: int | None,
    index: int | None,
    *,
    timeout: int = 300,
    heartbeat: int = 20,
) -> None:
    """Meet the other processes; to be called before anything uses a device.

    Args:
        coordinator: host:port of process 0, where the others find it. None for this and the next
            two lets JAX find out by itself (Cloud TPU, Slurm, Open MPI, Kubernetes).
        count: how many processes there are.
        index: which of them this is, from 0.
        timeout: seconds to wait for the others.
        heartbeat: a process silent for so many seconds counts as ended.

    Raises:
        UserError: the numbers do not fit together, or nothing tells them.
    """
    import jax

    if count is not None and index is not None and not 0 <= index < count:
        raise UserError(f"process_id={index} is not one of num_processes={count}: 0 to {count - 1}")
    # Ours saves and stops at SIGTERM; JAX would put a handler of its own in its place.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            count,
            index,
            initialization_timeout=timeout,
            heartbeat_timeout_seconds=heartbeat,
        )
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        text = " ".join(str(error).split())
        raise UserError(f"the processes of this run cannot meet: {text}") from error
    check_devices()


def check_devices() -> None:
    """Refuse to be one of several processes by accident, or to be counted otherwise than asked.

    Raises:
        UserError: with the numbers.
    """
    import jax

    if jax.process_count() != count():
        raise UserError(
            f"JAX sees {jax.process_count()} processes, but this one was started as one of "
            f"{count()}; start all of them with --distributed, or with --coordinator_address, "
            "--num_processes and --process_id"
        )


def count() -> int:
    """Return the number of processes: 1 unless `initialize` was called."""
    return _state().num_processes if _is_initialized() else 1


def index() -> int:
    """Return which of the processes this is, from 0."""
    return _state().process_id if _is_initialized() else 0


def is_first() -> bool:
    """Tell whether this is the process that writes files and speaks to the person."""
    return index() == 0


def gather(value: Any = None, patience: float = PATIENCE_SECONDS) -> list[Any]:
    """Return what every process gave, in their order; each waits until all have come here.

    Raises:
        Lost: a process has ended, or did not come in time.
        UserError, RunError: another process came here with an error.
    """
    if count() == 1:
        return [value]
    return _results(_exchange({"value": value}, patience))


def first(value: Any) -> Any:
    """Return what the first process gave."""
    return gather(value)[0]


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Leave the block when all processes have come to its end, or all with an error.

    An error in one of them is raised in all: by its own type where it happened, as UserError or
    RunError elsewhere. `Stopped` is what all have agreed on before.

    Raises:
        Lost: another process has ended.
    """
    if count() == 1:
        yield
        return
    try:
        yield
    except (Stopped, Lost):
        raise
    except Exception as error:
        if _tells_of_loss(error):
            raise Lost from error
        if not getattr(error, "is_known_to_all", False):
            kind = "UserError" if isinstance(error, UserError) else "RunError"
            text = " ".join(str(error).split())
            if not isinstance(error, (UserError, RunError)):
                text = f"{type(error).__name__}: {text}"
            try:
                _exchange({"error": text, "kind": kind}, FAREWELL_SECONDS)
                error.is_known_to_all = True
            except Lost:
                # The others wait for what this process will not do: they end when it does.
                raise Lost(text) from error
        raise
    gather()


def _is_initialized() -> bool:
    # Where nobody has imported JAX, nobody has initialized it; to import it takes long.
    return "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized()


def _state() -> Any:
    from jax._src import distributed  # JAX has no public way to its key-value store

    return distributed.global_state


def _exchange(message: dict[str, Any], patience: float) -> list[dict[str, Any]]:
    """Hand `message` to all processes; return those of all.

    The first process collects them and publishes the whole, so that each of the others writes once
    and reads once. When all have come to an exchange, all have read the one before.
    """
    client, number, milliseconds = _state().client, next(_numbers), int(patience * 1000)
    place = f"txf/{number}"
    try:
        if not is_first():
            client.key_value_set(f"{place}/{index()}", json.dumps(message))
            return json.loads(client.blocking_key_value_get(f"{place}/all", milliseconds))
        others = range(1, count())
        texts = [client.blocking_key_value_get(f"{place}/{i}", milliseconds) for i in others]
        messages = [message, *map(json.loads, texts)]
        client.key_value_set(f"{place}/all", json.dumps(messages))
        if number:
            client.key_value_delete(f"txf/{number - 1}")
    except RuntimeError as error:
        raise Lost from error
    return json.loads(json.dumps(messages))


def _results(messages: list[dict[str, Any]]) -> list[Any]:
    for place, message in enumerate(messages):
        if "error" in message:
            kind = UserError if message["kind"] == "UserError" else RunError
            text = message["error"]
            error = kind(text if text.startswith("process ") else f"process {place}: {text}")
            error.is_known_to_all = True
            raise error
    return [message["value"] for message in messages]


def _tells_of_loss(error: BaseException | None) -> bool:
    """Tell whether an error, or what it came from, is that another process is gone."""
    while error is not None:
        strange = isinstance(error, (RuntimeError, ValueError))
        strange = strange and not isinstance(error, (UserError, RunError, Stopped))
        if strange and any(sign in str(error) for sign in _SIGNS):
            return True
        error = error.__cause__
    return False
