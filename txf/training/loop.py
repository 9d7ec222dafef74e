"""The training loop: the one place that has effects."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from txf.config import fingerprint
from txf.errors import Stopped
from txf.training import run as runs
from txf.training.checkpoints import Checkpoints
from txf.training.clock import Clock
from txf.training.logging import MetricsLog
from txf.training.program import Program, prepare
from txf.training.state import TrainState

Progress = Callable[[Mapping[str, Any]], None]
SECONDS_A_DISPATCH = 0.5  # how long the host lets the device run before it looks up


def train(
    config: ConfigDict,
    workdir: Any,
    *,
    progress: Progress = lambda event: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train the run of `config` in `workdir` to its end, wherever it is; return its result.

    A run that is finished is left as it is. `progress` is told now and then what happens;
    `should_stop` is asked between dispatches.

    Raises:
        UserError: the config, the data or the folder cannot be used.
        RunError: a file could not be written.
        Stopped: `should_stop` said so; the run has saved itself.
    """
    folder = runs.check(config, workdir)
    if runs.is_finished(result := folder.result(), config):
        return result
    progress({"phase": "data"})
    program = prepare(config, folder.tokenizer())
    runs.begin(folder, config)
    folder.keep_reading(program.dataset)
    for note in program.dataset.notes:
        progress({"phase": "note", "text": note})
    session = _Session(config, folder, program, progress)
    try:
        session.restore()
        while session.step < config.training.steps and session.diverged_at is None:
            if should_stop():
                session.leave()
            session.dispatch()
            session.record()
        return session.finish()
    finally:
        session.checkpoints.close()


@dataclasses.dataclass
class _Session:
    """One go at a run: the state on its way from a checkpoint to the last step."""

    config: ConfigDict
    folder: runs.RunFolder
    program: Program
    progress: Progress

    def __post_init__(self):
        self.log = MetricsLog(self.folder.metrics)
        self.checkpoints = Checkpoints(self.folder.checkpoints, keep=self.config.checkpoint.keep)
        self.state: TrainState | None = None
        self.step = 0
        self.diverged_at: int | None = None
        self.saved_at: int | None = None
        self.metrics: Mapping[str, jax.Array] = {}
        self.clock = Clock(self.log.seconds())

    def restore(self) -> None:
        """Take up the newest checkpoint, or begin: evaluate and save the state of step 0."""
        if self.checkpoints.steps():
            self.step, self.state = self.checkpoints.restore(self.program.compiled.state_like)
            self.checkpoints.discard_after(self.step)
            self.log.keep_until(self.step)
            self.saved_at = self.step
        else:
            self.log.keep_until(-1)
            self.progress({"phase": "compile"})
            self.state = self.program.init_state()
            self.evaluate()
            self.save()
        self.clock.start_lap()

    def dispatch(self) -> None:
        """Take as many steps as lie before the next event, in one compiled call."""
        training = self.config.training
        events = (training.log_every, training.eval_every, training.checkpoint_every)
        to_event = min(every - self.step % every for every in events)
        count = min(to_event, training.steps - self.step, self._patience())
        draws = self.program.draws(self.step, count)
        self.state, self.metrics = self.program.compiled.train_steps(
            self.state, self.program.data, draws, np.int32(count), self.program.hyper
        )
        self.step += count
        self.clock.count(count, self.metrics)

    def record(self) -> None:
        """Log, evaluate and save where this step is one for it."""
        training, step = self.config.training, self.step
        ends = step == training.steps
        logs, evaluates, saves = (
            ends or step % every == 0
            for every in (training.log_every, training.eval_every, training.checkpoint_every)
        )
        if logs or evaluates or saves:
            self._look_for_divergence()
        if self.diverged_at is not None:
            return
        if logs:
            self._log_train_line()
        if evaluates or saves:
            with self.clock.paused():
                self.evaluate()
                if saves or self.log.best() is self.log.find(step, "valid"):
                    self.save()

    def evaluate(self) -> None:
        """Write the line of the validation split, unless it is there."""
        if self.log.find(self.step, "valid") is None:
            self.progress({"phase": "evaluate", "step": self.step})
            metrics = self._evaluate("valid")
            self.log.write(self.step, "valid", metrics)
            if not np.isfinite(metrics["loss"]):
                self.diverged_at = self.step

    def save(self) -> None:
        """Save this step, once; not one that has diverged, unless it is the first of all."""
        line = self.log.find(self.step, "valid")
        loss = math.inf if line is None or line["loss"] is None else line["loss"]
        if self.saved_at == self.step or (self.diverged_at is not None and self.step > 0):
            return
        self.log.flush()
        self.checkpoints.save(self.step, self.state, loss)
        self.saved_at = self.step

    def leave(self) -> None:
        """Save where training is, and stop; no line is written that it would not write anyway.

        Raises:
            Stopped: always.
        """
        self._look_for_divergence()
        self.save()
        self.checkpoints.wait()
        raise Stopped(f"stopped at step {self.step}; the same command continues")

    def finish(self) -> dict[str, Any]:
        """Evaluate what training ends with and write result.json, when the last save is on disk."""
        self.checkpoints.wait()
        diverged = self.diverged_at is not None
        if diverged:
            self.step, self.state = self.checkpoints.restore(self.program.compiled.state_like)
        self.evaluate()
        metrics = {"valid": _without_place(self.log.find(self.step, "valid"))}
        if "test" in self.program.dataset.splits:
            if self.log.find(self.step, "test") is None:
                self.log.write(self.step, "test", self._evaluate("test"))
            metrics["test"] = _without_place(self.log.find(self.step, "test"))
        self.log.flush()
        best = self.log.best()
        result = {
            "status": "diverged" if diverged else "done",
            "fingerprint": fingerprint(self.config),
            "steps": self.step,
            "diverged_at_step": self.diverged_at,
            "error": f"the loss was not finite at step {self.diverged_at}" if diverged else None,
            "parameters": self.program.parameters,
            "flops_per_token": self.program.flops_per_token,
            "seconds": self.clock.seconds(),
            "best": None if best is None else {"step": best["step"], "loss": best["loss"]},
            **metrics,
        }
        self.folder.write_result(result)
        return result

    def _look_for_divergence(self) -> None:
        bad_step = int(self.state.tally.bad_step)
        self.diverged_at = bad_step if bad_step >= 0 else None

    def _evaluate(self, split: str) -> dict[str, float]:
        return self.program.evaluate(self.state.params, split, self.config.training.eval_batch_size)

    def _log_train_line(self) -> None:
        tally, metrics = jax.device_get((self.state.tally, self.metrics))
        rate = self.clock.lap()
        tokens = self.config.training.batch_size * self.config.data.context_length
        line = {
            "loss": tally.nats / np.maximum(tally.weight, 1),
            **metrics,
            "tokens_per_second": rate * tokens,
            "seconds": self.clock.seconds(),
        }
        self.log.write(self.step, "train", line)
        self.state = self.state.forget()
        event = {"phase": "train", "step": self.step, "steps": self.config.training.steps}
        self.progress({**event, "loss": float(line["loss"]), "steps_per_second": rate})

    def _patience(self) -> int:
        """Return how many steps one dispatch may take."""
        wanted = self.config.training.steps_per_dispatch
        if wanted:
            return wanted
        return int(np.clip(SECONDS_A_DISPATCH * self.clock.pace(), 1, self.program.most_steps))


def _without_place(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("step", "split")}
