"""Attention equals its formulas, other people's attention, and leaks nothing through its mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from txf.nn.attention import (
    PROJECTIONS,
    Attention,
    attention,
    attention_scores,
    attention_weights,
    build_mask,
    mix,
)
from txf.nn.sight import Sight

BATCH, QUERIES, KEYS, HEADS, KEY_DIM, VALUE_DIM = 2, 5, 7, 6, 11, 13


def arrays(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def inputs(kv_heads=HEADS, queries=QUERIES, keys=KEYS, seed=0):
    return arrays(
        (BATCH, queries, HEADS, KEY_DIM),
        (BATCH, keys, kv_heads, KEY_DIM),
        (BATCH, keys, kv_heads, VALUE_DIM),
        seed=seed,
    )


def slow_attention(q, k, v, mask, similarity, scale, bias):
    """One number at a time, in float64, as the formulas are written."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    batch, queries, heads, key_dim = q.shape
    keys, kv_heads, value_dim = v.shape[1:]
    out = np.zeros((batch, queries, heads, value_dim))
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // kv_heads)
            for i in range(queries):
                allowed = [j for j in range(keys) if mask[b, i, j]]
                shares = {}
                for j in allowed:
                    s = sum(q[b, i, h, d] * k[b, j, g, d] for d in range(key_dim))
                    if similarity == "cosine":
                        s /= np.sqrt((q[b, i, h] ** 2).sum()) * np.sqrt((k[b, j, g] ** 2).sum())
                    if scale:
                        s /= np.sqrt(key_dim)
                    shares[j] = np.exp(s + bias[b, h, i, j])
                for j in allowed:
                    out[b, i, h] += shares[j] / sum(shares.values()) * v[b, j, g]
    return out


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("kv_heads", [6, 3, 1])
def test_equals_the_formula_written_as_loops(similarity, scale, kv_heads):
    q, k, v = inputs(kv_heads)
    random = np.random.default_rng(1)
    mask = random.random((BATCH, QUERIES, KEYS)) < 0.6
    mask[0, 2] = False
    bias = random.normal(size=(BATCH, HEADS, QUERIES, KEYS))
    expected = slow_attention(q, k, v, mask, similarity, scale, bias)
    got = attention(
        q, k, v, jnp.asarray(mask)[:, None], similarity, scale, jnp.asarray(bias, jnp.float32)
    )
    np.testing.assert_allclose(got, expected, atol=2e-6)
    assert (np.asarray(got)[0, 2] == 0).all()


@pytest.mark.parametrize("causal", [True, False])
def test_equals_jax_nn_dot_product_attention(causal):
    q, k, _ = inputs(keys=QUERIES)
    v = k[..., ::-1]  # JAX takes keys and values of one size
    places = jnp.arange(QUERIES)[None]
    mask = build_mask(causal, None, None, places, places)
    assert (mask is None) == (not causal)
    expected = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
    np.testing.assert_allclose(attention(q, k, v, mask), expected, atol=1e-6)


def test_equals_jax_nn_dot_product_attention_with_grouped_heads():
    q, k, _ = inputs(kv_heads=2, keys=QUERIES)
    np.testing.assert_allclose(attention(q, k, k), jax.nn.dot_product_attention(q, k, k), atol=1e-6)


def test_module_equals_flax_multi_head_attention_with_the_same_parameters():
    width, tokens = 12, 5
    (x,) = arrays((BATCH, tokens, width))
    theirs = nn.MultiHeadDotProductAttention(num_heads=3, bias_init=nn.initializers.normal(1.0))
    mask = nn.make_causal_mask(jnp.ones((BATCH, tokens)), dtype=bool)
    variables = theirs.init(jax.random.key(0), x, mask=mask)
    renamed = {
        name.replace("out", "output"): leaves for name, leaves in variables["params"].items()
    }
    ours = module(num_heads=3, num_kv_heads=3, key_dim=4, value_dim=4)
    np.testing.assert_allclose(
        ours.apply({"params": renamed}, x, Sight(mask=mask)),
        theirs.apply(variables, x, mask=mask),
        atol=1e-6,
    )


