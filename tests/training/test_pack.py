"""Packs: runs side by side as one program are the runs alone, but for rounding, and unkillable."""

import shutil

import numpy as np
import pytest

from tests.training import small
from txf.files import read_json
from txf.training import program
from txf.training.loop import train_pack

MEMBERS = (
    {"seed": 3},
    {"optimizer.learning_rate": 0.01, "model.dropout": 0.2, "optimizer.warmup_steps": 4},
    {"optimizer.weight_decay": 0.0, "optimizer.b2": 0.95, "model.init_scale": 0.5},
)


def pack(workdir, *members, **options):
    """Train these members as a pack; each in its own folder below `workdir`, by number."""
    pairs = [(small.config(each), workdir / str(n)) for n, each in enumerate(members)]
    return train_pack(pairs, **options)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("packed")
    results = pack(workdir, *MEMBERS)
    assert results == [read_json(workdir / str(n) / "result.json") for n in range(len(MEMBERS))]
    return workdir


def assert_same_members(one, other, members=MEMBERS):
    for n in range(len(members)):
        small.assert_same_run(one / str(n), other / str(n))


@pytest.mark.parametrize("member", [1, 2])
def test_a_member_is_the_run_alone_but_for_rounding(straight, tmp_path, member):
    small.train(small.config(MEMBERS[member]), tmp_path / "alone")
    alone, packed = (small.lines(folder) for folder in (tmp_path / "alone", straight / str(member)))
    assert alone.keys() == packed.keys()
    assert alone[0, "valid"] == packed[0, "valid"]  # the same initial bits, evaluated by itself
    for place, line in alone.items():
        figures = {name: value for name, value in line.items() if name != "split"}
        for name, value in figures.items():
            assert packed[place][name] == pytest.approx(value, rel=1e-4), (place, name)
    assert {path.name for path in (straight / str(member)).iterdir()} == {
        path.name for path in (tmp_path / "alone").iterdir()
    }


def test_members_differ_from_one_another(straight):
    losses = [read_json(straight / str(n) / "result.json")["valid"]["loss"] for n in range(3)]
    assert len(set(losses)) == 3


def test_stopped_packs_continue_to_the_same_bits(straight, tmp_path):
    for dispatches in (1, 3, 4):
        with pytest.raises(small.Stopped):
            pack(tmp_path, *MEMBERS, should_stop=small.stop_after(dispatches))
    pack(tmp_path, *MEMBERS)
    assert_same_members(tmp_path, straight)


def test_members_that_lag_behind_catch_up_to_the_same_bits(straight, tmp_path):
    with pytest.raises(small.Stopped):
        pack(tmp_path, *MEMBERS, should_stop=small.stop_after(3))
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(small.Stopped):
        pack(tmp_path, *MEMBERS, should_stop=small.stop_after(1))
    assert small.steps_kept(tmp_path / "0")[-1] > small.steps_kept(tmp_path / "1")[-1]
    pack(tmp_path, *MEMBERS)
    assert_same_members(tmp_path, straight)


@pytest.mark.parametrize("ended", ["01", "0"])
def test_what_is_left_of_a_pack_comes_to_the_same_bits(straight, tmp_path, ended):
    for member in ended:
        shutil.copytree(straight / member, tmp_path / member)
    pack(tmp_path, *MEMBERS)
    assert_same_members(tmp_path, straight)


def test_a_member_that_diverges_leaves_the_others_alone(straight, tmp_path):
    members = (MEMBERS[0], {**MEMBERS[1], "optimizer.learning_rate": 1e30}, MEMBERS[2])
    results = pack(tmp_path, *members)
    assert [result["status"] for result in results] == ["done", "diverged", "done"]
    assert all(np.isfinite(value) for value in results[1]["valid"].values())
    for n in (0, 2):
        small.assert_same_run(tmp_path / str(n), straight / str(n))


def test_members_may_read_data_of_different_seeds(tmp_path):
    members = [{"data.seed": seed, "data.tokenizer": "byte"} for seed in (7, 1)]
    pack(tmp_path / "one", *members)
    pack(tmp_path / "other", *reversed(members))
    for n in range(2):
        small.assert_same_run(tmp_path / "one" / str(n), tmp_path / "other" / str(1 - n))
    first, second = (small.lines(tmp_path / "one" / str(n)) for n in range(2))
    assert first[14, "train"] != second[14, "train"]


def test_data_that_stays_on_the_host_changes_no_bit(straight, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "RESIDENT_BYTES", 0)
    program._load.cache_clear()
    pack(tmp_path, *MEMBERS)
    program._load.cache_clear()
    assert_same_members(tmp_path, straight)


def test_runs_that_share_no_program_are_no_pack(tmp_path):
    with pytest.raises(ValueError, match="different compiled programs"):
        pack(tmp_path, {}, {"model.width": 10})
