"""The learning rate against its formula, the optimizers against optax's own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.training import small
from txf.nn.build import build_model
from txf.training.optimizers import (
    Hyper,
    decay_mask,
    hyper_from_config,
    learning_rate_at,
    make_optimizer,
)

PEAK, FINAL = 0.3, 0.2


def hyper(**changes):
    values = {
        "learning_rate": PEAK,
        "warmup_steps": 0,
        "total_steps": 11,
        "final_fraction": FINAL,
        "weight_decay": 0.05,
        "b1": 0.8,
        "b2": 0.95,
        "eps": 1e-6,
        "clip_norm": 0.7,
        "dropout": 0.0,
        "init_scale": 1.0,
    }
    return Hyper(**{key: jnp.float32(value) for key, value in {**values, **changes}.items()})


def written(step, schedule, warmup, total):
    """The formula of `learning_rate_at`, in plain floats."""
    if step < warmup:
        return PEAK * (step + 1) / (warmup + 1)
    t = min(1.0, (step - warmup) / max(total - 1 - warmup, 1))
    return (
        PEAK
        * {
            "constant": 1.0,
            "linear": 1 - (1 - FINAL) * t,
            "cosine": FINAL + (1 - FINAL) * (1 + math.cos(math.pi * t)) / 2,
        }[schedule]
    )


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("warmup", "total"), [(0, 11), (3, 11), (10, 11), (0, 1), (0, 0), (0, 2)])
def test_the_learning_rate_follows_its_formula(schedule, warmup, total):
    numbers = hyper(warmup_steps=warmup, total_steps=total)
    steps = np.arange(total + 3)
    rates = jax.vmap(lambda step: learning_rate_at(step, numbers, schedule))(steps)
    expected = [written(step, schedule, warmup, total) for step in steps]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    if warmup:
        assert rates[0] > 0
        assert rates[warmup] == pytest.approx(PEAK)
    if total > warmup + 1 and schedule != "constant":
        assert rates[total - 1] == pytest.approx(PEAK * FINAL)


def params_and_gradients():
    rng = np.random.default_rng(1)
    shapes = {"up": {"kernel": (3, 5), "bias": (5,)}, "final_norm": {"scale": (3,)}}

    def draw(scale):
        return jax.tree.map(
            lambda shape: jnp.asarray(rng.normal(size=shape) * scale, jnp.float32),
            shapes,
            is_leaf=lambda x: isinstance(x, tuple),
        )

    return draw(1.0), [draw(scale) for scale in (1.0, 0.01, 30.0, 1.0)]


def mask(params):
    return {"up": {"kernel": True, "bias": False}, "final_norm": {"scale": False}}


def theirs(name, rate, *, clips, decay_all):
    decayed = None if decay_all else mask
    adam = {"b1": 0.8, "b2": 0.95, "eps": 1e-6}
    core = {
        "adamw": lambda: optax.adamw(rate, **adam, weight_decay=0.05, mask=decayed),
        "adam": lambda: optax.adam(rate, **adam),
        "sgd": lambda: optax.chain(
            optax.trace(0.8),
            optax.add_decayed_weights(0.05, mask=decayed),
            optax.scale_by_learning_rate(rate),
        ),
    }[name]()
    return optax.chain(optax.clip_by_global_norm(0.7), core) if clips else core


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize(("clips", "decay_all"), [(False, False), (True, False), (False, True)])
def test_optimizers_equal_those_of_optax(name, clips, decay_all):
    def rate(step):
        return jnp.float32(PEAK) * (1 - (1 - FINAL) * jnp.clip(step / 10, 0, 1))

    ours = make_optimizer(name, "linear", hyper(), clips=clips, decay_all=decay_all)
    other = theirs(name, rate, clips=clips, decay_all=decay_all)
    params, gradients = params_and_gradients()
    mine = yours = params
    state, their_state = ours.init(params), other.init(params)
    for grads in gradients:
        updates, state = ours.update(grads, state, mine)
        mine = optax.apply_updates(mine, updates)
        updates, their_state = other.update(grads, their_state, yours)
        yours = optax.apply_updates(yours, updates)
    for one, two in zip(jax.tree.leaves(mine), jax.tree.leaves(yours), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_what_decays_is_matrices_and_token_embeddings():
    made = small.config({"model.norm_placement": "rezero", "model.tie_embeddings": False})
    model = build_model(made.model, 13, 11)
    shapes = jax.eval_shape(
        lambda: model.init(jax.random.key(0), jnp.zeros((1, 11), jnp.int32))["params"]
    )
    flags = {
        tuple(key.key for key in path): decays
        for path, decays in jax.tree_util.tree_leaves_with_path(decay_mask(shapes, False))
    }
    decayed = {path for path, decays in flags.items() if decays}
    assert {path[-1] for path in decayed} == {"kernel", "embedding"}
    spared = {path for path in flags if path not in decayed}
    assert ("positions", "table") in spared
    assert {"bias"} <= {path[-1] for path in spared}
    assert any("gate" in path[-1] for path in spared)
    kernels = {path for path in flags if path[-1] in ("kernel", "embedding")}
    assert kernels == decayed
    assert all(jax.tree.leaves(decay_mask(shapes, True)))


def test_norms_are_spared_by_name():
    model = build_model(small.config({"model.norm_placement": "sandwich"}).model, 13, 11)
    shapes = jax.eval_shape(
        lambda: model.init(jax.random.key(0), jnp.zeros((1, 11), jnp.int32))["params"]
    )
    for path, decays in jax.tree_util.tree_leaves_with_path(decay_mask(shapes, False)):
        if any("norm" in key.key for key in path):
            assert not decays


def test_every_number_of_hyper_is_read_from_its_key():
    wanted = {
        "optimizer.learning_rate": 0.125,
        "optimizer.warmup_steps": 3,
        "training.steps": 17,
        "optimizer.final_fraction": 0.25,
        "optimizer.weight_decay": 0.375,
        "optimizer.b1": 0.5,
        "optimizer.b2": 0.625,
        "optimizer.eps": 2.0**-20,
        "optimizer.clip_norm": 0.75,
        "model.dropout": 0.875,
        "model.init_scale": 1.5,
    }
    assert hyper_from_config(small.config(wanted)) == tuple(wanted.values())
