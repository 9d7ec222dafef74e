"""Norms equal their formulas, with float32 statistics whatever they are given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.nn.normalization import NORMS, Norm, layer_norm, rms_norm


def example(dtype=jnp.float32):
    random = np.random.default_rng(0)
    x = random.normal(3, 2, size=(2, 5, 7))
    return jnp.asarray(x, dtype), *(jnp.asarray(random.normal(size=7), jnp.float32) for _ in "sb")


def test_layer_norm_equals_the_formula():
    x, scale, bias = example()
    rows = np.asarray(x, np.float64)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    expected = (rows - mean) / np.sqrt(variance + 1e-5) * scale + bias
    np.testing.assert_allclose(layer_norm(x, scale, bias), expected, atol=1e-5)
    np.testing.assert_allclose(layer_norm(x, scale, None), expected - bias, atol=1e-5)


def test_rms_norm_equals_the_formula():
    x, scale, _ = example()
    rows = np.asarray(x, np.float64)
    expected = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(rms_norm(x, scale), expected, atol=1e-5)
    with pytest.raises(ValueError, match="no bias"):
        rms_norm(x, scale, scale)


def plain(kind, x, scale, bias):
    """The formulas as they are read; their gradients are for JAX to derive."""
    wide = x.astype(jnp.float32)
    if kind == "layernorm":
        wide = wide - wide.mean(-1, keepdims=True)
    y = wide / jnp.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    return (y if bias is None else y + bias).astype(x.dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", list(NORMS))
def test_the_gradients_by_hand_are_those_of_the_formula(kind, axes, dtype):
    x, scale, bias = example(dtype)
    x = x[(0,) * (3 - axes)]
    g = jnp.asarray(np.random.default_rng(1).normal(size=x.shape), jnp.float32)

    def gradients(norm):
        return jax.grad(lambda *args: (norm(*args) * g).sum(), (0, 1, 2))(x, scale, bias)

    def bias_of(kind, bias):
        return bias if kind == "layernorm" else None

    ours = gradients(lambda x, s, b: NORMS[kind](x, s, bias_of(kind, b)))
    theirs = gradients(lambda x, s, b: plain(kind, x, s, bias_of(kind, b)))
    tolerance = 1e-5 if dtype == jnp.float32 else 0.02
    for got, expected in zip(ours, theirs, strict=True):
        assert got.dtype == expected.dtype
        got, expected = np.asarray(got, np.float32), np.asarray(expected, np.float32)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", list(NORMS))
def test_members_side_by_side_have_the_gradients_of_each_alone(kind):
    x, scale, _ = example()
    scales = jnp.stack([scale, 2 - scale])

    def gradient(scale, x):
        return jax.grad(lambda scale: (NORMS[kind](x, scale, None) ** 3).sum())(scale)

    together = jax.vmap(gradient)(scales, x)
    for member in range(len(scales)):
        np.testing.assert_allclose(together[member], gradient(scales[member], x[member]), rtol=1e-5)


@pytest.mark.parametrize("kind", list(NORMS))
def test_statistics_are_float32(kind):
    x, scale, _ = example(jnp.bfloat16)
    got = NORMS[kind](x, scale, None)
    assert got.dtype == jnp.bfloat16
    expected = NORMS[kind](x.astype(jnp.float32), scale, None).astype(jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(expected, np.float32))


@pytest.mark.parametrize("kind", list(NORMS))
def test_rows_of_zeros_have_finite_gradients(kind):
    ones = jnp.ones(7)
    gradient = jax.grad(lambda x: NORMS[kind](x, ones, None).sum())(jnp.zeros((2, 5, 7)))
    assert jnp.isfinite(gradient).all()


def test_only_layer_norm_has_a_bias_and_only_where_wanted():
    x = example()[0]
    leaves = {
        (kind, use_bias): set(
            jax.eval_shape(Norm(kind, use_bias).init, jax.random.key(0), x)["params"]
        )
        for kind in NORMS
        for use_bias in (True, False)
    }
    assert leaves == {
        ("layernorm", True): {"scale", "bias"},
        ("layernorm", False): {"scale"},
        ("rmsnorm", True): {"scale"},
        ("rmsnorm", False): {"scale"},
    }
