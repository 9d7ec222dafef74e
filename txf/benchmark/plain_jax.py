"""A plain JAX peer: the same model as one would first write it, one jitted step a dispatch.

Flax's own layers, optax's own loss and optimizer; nothing is fused, chunked or written by hand. The
model is what nanodo's is: DenseGeneral to heads and back, causal softmax, tanh-approximated GELU.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int

from txf.benchmark.shapes import Shape
from txf.benchmark.timing import Contender
from txf.nn.spec import DTYPES

BATCHES = 8


class PlainAttention(nn.Module):
    """Causal attention."""

    shape: Shape

    @nn.compact
    def __call__(self, x: Float[Array, "batch tokens width"]) -> Float[Array, "batch tokens width"]:
        """Attend to what came before."""
        shape, dtype = self.shape, DTYPES[self.shape.dtype]
        dim = shape.width // shape.heads
        q, k, v = (
            nn.DenseGeneral((shape.heads, dim), use_bias=shape.bias, dtype=dtype, name=name)(x)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q / dim**0.5, k).astype(jnp.float32)
        mask = jnp.tril(jnp.ones((1, 1, x.shape[1], x.shape[1]), jnp.bool_))
        weights = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights.astype(dtype), v)
        out = nn.DenseGeneral(shape.width, axis=(-2, -1), use_bias=shape.bias, dtype=dtype)
        return out(mixed)


class PlainBlock(nn.Module):
    """Pre-LN: attention, then feed-forward."""

    shape: Shape

    @nn.compact
    def __call__(self, x: Float[Array, "batch tokens width"]) -> Float[Array, "batch tokens width"]:
        """Pass x through both sublayers."""
        shape, dtype = self.shape, DTYPES[self.shape.dtype]

        def norm(x: Array) -> Array:
            return nn.LayerNorm(dtype=dtype, use_bias=shape.bias)(x)

        x = x + PlainAttention(shape)(norm(x))
        y = nn.Dense(4 * shape.width, use_bias=shape.bias, dtype=dtype)(norm(x))
        return x + nn.Dense(shape.width, use_bias=shape.bias, dtype=dtype)(jax.nn.gelu(y))


class PlainDecoder(nn.Module):
    """Embedding, positions, blocks, head."""

    shape: Shape

    @nn.compact
    def __call__(self, tokens: Int[Array, "batch tokens"]) -> Float[Array, "batch tokens vocab"]:
        """Return logits."""
        shape, dtype = self.shape, DTYPES[self.shape.dtype]
        embed = nn.Embed(shape.vocab, shape.width, dtype=dtype)
        places = nn.Embed(shape.context, shape.width, dtype=dtype)
        x = embed(tokens) + places(jnp.arange(tokens.shape[1])[None])
        for _ in range(shape.depth):
            x = PlainBlock(shape)(x)
        x = nn.LayerNorm(dtype=dtype, use_bias=shape.bias)(x)
        if shape.tied:
            return embed.attend(x).astype(jnp.float32)
        return nn.Dense(shape.vocab, use_bias=False, dtype=dtype)(x).astype(jnp.float32)


def make_plain_jax(shape: Shape, steps: int) -> Contender:
    """Return the plain step, on batches that are on the device already.

    Steps are dispatched one by one, and waited for after `steps` of them: the host is ahead of the
    device, as it is in a loop that logs now and then.
    """
    model = PlainDecoder(shape)
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b1=0.9, b2=0.99, weight_decay=0.1)
    )
    random = np.random.Generator(np.random.Philox(key=0))
    size = (BATCHES, shape.batch, shape.context + 1)
    batches = list(jax.device_put(random.integers(0, shape.vocab, size, dtype=np.int32)))
    params = jax.jit(model.init)(jax.random.key(0), batches[0][:, :-1])["params"]
    state = params, jax.jit(optimizer.init)(params)

    def loss(params: dict, batch: Array) -> Array:
        logits = model.apply({"params": params}, batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

    def step(state: tuple, batch: Array) -> tuple[tuple, Array]:
        params, moments = state
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, moments = optimizer.update(grads, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    jitted = jax.jit(step, donate_argnums=0)

    def run() -> None:
        nonlocal state
        for number in range(steps):
            state, _ = jitted(state, batches[number % BATCHES])
        jax.block_until_ready(state)

    return Contender(run, steps)
