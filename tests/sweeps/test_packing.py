"""Packs of a sweep: who goes with whom, how many pay, and what becomes of a pack that fails."""

import os

import pytest

from tests.sweeps.test_runner import NAMES, Training, make  # noqa: F401 (a fixture)
from txf.errors import RunError, Stopped, UserError
from txf.files import read_json
from txf.sweeps import packing
from txf.sweeps.estimate import Cost
from txf.sweeps.packing import pack_size, packs
from txf.sweeps.runner import run_sweep
from txf.training.loop import train, train_pack

# The packs of two: who is in which place.
FIRST, SECOND = dict(enumerate(NAMES[:2])), dict(enumerate(NAMES[2:]))


class PackTraining(Training):
    """Stands in for training in packs: records who had which places of how many."""

    def together(self, pairs, *, places, size, progress, should_stop):
        names = [os.path.basename(folder) for _, folder in pairs]
        self.calls.append((size, dict(zip(places, names, strict=True))))
        if error := self.misbehave.get("together"):
            raise error
        for (config, folder), tell in zip(pairs, progress, strict=True):
            Training()(config, folder, progress=tell, should_stop=should_stop)


def names(groups):
    return [[member.name for member in group] for group in groups]


def test_members_that_share_a_program_go_together_in_arm_order(make):  # noqa: F811
    members = make().members
    assert names(packs(members, 2)) == [NAMES[:2], NAMES[2:]]
    assert names(packs(members, 9)) == [NAMES[:2], NAMES[2:]]
    assert names(packs(members, 1)) == [[name] for name in NAMES]
    assert names(packs(members[::-1], 2)) == names(packs(members[::-1], 3))


@pytest.mark.parametrize(
    ("key", "values", "together"),
    [
        ("optimizer.learning_rate", [0.001, 0.01], True),
        ("data.seed", [0, 1], True),
        ("optimizer.clip_norm", [0.5, 1.0], True),
        ("optimizer.clip_norm", [0.0, 1.0], False),
        ("model.dropout", [0.1, 0.2], True),
        ("model.dropout", [0.0, 0.2], False),
        ("model.init_scale", [0.5, 1.0], True),
        ("optimizer.schedule", ["linear", "cosine"], False),
        ("training.batch_size", [16, 32], False),
        ("training.steps", [10, 20], False),
    ],
)
def test_who_may_go_together(make, key, values, together):  # noqa: F811
    groups = packs(make(f'{{"model.depth": [1, 2], "{key}": {values!r}}}').members, 2)
    assert [len(group) for group in groups] == ([2, 2] if together else [1] * 4)


@pytest.mark.parametrize("overrides", [{"parallel.mode": "pmap"}, {"parallel.tensor": 2}])
def test_runs_that_need_all_devices_are_alone(make, overrides):  # noqa: F811
    assert names(packs(make(overrides=overrides).members, 4)) == [[name] for name in NAMES]


def test_the_size_that_is_asked_for(make, monkeypatch):  # noqa: F811
    members = make().members
    small, large = Cost(1_000, 6e3, 1e9, 1e6), Cost(10**9, 6e9, 1e15, 1e10)
    costs = dict.fromkeys((member.name for member in members), small)
    assert pack_size("3", members, costs, 1e12) == 3
    for wrong in ("0", "-1", "many", "2.5", ""):
        with pytest.raises(UserError, match="give auto, or how many"):
            pack_size(wrong, members, costs, 1e12)
    assert pack_size("auto", members, costs, 1e14) == 1
    monkeypatch.setattr(packing.jax, "default_backend", lambda: "gpu")
    many = pack_size("auto", members, costs, 1e14)
    assert 1 < many <= packing.MOST_MEMBERS
    assert pack_size("auto", members, costs, 1e15) >= many
    assert pack_size("auto", members, dict.fromkeys(costs, large), 1e14) == 1


def test_packs_run_together_once(make, tmp_path):  # noqa: F811
    training = PackTraining()
    for _ in range(2):
        outcome = run_sweep(
            make(), tmp_path / "s", train=training, train_pack=training.together, pack=2
        )
        assert outcome.statuses == dict.fromkeys(NAMES, "done")
    assert training.calls == [(2, FIRST), (2, SECOND)]


def test_what_is_left_of_a_pack_keeps_its_size_and_places(make, tmp_path):  # noqa: F811
    def first_alone(pairs, **options):
        only = {"places": options["places"][:1], "progress": options["progress"][:1]}
        PackTraining().together(pairs[:1], **{**options, **only})
        raise Stopped("saved")

    with pytest.raises(Stopped):
        run_sweep(make(), tmp_path / "s", train=Training(), train_pack=first_alone, pack=2)
    training = PackTraining()
    run_sweep(make(), tmp_path / "s", train=training, train_pack=training.together, pack=2)
    assert training.calls == [(2, {1: NAMES[1]}), (2, SECOND)]


def test_members_of_a_pack_that_fails_go_on_alone(make, tmp_path):  # noqa: F811
    training = PackTraining(together=RuntimeError("out of memory"), depth1_seed1=RunError("disk"))
    outcome = run_sweep(
        make(), tmp_path / "s", train=training, train_pack=training.together, pack=2
    )
    assert training.calls == [(2, FIRST), *NAMES[:2], (2, SECOND), *NAMES[2:]]
    assert outcome.statuses == dict.fromkeys(NAMES, "done") | {NAMES[1]: "failed"}
    assert outcome.errors == {NAMES[1]: "disk"}


@pytest.mark.slow
def test_a_packed_sweep_comes_to_what_the_same_sweep_comes_to_one_by_one(make, tmp_path):  # noqa: F811
    tiny = {
        "data.bytes": 3_000,
        "data.context_length": 11,
        "model.width": 8,
        "training.steps": 6,
        "training.batch_size": 6,
        "training.eval_batch_size": 37,
    }
    sweep = make(overrides=tiny)
    run_sweep(sweep, tmp_path / "one", train=train)
    run_sweep(sweep, tmp_path / "two", train=train, train_pack=train_pack, pack=2)
    for name in NAMES:
        one, two = (read_json(tmp_path / s / "runs" / name / "result.json") for s in ("one", "two"))
        assert one["valid"]["loss"] == pytest.approx(two["valid"]["loss"], rel=1e-4)
        assert one["fingerprint"] == two["fingerprint"]
