"""Heads equal their formulas; pooling is over real tokens, wherever padding stands."""

import jax.numpy as jnp
import numpy as np
import pytest

from txf.nn.heads import Embed, Head, first_pool, mean_pool, vocabulary_logits

BATCH, TOKENS, WIDTH, OUTPUTS = 2, 5, 7, 11
X = np.random.default_rng(0).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
SEGMENTS = np.array([[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)


def test_mean_pool_averages_real_tokens():
    got = mean_pool(jnp.asarray(X), jnp.asarray(SEGMENTS))
    np.testing.assert_allclose(got, [X[0, 1:4].mean(0), X[1, :2].mean(0)], atol=1e-6)
    np.testing.assert_allclose(mean_pool(jnp.asarray(X), None), X.mean(1), atol=1e-6)
    poisoned = jnp.where(SEGMENTS[:, :, None] > 0, X, jnp.nan)
    np.testing.assert_array_equal(mean_pool(poisoned, jnp.asarray(SEGMENTS)), got)
    assert (mean_pool(jnp.asarray(X), jnp.zeros_like(SEGMENTS)) == 0).all()


def test_first_pool_takes_the_first_real_token():
    got = first_pool(jnp.asarray(X), jnp.asarray(SEGMENTS))
    np.testing.assert_array_equal(got, [X[0, 1], X[1, 0]])
    np.testing.assert_array_equal(first_pool(jnp.asarray(X), None), X[:, 0])


def test_a_tied_head_is_the_embedding_turned_round():
    embedding = np.random.default_rng(1).normal(size=(OUTPUTS, WIDTH)).astype(np.float32)
    expected = X @ embedding.T
    got = vocabulary_logits(jnp.asarray(X), jnp.asarray(embedding))
    np.testing.assert_allclose(got, expected, atol=1e-5)
    params = {"params": {"embedding": jnp.asarray(embedding)}}
    module = Embed(OUTPUTS, WIDTH)
    np.testing.assert_array_equal(module.apply(params, jnp.asarray(X), method="logits"), got)
    tokens = jnp.asarray([[3, OUTPUTS]])
    looked_up = module.apply(params, tokens)
    np.testing.assert_array_equal(looked_up[0, 0], embedding[3])
    assert jnp.isnan(looked_up[0, 1]).all()  # there is no such token


@pytest.mark.parametrize("pooling", [None, "mean", "first"])
@pytest.mark.parametrize("use_bias", [True, False])
def test_a_head_of_its_own_is_one_product(pooling, use_bias):
    random = np.random.default_rng(2)
    params = {"kernel": jnp.asarray(random.normal(size=(WIDTH, OUTPUTS)), jnp.float32)}
    if use_bias:
        params["bias"] = jnp.asarray(random.normal(size=OUTPUTS), jnp.float32)
    x = {
        None: X,
        "mean": np.stack([X[0, 1:4].mean(0), X[1, :2].mean(0)]),
        "first": np.stack([X[0, 1], X[1, 0]]),
    }[pooling]
    got = Head(OUTPUTS, pooling, use_bias).apply(
        {"params": params}, jnp.asarray(X), jnp.asarray(SEGMENTS)
    )
    np.testing.assert_allclose(got, x @ params["kernel"] + params.get("bias", 0), atol=1e-5)
