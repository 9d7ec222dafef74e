"""Training: stopped, killed or run straight, a run is the same to the bit; and what is refused."""

import json
import os
import shutil
import signal

import numpy as np
import pytest

from tests.training import small
from txf.config import diff, fingerprint, from_json
from txf.errors import RunError, UserError
from txf.files import read_json
from txf.training import program

SCHEDULED = {
    **{(step, "train"): None for step in (3, 6, 9, 12, 14)},
    **{(step, "valid"): None for step in (0, 4, 5, 8, 10, 12, 14)},
    (14, "test"): None,
}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("straight") / "run"
    result = small.train(small.config(), workdir)
    assert result == read_json(workdir / "result.json")
    return workdir


def never(event):
    """A `progress` that must not be told of any training."""
    assert event["phase"] not in ("train", "evaluate", "compile"), event


def test_a_run_leaves_what_it_should(straight):
    config = from_json((straight / "config.json").read_text())
    assert diff(config, small.config()) == {}
    assert small.lines(straight).keys() == SCHEDULED.keys()
    result = read_json(straight / "result.json")
    assert result["status"] == "done"
    assert result["steps"] == 14
    assert result["fingerprint"] == fingerprint(config)
    assert result["diverged_at_step"] is None
    assert result["error"] is None
    for split in ("valid", "test"):
        line = small.lines(straight)[14, split]
        assert result[split] == {k: v for k, v in line.items() if k not in ("step", "split")}
    losses = {
        step: line["loss"]
        for (step, split), line in small.lines(straight).items()
        if split == "valid"
    }
    best = min(losses, key=losses.get)
    assert result["best"] == {"step": best, "loss": losses[best]}
    assert set(small.steps_kept(straight)) == {best, 14}
    assert losses[14] < losses[0] - 0.1
    assert {path.name for path in straight.iterdir()} == {
        "config.json",
        "environment.json",
        "tokenizer.json",
        "data.json",
        "metrics.jsonl",
        "result.json",
        "checkpoints",
    }


@pytest.mark.parametrize("dispatches", [1, 4])
def test_stopped_runs_continue_to_the_same_bits(straight, tmp_path, dispatches):
    goes = 0
    while True:
        try:
            small.train(small.config(), tmp_path / "run", should_stop=small.stop_after(dispatches))
            break
        except small.Stopped as stop:
            assert "the same command continues" in str(stop)
            goes += 1
    assert goes
    small.assert_same_run(tmp_path / "run", straight)
    starts = read_json(tmp_path / "run" / "environment.json")["starts"]
    assert len(starts) == goes + 1


@pytest.mark.parametrize("steps_a_dispatch", [0, 5])
def test_how_many_steps_go_in_a_dispatch_changes_no_bit(straight, tmp_path, steps_a_dispatch):
    config = small.config({"training.steps_per_dispatch": steps_a_dispatch})
    small.train(config, tmp_path / "run")
    small.assert_same_run(tmp_path / "run", straight)


def test_data_that_stays_on_the_host_changes_no_bit(straight, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "RESIDENT_BYTES", 0)
    program._load.cache_clear()
    config = small.config()
    assert program.prepare(config).data is None
    with pytest.raises(small.Stopped):
        small.train(config, tmp_path / "run", should_stop=small.stop_after(2))
    small.train(config, tmp_path / "run")
    small.assert_same_run(tmp_path / "run", straight)
    program._load.cache_clear()


KILLED = """
import os, signal, sys, threading
from tests.training import small
from txf.training.checkpoints import Checkpoints
from txf.training.logging import MetricsLog
from experiments.common import use_compilation_cache

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def half_a_line(log, step, split, metrics, write=MetricsLog.write):
    if (step, split) == (4, "valid"):
        with open(log.path, "a") as file:
            file.write('{"step": 4, "split": "va')
        die()
    write(log, step, split, metrics)

def as_a_save_begins(self, step, state, loss, save=Checkpoints.save):
    save(self, step, state, loss)
    if step >= 8:
        threading.Timer(float(sys.argv[3]), die).start()

match sys.argv[2]:
    case "line":
        MetricsLog.write = half_a_line
    case "save":
        Checkpoints.save = as_a_save_begins
    case "result":
        from txf.training.run import RunFolder
        RunFolder.write_result = die
use_compilation_cache()
small.train(small.config(), sys.argv[1])
"""


def test_killed_runs_continue_to_the_same_bits(straight, tmp_path, run_python):
    workdir = tmp_path / "run"
    for moment in (["line"], ["save", "0.002"], ["result", "0"]):
        done = run_python(["-c", KILLED, workdir, *moment])
        assert done.returncode == -signal.SIGKILL, done.stderr
    small.train(small.config(), workdir)
    small.assert_same_run(workdir, straight)
    assert not [path for path in workdir.rglob("*") if "tmp" in path.name]


def test_a_finished_run_is_left_as_it_is(straight, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in straight.rglob("*") if path.is_file()}
    monkeypatch.setattr(program, "load_dataset", None)
    result = small.train(small.config(), straight, progress=never)
    assert result == read_json(straight / "result.json")
    after = {path: path.stat().st_mtime_ns for path in straight.rglob("*") if path.is_file()}
    changed = {path.name for path in after if before.get(path) != after[path]}
    assert changed <= {"environment.json"}


@pytest.fixture
def copied(straight, tmp_path):
    """A run that was moved to another folder after it was finished."""
    return shutil.copytree(straight, tmp_path / "moved")


