"""The train command stopped by signals: it saves itself, says so, and ends as if never stopped."""

import signal
import subprocess
import sys

import pytest

from tests.training import small

LONG = {
    "training.steps": 600,
    "training.steps_per_dispatch": 1,
    "training.log_every": 10,
    "training.eval_every": 300,
    "training.checkpoint_every": 300,
}
FILE = f"""
from tests.training import small

def get_config():
    return small.config({LONG})
"""


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "long.py"
    path.write_text(FILE)
    return path


def interrupt(config_file, workdir, number):
    """Run the command until it says that it trains, send it a signal, and see what it says."""
    command = [sys.executable, "-u", "-m", "experiments.train"]
    command += [f"--config={config_file}", f"--workdir={workdir}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        line = next((line for line in child.stdout if line.startswith("step ")), "")
        child.send_signal(number)
        _, err = child.communicate(timeout=100)
    assert line.startswith("step "), err
    return child.returncode, err


def test_a_run_that_is_asked_to_stop_saves_itself_and_continues(config_file, tmp_path):
    workdir = tmp_path / "run"
    for number, expected in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
        code, err = interrupt(config_file, workdir, number)
        assert code == expected, err
        assert err.startswith("train: stopped at step ")
        assert "the same command continues" in err
        assert err.count("\n") == 1
        assert not (workdir / "result.json").exists()
    small.train(small.config(LONG), workdir)
    small.train(small.config(LONG), tmp_path / "straight")
    small.assert_same_run(workdir, tmp_path / "straight")


# No file may grow past the limit: a checkpoint's would, the small files do not.
FULL_DISK = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
runpy.run_module("experiments.train", run_name="__main__", alter_sys=True)
"""


def test_a_disk_that_takes_no_more_ends_a_run_in_one_line(config_file, tmp_path, run_python):
    command = [f"--config={config_file}", f"--workdir={tmp_path}/run", "--config.training.steps=0"]
    done = run_python(["-c", FULL_DISK, *command], env={"JAX_COMPILATION_CACHE_DIR": ""})
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("train: cannot save a checkpoint at ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert (tmp_path / "run" / "config.json").exists()
    small.train(small.config({**LONG, "training.steps": 0}), tmp_path / "run")
    assert small.steps_kept(tmp_path / "run") == [0]
