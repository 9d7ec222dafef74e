import jax
import pytest

from txf.config import default_config
from txf.errors import UserError
from txf.nn.build import build_model
from txf.sweeps import estimate
from txf.sweeps.grid import expand, product

BASE = default_config()
BASE.data.bytes = 20_000
BASE.data.tokenizer = "byte"  # a vocabulary that does not depend on the text


def cost(**changes):
    """The cost of BASE with some keys changed; a double underscore stands for the dot."""
    keys = {key.replace("__", "."): [value] for key, value in changes.items()}
    member = expand(BASE, product(keys or {"seed": [0]}))[0]
    return estimate.run_cost(member.config)


def test_parameters_are_those_of_the_model():
    model = build_model(BASE.model, 257, BASE.data.context_length)
    shapes = jax.eval_shape(model.init, jax.random.key(0), jax.numpy.zeros((1, 5), int))
    assert cost().parameters == sum(leaf.size for leaf in jax.tree.leaves(shapes["params"]))


def test_flops_grow_with_steps_and_rows():
    base = cost()
    assert cost(training__steps=2 * BASE.training.steps).flops > 1.9 * base.flops
    assert cost(training__batch_size=2 * BASE.training.batch_size).flops > 1.7 * base.flops
    assert base.flops > base.flops_per_token * BASE.training.steps * BASE.training.batch_size * 64


@pytest.mark.parametrize("key", ["seed", "optimizer__learning_rate"])
def test_what_costs_nothing_changes_nothing(key):
    assert cost(**{key: 3}) == cost()


def test_memory_grows_with_what_is_kept():
    base = cost()
    assert cost(training__accumulate=4, training__eval_batch_size=8).memory < base.memory
    assert cost(model__depth=4).memory > base.memory
    assert cost(model__remat=True, model__depth=4).memory < cost(model__depth=4).memory
    assert base.memory > 16 * base.parameters


def test_members_of_one_cost_are_reckoned_once_and_problems_name_them(monkeypatch):
    calls = []

    def refuse(config):
        calls.append(config)
        raise UserError("there is no text")

    monkeypatch.setattr(estimate, "run_cost", refuse)
    members = expand(BASE, product({"seed": range(7)}))
    with pytest.raises(UserError, match="seed=0, seed=1 and 5 more: there is no text"):
        estimate.sweep_costs(members)
    assert len(calls) == 1


def test_time_falls_with_the_rate_and_programs_are_compiled_once():
    members = expand(BASE, product({"model.depth": [1, 3], "seed": [0, 1, 2]}))
    costs = estimate.sweep_costs(members)
    slow, fast = (estimate.sweep_seconds(members, costs, rate) for rate in (1e9, 1e15))
    assert all(slow[name] > fast[name] for name in slow)
    assert slow["depth=3,seed=0"] > 2 * slow["depth=1,seed=0"]
    assert fast["depth=3,seed=0"] > fast["depth=1,seed=0"] > fast["depth=1,seed=1"]
    assert fast["depth=1,seed=1"] == pytest.approx(fast["depth=3,seed=2"], rel=0.01)
