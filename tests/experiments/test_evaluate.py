"""The evaluate command on a finished run, and on what is left of one."""

import json
import shutil

import pytest

from tests.training import small


@pytest.fixture(scope="module")
def outcomes(run_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    small.train(small.config({"checkpoint.keep": 2}), folder / "run")
    for name in ("cut", "none"):
        shutil.copytree(folder / "run", folder / name)
    for file in (folder / "cut" / "checkpoints").rglob("*"):
        if file.is_file() and "state" in file.parts:
            file.write_bytes(file.read_bytes()[:3])
    shutil.rmtree(folder / "none" / "checkpoints")
    other = small.steps_kept(folder / "run")[-2]
    commands = {
        "run": ["evaluate", f"--workdir={folder}/run"],
        "other": ["evaluate", f"--workdir={folder}/run", f"--step={other}"],
        "step": ["evaluate", f"--workdir={folder}/run", "--step=999"],
        "cut": ["evaluate", f"--workdir={folder}/cut"],
        "none": ["evaluate", f"--workdir={folder}/none"],
    }
    done = run_python(
        ["-m", "tests.experiments.commands"], input=json.dumps(list(commands.values()))
    )
    assert done.returncode == 0, done.stderr
    return folder, other, dict(zip(commands, json.loads(done.stdout), strict=True))


def test_a_run_is_evaluated_to_what_was_recorded(outcomes):
    _, _, found = outcomes
    code, out, err = found["run"]
    assert (code, err) == (0, ""), err
    assert "step 14" in out
    assert "equal to what was recorded, to the bit" in out


def test_another_step_is_evaluated_by_its_number(outcomes):
    folder, other, found = outcomes
    code, out, _ = found["other"]
    assert code == 0
    loss = small.lines(folder / "run")[other, "valid"]["loss"]
    assert f"step {other}" in out
    assert f"valid: loss {loss:.4f}" in out


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("step", 2, "there is no checkpoint of step 999"),
        ("cut", 1, "is damaged"),
        ("none", 2, "there is no checkpoint at"),
    ],
)
def test_what_cannot_be_evaluated_is_said_in_a_line(outcomes, name, code, words):
    found = outcomes[2][name]
    assert found[0] == code, found
    assert words in found[2]
    assert found[2].count("\n") == 1, found[2]
