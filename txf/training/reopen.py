"""A run opened again: its model with the parameters of a checkpoint, and its figures checked."""

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from txf.data.tokenizers import Tokenizer
from txf.errors import RunError, UserError
from txf.training.checkpoints import Checkpoints
from txf.training.logging import read_metrics
from txf.training.optimizers import Params
from txf.training.parallel import fitted
from txf.training.program import model_of, prepare
from txf.training.run import RunFolder

ELSEWHERE = 1e-3  # how far figures may lie apart, relative, on another platform than the run's


class OpenedRun(NamedTuple):
    """What is needed to ask a trained model something."""

    config: ConfigDict
    tokenizer: Tokenizer
    model: Any
    params: Params
    step: int


class Figure(NamedTuple):
    """One figure of a run: where it stands, what was recorded and what comes out again."""

    split: str
    name: str
    recorded: float | None
    again: float | None

    def agrees(self, tolerance: float) -> bool:
        """Tell whether both are there and differ by `tolerance` at most (0: not in a bit)."""
        if self.recorded is None or self.again is None:
            return self.recorded == self.again
        return math.isclose(self.recorded, self.again, rel_tol=tolerance, abs_tol=tolerance)


def open_run(workdir: str | os.PathLike[str], step: int | None = None) -> OpenedRun:
    """Return the model of the run at `workdir` with the parameters of `step`, without its data.

    Without `step`: of the last step trained.

    Raises:
        UserError: there is no run, no tokenizer, or no such checkpoint.
        RunError: no checkpoint can be read.
    """
    folder = RunFolder.at(workdir)
    config, tokenizer = fitted(folder.config), folder.tokenizer()
    if tokenizer is None:
        raise UserError(
            f"the run at {folder.path} has no tokenizer.json; it has not begun training"
        )
    model, like = model_of(config, tokenizer.vocab_size, folder.num_classes())
    step, state = _restore(folder, like, step)
    return OpenedRun(config, tokenizer, model, state.params, step)


def evaluate_run(
    workdir: str | os.PathLike[str], step: int | None = None
) -> tuple[int, dict[str, dict[str, float]]]:
    """Return (step, {split: metrics}) of a checkpoint, evaluated anew on the run's own data.

    Without `step`: of the last step trained.

    Raises:
        UserError: there is no run or no such checkpoint, or the data is not to be had.
        RunError: no checkpoint can be read.
    """
    folder = RunFolder.at(workdir)
    config = fitted(folder.config)
    program = prepare(config, folder.tokenizer())
    if changed := folder.changed_splits(program.dataset):
        raise UserError(
            f"the data of the run at {folder.path} has changed since it was trained "
            f"({', '.join(changed)})"
        )
    step, state = _restore(folder, program.compiled.state_like, step)
    return step, {
        name: program.evaluate(state.params, name, config.training.eval_batch_size)
        for name in program.dataset.splits
        if name != "train"
    }


def check_run(workdir: str | os.PathLike[str], tolerance: float | None = None) -> list[str]:
    """Evaluate every checkpoint of a finished run anew; return a line for each thing that differs.

    The last checkpoint is held against result.json, all of them against metrics.jsonl. Figures must
    be equal to the bit where the run was trained on a platform like this one, and else within
    `ELSEWHERE`, relative; `tolerance` overrides both.
    """
    folder = RunFolder.at(workdir)
    result = folder.result()
    if result is None or result["status"] not in ("done", "diverged"):
        return ["it is not finished" if result is None else f"it has {result['status']}"]
    if tolerance is None:
        tolerance = 0.0 if folder.was_made_here() else ELSEWHERE
    lines = {(line["step"], line["split"]): line for line in read_metrics(folder.metrics)}
    steps = _checkpoint_steps(folder)
    problems = []
    if result["steps"] not in steps:
        problems.append(f"the checkpoint of its last step, {result['steps']}, is missing")
    best = result["best"]
    if best and all(lines.get((step, "valid"), best)["loss"] != best["loss"] for step in steps):
        problems.append(f"the checkpoint of its best step, {best['step']}, is missing")
    for step in steps:
        try:
            _, again = evaluate_run(workdir, step)
        except (UserError, RunError) as error:
            problems.append(str(error))
            continue
        line = lines.get((step, "valid"), {})
        if step == result["steps"]:
            problems += _differing(step, compare(result, again), tolerance)
        valid = {key: value for key, value in line.items() if key not in ("step", "split")}
        figures = compare({"valid": valid}, {"valid": again["valid"]})
        problems += _differing(step, figures, tolerance)
    return list(dict.fromkeys(problems))


def _differing(step: int, figures: list[Figure], tolerance: float) -> list[str]:
    return [
        f"step {step} {figure.split} {figure.name}: recorded {figure.recorded}, now {figure.again}"
        for figure in figures
        if not figure.agrees(tolerance)
    ]


def compare(recorded: Mapping[str, Any], again: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """Return every figure of the evaluation splits, as recorded and as it comes out again."""
    figures = []
    for split in ("valid", "test"):
        before, after = recorded.get(split) or {}, again.get(split) or {}
        names = dict.fromkeys([*before, *after])
        figures += [Figure(split, name, before.get(name), after.get(name)) for name in names]
    return figures


def _checkpoint_steps(folder: RunFolder) -> list[int]:
    if not folder.checkpoints.exists():
        return []
    checkpoints = Checkpoints(folder.checkpoints, read_only=True)
    try:
        return checkpoints.steps()
    finally:
        checkpoints.close()


def _restore(folder: RunFolder, like: Any, step: int | None) -> tuple[int, Any]:
    if not folder.checkpoints.exists():
        raise UserError(f"there is no checkpoint at {folder.checkpoints}")
    checkpoints = Checkpoints(folder.checkpoints, read_only=True)
    try:
        return checkpoints.restore(like, step)
    finally:
        checkpoints.close()
