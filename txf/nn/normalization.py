"""Normalization over the width of each token: LayerNorm and RMSNorm."""

from functools import partial

import jax
from flax import linen as nn
from jax import numpy as jnp
from jaxtyping import Array, Float

from txf.nn.inspection import record
from txf.nn.passes import apart, dot

EPSILON = 1e-5


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _normalized(
    centres: bool, x: Float[Array, "*rows width"], scale: Float[Array, " width"]
) -> Float[Array, "*rows width"]:
    """Return u · scale, u = c / √(mean(c²) + 1e-5), where c is x, less its mean if `centres`.

    The gradient is written out. With g the cotangent, d = g scale, and means over the width, it is
    Σ g u to the scale and (d − [mean(d)] − u mean(d u)) / √(mean(c²) + 1e-5) to x, what is in
    brackets only where x is centred. Derived, it would pass over x about twice as often.
    """
    return _normalized_forward(centres, x, scale)[0]


def _normalized_forward(centres, x, scale):
    centred = apart(x - x.mean(-1, keepdims=True)) if centres else x
    mean_square = apart(jnp.square(centred)).mean(-1, keepdims=True)
    inverse = jax.lax.rsqrt(mean_square + EPSILON)
    unit = apart(centred * inverse)
    return unit * scale, (unit, scale, inverse)


def _normalized_backward(centres, residuals, g):
    unit, scale, inverse = residuals
    width = unit.shape[-1]
    along = apart(g * unit)
    inner = g * scale - unit * (dot(along, scale) / width)[..., None]
    if centres:
        inner = inner - (dot(g, scale) / width)[..., None]
    return inverse * inner, along.sum(tuple(range(along.ndim - 1)))


_normalized.defvjp(_normalized_forward, _normalized_backward)


def layer_norm(
    x: Float[Array, "*rows width"],
    scale: Float[Array, " width"],
    bias: Float[Array, " width"] | None,
) -> Float[Array, "*rows width"]:
    """Centre and scale each row: (x − mean) / √(variance + 1e-5) · scale + bias.

    Statistics are float32 whatever x is; the result has x's type.  Ba et al. 2016.
    """
    y = _normalized(True, x.astype(jnp.float32), scale.astype(jnp.float32))
    return (y if bias is None else y + bias).astype(x.dtype)


def rms_norm(
    x: Float[Array, "*rows width"],
    scale: Float[Array, " width"],
    bias: Float[Array, " width"] | None = None,
) -> Float[Array, "*rows width"]:
    """Scale each row by its root mean square: x / √(mean(x²) + 1e-5) · scale.

    Nothing is centred, neither before nor after: `bias` must be None, and is there so that every
    norm answers the same call.  Statistics are float32.  Zhang and Sennrich 2019.
    """
    if bias is not None:
        raise ValueError("rms_norm has no bias")
    y = _normalized(False, x.astype(jnp.float32), scale.astype(jnp.float32))
    return y.astype(x.dtype)


NORMS = {"layernorm": layer_norm, "rmsnorm": rms_norm}
HAS_BIAS = {"layernorm": True, "rmsnorm": False}


class Norm(nn.Module):
    """Holds the `scale` [width], and LayerNorm's `bias` [width], of the norm called `kind`."""

    kind: str
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "*rows width"]) -> Float[Array, "*rows width"]:
        """Normalize the last axis of x."""
        record(self, "norm_input", x)
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:], jnp.float32)
        bias = None
        if self.use_bias and HAS_BIAS[self.kind]:
            bias = self.param("bias", nn.initializers.zeros, x.shape[-1:], jnp.float32)
        return NORMS[self.kind](x, scale, bias)
