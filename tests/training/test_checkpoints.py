"""Checkpoints: which are kept, and what happens when one is damaged."""

import logging
import shutil

import pytest

from tests.training import small
from txf.errors import RunError, UserError
from txf.training.checkpoints import Checkpoints
from txf.training.reopen import open_run

# Two are kept, so that there is always another than the newest.
CONFIG = small.config({"checkpoint.keep": 2})


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("straight") / "run"
    small.train(CONFIG, workdir)
    return workdir


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped at step 10, where it saves anyway."""
    workdir = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(small.Stopped, match="step 10"):
        small.train(CONFIG, workdir, should_stop=small.stop_after(8))
    assert small.steps_kept(workdir)[-1] == 10
    assert len(small.steps_kept(workdir)) >= 2
    return workdir


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


# Every file is truncated and has a bit flipped; to save time, only some are removed.
@pytest.mark.parametrize(
    ("damage", "start", "step"),
    [(truncate, 0, 1), (flip, 0, 1), (lambda path: path.unlink(), 0, 3)],
)
def test_a_damaged_newest_checkpoint_is_passed_over(
    stopped, straight, tmp_path, caplog, damage, start, step
):
    newest = stopped / "checkpoints" / "10"
    needed = 0
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    for number, file in enumerate(files[start::step]):
        workdir = shutil.copytree(stopped, tmp_path / str(number))
        damage(workdir / file.relative_to(stopped))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "txf"):
            small.train(CONFIG, workdir)
        small.assert_same_run(workdir, straight)
        said = [record.getMessage() for record in caplog.records if record.name.startswith("txf")]
        if said:
            needed += 1
            (line,) = said
            assert f"{workdir}/checkpoints/10 is damaged" in line
            used = small.steps_kept(stopped)[-2]
            assert f"{workdir}/checkpoints/{used} is used instead" in line
        shutil.rmtree(workdir)
    assert needed


def test_a_run_with_damaged_checkpoints_alone_says_so_in_a_line(stopped, tmp_path, capfd):
    workdir = shutil.copytree(stopped, tmp_path / "run")
    for folder in (workdir / "checkpoints").iterdir():
        for file in [p for p in (folder / "state").rglob("*") if p.is_file()]:
            truncate(file)
    before = (workdir / "metrics.jsonl").read_text()
    for use in (lambda: small.train(CONFIG, workdir), lambda: open_run(workdir)):
        with pytest.raises(RunError, match="is damaged") as caught:
            use()
        assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""
    assert (workdir / "metrics.jsonl").read_text() == before


def test_what_a_killed_save_left_is_removed(stopped, straight, tmp_path):
    workdir = shutil.copytree(stopped, tmp_path / "run")
    left = workdir / "checkpoints" / "12.orbax-checkpoint-tmp"
    shutil.copytree(workdir / "checkpoints" / "10", left)
    open_run(workdir)
    assert left.exists()  # who only reads changes nothing
    small.train(CONFIG, workdir)
    assert not left.exists()
    small.assert_same_run(workdir, straight)


def test_the_last_and_the_best_are_kept_and_no_others(tmp_path):
    # At this learning rate the loss rises again: the best is not the last.
    config = small.config({"optimizer.learning_rate": 1.0, "optimizer.schedule": "constant"})
    small.train(config, tmp_path / "run")
    valid = {
        step: line["loss"]
        for (step, split), line in small.lines(tmp_path / "run").items()
        if split == "valid"
    }
    best = min(valid, key=valid.get)
    assert best != 14
    assert small.steps_kept(tmp_path / "run") == [best, 14]
    assert open_run(tmp_path / "run").step == 14


def test_no_step_is_saved_twice(tmp_path, monkeypatch):
    saved = []
    save = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints,
        "save",
        lambda self, step, *args: saved.append(step) or save(self, step, *args),
    )
    config = small.config({"training.checkpoint_every": 7, "training.eval_every": 7})
    small.train(config, tmp_path / "run")
    assert saved == sorted(set(saved))
    assert saved[-1] == 14


def test_missing_steps_and_runs_are_named(stopped, tmp_path):
    with pytest.raises(UserError, match=r"no checkpoint of step 11 .* it has .*10"):
        open_run(stopped, 11)
    with pytest.raises(UserError, match="there is no run at"):
        open_run(tmp_path)