def module(**options):
    sizes = dict(num_heads=3, num_kv_heads=3, key_dim=4, value_dim=4)
    return Attention(**{"form": "qkv", **sizes, **options})


@pytest.mark.parametrize("form", list(PROJECTIONS))
@pytest.mark.parametrize("cross", [False, True])
def test_each_form_equals_its_formula(form, cross):
    """raw: Q = K = V = S; qk: V = S; qkv: all projected; memory takes S's place for K and V."""
    width, tokens, heads = 12, 5, 3
    x, memory = arrays((BATCH, tokens, width), (BATCH, 7, width))
    layer = module(form=form, cross=cross)
    memory = memory if cross else None
    params = layer.init(jax.random.key(0), x, Sight(), memory)["params"]
    assert set(params) == {*PROJECTIONS[form], "output"}
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)

    origin = x if memory is None else memory

    def project(name, source):
        if name not in params:
            return np.asarray(source).reshape(*source.shape[:2], heads, width // heads)
        weights = params[name]
        return np.einsum("btw,whd->bthd", source, weights["kernel"]) + weights["bias"]

    q, k, v = project("query", x), project("key", origin), project("value", origin)
    everything = np.ones((BATCH, q.shape[1], k.shape[1]), bool)
    nothing = np.zeros((BATCH, heads, q.shape[1], k.shape[1]))
    mixed = slow_attention(q, k, v, everything, "dot", True, nothing)
    kernel = np.asarray(params["output"]["kernel"])
    expected = np.einsum("bthd,hdw->btw", mixed, kernel) + params["output"]["bias"]
    got = layer.apply({"params": params}, x, Sight(), memory)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_without_output_projection_heads_are_concatenated():
    (x,) = arrays((BATCH, 5, 12))
    layer = module(form="raw", output_projection=False)
    assert "params" not in layer.init(jax.random.key(0), x, Sight())
    heads = x.reshape(BATCH, 5, 3, 4)
    expected = attention(heads, heads, heads).reshape(x.shape)
    np.testing.assert_array_equal(layer.apply({}, x, Sight()), expected)


def test_qk_norm_makes_scores_independent_of_the_size_of_queries_and_keys():
    (x,) = arrays((BATCH, 5, 12))
    layer = module(qk_norm=True, use_bias=False)
    params = layer.init(jax.random.key(0), x, Sight())["params"]
    assert params["query_norm"]["scale"].shape == params["key_norm"]["scale"].shape == (4,)

    def output(params):
        return layer.apply({"params": params}, x, Sight())

    bigger = jax.tree.map(lambda leaf: leaf, params)
    for name in ("query", "key"):
        bigger[name] = {"kernel": params[name]["kernel"] * 100}
    np.testing.assert_allclose(output(bigger), output(params), atol=1e-3)
    sharper = {**params, "query_norm": {"scale": params["query_norm"]["scale"] * 3}}
    assert np.abs(output(sharper) - output(params)).max() > 1e-2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_query_without_keys_gives_zero_and_finite_gradients(dtype):
    q, k, v = (x.astype(dtype) for x in inputs())
    mask = np.ones((BATCH, 1, QUERIES, KEYS), bool)
    mask[1, :, 3] = False

    def function(q, k, v):
        return attention(q, k, v, jnp.asarray(mask))

    out, pull = jax.vjp(function, q, k, v)
    gradients = pull(jnp.ones_like(out))
    assert out.dtype == dtype
    assert (out[1, 3] == 0).all()
    assert (gradients[0][1, 3] == 0).all()
    for leaf in (out, *gradients):
        assert jnp.isfinite(leaf).all()


def test_weights_are_float32_shares_of_the_allowed_keys():
    (scores,) = arrays((BATCH, HEADS, QUERIES, KEYS))
    places = (jnp.arange(QUERIES)[None], jnp.arange(KEYS)[None])
    mask = build_mask(True, None, None, *places)
    weights = attention_weights(scores.astype(jnp.bfloat16), mask)
    assert weights.dtype == jnp.float32
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert (jnp.where(mask, 0, weights) == 0).all()


def test_the_gradient_by_hand_is_that_of_the_plain_formula():
    (scores,) = arrays((BATCH, HEADS, QUERIES, KEYS))
    mask = jnp.asarray(np.random.default_rng(2).random((BATCH, 1, QUERIES, KEYS)) < 0.7)
    mask = mask.at[..., 0].set(True)

    def plain(scores):
        return jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)

    for direction in (jax.jacfwd, jax.jacrev):
        expected = direction(lambda s: (plain(s) ** 3).sum())(scores)
        got = direction(lambda s: (attention_weights(s, mask) ** 3).sum())(scores)
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_large_queries_and_keys_leak_nothing_through_the_mask():
    q, k, v = inputs()
    mask = build_mask(True, None, None, jnp.arange(QUERIES)[None], jnp.arange(KEYS)[None])

    def gradient(values):
        def last_but_one(values):
            return attention(q * 1e3, k * 1e3, values, mask)[:, 3].sum()

        return jax.grad(last_but_one)(values)

    assert (gradient(v)[:, 4:] == 0).all()
    assert jnp.isfinite(gradient(v)).all()


