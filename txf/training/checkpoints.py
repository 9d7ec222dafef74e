"""Orbax checkpoints of a run: the last ones and the best, whole or not there at all."""

import contextlib
import json
import logging
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath
from jaxtyping import Array, UInt32
from orbax.checkpoint import checkpoint_managers

from txf import hosts
from txf.errors import RunError, UserError
from txf.files import write_text

_log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints below one folder, each at `<folder>/<step>`.

    Always there: the newest `keep` and the one with the lowest validation loss. Leftovers of a save
    that was killed are removed when the folder is opened for writing.
    """

    def __init__(self, folder: epath.Path, *, keep: int = 1, read_only: bool = False):
        self.folder = folder
        policies = checkpoint_managers
        # Orbax works in threads of its own: what they print belongs to no one call of ours.
        self._quiet = contextlib.ExitStack()
        try:
            if not read_only and hosts.is_first():
                _mend_losses(folder)
            hosts.gather()
            with _quiet():
                options = ocp.CheckpointManagerOptions(
                    best_fn=_loss_of,
                    best_mode="min",
                    preservation_policy=policies.AnyPreservationPolicy(
                        [
                            policies.LatestN(keep),
                            policies.BestN(get_metric_fn=_loss_of, reverse=True, n=1),
                        ]
                    ),
                    cleanup_tmp_directories=not read_only,
                    read_only=read_only,
                    lightweight_initialize=read_only,  # losses matter to who deletes
                    create=not read_only,
                    # The runs of a pack save at the same time: each has barriers of its own.
                    multiprocessing_options=ocp.options.MultiprocessingOptions(
                        barrier_sync_key_prefix=folder.parent.name
                    ),
                )
                self._manager = ocp.CheckpointManager(folder, options=options)
            self._quiet.enter_context(_quiet())
        except OSError as error:
            raise RunError(f"cannot open checkpoints at {folder}: {error}") from error

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, in order."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, loss: float) -> None:
        """Begin to save `state`; training goes on meanwhile. A failure shows in `wait`.

        Raises:
            RunError: this save cannot begin, or the one before failed.
        """
        self.wait()
        # The train step donates its buffers: what is written must be a copy of its own.
        copy = _copy(state)
        with self._failing("save"):
            self._manager.save(
                step,
                args=ocp.args.Composite(state=ocp.args.StandardSave(copy)),
                metrics={"loss": loss, "digest": int(digest(copy))},
            )

    def wait(self) -> None:
        """Wait until the save under way is on disk.

        Raises:
            RunError: it failed (a full disk, a folder that cannot be written to).
        """
        with self._failing("save"):
            self._manager.wait_until_finished()
            self._manager.check_for_errors()

    def restore(self, like: Any, step: int | None = None) -> tuple[int, Any]:
        """Return (step, state) of `step`, or of the newest checkpoint that can be read.

        `like` has the state's shapes, dtypes and shardings. A damaged newest checkpoint is passed
        over with a warning that names it and the one used instead.

        Raises:
            UserError: there is no checkpoint, or none at `step`.
            RunError: no checkpoint can be read.
        """
        steps = self.steps()
        if not steps:
            raise UserError(f"there is no checkpoint at {self.folder}")
        if step is not None and step not in steps:
            have = ", ".join(map(str, steps))
            raise UserError(
                f"there is no checkpoint of step {step} at {self.folder}; it has {have}"
            )
        damaged: list[int] = []
        for candidate in [step] if step is not None else reversed(steps):
            state = None
            try:
                state = self._read(candidate, like)
            except Exception as error:  # Orbax and TensorStore raise bare Exceptions on bad files
                _log.debug("checkpoint %s: %s", candidate, error)
            if not all(hosts.gather(state is not None)):  # each process reads its own parts
                damaged.append(candidate)
                continue
            if damaged:
                names = ", ".join(str(self.folder / str(bad)) for bad in damaged)
                used = self.folder / str(candidate)
                _log.warning("the checkpoint %s is damaged; %s is used instead", names, used)
            return candidate, state
        names = ", ".join(str(self.folder / str(bad)) for bad in damaged)
        raise RunError(f"the checkpoint {names} is damaged, and there is no other; remove the run")

    def discard_after(self, step: int) -> None:
        """Delete checkpoints newer than `step`: damaged ones that a resume has passed over."""
        for newer in [s for s in self.steps() if s > step]:
            with self._failing("delete"):
                self._manager.delete(newer)

    def close(self) -> None:
        """Finish what is under way and let go of the folder."""
        try:
            self.wait()
            self._manager.close()
        finally:
            self._quiet.close()

    def _read(self, step: int, like: Any) -> Any:
        args = ocp.args.Composite(state=ocp.args.StandardRestore(like))
        state = self._manager.restore(step, args=args)["state"]
        # Orbax finds what is cut short or missing, but not what has changed in between.
        recorded = self._manager.metrics(step).get("digest")
        if recorded is not None and recorded != int(digest(state)):
            raise RunError(f"the checkpoint {self.folder / str(step)} is not what was saved")
        return state

    @contextlib.contextmanager
    def _failing(self, verb: str):
        try:
            yield
        except Exception as error:
            reason = str(error).split("\n")[0]
            raise RunError(f"cannot {verb} a checkpoint at {self.folder}: {reason}") from error


@jax.jit
def _copy(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


@jax.jit
def digest(tree: Any) -> UInt32[Array, ""]:
    """Return a number that changes with any bit of the tree's leaves, each of 32-bit numbers.

    sum_l (2 l + 1) sum_i (2 i + 1) bits_li modulo 2^32: a factor that is odd loses no bit.
    """
    total = jnp.uint32(0)
    for number, leaf in enumerate(jax.tree.leaves(tree)):
        bits = jax.lax.bitcast_convert_type(leaf, jnp.uint32).ravel()
        factors = 2 * jnp.arange(bits.size, dtype=jnp.uint32) + 1
        total += (bits * factors).sum(dtype=jnp.uint32) * jnp.uint32(2 * number + 1)
    return total


def _mend_losses(folder: epath.Path) -> None:
    """Call a loss that cannot be read infinite; its checkpoint may still be good."""
    for step in folder.iterdir() if folder.exists() else []:
        if step.name.isdigit():
            file = step / "metrics" / "metrics"
            try:
                float(json.loads(file.read_text())["loss"])
            except (OSError, ValueError, KeyError, TypeError):
                write_text(file, json.dumps({"loss": math.inf}))


def _loss_of(metrics: Any) -> float:
    return metrics["loss"]


@contextlib.contextmanager
def _quiet():
    """Keep what libraries print about bad files and full disks off the terminal.

    A line of ours says it. TensorStore's threads print through both of Python's hooks.
    """
    loggers = [logging.getLogger(name) for name in ("asyncio", "absl")]
    levels = [logger.level for logger in loggers]
    hooks = sys.unraisablehook, sys.excepthook
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    sys.unraisablehook = sys.excepthook = lambda *_: None
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        sys.unraisablehook, sys.excepthook = hooks
