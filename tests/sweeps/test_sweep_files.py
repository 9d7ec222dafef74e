"""The experiments in configs/sweeps can be run as they are."""

from pathlib import Path

import pytest

from txf.sweeps.definition import load_experiment

FILES = sorted(path for path in Path("configs/sweeps").glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_sweep_file_asks_a_question_and_can_be_run(path):
    experiment = load_experiment(path)
    assert experiment.question.splitlines()[0].endswith("?")
    assert f"--sweep={path}" in experiment.question
    assert experiment.hypotheses
    seeds = {member.overrides["seed"] for member in experiment.members}
    assert len(seeds) >= 3
    arms = {member.arm for member in experiment.members}
    assert len(arms) > 1