def test_nan_in_a_masked_position_stays_there():
    q, k, v = inputs(keys=QUERIES)
    segments = jnp.asarray([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    real = segments > 0
    places = jnp.arange(QUERIES)[None]
    mask = build_mask(True, segments, segments, places, places)
    poison = jnp.where(real[:, :, None, None], 0.0, jnp.nan)

    def function(q, k, v):
        return jnp.where(real[:, :, None, None], attention(q, k, v, mask), 0.0)

    clean, pull_clean = jax.vjp(function, q, k, v)
    poisoned, pull_poisoned = jax.vjp(function, q, k + poison, v + poison)
    np.testing.assert_array_equal(clean, poisoned)
    for expected, got in zip(
        pull_clean(jnp.ones_like(clean)), pull_poisoned(jnp.ones_like(clean)), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_mask_keeps_segments_and_padding_apart():
    segments = jnp.asarray([[1, 1, 2, 2, 0]])
    places = jnp.arange(5)[None]
    mask = build_mask(True, segments, segments, places, places)
    expected = np.zeros((5, 5), bool)
    expected[0, 0] = expected[1, :2] = expected[2, 2] = expected[3, 2:4] = True
    np.testing.assert_array_equal(mask[0, 0], expected)


def test_scores_are_float32_in_bfloat16_models():
    q, k, v = (x.astype(jnp.bfloat16) for x in inputs())
    scores = attention_scores(q, k)
    assert scores.dtype == jnp.float32
    assert mix(attention_weights(scores), v).dtype == jnp.bfloat16


@pytest.mark.parametrize("attention", ["qkv", "raw"])
def test_nan_in_a_later_token_stays_there(attention):
    """Forward and backward: what comes after a query reaches it neither as NaN nor at all."""
    layer = Attention(attention, 2, 2, 3, 3, capacity=7)
    x = jax.random.normal(jax.random.key(1), (3, 5, 6))
    mask = build_mask(True, None, None, jnp.arange(5)[None], jnp.arange(5)[None])
    variables = layer.init(jax.random.key(0), x, Sight(mask=mask))
    broken = x.at[:, 3].set(jnp.nan)

    def earlier(x):
        return layer.apply(variables, x, Sight(mask=mask))[:, :3]

    np.testing.assert_array_equal(earlier(broken), earlier(x))
    assert jnp.isnan(layer.apply(variables, broken, Sight(mask=mask))[:, 3:]).all()
    got, want = (jax.grad(lambda x: jnp.square(earlier(x)).sum())(y) for y in (broken, x))
    np.testing.assert_array_equal(got, want)
