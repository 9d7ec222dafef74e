"""Normalization over the width of each token: LayerNorm and RMSNorm."""

import jax
from flax import linen as nn
from jax import numpy as jnp
from jaxtyping import Array, Float

from txf.nn.inspection import record

EPSILON = 1e-5


def layer_norm(
    x: Float[Array, "*rows width"],
    scale: Float[Array, " width"],
    bias: Float[Array, " width"] | None,
) -> Float[Array, "*rows width"]:
    """Centre and scale each row: (x − mean) / √(variance + 1e-5) · scale + bias.

    Statistics are float32 whatever x is; the result has x's type.  Ba et al. 2016.
    """
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt(variance + EPSILON) * scale
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
    wide = x.astype(jnp.float32)
    mean_square = jnp.square(wide).mean(-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + EPSILON) * scale).astype(x.dtype)


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
