"""Cross-entropy against optax's, and padding that may hold anything."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from txf.training.losses import cross_entropy, weighted_nats

BATCH, TOKENS, VOCAB = 3, 5, 7


def example(dtype="float32"):
    rng = np.random.default_rng(0)
    logits = jnp.asarray(rng.normal(size=(BATCH, TOKENS, VOCAB)) * 5, dtype)
    targets = jnp.asarray(rng.integers(0, VOCAB, (BATCH, TOKENS)), jnp.int32)
    weights = jnp.asarray(rng.random((BATCH, TOKENS)) < 0.7, jnp.float32)
    return logits, targets, weights


def optax_nats(logits, targets):
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), targets)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cross_entropy_equals_optax_in_value_and_gradient(dtype):
    logits, targets, weights = example(dtype)
    ours, theirs = cross_entropy(logits, targets), optax_nats(logits, targets)
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)

    def gradient(function):
        return jax.grad(lambda x: (function(x, targets) * weights).sum())(logits)

    assert gradient(cross_entropy).dtype == logits.dtype
    np.testing.assert_allclose(
        np.asarray(gradient(cross_entropy), np.float32),
        np.asarray(gradient(optax_nats), np.float32),
        rtol=1e-5 if dtype == "float32" else 1e-2,
        atol=1e-6,
    )


def test_extreme_logits_give_finite_nats():
    logits = jnp.asarray([[1e30, -1e30, 0.0], [-1e30, -1e30, -1e30], [0.0, -jnp.inf, 0.0]])
    nats = cross_entropy(logits, jnp.asarray([0, 1, 2]))
    np.testing.assert_allclose(nats, [0.0, np.log(3), np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("junk", [np.inf, -np.inf, np.nan])
def test_padding_contributes_nothing_forward_or_backward(junk):
    logits, targets, weights = example()
    spoilt = jnp.where(weights[..., None] > 0, logits, junk)

    def nats(logits):
        return weighted_nats(logits, {"targets": targets, "weights": weights})[0]

    total, gradient = jax.value_and_grad(nats)(spoilt)
    assert total == nats(logits)
    np.testing.assert_array_equal(gradient, jax.grad(nats)(logits))
    assert not np.asarray(gradient)[np.asarray(weights) == 0].any()


def test_parts_of_a_batch_add_up_to_the_whole():
    logits, targets, weights = example()
    batch = {"targets": targets, "weights": weights}
    nats, weight = weighted_nats(logits, batch)
    parts = [
        weighted_nats(logits[row], jax.tree.map(lambda x, row=row: x[row], batch))
        for row in range(BATCH)
    ]
    np.testing.assert_allclose(nats, sum(part[0] for part in parts), rtol=1e-6)
    assert weight == sum(part[1] for part in parts) == weights.sum()


def test_a_batch_of_padding_alone_weighs_nothing():
    logits, targets, weights = example()
    batch = {"targets": targets, "weights": 0 * weights}
    assert weighted_nats(logits, batch) == (0, 0)
