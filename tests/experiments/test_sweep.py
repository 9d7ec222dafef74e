"""The sweep command from outside: what it prints, leaves and exits with."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

SWEEP = """
\"\"\"Does a second head matter?\"\"\"
from txf.config import default_config
from txf.sweeps.grid import product
from txf.sweeps.hypotheses import Difference

def get_config():
    config = default_config()
    config.data.bytes = 6_000
    config.data.context_length = 16
    config.model.depth = 1
    config.model.width = 8
    config.training.steps = 6
    config.training.batch_size = 4
    config.training.log_every = 3
    config.training.eval_every = 3
    config.training.checkpoint_every = 3
    return config

def get_sweep():
    return product({"model.num_heads": [1, 2], "seed": [0, 1]})

def get_hypotheses():
    return [Difference("two beat one", left={"model.num_heads": 2}, right={"model.num_heads": 1})]
"""
NAMES = [f"num_heads={heads},seed={seed}" for heads in (1, 2) for seed in (0, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "mine.py").write_text(SWEEP)
    return folder


@pytest.fixture(scope="module")
def sweep(run_python, folder):
    """A function that runs the command on that sweep file, in the folder `name` or none."""

    def run(name, *flags):
        where = [] if name is None else [f"--workdir={folder / name}"]
        command = ["-m", "experiments.sweep", f"--sweep={folder / 'mine.py'}", *where, *flags]
        return run_python(command)

    return run


@pytest.fixture(scope="module")
def finished(sweep, folder):
    done = sweep("finished")
    assert done.returncode == 0, done.stderr
    return done, folder / "finished"


def rows(folder, timed=("seconds",)):
    with open(folder / "results.csv") as file:
        return [{k: v for k, v in row.items() if k not in timed} for row in csv.DictReader(file)]


def test_a_sweep_runs_from_the_file_to_the_report(finished):
    done, folder = finished
    assert [row["status"] for row in rows(folder)] == ["done"] * 4
    assert {path.name for path in (folder / "runs").iterdir()} == set(NAMES)
    assert "[4/4] num_heads=2,seed=1: done, test loss" in done.stdout
    assert "two beat one" in done.stdout
    assert f"report: {folder / 'report.html'}" in done.stdout
    assert (folder / "report.html").stat().st_size > 1000
    assert "\x1b" not in done.stdout


def test_the_same_command_does_nothing_twice(finished, sweep):
    _, folder = finished
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*")}
    csv_before = (folder / "results.csv").read_bytes()
    again = sweep("finished")
    assert again.returncode == 0, again.stderr
    assert "4 members, 4 of them run already" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*")} == before
    assert (folder / "results.csv").read_bytes() == csv_before


def test_killed_anywhere_and_run_again_it_comes_to_the_same_table(finished, sweep, folder):
    command = [sys.executable, "-m", "experiments.sweep", f"--sweep={folder / 'mine.py'}"]
    child = subprocess.Popen(
        [*command, f"--workdir={folder / 'killed'}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    metrics = folder / "killed" / "runs" / NAMES[1] / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    again = sweep("killed")
    assert again.returncode == 0, again.stderr
    assert rows(folder / "killed") == rows(finished[1])


def test_a_dry_run_prints_the_cost_and_leaves_nothing(sweep, folder):
    dry = sweep("dry", "--dry_run", "--config.training.steps=12")
    assert dry.returncode == 0, dry.stderr
    for text in (*NAMES, "model.num_heads: 1, 2", "seed: 0, 1", "parameters", "FLOPs", "4 to run"):
        assert text in dry.stdout
    assert not (folder / "dry").exists()


@pytest.mark.parametrize(
    ("name", "flags", "says"),
    [
        ("finished", ["--config.model.num_heads=4"], "the sweep itself sets model.num_heads"),
        ("other", ["--config.data.source=text", "--config.data.path=nowhere.txt"], "nowhere.txt"),
        ("other", ["leftover"], "leftover"),
        (None, [], "--workdir=FOLDER is missing"),
    ],
)
def test_wrong_requests_exit_with_2_and_a_line(finished, sweep, folder, name, flags, says):
    wrong = sweep(name, *flags)
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False), wrong.stderr
    assert says in wrong.stderr
    assert not (folder / "other").exists()


def test_a_failed_member_is_named_and_exits_with_1(finished, sweep, folder):
    path = finished[1] / "runs" / NAMES[2] / "result.json"
    kept = path.read_text()
    try:
        failed = {**json.loads(kept), "status": "failed", "error": "it broke"}
        path.write_text(json.dumps(failed))
        again = sweep("finished")
        assert again.returncode == 1
        assert f"{NAMES[2]}: it broke" in again.stderr
        assert "--retry_failed" in again.stderr
    finally:
        path.write_text(kept)
