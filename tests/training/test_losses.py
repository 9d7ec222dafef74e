"""Cross-entropy against optax's, in one piece and in chunks; padding that may hold anything."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.nn import tiny
from txf.nn.heads import vocabulary_kernel
from txf.training.losses import cross_entropy, loss_chunks, vocabulary_nats, weighted_nats

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


WIDTH = 11


def features(dtype="float32"):
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(BATCH, TOKENS, WIDTH)), dtype)
    return x, jnp.asarray(rng.normal(size=(WIDTH, VOCAB)), jnp.float32)


def whole_nats(x, kernel, batch):
    product = jnp.einsum("btw,wv->btv", x, kernel.astype(x.dtype), preferred_element_type="float32")
    return weighted_nats(product, batch)


@pytest.mark.parametrize("chunks", [None, 1, TOKENS])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_loss_in_chunks_is_the_loss_in_one_piece(chunks, dtype):
    (x, kernel), (_, targets, weights) = features(dtype), example()
    batch = {"targets": targets, "weights": weights * 0.5}

    def of(nats):
        # Three times: what a sum is part of reaches its gradient.
        return jax.value_and_grad(lambda x, kernel: 3 * nats(x, kernel)[0], (0, 1))(x, kernel)

    ours = of(lambda x, kernel: vocabulary_nats(x, kernel, batch, chunks))
    theirs = of(lambda x, kernel: whole_nats(x, kernel, batch))
    assert vocabulary_nats(x, kernel, batch, chunks)[1] == weights.sum() / 2
    np.testing.assert_allclose(vocabulary_nats(x, kernel, batch, chunks)[0] * 3, ours[0], rtol=1e-6)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 0.05, "atol": 0.05}
    for mine, reference in zip(ours[1], theirs[1], strict=True):
        assert mine.dtype == reference.dtype
        np.testing.assert_allclose(
            np.asarray(mine, np.float32), np.asarray(reference, np.float32), **tolerance
        )


def test_padding_in_chunks_contributes_nothing_whatever_its_logits():
    (x, kernel), (_, targets, weights) = features(), example()
    batch = {"targets": targets, "weights": weights}
    huge = jnp.where(weights[..., None] > 0, x, 3e38)  # finite, but their logits are not
    of = jax.value_and_grad(lambda x: vocabulary_nats(x, kernel, batch, TOKENS)[0])
    for got, expected in zip(of(huge), of(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_chunks_are_divisors_and_no_more_than_needed():
    row = 4 * 10 * 100  # bytes of the logits of one token of each of ten rows
    assert loss_chunks(10, 12, 100, limit=12 * row) == 1
    assert loss_chunks(10, 12, 100, limit=12 * row - 1) == 2
    assert loss_chunks(10, 12, 100, limit=2 * row) == 6
    assert loss_chunks(10, 12, 100, limit=1) == 12
    assert loss_chunks(10, 13, 100, limit=4 * row) == 1  # a prime number of tokens is left whole
    assert loss_chunks(10, 26, 100, limit=4 * row) == 13


def test_chunks_take_the_memory_of_a_chunk():
    batch, tokens, width, vocab = 8, 16, 8, 1024
    shapes = (batch, tokens, width), (width, vocab)
    x, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    fields = {"targets": jnp.int32, "weights": jnp.float32}
    shape = {key: jax.ShapeDtypeStruct((batch, tokens), dtype) for key, dtype in fields.items()}

    def memory(chunks):
        of = jax.grad(lambda x, kernel, b: vocabulary_nats(x, kernel, b, chunks)[0], (0, 1))
        return jax.jit(of).lower(x, kernel, shape).compile().memory_analysis().temp_size_in_bytes

    logits = 4 * batch * tokens * vocab
    assert memory(1) >= logits
    assert memory(tokens) < 0.5 * logits


FEATURED = {
    "tied": {},
    "untied": {"tie_embeddings": False},
    "encoder_decoder": {"structure": "encoder_decoder"},
    "window_mlp": {"family": "window_mlp", "num_heads": 4},
}


@pytest.mark.parametrize("options", FEATURED.values(), ids=FEATURED)
def test_features_and_the_vocabulary_kernel_make_the_logits(options):
    model = tiny.build(**options)
    params = tiny.parameters(model)
    tokens = jnp.arange(2 * tiny.TOKENS).reshape(2, -1) % tiny.VOCAB
    source = {"source": tokens[:, : tiny.SOURCE]} if "structure" in options else {}
    logits = model.apply({"params": params}, tokens, **source)
    x = model.apply({"params": params}, tokens, **source, method="features")
    got = jnp.einsum("btw,wv->btv", x, vocabulary_kernel(params))
    np.testing.assert_allclose(got, logits, rtol=1e-5, atol=1e-5)
