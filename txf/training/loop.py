"""The training loop: the one place that has effects."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from txf import hosts
from txf.config import fingerprint
from txf.errors import Stopped
from txf.training import run as runs
from txf.training.checkpoints import Checkpoints
from txf.training.clock import Clock, Lap
from txf.training.lanes import Lanes, make_lanes
from txf.training.logging import MetricsLog
from txf.training.peak import Peak, device_peak, peak_memory
from txf.training.program import Program, prepare
from txf.training.state import Tally, TrainState

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
    [result] = train_pack([(config, workdir)], progress=[progress], should_stop=should_stop)
    return result


def train_pack(
    members: Sequence[tuple[ConfigDict, Any]],
    *,
    places: Sequence[int] | None = None,
    size: int | None = None,
    progress: Sequence[Progress] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """Train several runs side by side as one program, each in its own folder as if alone.

    The runs differ in `TRACED` keys alone. They take the same steps at the same time, those that
    lag behind (after a kill) first; one that diverges leaves the others alone. A run in a pack
    comes to the same bits however often it is interrupted, as long as `size`, the number of lanes
    (by default one a member), and its place among them are the same; a run alone comes to figures
    that differ by rounding. `places` are those of the members where others of the pack have ended.

    Raises:
        As `train`.
        ValueError: the runs do not share a compiled program.
    """
    progress = progress or [lambda event: None] * len(members)
    with hosts.together():
        places = range(len(members)) if places is None else places
        return _train_pack(members, places, size or len(members), progress, should_stop)


def _train_pack(members, places, size, progress, should_stop) -> list[dict[str, Any]]:
    folders = [runs.check(config, workdir) for config, workdir in members]
    results = hosts.first([folder.result() for folder in folders])
    sessions = {
        place: _Session(config, folder, tell)
        for place, (config, _), folder, result, tell in zip(
            places, members, folders, results, progress, strict=True
        )
        if not runs.is_finished(result, config)
    }
    if sessions:
        with contextlib.ExitStack() as stack, hosts.together():
            for session in sessions.values():
                stack.push(session.close)
                session.begin()
            _train(list(sessions.values()), list(sessions), size, should_stop)
    return hosts.first([folder.result() for folder in folders])


def _train(
    sessions: list["_Session"], places: list[int], size: int, should_stop: Callable[[], bool]
) -> None:
    """Take all steps that are left to these runs, and finish them."""
    config, clock = sessions[0].config, Clock()
    for session in sessions:
        session.clock, session.share = clock, 1 / len(sessions)
    states = [session.restore() for session in sessions]
    lanes = make_lanes([session.program for session in sessions], states, places, size)
    del states  # the lanes' own by now
    clock.start_lap()
    while left := [session for session in sessions if session.goes_on()]:
        stop, patience = _agree(should_stop(), sessions[0].patience())
        if stop:
            _leave(sessions, lanes)
        step = min(session.step for session in left)
        moving = [session.goes_on() and session.step == step for session in sessions]
        events = [step + every - step % every for every in _intervals(config)]
        others = [session.step for session in left if session.step > step]
        count = min(min([*events, *others, config.training.steps]) - step, patience)
        with clock.compiling():
            lanes.advance([session.step for session in sessions], count, moving)
        clock.count(count, lanes.metrics)
        _record(sessions, lanes, moving, step + count)
    for lane, session in enumerate(sessions):
        session.finish(lanes.state(lane))


def _agree(stop: bool, patience: int) -> tuple[bool, int]:
    """Return whether any process is to stop, and how many steps the first has patience for."""
    asked = hosts.gather([stop, patience])
    return any(stop for stop, _ in asked), asked[0][1]


def _intervals(config: ConfigDict) -> tuple[int, int, int]:
    training = config.training
    return training.log_every, training.eval_every, training.checkpoint_every


def _record(sessions: list["_Session"], lanes: Lanes, moving: list[bool], step: int) -> None:
    """Log, evaluate and save the runs that have come to `step`, where it is one for that."""
    config, clock = sessions[0].config, sessions[0].clock
    ends = step == config.training.steps
    logs, evaluates, saves = (ends or step % every == 0 for every in _intervals(config))
    here = [lane for lane, moves in enumerate(moving) if moves]
    for lane in here:
        sessions[lane].step = step
    if not (logs or evaluates or saves):
        return
    readings = lanes.read()
    for lane in here:
        sessions[lane].look_for_divergence(readings[lane][0])
    here = [lane for lane in here if sessions[lane].diverged_at is None]
    if logs:
        lap = clock.lap()
        with clock.paused():
            for lane in here:
                state = lanes.state(lane) if config.training.diagnostics else None
                sessions[lane].log_train_line(*readings[lane], lap, state)
        lanes.forget(here)
    if evaluates or saves:
        with clock.paused():
            for lane in here:
                sessions[lane].evaluate_and_save(lanes.state(lane), saves)


def _leave(sessions: list["_Session"], lanes: Lanes) -> None:
    """Save where training is, and stop; no line is written that it would not write anyway.

    Raises:
        Stopped: always.
    """
    for lane, (session, (tally, _)) in enumerate(zip(sessions, lanes.read(), strict=True)):
        session.look_for_divergence(tally)
        session.save(lanes.state(lane))
    for session in sessions:
        session.checkpoints.wait()
    step = min(session.step for session in sessions)
    raise Stopped(f"stopped at step {step}; the same command continues")


class _Session:
    """One go at a run: its folder, its log, its checkpoints, and how far it is."""

    def __init__(self, config: ConfigDict, folder: runs.RunFolder, progress: Progress):
        self.config, self.folder, self.progress = config, folder, progress
        self.step = 0
        self.diverged_at: int | None = None
        self.saved_at: int | None = None
        self.clock = Clock()
        self.share = 1.0  # of the clock's seconds: runs of a pack divide the machine's time
        self.program: Program
        self.log: MetricsLog
        self.peak: Peak | None = None
        self.checkpoints: Checkpoints | None = None

    def begin(self) -> None:
        """Load the data, and open or make the run's files."""
        self.progress({"phase": "data"})
        self.program = prepare(self.config, self.folder.tokenizer())
        runs.begin(self.folder, self.config)
        self.folder.keep_reading(self.program.dataset)
        for note in self.program.dataset.notes:
            self.progress({"phase": "note", "text": note})
        training = self.config.training
        self.peak = device_peak(
            self.config.model.dtype,
            len(self.program.compiled.draws_place.device_set),
            measures=training.diagnostics,
        )
        self.log = MetricsLog(
            self.folder.metrics, self.folder.events if training.tensorboard else None
        )
        self.seconds_before = self.log.seconds()
        self.checkpoints = Checkpoints(self.folder.checkpoints, keep=self.config.checkpoint.keep)

    def close(self, _: Any, error: BaseException | None, __: Any) -> None:
        """Let go of the files; where another process is lost, do not wait for it."""
        if self.checkpoints is not None:
            self.log.close()
        if self.checkpoints is not None and not isinstance(error, hosts.Lost):
            self.checkpoints.close()

    def restore(self) -> TrainState:
        """Return the newest checkpoint's state, or begin: evaluate and save that of step 0."""
        if self.checkpoints.steps():
            self.step, state = self.checkpoints.restore(self.program.compiled.state_like)
            self.checkpoints.discard_after(self.step)
            self.log.keep_until(self.step)
            self.saved_at = self.step
        else:
            self.log.keep_until(-1)
            self.progress({"phase": "compile"})
            state = self.program.init_state()
            self.evaluate(state)
            self.save(state)
        return state

    def goes_on(self) -> bool:
        """Tell whether there are steps left to take."""
        return self.step < self.config.training.steps and self.diverged_at is None

    def evaluate_and_save(self, state: TrainState, saves: bool) -> None:
        """Evaluate; save where that is asked for, and what is best so far."""
        self.evaluate(state)
        if saves or self.log.best() is self.log.find(self.step, "valid"):
            self.save(state)

    def evaluate(self, state: TrainState) -> None:
        """Write the line of the validation split, unless it is there."""
        if self.log.find(self.step, "valid") is None:
            self.progress({"phase": "evaluate", "step": self.step})
            metrics = self._evaluate(state, "valid")
            self.log.write(self.step, "valid", metrics)
            if not np.isfinite(metrics["loss"]):
                self.diverged_at = self.step

    def save(self, state: TrainState) -> None:
        """Save this step, once; not one that has diverged, unless it is the first of all."""
        line = self.log.find(self.step, "valid")
        loss = math.inf if line is None or line["loss"] is None else line["loss"]
        if self.saved_at == self.step or (self.diverged_at is not None and self.step > 0):
            return
        self.log.flush()
        self.checkpoints.save(self.step, state, loss)
        self.saved_at = self.step

    def finish(self, state: TrainState) -> None:
        """Evaluate what training ends with and write result.json, when the last save is on disk."""
        self.checkpoints.wait()
        diverged = self.diverged_at is not None
        if diverged:
            self.step, state = self.checkpoints.restore(self.program.compiled.state_like)
        self.evaluate(state)
        metrics = {"valid": _without_place(self.log.find(self.step, "valid"))}
        if "test" in self.program.dataset.splits:
            if self.log.find(self.step, "test") is None:
                self.log.write(self.step, "test", self._evaluate(state, "test"))
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
            "seconds": self.seconds(),
            "best": None if best is None else {"step": best["step"], "loss": best["loss"]},
            **metrics,
        }
        self.folder.write_result(result)

    def seconds(self) -> float:
        """Return the seconds this run has taken, earlier goes at it included."""
        return self.seconds_before + self.share * self.clock.seconds()

    def look_for_divergence(self, tally: Tally) -> None:
        """Note the first step, if there is one, whose loss was not finite."""
        if tally.bad_step >= 0:
            self.diverged_at = int(tally.bad_step)

    def patience(self) -> int:
        """Return how many steps one dispatch may take."""
        wanted = self.config.training.steps_per_dispatch
        if wanted:
            return wanted
        return int(np.clip(SECONDS_A_DISPATCH * self.clock.pace(), 1, self.program.most_steps))

    def log_train_line(
        self, tally: Tally, metrics: Mapping[str, Any], lap: Lap, state: TrainState | None
    ) -> None:
        """Write the line of the steps since the last one, with figures of `state` if it is given.

        Of runs in a pack each is said to do its own work alone: their rates add up.
        """
        rate = lap.steps_per_second
        tokens = rate * self.config.training.batch_size * self.config.data.context_length
        flops = tokens * self.program.flops_per_token
        peak = self.peak
        line = {
            "loss": tally.nats / np.maximum(tally.weight, 1),
            **metrics,
            **({} if state is None else self.program.diagnose(state)),
            "tokens_per_second": tokens,
            "flops_per_second": flops,
            **({} if peak is None else {"utilization": flops / peak.flops_per_second}),
            "compile_seconds": lap.compile_seconds,
            "memory_bytes": peak_memory(),
            "seconds": self.seconds(),
        }
        self.log.write(self.step, "train", line)
        event = {"phase": "train", "step": self.step, "steps": self.config.training.steps}
        self.progress({**event, "loss": float(line["loss"]), "steps_per_second": rate})

    def _evaluate(self, state: TrainState, split: str) -> dict[str, float]:
        metrics = self.program.evaluate(state.params, split, self.config.training.eval_batch_size)
        return hosts.first(metrics)  # what is saved, and when training ends, hangs on them


def _without_place(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("step", "split")}
