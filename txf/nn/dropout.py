"""Dropout whose rate is an argument, so that one compiled program serves every rate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Noise(NamedTuple):
    """What dropout needs: the share of entries to drop, and the randomness that picks them.

    The functions below take None in its place where nothing is to be dropped.
    """

    rate: float | Float[Array, ""]
    key: PRNGKeyArray

    def at(self, place: int | Array) -> "Noise":
        """Return independent noise for one numbered place (a block, a sublayer)."""
        return Noise(self.rate, jax.random.fold_in(self.key, place))


def dropout(
    x: Float[Array, "..."], rate: float | Float[Array, ""], key: PRNGKeyArray
) -> Float[Array, "..."]:
    """Zero each entry with probability `rate` and scale the rest: y = x · keep / (1 − rate).

    The expectation of y is x.  `rate` may be a traced scalar in [0, 1).
    Srivastava et al. 2014.
    """
    keep = jax.random.bernoulli(key, 1.0 - jnp.asarray(rate, jnp.float32), x.shape)
    scale = (1.0 / (1.0 - jnp.asarray(rate, jnp.float32))).astype(x.dtype)
    return jnp.where(keep, x * scale, 0)


def drop(x: Float[Array, "..."], noise: Noise | None) -> Float[Array, "..."]:
    """Apply `dropout` where there is noise; return x as it is where there is none."""
    return x if noise is None else dropout(x, noise.rate, noise.key)
