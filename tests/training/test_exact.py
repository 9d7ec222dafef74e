"""Every mode: stopped and continued in other processes, a run is the straight one to the bit."""

import json

import pytest

from tests.training import small

pytestmark = pytest.mark.slow

MODES = {
    "bfloat16": {"model.dtype": "bfloat16", "training.accumulate": 1, "optimizer.name": "sgd"},
    "scan": {"model.scan_layers": True, "model.remat": True, "model.depth": 2},
}

STOPPED = """
import json, pathlib, sys
from tests.training import small
from experiments.common import use_compilation_cache
use_compilation_cache()
for name, mode in json.loads(sys.argv[2]).items():
    for dispatches in (1, 3):
        try:
            small.train(
                small.config(mode),
                pathlib.Path(sys.argv[1]) / name,
                should_stop=small.stop_after(dispatches),
            )
        except small.Stopped:
            pass
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, run_python):
    """Runs of all modes that two goes in another process left unfinished."""
    folder = tmp_path_factory.mktemp("stopped")
    done = run_python(["-c", STOPPED, folder, json.dumps(MODES)])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_a_run_of_many_goes_and_processes_is_the_straight_one(stopped, tmp_path, mode):
    config = small.config(MODES[mode])
    assert 0 < max(small.steps_kept(stopped / mode)) < config.training.steps
    small.train(config, stopped / mode)
    small.train(config, tmp_path / "straight")
    small.assert_same_run(stopped / mode, tmp_path / "straight")
