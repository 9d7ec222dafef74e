"""The command line of the benchmark: what it refuses, and that a whole sweep can be timed."""

import json

import pytest

from txf.benchmark.sweeping import sweep_rows
from txf.errors import RunError


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--parts=steps", "step, dispatch"),
        ("--shapes=huge", "anchor_depth1"),
        ("--shapes=gpt2_small", "accelerator"),
        ("--seconds=0", "above 0"),
        ("--json=no/such/folder/file.json", "does not exist"),
        ("--config.model.depth=4", "--shapes"),
    ],
)
def test_wrong_flags_end_it_with_one_line(run_python, flag, said):
    child = run_python(["-m", "experiments.benchmark", flag])
    assert child.returncode == 2
    assert len(child.stderr.splitlines()) == 1
    assert said in child.stderr


# The command itself, with one more shape to know, which takes a moment.
WITH_TINY = """
import runpy, sys
from txf.benchmark import shapes
shapes.SHAPES["tiny"] = shapes.Shape("tiny", 1, 2, 6, context=5, batch=3, vocab=11)
sys.argv[0] = "benchmark.py"
runpy.run_module("experiments.benchmark", run_name="__main__", alter_sys=True)
"""


def test_figures_are_written_with_device_and_versions(run_python, tmp_path):
    path = tmp_path / "figures.json"
    words = ["--shapes=tiny", "--parts=dispatch", "--seconds=0.001", f"--json={path}"]
    child = run_python(["-c", WITH_TINY, *words])
    assert child.returncode == 0, child.stderr
    document = json.loads(path.read_text())
    assert document["command"] == ["benchmark.py", *words]
    rows = document["parts"]["dispatch"]
    assert [row["steps a dispatch"] for row in rows] == [1, 4, 16, 64]
    assert document["device"]["backend"] == "cpu"
    assert "dispatch" in child.stdout


def test_a_sweep_that_fails_says_why():
    with pytest.raises(RunError, match=r"no_such_sweep\.py"):
        sweep_rows("no_such_sweep.py", ())
