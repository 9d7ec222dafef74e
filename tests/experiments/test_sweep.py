"""The sweep command from outside: what it prints, leaves and exits with."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import is_alive, needs_proc
from txf import subprocesses

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
    done = sweep("finished", "--workers=2")
    assert done.returncode == 0, done.stderr
    return done, folder / "finished"


def rows(folder, timed=("seconds",)):
    with open(folder / "results.csv") as file:
        return [{k: v for k, v in row.items() if k not in timed} for row in csv.DictReader(file)]


def test_a_sweep_runs_from_the_file_to_the_report(finished):
    done, folder = finished
    assert [row["status"] for row in rows(folder)] == ["done"] * 4
    assert {path.name for path in (folder / "runs").iterdir()} == set(NAMES)
    for name in NAMES:
        assert f"/4] {name}: done, test loss" in done.stdout
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


def test_one_process_after_the_other_comes_to_the_same_figures(finished, sweep, folder):
    alone = sweep("alone", "--workers=1")
    assert alone.returncode == 0, alone.stderr
    for one, other in zip(rows(folder / "alone"), rows(finished[1]), strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            if "loss" in key:
                assert float(value) == pytest.approx(float(other[key]), rel=1e-5), key
    threads = [
        json.loads((made / "runs" / NAMES[0] / "environment.json").read_text())["computes_as"]
        for made in (folder / "alone", finished[1])
    ]
    cores = subprocesses.threads()
    assert [found["threads"] for found in threads] == [cores, max(1, cores // 2)]


def test_a_run_of_several_processes_is_evaluated_to_the_bit_in_one(finished, run_python):
    done = run_python(
        ["-m", "experiments.evaluate", f"--workdir={finished[1] / 'runs' / NAMES[2]}"]
    )
    assert done.returncode == 0, done.stderr
    assert "equal to what was recorded, to the bit" in done.stdout


def start_and_signal(folder, name, number, *flags):
    """Start the sweep with two workers, and send a signal once both have begun a member.

    Returns the process, ended, and the processes that it had started.
    """
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "experiments.sweep", f"--sweep={folder / 'mine.py'}"),
            *(f"--workdir={folder / name}", "--workers=2", *flags),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = folder / name / "runs"
    deadline = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < deadline:
        if len(list(runs.glob("*/metrics.jsonl"))) >= 2:
            break
        time.sleep(0.005)
    workers = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    child.send_signal(number)
    child.out, child.err = child.communicate(timeout=120)
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return child, workers


@needs_proc
def test_killed_anywhere_and_run_again_it_comes_to_the_same_table(finished, sweep, folder):
    child, workers = start_and_signal(folder, "killed", signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert len(workers) == 2 and not any(map(is_alive, workers))
    again = sweep("killed")
    assert again.returncode == 0, again.stderr
    assert rows(folder / "killed") == rows(finished[1])


@needs_proc
def test_sigterm_saves_what_runs_in_all_processes(folder):
    long = ("--config.training.steps=1000000", "--config.training.checkpoint_every=1000000")
    child, workers = start_and_signal(folder, "stopped", signal.SIGTERM, *long)
    assert child.returncode == 75, child.err
    assert "the same command continues" in child.err and "Traceback" not in child.err
    assert len(workers) == 2 and not any(map(is_alive, workers))
    for run in (folder / "stopped" / "runs").iterdir():
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        saved = max(int(path.name) for path in (run / "checkpoints").iterdir())
        assert saved >= max(line["step"] for line in lines)


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
        ("other", ["--workers=two"], "--workers=two is not allowed"),
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
