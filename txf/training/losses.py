"""The loss: cross-entropy in nats, weighted by real tokens."""

from collections.abc import Mapping

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
