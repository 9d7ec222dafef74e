"""Passes over memory, which on a CPU cost what products do not."""

import jax
from jaxtyping import Array, Float


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def apart(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return x as it is; on a CPU, made in a pass of its own and kept for all who read it.

    A compiler would rather make a cheap value again in each of its readers. On a CPU that slows
    down the readers, above all sums over rows, by more than the pass takes. Elsewhere the compiler
    is left to itself.
    """
    return jax.lax.optimization_barrier(x) if _on_cpu() else x


def dot(x: Float[Array, "*rows width"], weights: Float[Array, " width"]) -> Float[Array, "*rows"]:
    """Return Σ_j x_ij w_j for each row i; on a CPU as a matrix times a vector, which is faster."""
    return x @ weights if _on_cpu() else (x * weights).sum(-1)
