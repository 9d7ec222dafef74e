"""Many processes equal one; when one is killed the others say so, and all continue."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT
from tests.training import small
from tests.training.on_hosts import WAYS
from txf import hosts
from txf.files import read_json
from txf.training.reopen import check_run, evaluate_run
from txf.training.run import RunFolder

pytestmark = pytest.mark.slow

CONFIG = """
from tests.training.small import config
from tests.training.on_hosts import BASE, WAYS

def get_config():
    return config({**BASE, **WAYS["long"]})
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(words, devices=1):
    """Start a Python process of its own group of devices; stdout and stderr are kept."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextlib.contextmanager
def ended(processes):
    """Leave no process behind."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()


def finish(processes, timeout=240):
    """Wait for processes that should all go well; return what the last line of each says."""
    with ended(processes):
        outputs = [process.communicate(timeout=timeout) for process in processes]
    for process, (_, err) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, err
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


def start_group(folder, count, ways):
    folder.mkdir()
    port = free_port()
    module = ["-m", "tests.training.on_hosts", folder]
    return [start([*module, count, index, port, *ways]) for index in range(count)]


def start_one(folder, devices, ways):
    folder.mkdir()
    return start(["-m", "tests.training.on_hosts", folder, 1, 0, 0, *ways], devices)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, own_caches):
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def two(folder):
    return finish(start_group(folder / "two", 2, [*WAYS, "pack", "refusals"]))


@pytest.fixture(scope="module")
def one(folder):
    """One process with two devices."""
    [found] = finish([start_one(folder / "one", 2, ["data", "fsdp", "light", "streamed", "pack"])])
    return found


def test_two_processes_equal_one_with_two_devices_to_the_bit(two, one):
    assert [found["processes"] for found in two] == [2, 2]
    assert (one["processes"], one["devices"]) == (1, 2)
    for name in one["lines"]:
        assert two[0]["lines"][name] == one["lines"][name], name


def test_all_processes_read_the_same(two):
    assert two[0]["lines"] == two[1]["lines"]


def test_a_stop_in_one_process_stops_all_and_changes_nothing(two):
    assert two[0]["lines"]["stopped"] == two[0]["lines"]["light"]


def test_four_processes_equal_one_with_four_devices(folder):
    """But for rounding: four numbers are summed in another order between processes."""
    processes = [
        *start_group(folder / "four", 4, ["light"]),
        start_one(folder / "as4", 4, ["light"]),
    ]
    *four, alone = finish(processes)
    assert [found["devices"] for found in (*four, alone)] == [4] * 5
    assert four[0]["lines"] == four[3]["lines"]
    for ours, theirs in zip(four[0]["lines"]["light"], alone["lines"]["light"], strict=True):
        assert ours == [*theirs[:2], pytest.approx(theirs[2], rel=1e-6)]


def test_the_first_process_alone_writes(two, folder):
    assert not (folder / "two" / "own1").exists()


def test_each_process_makes_its_own_rows_and_no_others(two):
    assert two[0]["rows"] == [[[0, 4]], [[4, 8]]]


def test_one_process_evaluates_what_two_have_made(two, folder):
    for name in ("data", "fsdp"):
        assert check_run(folder / "two" / name) == []
        step, metrics = evaluate_run(folder / "two" / name)
        result = RunFolder.at(folder / "two" / name).result()
        assert step == result["steps"]
        assert metrics["test"]["loss"] == pytest.approx(result["test"]["loss"], rel=1e-6)
    assert read_json(folder / "two" / "data" / "environment.json")["process_count"] == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pmap", ["UserError: parallel.mode=pmap runs in one process"] * 2),
        ("left out", ["UserError: parallel.data=1 x parallel.fsdp=1 x parallel.tensor=1"] * 2),
        ("batch", ["UserError: training.batch_size=6 / training.accumulate=2 is 3 rows"] * 2),
        ("config", ["UserError: process 1 was started with another config"] * 2),
        ("not shared", ["UserError: process 1 does not see what process 0 writes"] * 2),
        ("data", ["UserError: process 1 reads other data than process 0 (train"] * 2),
        ("file", ["UserError: process 1: data.path: ", "UserError: data.path: "]),
        ("one fails", ["RunError: process 1: OSError: no space", "OSError: no space"]),
    ],
)
def test_what_one_process_cannot_do_ends_in_all(two, name, words):
    for said, wanted in zip(two[0]["refused"][name], words, strict=True):
        assert said.startswith(wanted)


def start_commands(folder):
    """Start the command line `train` in two processes."""
    words = [
        *("-m", "experiments.train", f"--config={folder / 'config.py'}"),
        *(f"--workdir={folder / 'killed'}", "--heartbeat_seconds=6"),
        *(f"--coordinator_address=127.0.0.1:{free_port()}", "--num_processes=2"),
    ]
    return [start([*words, f"--process_id={index}"]) for index in range(2)]


def wait_for_checkpoint(workdir, step, processes):
    deadline = time.monotonic() + 240
    while RunFolder.at(workdir).steps_trained() < step:
        assert [process.poll() for process in processes] == [None, None]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_who_outlives_another_says_so_and_all_continue_to_the_same_bits(two, folder):
    (folder / "config.py").write_text(CONFIG)
    workdir = folder / "killed"
    for victim, step in ((1, 40), (0, 120)):
        with ended(start_commands(folder)) as processes:
            wait_for_checkpoint(workdir, step, processes)
            processes[victim].kill()
            since = time.monotonic()
            _, err = processes[1 - victim].communicate(timeout=60)
            assert time.monotonic() - since < 30
            assert (processes[1 - victim].returncode, err) == (1, f"train: {hosts.LOST}\n")
    with ended(start_commands(folder)) as processes:
        wait_for_checkpoint(workdir, 200, processes)
        processes[1].terminate()  # one is asked to stop: both save, and stop
        for process in processes:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 75, err
            assert err.startswith("train: stopped at step"), err
    with ended(start_commands(folder)) as processes:
        (out, err), silent = (process.communicate(timeout=240) for process in processes)
    assert [process.returncode for process in processes] == [0, 0], err
    assert "done after 320 steps" in out
    assert silent == ("", "")
    small.assert_same_run(workdir, folder / "two" / "long")
