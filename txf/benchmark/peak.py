"""What a machine reaches in matrix products, which a train step is measured against."""

import jax
import jax.numpy as jnp

from txf.benchmark.timing import Contender

SIDE = {"cpu": 1024}
SIDE_ELSEWHERE = 8192


def make_peak(dtype: str) -> Contender:
    """Return a product of two large square matrices of this type; a unit is one operation.

    So its seconds a unit are the reciprocal of the FLOP/s that the machine has to give.
    """
    side = SIDE.get(jax.default_backend(), SIDE_ELSEWHERE)
    a = jnp.ones((side, side), dtype)
    product = jax.jit(lambda a: a @ a)
    return Contender(lambda: jax.block_until_ready(product(a)), 2 * side**3)
