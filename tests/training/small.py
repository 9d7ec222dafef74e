"""Runs small enough to be made by the dozen, and what is read back from them."""

import jax
import numpy as np

from txf.config import default_config, set_key
from txf.errors import Stopped
from txf.training.logging import MEASURED, read_metrics
from txf.training.loop import train
from txf.training.reopen import open_run
from txf.training.run import RunFolder

TIMES = tuple(MEASURED)

# One program serves all of these runs: they differ in what it takes as arguments.
SMALL = {
    "data.bytes": 3_000,
    "data.context_length": 11,
    "model.depth": 1,
    "model.width": 8,
    "model.num_heads": 2,
    "training.steps": 14,
    "training.batch_size": 6,
    "training.accumulate": 2,
    "model.dropout": 0.1,
    "optimizer.learning_rate": 0.02,
    "training.eval_batch_size": 37,
    "training.log_every": 3,
    "training.eval_every": 4,
    "training.checkpoint_every": 5,
    "training.steps_per_dispatch": 2,
}


def config(overrides=None):
    made = default_config()
    for key, value in {**SMALL, **(overrides or {})}.items():
        set_key(made, key, value)
    return made


def lines(workdir):
    """The lines of metrics.jsonl by (step, split), the times left out; each is there once."""
    found = {}
    for line in read_metrics(RunFolder.at(workdir).metrics):
        place = line["step"], line["split"]
        assert place not in found
        found[place] = {key: value for key, value in line.items() if key not in TIMES}
    return found


def params(workdir, step=None):
    """The parameters of a checkpoint by path."""
    opened = open_run(workdir, step)
    leaves = jax.tree_util.tree_leaves_with_path(opened.params)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def steps_kept(workdir):
    folder = RunFolder.at(workdir).checkpoints
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def assert_same_run(one, other):
    """Two runs are equal to the bit in all but time."""
    assert lines(one) == lines(other)
    first, second = params(one), params(other)
    assert first.keys() == second.keys()
    for path, leaf in first.items():
        np.testing.assert_array_equal(leaf, second[path], err_msg=path)
    results = [RunFolder.at(workdir).result() for workdir in (one, other)]
    one_result, other_result = (
        {key: value for key, value in result.items() if key not in TIMES} for result in results
    )
    assert one_result == other_result


def stop_after(dispatches):
    """A `should_stop` that says so when that many dispatches are done."""
    asked = iter(range(dispatches))
    return lambda: next(asked, None) is None


__all__ = [
    "SMALL",
    "Stopped",
    "assert_same_run",
    "config",
    "lines",
    "params",
    "steps_kept",
    "stop_after",
    "train",
]