def test_another_experiment_is_refused_in_the_same_folder(copied):
    other = small.config({"model.width": 12, "seed": 1, "training.log_every": 7})
    with pytest.raises(UserError) as caught:
        small.train(other, copied)
    assert "model.width was 8, now 12" in str(caught.value)
    assert "seed was 0, now 1" in str(caught.value)
    assert "log_every" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert diff(from_json((copied / "config.json").read_text()), small.config()) == {}


def test_more_steps_and_other_intervals_continue_a_moved_run(copied, monkeypatch):
    monkeypatch.chdir(copied.parent)
    config = small.config({"training.steps": 17, "training.log_every": 16})
    result = small.train(config, "moved")
    assert result["steps"] == 17
    assert result["fingerprint"] == fingerprint(config)
    assert {(16, "train"), (17, "train"), (17, "valid"), (17, "test")} <= small.lines(copied).keys()
    assert 17 in small.steps_kept(copied)
    starts = read_json(copied / "environment.json")["starts"]
    assert starts[-1]["changed"] == {"training.steps": [14, 17], "training.log_every": [3, 16]}
    assert diff(from_json((copied / "config.json").read_text()), config) == {}
    assert not (copied.parent / "moved" / "moved").exists()


def test_fewer_steps_than_were_trained_are_refused(copied):
    with pytest.raises(UserError, match=r"training\.steps=9"):
        small.train(small.config({"training.steps": 9}), copied)
    assert read_json(copied / "result.json")["steps"] == 14


def test_no_steps_evaluate_the_model_as_it_is_made(straight, tmp_path):
    result = small.train(small.config({"training.steps": 0}), tmp_path / "run")
    assert (result["status"], result["steps"]) == ("done", 0)
    lines = small.lines(tmp_path / "run")
    assert lines.keys() == {(0, "valid"), (0, "test")}
    assert lines[0, "valid"] == small.lines(straight)[0, "valid"]
    assert small.steps_kept(tmp_path / "run") == [0]


def test_a_diverged_run_ends_with_its_last_good_checkpoint(tmp_path):
    workdir = tmp_path / "run"
    config = small.config({"optimizer.learning_rate": 1e30})
    result = small.train(config, workdir)
    assert result["status"] == "diverged"
    first_bad = result["diverged_at_step"]
    assert 1 < first_bad <= 4
    assert f"step {first_bad}" in result["error"]
    assert result["steps"] < first_bad
    assert all(np.isfinite(value) for value in result["valid"].values())
    assert result["steps"] in small.steps_kept(workdir)
    assert all(np.isfinite(leaf).all() for leaf in small.params(workdir).values())
    text = (workdir / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert small.train(config, workdir, progress=never) == result


def test_the_step_of_divergence_does_not_depend_on_when_it_is_looked_for(tmp_path):
    found = set()
    for interval in (1, 3, 14):
        config = small.config(
            {
                "optimizer.learning_rate": 1e30,
                "training.eval_every": 50,
                "training.log_every": interval,
                "training.checkpoint_every": 50,
            }
        )
        found.add(small.train(config, tmp_path / str(interval))["diverged_at_step"])
    assert len(found) == 1


def test_a_model_that_is_not_finite_from_the_start_is_diverged(tmp_path):
    config = small.config({"model.init_scale": 3e38})
    result = small.train(config, tmp_path / "run")
    assert (result["status"], result["steps"], result["diverged_at_step"]) == ("diverged", 0, 0)
    assert result["valid"]["loss"] is None
    assert small.train(config, tmp_path / "run", progress=never) == result


def test_nothing_is_made_for_a_wrong_request(tmp_path):
    missing = tmp_path / "missing.txt"
    for overrides in (
        {"optimizer.warmup_steps": 14},
        {"model.num_heads": 3},
        {"data.source": "text", "data.path": str(missing)},
        {"parallel.data": 3},
    ):
        with pytest.raises(UserError):
            small.train(small.config(overrides), tmp_path / "new" / "run")
        assert os.listdir(tmp_path) == [], overrides


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for workdir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot write to --workdir"):
            small.train(small.config(), workdir)


def test_changed_data_is_refused(tmp_path):
    story = "Anna saw a cat. The cat saw Anna. They ran home and slept. "
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(story * 4 + str(n) for n in range(20)))
    config = small.config({"data.source": "text", "data.path": str(path), "training.steps": 3})
    with pytest.raises(small.Stopped):
        small.train(config, tmp_path / "run", should_stop=small.stop_after(0))
    path.write_text(path.read_text().replace("cat", "dog"))
    program._load.cache_clear()
    with pytest.raises(UserError, match=r"the data of the run at .* has changed"):
        small.train(config, tmp_path / "run")


def test_environment_says_what_the_run_ran_on(straight):
    environment = json.loads((straight / "environment.json").read_text())
    assert environment["versions"]["jax"]
    assert environment["computes_as"]["backend"] == "cpu"
    assert environment["starts"][0]["changed"] == {}


def test_a_full_disk_ends_a_run_with_what_was_made_and_it_continues(
    straight, tmp_path, monkeypatch
):
    from txf.training import checkpoints

    manager = checkpoints.ocp.CheckpointManager
    save = manager.save

    def full(self, step, *args, **options):
        if step >= 8:
            raise OSError(28, "No space left on device")
        return save(self, step, *args, **options)

    monkeypatch.setattr(manager, "save", full)
    with pytest.raises(RunError, match=r"cannot save a checkpoint at .*No space left") as caught:
        small.train(small.config(), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert small.steps_kept(tmp_path / "run")
    monkeypatch.undo()
    small.train(small.config(), tmp_path / "run")
    small.assert_same_run(tmp_path / "run", straight)
