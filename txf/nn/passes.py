"""Passes over memory: where a value is made once and kept, and sums that a product makes."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def apart(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return x as it is; on a CPU, made in a pass of its own and kept for all who read it.

    A compiler would rather make a cheap value again in each of its readers. On a CPU that slows
    down the readers, above all sums over rows, by more than the pass takes. Elsewhere the compiler
    is left to itself.
    """
    return jax.lax.optimization_barrier(x) if jax.default_backend() == "cpu" else x


def dot(x: Float[Array, "*rows width"], weights: Float[Array, " width"]) -> Float[Array, "*rows"]:
    """Return Σ_j x_ij w_j for each row i, in float32 and as a product of matrices."""
    return jnp.einsum("...w,w->...", x, weights, precision="highest")


def sum_rows(x: Float[Array, "*rows width"]) -> Float[Array, " width"]:
    """Return Σ_i x_ij for each column j, as a product: the sum that gives biases their gradients.

    A CPU's compiler takes several times as long for the same sum as a reduction.
    """
    rows = x.reshape(-1, x.shape[-1])
    return jnp.einsum("n,nw->w", jnp.ones(len(rows), x.dtype), rows, precision="highest")
