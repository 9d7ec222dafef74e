"""The runner's own logic, with a training loop that takes no time and can be told to misbehave."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from txf import files
from txf.config import fingerprint, to_json
from txf.errors import RunError, Stopped, UserError
from txf.sweeps.definition import load_experiment, read_record, run_folder
from txf.sweeps.runner import locked, run_sweep
from txf.sweeps.table import write_results

SWEEP = """
\"\"\"Does it matter?\"\"\"
from txf.config import default_config
from txf.sweeps.grid import chain, product, tune, zipped
from txf.sweeps.hypotheses import Difference

def get_config():
    return default_config()

def get_sweep():
    return product({axes})

def get_hypotheses():
    return [Difference("deeper is better", left={{"model.depth": 2}}, right={{"model.depth": 1}})]
"""
AXES = '{"model.depth": [1, 2], "seed": [0, 1]}'
NAMES = ["depth=1,seed=0", "depth=1,seed=1", "depth=2,seed=0", "depth=2,seed=1"]


class Training:
    """Stands in for training: a loss that is a function of the config, and a record of calls."""

    def __init__(self, **misbehave):
        self.calls = []
        self.misbehave = misbehave

    def __call__(self, config, workdir, *, progress, should_stop):
        name = os.path.basename(workdir)
        self.calls.append(name)
        if not (workdir / "config.json").exists():
            files.write_text(workdir / "config.json", to_json(config))
        progress({"phase": "train", "step": 3, "steps": config.training.steps, "loss": 2.5})
        if error := self.misbehave.get(name.replace("=", "").replace(",", "_")):
            raise error
        result = {
            "status": "diverged" if config.optimizer.learning_rate > 1 else "done",
            "fingerprint": fingerprint(config),
            "steps": config.training.steps,
            "error": None,
            "parameters": 100 * config.model.depth,
            "flops_per_token": 600 * config.model.depth,
            "seconds": 1.0,
            "valid": {"loss": 1 / config.model.depth + config.seed / 100},
        }
        files.write_json(workdir / "result.json", result)


@pytest.fixture
def make(tmp_path):
    """A function from axes and overrides to the experiment of such a sweep file."""

    def experiment(axes=AXES, overrides=None):
        path = tmp_path / "sweep_file.py"
        path.write_text(SWEEP.format(axes=axes))
        return load_experiment(path, overrides)

    return experiment


def test_every_member_runs_once_in_its_own_folder(make, tmp_path):
    train = Training()
    for _ in range(2):
        outcome = run_sweep(make(), tmp_path / "s", train=train)
        assert outcome.statuses == dict.fromkeys(NAMES, "done")
        outcome.raise_errors(tmp_path / "s")
    assert train.calls == NAMES
    record = read_record(tmp_path / "s")
    assert [member["name"] for member in record["members"]] == NAMES
    assert record["question"] == "Does it matter?"
    assert record["hypotheses"][0]["name"] == "deeper is better"
    assert list(write_results(tmp_path / "s")["status"]) == ["done"] * 4


def test_members_of_an_arm_run_together_whatever_the_order_of_the_axes(make, tmp_path):
    train = Training()
    run_sweep(make('{"seed": [0, 1], "model.depth": [1, 2]}'), tmp_path / "s", train=train)
    assert train.calls == NAMES


def test_a_failed_member_stops_no_other_and_is_retried_on_request(make, tmp_path):
    broken = Training(depth1_seed1=ValueError("out of\nluck"))
    outcome = run_sweep(make(), tmp_path / "s", train=broken)
    assert outcome.statuses == dict.fromkeys(NAMES, "done") | {NAMES[1]: "failed"}
    with pytest.raises(RunError, match="1 of 4 members failed") as caught:
        outcome.raise_errors(tmp_path / "s")
    assert f"{NAMES[1]}: ValueError: out of luck" in str(caught.value)
    assert "--retry_failed" in str(caught.value)
    assert "Traceback" in (run_folder(tmp_path / "s", NAMES[1]) / "error.txt").read_text()
    assert list(write_results(tmp_path / "s")["status"]) == ["done", "failed", "done", "done"]

    train = Training()
    again = run_sweep(make(), tmp_path / "s", train=train)
    assert (again.statuses, again.errors) == (outcome.statuses, outcome.errors)
    assert train.calls == []
    retried = run_sweep(make(), tmp_path / "s", train=train, retry_failed=True)
    assert retried.statuses == dict.fromkeys(NAMES, "done")
    assert train.calls == [NAMES[1]]
    assert not (run_folder(tmp_path / "s", NAMES[1]) / "error.txt").exists()


def test_a_refused_member_is_not_on_record_and_is_tried_again(make, tmp_path):
    outcome = run_sweep(make(), tmp_path / "s", train=Training(depth2_seed0=UserError("no file x")))
    assert outcome.statuses[NAMES[2]] == "refused"
    with pytest.raises(UserError, match="depth=2,seed=0: no file x"):
        outcome.raise_errors(tmp_path / "s")
    train = Training()
    assert run_sweep(make(), tmp_path / "s", train=train).statuses[NAMES[2]] == "done"
    assert train.calls == [NAMES[2]]


def test_a_diverged_member_is_a_result(make, tmp_path):
    axes = '{"model.depth": [1, 2], "optimizer.learning_rate": [0.001, 10.0]}'
    train = Training()
    for _ in range(2):
        outcome = run_sweep(make(axes), tmp_path / "s", train=train)
        outcome.raise_errors(tmp_path / "s")
    assert sorted(outcome.statuses.values()) == ["diverged", "diverged", "done", "done"]
    assert len(train.calls) == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Stopped("saved"), SystemExit(1)])
def test_an_interrupt_goes_through_and_the_same_call_continues(make, tmp_path, error):
    with pytest.raises(type(error)):
        run_sweep(make(), tmp_path / "s", train=Training(depth1_seed1=error))
    assert not (run_folder(tmp_path / "s", NAMES[1]) / "result.json").exists()
    train = Training()
    assert run_sweep(make(), tmp_path / "s", train=train).statuses == dict.fromkeys(NAMES, "done")
    assert train.calls == NAMES[1:]


def test_stopping_is_asked_for_between_members_too(make, tmp_path):
    train = Training()
    with pytest.raises(Stopped):
        run_sweep(make(), tmp_path / "s", train=train, should_stop=lambda: len(train.calls) == 2)
    assert train.calls == NAMES[:2]


def test_a_sweep_grows(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    train = Training()
    outcome = run_sweep(
        make('{"model.depth": [1, 2, 3], "seed": [0, 1, 2]}'), tmp_path / "s", train=train
    )
    assert len(outcome.statuses) == 9
    assert sorted(train.calls) == sorted(set(outcome.statuses) - set(NAMES))


def test_members_keep_their_folders_when_an_axis_is_added(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    train = Training()
    axes = AXES.replace("}", ', "model.num_heads": [2, 4]}')
    outcome = run_sweep(make(axes), tmp_path / "s", train=train)
    assert set(NAMES) <= set(outcome.statuses)
    assert set(train.calls) == {f"depth={d},num_heads=2,seed={s}" for d in (1, 2) for s in (0, 1)}
    arms = {member["name"]: member["arm"] for member in read_record(tmp_path / "s")["members"]}
    assert arms[NAMES[0]] == "depth=1,num_heads=4"


def test_another_base_in_the_same_folder_is_refused_by_key(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    before = (tmp_path / "s" / "sweep.json").read_text()
    train = Training()
    with pytest.raises(UserError, match=r"another base config: model\.width was 64, is 32"):
        run_sweep(make(overrides={"model.width": 32}), tmp_path / "s", train=train)
    assert train.calls == []
    assert (tmp_path / "s" / "sweep.json").read_text() == before


def test_runs_do_not_vanish_from_the_results_silently(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    fewer = make('{"model.depth": [1, 2], "seed": [0]}')
    with pytest.raises(UserError, match="depth=1,seed=1, depth=2,seed=1; put them back"):
        run_sweep(fewer, tmp_path / "s", train=Training())
    for name in NAMES[1::2]:
        run_folder(tmp_path / "s", name).rmtree()
    assert len(run_sweep(fewer, tmp_path / "s", train=Training()).statuses) == 2


def test_what_only_changes_how_a_run_is_watched_may_change(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    train = Training()
    run_sweep(make(overrides={"training.eval_every": 7}), tmp_path / "s", train=train)
    assert train.calls == []


def test_a_run_of_another_config_in_a_members_folder_is_refused_by_key(make, tmp_path):
    run_sweep(make(), tmp_path / "s", train=Training())
    path = run_folder(tmp_path / "s", NAMES[3]) / "config.json"
    config = json.loads(path.read_text())
    config["model"]["width"] = 128
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"depth=2,seed=1 .*model.width was 128, is 64.*delete"):
        run_sweep(make(), tmp_path / "s", train=Training())


def test_the_folder_of_a_run_is_no_folder_for_a_sweep(make, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="holds a single run"):
        run_sweep(make(), tmp_path, train=Training())
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used"):
        run_sweep(make(), tmp_path / "file", train=Training())


HOLD = """
    import sys, time
    from txf.sweeps.runner import locked
    with locked(sys.argv[1]):
        print("held", flush=True)
        time.sleep(60)
"""


def test_two_processes_cannot_run_one_sweep_and_a_dead_one_holds_nothing(make, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), tmp_path / "s"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"is being run by process {child.pid} on"):
            run_sweep(make(), tmp_path / "s", train=Training())
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    with locked(tmp_path / "s"):
        pass
    run_sweep(make(), tmp_path / "s", train=Training())
