"""The feed-forward layers equal their formulas, and know a token by itself only."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.nn.feedforward import ACTIVATIONS, FeedForward, hidden_width

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 7)), jnp.float32)
FORMULAS = {
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def parameters(layer):
    shapes = jax.eval_shape(layer.init, jax.random.key(0), X)["params"]
    random = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: jnp.asarray(random.normal(size=leaf.shape), leaf.dtype), shapes
    )


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations_equal_their_formulas(name):
    x = np.linspace(-4, 4, 41)
    got = ACTIVATIONS[name](jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(got, FORMULAS[name](x), atol=1e-6)


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations_have_the_slopes_of_their_formulas(name):
    x = np.linspace(-4, 4, 40)  # without 0, where relu has none
    step = 1e-5
    expected = (FORMULAS[name](x + step) - FORMULAS[name](x - step)) / (2 * step)
    got = jax.grad(lambda x: ACTIVATIONS[name](x).sum())(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("kind", ["mlp", "swiglu"])
def test_layer_equals_its_formula(kind, use_bias):
    layer = FeedForward(kind, hidden=11, activation="relu", use_bias=use_bias)
    params = parameters(layer)
    assert set(params) == {"up", "down"} | ({"gate"} if kind == "swiglu" else set())
    assert ("bias" in params["up"]) == use_bias

    def apply(name, x):
        leaves = params[name]
        return x @ np.asarray(leaves["kernel"]) + np.asarray(leaves.get("bias", 0.0))

    x = np.asarray(X, np.float64)
    hidden = apply("up", x)
    hidden = (
        FORMULAS["silu"](apply("gate", x)) * hidden
        if kind == "swiglu"
        else FORMULAS["relu"](hidden)
    )
    expected = apply("down", hidden)
    np.testing.assert_allclose(layer.apply({"params": params}, X), expected, atol=2e-5)


@pytest.mark.parametrize(("ratio", "hidden"), [(4.0, 28), (8 / 3, 19), (0.5, 4), (0.01, 1)])
def test_any_ratio_gives_a_hidden_width(ratio, hidden):
    assert hidden_width(7, ratio) == hidden


def test_an_unknown_kind_names_the_known_ones():
    layer = FeedForward("conv", hidden=11)
    with pytest.raises(ValueError, match=r"conv.*mlp, swiglu, none"):
        jax.eval_shape(layer.init, jax.random.key(0), X)
