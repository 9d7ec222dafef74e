"""Dropout keeps expectations, and drops where it should: weights, sublayers, embeddings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn import tiny
from txf.nn.attention import Attention
from txf.nn.block import Block
from txf.nn.dropout import Noise, dropout
from txf.nn.sight import Sight
from txf.nn.spec import stack_specs

KEY = jax.random.key(0)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_entries_are_zero_at_the_rate_and_scaled_otherwise(rate):
    x = jnp.full((7, 9001), 3.0)
    y = np.asarray(dropout(x, rate, KEY))
    np.testing.assert_allclose(np.unique(y)[-2:], ([0, 3 / (1 - rate)] if rate else [3]), rtol=1e-6)
    assert len(np.unique(y)) == (2 if rate else 1)
    deviation = np.sqrt(rate * (1 - rate) / y.size)
    assert abs((y == 0).mean() - rate) <= 5 * deviation


def test_places_have_independent_noise():
    noise = Noise(0.5, KEY)
    x = jnp.ones(1000)
    masks = [np.asarray(dropout(x, 0.5, noise.at(place).key)) > 0 for place in (0, 1)]
    assert 0.4 < (masks[0] == masks[1]).mean() < 0.6


def test_attention_drops_weights_and_what_it_gives():
    """On equal tokens the weights mix to what each token is: 1, unless some of them are dropped."""
    layer = Attention("raw", 3, 3, 4, 4, output_projection=False)
    x = jnp.ones((2, 5, 12))
    np.testing.assert_allclose(layer.apply({}, x, Sight()), 1, rtol=1e-6)
    y = np.asarray(layer.apply({}, x, Sight(), None, Noise(0.4, KEY)))
    assert 0.2 < (y == 0).mean() < 0.6  # what it gives is dropped
    left = y[y > 0] * 0.6
    assert left.std() > 0.1  # and so are weights, or all would be 1
    by_head = y.reshape(2, 5, 3, 4)
    for values in by_head.reshape(-1, 4):  # a weight is dropped for the whole of a value
        assert len(np.unique(values[values > 0].round(4))) <= 1


def test_the_feed_forward_drops_what_it_gives():
    config = tiny.config(norm_placement="none", residual=False, bias=False)
    block = Block(stack_specs(config, tiny.CONTEXT)["decoder"])
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 12)), jnp.float32)
    params = block.init(KEY, x, Sight())
    y = np.asarray(block.apply(params, x, Sight(), None, None, Noise(0.4, KEY)))
    assert 0.2 < (y == 0).mean() < 0.6
