"""The loss: cross-entropy in nats, weighted by real tokens."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cross_entropy(
    logits: Float[Array, "... classes"], targets: Int[Array, "..."]
) -> Float[Array, "..."]:
    """Return -log softmax(logits)[target] for each position, in nats and in float32.

    The backward pass is (softmax - onehot) * cotangent. It reuses the exponentials of the forward
    pass, where differentiating through log_softmax would compute them a second time; on a CPU they
    are a good part of the output head.
    """
    return _cross_entropy(logits.astype(jnp.float32), targets)


@jax.custom_vjp
def _cross_entropy(logits, targets):
    return _forward(logits, targets)[0]


def _forward(logits, targets):
    top = jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    exponentials = jnp.exp(logits - top)
    total = exponentials.sum(axis=-1, keepdims=True)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)
    nats = (jnp.log(total) - (chosen - top))[..., 0]
    return nats, (exponentials, total, targets)


def _backward(residuals, cotangent):
    exponentials, total, targets = residuals
    scale = cotangent[..., None]
    is_target = jax.lax.broadcasted_iota(targets.dtype, exponentials.shape, targets.ndim)
    is_target = is_target == targets[..., None]
    gradient = exponentials * (scale / total) - jnp.where(is_target, scale, 0.0)
    # What counts for nothing may hold anything: 0 * nan must not reach the parameters.
    return jnp.where(scale == 0, 0.0, gradient), None


_cross_entropy.defvjp(_forward, _backward)


def weighted_nats(
    logits: Float[Array, "... classes"], batch: Mapping[str, Array]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the summed loss of a batch in nats and the weight it is a sum over.

    sum_i w_i * nats_i and sum_i w_i, where w is 1 on real targets and 0 on padding. Their ratio is
    the mean loss; kept apart, micro-batches and devices add up to the large batch exactly.
    """
    weights = batch["weights"]
    # A padded position may hold anything, infinities too: 0 * inf must not reach the sum.
    nats = jnp.where(weights > 0, cross_entropy(logits, batch["targets"]), 0.0)
    return (nats * weights).sum(), weights.sum()


# The logits that exist at a time. On a CPU what fits its caches is several times faster than what
# does not; elsewhere only the size of the memory counts.
LOGITS_BYTES = {"cpu": 1 << 22}
LOGITS_BYTES_ELSEWHERE = 1 << 29


def loss_chunks(rows: int, tokens: int, vocab: int, limit: int | None = None) -> int:
    """Return in how many chunks of tokens the logits of a batch are made: a divisor of `tokens`.

    The fewest whose float32 logits take at most `limit` bytes each (None: what is good for the
    platform), or, where none of the divisors is so large, the next smaller.
    """
    if limit is None:
        limit = LOGITS_BYTES.get(jax.default_backend(), LOGITS_BYTES_ELSEWHERE)
    wanted = -(-4 * rows * tokens * vocab // limit)
    divisors = [n for n in range(1, tokens + 1) if tokens % n == 0]
    return next((n for n in divisors if n >= wanted and n <= 2 * wanted), None) or max(
        n for n in divisors if n <= wanted
    )


def vocabulary_nats(
    x: Float[Array, "batch tokens width"],
    kernel: Float[Array, "width vocab"],
    batch: Mapping[str, Array],
    chunks: int | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return `weighted_nats(x kernel, batch)`, the logits never all in existence at once.

    The tokens of all rows pass through the head in `chunks` equal chunks (None: see `loss_chunks`).
    The gradient of the sum is made in the same pass, (softmax - onehot) w for each token, while a
    chunk's exponentials are at hand: three products a chunk, and the backward pass of the head has
    nothing left to do. Logits are float32; the products of the gradient are taken in x's type.
    """
    weights = batch["weights"]
    chunks = chunks or loss_chunks(*x.shape[:2], kernel.shape[1])
    return _vocabulary_nats(chunks, x, kernel, batch["targets"], weights), weights.sum()


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _vocabulary_nats(chunks, x, kernel, targets, weights):
    kernel = kernel.astype(x.dtype)

    def add(total, chunk):
        nats = _chunk(kernel, *chunk)[0]
        return total + nats, None

    return jax.lax.scan(add, jnp.float32(0), _split(chunks, x, targets, weights))[0]


def _vocabulary_forward(chunks, x, kernel, targets, weights):
    narrow = kernel.astype(x.dtype)
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)

    def add(totals, chunk):
        nats, rows, gradient = _chunk(narrow, *chunk)
        gradient = gradient.astype(x.dtype)
        of_kernel = product("nw,nv->wv", rows, gradient)
        of_rows = product("nv,wv->nw", gradient, narrow).astype(x.dtype)
        return (totals[0] + nats, totals[1] + of_kernel), of_rows

    zero = jnp.float32(0), jnp.zeros(kernel.shape, jnp.float32)
    parts = _split(chunks, x, targets, weights)
    (nats, of_kernel), of_rows = jax.lax.scan(add, zero, parts)
    of_x = of_rows.reshape(parts[0].shape).swapaxes(0, 1).reshape(x.shape)
    return nats, (of_x, of_kernel.astype(kernel.dtype))


def _vocabulary_backward(chunks, gradients, cotangent):
    of_x, of_kernel = gradients
    return of_x * cotangent.astype(of_x.dtype), of_kernel * cotangent, None, None


_vocabulary_nats.defvjp(_vocabulary_forward, _vocabulary_backward)


def _split(chunks, *arrays):
    """Cut [batch, tokens, ...] into chunks of tokens, [chunks, batch, tokens / chunks, ...].

    Each chunk has tokens of every row, so that rows may be spread over devices.
    """
    return [a.reshape(len(a), chunks, -1, *a.shape[2:]).swapaxes(0, 1) for a in arrays]


def _chunk(kernel, x, targets, weights):
    """Return a chunk's summed nats, its x as rows, and the gradient of the sum to its logits."""
    rows, scale = x.reshape(-1, x.shape[-1]), weights.reshape(-1, 1)
    logits = jnp.einsum("nw,wv->nv", rows, kernel, preferred_element_type=jnp.float32)
    nats, residuals = _forward(logits, targets.reshape(-1))
    nats = jnp.where(scale[:, 0] > 0, nats, 0.0) * scale[:, 0]
    return nats.sum(), rows, _backward(residuals, scale[:, 0])[0]
