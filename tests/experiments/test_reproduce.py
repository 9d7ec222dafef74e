"""The reproduce command: equal, or the names of what is not."""

import json
import shutil

import pytest

SWEEP = """
\"\"\"Does the learning rate matter?\"\"\"
from tests.training import small
from txf.sweeps.grid import product
from txf.sweeps.hypotheses import Difference

def get_config():
    return small.config()

def get_sweep():
    return product({"optimizer.schedule": ["constant"], "optimizer.learning_rate": [0.02, 1.0]})

def get_hypotheses():
    return [
        Difference(
            "small is better",
            left={"optimizer.learning_rate": 0.02},
            right={"optimizer.learning_rate": 1.0},
        )
    ]
"""


def tamper_result(member):
    result = json.loads((member / "result.json").read_text())
    result["valid"]["loss"] += 1e-9
    (member / "result.json").write_text(json.dumps(result))


def tamper_table(member):
    table = member.parent.parent / "results.csv"
    table.write_text(table.read_text().replace("done", "gone", 1))


def delete_last(member):
    shutil.rmtree(member / "checkpoints" / "14")


def delete_best(member):
    best = json.loads((member / "result.json").read_text())["best"]["step"]
    assert best != 14
    shutil.rmtree(member / "checkpoints" / str(best))


def tamper_metrics(member):
    lines = (member / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"step": 14, "split": "valid"' not in line]
    assert len(kept) == len(lines) - 1
    (member / "metrics.jsonl").write_text("\n".join(kept) + "\n")


def tamper_config(member):
    config = json.loads((member / "config.json").read_text())
    config["data"]["seed"] = 8
    (member / "config.json").write_text(json.dumps(config))


def delete_table(member):
    (member.parent.parent / "results.csv").unlink()


DAMAGES = {
    "result": (tamper_result, "valid loss"),
    "table": (tamper_table, "results.csv"),
    "no table": (delete_table, "results.csv"),
    "last": (delete_last, "checkpoint of its last step, 14, is missing"),
    "best": (delete_best, "checkpoint of its best step"),
    "metrics": (tamper_metrics, "step 14 valid loss"),
    "config": (tamper_config, "the data of the run"),
}


@pytest.fixture(scope="module")
def outcomes(run_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "sweep.py").write_text(SWEEP)
    sweep = ["-m", "experiments.sweep", f"--sweep={folder}/sweep.py", f"--workdir={folder}/sweep"]
    done = run_python(sweep)
    assert done.returncode == 0, done.stderr
    commands = {"intact": ["reproduce", f"--workdir={folder}/moved"]}
    shutil.copytree(folder / "sweep", folder / "moved")
    for name, (damage, _) in DAMAGES.items():
        shutil.copytree(folder / "sweep", folder / name)
        (member,) = (folder / name / "runs").glob("*learning_rate=1")
        damage(member)
        commands[name] = ["reproduce", f"--workdir={folder}/{name}"]
    done = run_python(
        ["-m", "tests.experiments.commands"], input=json.dumps(list(commands.values()))
    )
    assert done.returncode == 0, done.stderr
    return folder, dict(zip(commands, json.loads(done.stdout), strict=True))


def test_a_moved_sweep_reproduces_to_the_bit(outcomes):
    folder, found = outcomes
    code, out, err = found["intact"]
    assert (code, err) == (0, ""), err
    assert "all 2 members reproduce what was recorded" in out
    table = (folder / "moved" / "results.csv").read_text()
    assert table == (folder / "sweep" / "results.csv").read_text()


@pytest.mark.parametrize("name", DAMAGES)
def test_what_differs_is_named(outcomes, name):
    code, out, err = outcomes[1][name]
    assert code == 1, (out, err)
    assert DAMAGES[name][1] in err
    assert "Traceback" not in err
    if "table" not in name:
        assert "learning_rate=1" in err
        assert "learning_rate=0.02" not in err
