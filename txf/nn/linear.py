"""The linear map, from the last axes of an array to new ones."""

import math
from collections.abc import Sequence

import jax
from flax import linen as nn
from jax import numpy as jnp
from jaxtyping import Array, Float

from txf.nn.passes import apart


@jax.custom_vjp
def product(
    x: Float[Array, "rows inputs"], kernel: Float[Array, "inputs outputs"]
) -> Float[Array, "rows outputs"]:
    """Return x kernel, whose gradient to a tall kernel is made lying: (gᵀ x)ᵀ instead of xᵀ g.

    It is the same; but of products that sum over the rows of both factors, a CPU makes one with
    many columns twice as fast as one with many rows.
    """
    return x @ kernel


def _product_forward(x, kernel):
    return x @ kernel, (x, kernel)


def _product_backward(factors, g):
    x, kernel = factors
    inputs, outputs = kernel.shape
    if inputs <= outputs:
        return g @ kernel.T, x.T @ g
    # Else the compiler takes both transpositions back, or each reader does the second.
    return g @ kernel.T, apart(apart(g.T @ x).T)


product.defvjp(_product_forward, _product_backward)


def linear(
    x: Float[Array, "..."], kernel: Float[Array, "..."], bias: Float[Array, "..."] | None, axes: int
) -> Float[Array, "..."]:
    """Contract the last `axes` axes of x with the first of the kernel, and add the bias: x W + b.

    x: [..., in...], kernel: [in..., out...], bias: [out...]; the result is [..., out...], computed
    in x's type. It is one product of two matrices: of arrays with more axes a CPU's compiler makes
    transposed copies on the way back, which take longer than the product.
    """
    leading, out = x.shape[: x.ndim - axes], kernel.shape[axes:]
    fan_in = math.prod(kernel.shape[:axes])
    y = product(x.reshape(-1, fan_in), kernel.astype(x.dtype).reshape(fan_in, -1))
    y = y.reshape(*leading, *out)
    return y if bias is None else y + bias.astype(x.dtype)


class Linear(nn.Module):
    """Holds the `kernel` [in..., out...] and the `bias` [out...] of a linear map."""

    features: Sequence[int]
    kernel_init: nn.initializers.Initializer
    use_bias: bool = True
    axes: int = 1

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Map the last `axes` axes of x to `features`."""
        features = tuple(self.features)
        shape = (*x.shape[-self.axes :], *features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        bias = None
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, features, jnp.float32)
        return linear(x, kernel, bias, self.axes)
