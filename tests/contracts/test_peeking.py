"""On random tokens nothing can be predicted, unless the model peeks at what it must predict."""

import functools
import math

import jax
import jax.numpy as jnp
import optax

from tests.nn import tiny
from txf.nn.build import build_model

VOCAB, LENGTH, ROWS, STEPS = 7, 6, 32, 150


@functools.cache
def loss_after_training(causal):
    """The mean loss over new random texts, after training on others."""
    model = build_model(tiny.config(width=24, causal=causal), VOCAB, LENGTH)
    optimizer = optax.adam(1e-2)

    def loss(params, key):
        text = jax.random.randint(key, (ROWS, LENGTH + 1), 0, VOCAB)
        logits = model.apply({"params": params}, text[:, :-1])
        # The last token's successor is outside the text: nobody can peek at it.
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:])
        return losses[:, :-1].mean()

    def step(carry, key):
        params, state = carry
        value, gradients = jax.value_and_grad(loss)(params, key)
        updates, state = optimizer.update(gradients, state)
        return (optax.apply_updates(params, updates), state), value

    @jax.jit
    def train(seed):
        init, steps, final = jax.random.split(jax.random.key(seed), 3)
        params = model.init(init, jnp.zeros((1, LENGTH), jnp.int32))["params"]
        carry = (params, optimizer.init(params))
        (params, _), _ = jax.lax.scan(step, carry, jax.random.split(steps, STEPS))
        return jax.vmap(loss, (None, 0))(params, jax.random.split(final, 32)).mean()

    return float(train(0))


def test_a_causal_model_stays_at_the_entropy_of_random_tokens():
    assert loss_after_training(True) > math.log(VOCAB) - 0.01


def test_without_the_mask_it_falls_below():
    assert loss_after_training(False) < 0.5 * math.log(VOCAB)
